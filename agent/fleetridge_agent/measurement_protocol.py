"""
The numbers of the measuring protocol that decide a judged roof, in one place.

Whoever changes one of them raises PROTOCOL_VERSION: the version is part of what makes two roofs comparable.
`docs/methodology.md` gives the measurements behind each.
"""

from __future__ import annotations

from typing import Literal

from fleetridge.quantities import GIB, MIB

PROTOCOL_VERSION = 1

# What can be measured; the numbers below are for both unless they say otherwise.
DeviceKind = Literal["cuda", "cpu"]

# What `--reps` and `--warmup` mean where they are not given. The median of 25 repetitions that scatter by 2 % is good
# to half a per cent (standard error 1.25·2 %/√25); ten calls fill the caches of kernels and plans that libraries keep.
REPS = 25
WARMUP = 10

# Blocks after which a roof may stop. Repetitions follow each other within milliseconds and share one clock and one
# temperature, so they are no independent samples; blocks with a rest between them are. Of seven the range covers the
# median with the confidence below; eight is one more, and doubling costs little when the first look decides nothing.
LOOKS = (8, 16, 32)

# Chance that one of the three looks misses the median: 5 % shared out among them, so that the interval of whichever
# look ends the measurement still covers it in 95 of 100 sweeps.
MISS_PER_LOOK = 0.05 / len(LOOKS)

# Half-width of that interval over the value at which a roof has converged: a twelfth of the loss of 3 % that counts.
HALF_WIDTH = 0.0025

# Longest block. On an H200 a block of 9 ms followed by a rest stays at the boost clock; 36 ms already cost 0.6 %.
BLOCK_MS = 10.0

# Rest before every block: with 20 ms the power governor of an H200 stepped in, from 100 ms on blocks agree within
# 0.25 %, and 300 ms gain 0.1 % more for three times the time.
REST_S = 0.100

# Work before the first block, for gpus that idle at a low clock. More would heat: 300 ms made an H200 start 0.5 % low.
RAMP_UP_MS = 50.0

# Calls ahead of the timed ones in every block: a rest may have let the device fall asleep.
BLOCK_WARMUP = 2

# A median of fewer says nothing.
MIN_REPS = 3

# Warm-up may take this share of the time that the repetitions of a point may take.
WARMUP_SHARE = 0.25

# Work that is queued cannot be taken back, so this is how long somebody else may have to wait for us.
QUEUE_MS = 100.0

# A measurement may take at most this share of the memory that is free when it starts: the rest is somebody else's.
MEMORY_SHARE = 0.5

# Time until the power governor has settled: on an H200 under full load the clock undershoots at 0.5 to 1 s.
SUSTAINED_RAMP_S = 1.5

# The governor swings with a period of about a second, so only whole seconds are averaged; three of them repeated within
# 0.05 % on one H200 and 0.2 % over three.
SUSTAINED_S = 3

# A rate that is still falling is not sustained yet: it is followed for so many seconds more at most.
SUSTAINED_EXTRA_S = 6

# Piece of work between two marks of time under sustained load; four of them stay within QUEUE_MS.
WINDOW_MS = 24.0

# Factor of Student's t at 97.5 % for the mean of three seconds (two degrees of freedom).
T_OF_SUSTAINED = 4.303

# Loss from the first to the last block from which on a rate is called falling: the loss that counts between gpus.
FALLING = 0.03

# Blocks that form two groups further apart than this come from two states of the clock; they are told apart.
GROUP_GAP = 0.01

# Distance at the end from what was measured before beyond which a device is called unstable: four half-widths.
CANARY_GAP = 0.01
CANARY_BLOCKS = 3

# Streams other than the judged read: their kernels take turns forwards and backwards.
STREAM_BLOCKS = 2

# Stream buffers: so many times the last-level cache that nothing of one pass is left for the next, and where the
# memory of the device allows it 4 GiB, from where on a larger buffer gains an H200 0.1 % (1 GiB: 7 % less). Three of
# them take at most half of the memory.
CACHES_PER_BUFFER = 16
LARGEST_BUFFER_BYTES = 4 * GIB
BUFFERS_IN_MEMORY = 6

# Row that the read kernel adds up, in float32. Long rows make the ends of rows rare, and many rows leave a short last
# wave: on an H200 2^15 read 4430 GB/s, 2^17 4470, 2^18 4478, 2^19 4468, a flat sum 4390; 2^13 lost 17 % on one.
READ_ROW = 2**18

# Copies over the link to the host: pinned, each direction for so long.
LINK_BUFFER_BYTES = 256 * MIB
LINK_MS = 200.0

# Calls shorter than this are replayed in batches: launching one takes the host 5 to 20 µs.
REPLAY_BELOW_MS = 0.050
REPLAY_CALLS = 24

# Rows M up to which a product with weights is a decode step, always replayed, with cold and with warm cache.
DECODE_ROWS = 128

# Caches that the operands exceed together which take turns in a batch, so that each call finds the cache cold.
CACHES_PER_ROTATION = 4

# Fresh allocations of those operands: where memory lies moves some decode rows by 7 %, so the median of several counts.
# Operands that the cache could hold scatter most when it is warm (by 10 %, as their place decides what stays there), so
# as many are allocated as bring that median to 1 %.
ALLOCATIONS = 9
WARM_COPIES = 96

# Timed replays of a batch over all operands of an allocation, and of one over a single copy.
COLD_REPLAYS = 3
WARM_REPLAYS = 2

# The search: candidates that are tried roughly, repetitions and rest of each, and how many are measured again.
SEARCH_CANDIDATES = 56
SEARCH_REPS = 6
SEARCH_REST_S = 0.060
SEARCH_FINALISTS = 3
