"""
The numbers of the measuring protocol that decide a judged roof, in one place.

Whoever changes one of them raises PROTOCOL_VERSION: the version is part of what makes two roofs comparable.
"""

from __future__ import annotations

PROTOCOL_VERSION = 1

# What `--reps` and `--warmup` mean where they are not given. The median of 25 repetitions that scatter by 2 % is good
# to half a per cent (standard error 1.25·2 %/√25); ten calls fill the caches of kernels and plans that libraries keep.
REPS = 25
WARMUP = 10

# Repetitions follow each other within milliseconds and share one clock and one temperature, so they are no
# independent samples; blocks with a rest between them are. Five is the fewest whose range covers the median with
# more than 90 % confidence.
BLOCKS = 5

# Streams go forwards and backwards through their kernels, so that none always comes first.
STREAM_BLOCKS = 2

# Calls ahead of the timed ones in every block: a rest may have let the device fall asleep.
BLOCK_WARMUP = 2

# Power and clock controllers of gpus act within some tens of milliseconds; 150 ms without work let an H200 return to
# its boost clock, where five rounds then agreed within 0.4 %.
REST_S = 0.150

# An idle gpu needs up to a few hundred milliseconds of work before it holds its boost clock.
RAMP_UP_MS = 300.0

# Work that is queued cannot be taken back, so this is how long somebody else may have to wait for us.
QUEUE_MS = 100.0

# A median of fewer says nothing.
MIN_REPS = 3

# Warm-up may take this share of the time that the repetitions of a point may take.
WARMUP_SHARE = 0.25

# A measurement may take at most this share of the memory that is free when it starts: the rest is somebody else's.
MEMORY_SHARE = 0.5
