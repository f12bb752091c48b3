"""
Every constant of the rule, with its reason: what is compared, and when a gpu, a node, a rack or a setting is slow.

Which states and faults raise an alert stands in `verdicts.alert_causes` and `engine.health`.

A change here changes verdicts; it raises `RULE_VERSION`.
"""

from datetime import timedelta

from fleetridge.judged_kernels import JUDGED_KERNEL

# Written beside every stored verdict; a change of any rule or constant raises it.
RULE_VERSION = 5


# With fewer the median is hardly more than one gpu's own word.
FEWEST_PEERS = 4

# Of two that differ one is slower, and nobody knows whether it should be.
FEWEST_TO_DIFFER = 2

# A roof of an import may not say by which kernel it was measured; it is compared with its like only.
JUDGED_KERNELS = {kind: (kernel, None) for kind, kernel in JUDGED_KERNEL.items()}


# A sustained product may be limited by memory that was only measured in short bursts; streams draw too little power for
# the two to differ much. An import says nothing of its regime.
STAND_IN_REGIMES = ("burst", "unspecified")


# Three reports outvote one disturbed sweep, and a gpu that became slower shows after two.
NEWEST_REPORTS = 3


# How far back a streak is looked at, past the window too: where a gpu is measured daily, two confirming runs are in it.
REMEMBERED_REPORTS = 10


# Older values say how a gpu was, not how it is; a month holds several sweeps of even a rarely measured fleet.
MEASUREMENT_WINDOW = timedelta(days=30)


# Links are compared with their like, but a slow link is no slow gpu.
LINK_LEVELS = ("pcie", "nvlink")


# Synchronised clocks differ by milliseconds; some minutes are common where nobody looks after them.
CLOCK_AHEAD_TOLERATED = timedelta(minutes=5)


# Nobody carries a card from one running host to another within an hour.
MOVING_TAKES = timedelta(hours=1)


# Clocks and counters are read with some error.
READING_SLACK = 1.05

# Where only the datasheet is known: its clock is rarely more than a fifth below the highest one.
ABOVE_PUBLISHED = 1.25


# No silicon is twice as fast as most of its peers, and a five-hundredth of their rate is a unit that was mistaken: both
# were measured or written wrongly. Where more than a quarter of the gpus are so, it is not clear which ones are right.
ABOVE_PEERS = 2.0
BELOW_PEERS = 0.002
BESIDE_PEERS_LARGEST_SHARE = 0.25


# A change of less is noise as far as accusations go: the least that noise is taken for is half of it.
SMALLEST_UPGRADE_EFFECT = 0.01


# A step of less is nobody's trouble. Not the gate of single gpus, which follows their noise: medians of many gpus are
# known far better, and an unnoticed step of 5 % hides every fault in a fleet with noise of 1 %.
SMALLEST_STEP = 0.03

# What one or two nodes run alone cannot be told from what is wrong with these nodes.
LEVEL_FEWEST_NODES = 3

# A node that is broken, or that lies, moves a median no further than a quarter of the gpus can.
NODE_LARGEST_WEIGHT = 0.25

# Fewer beside those with a setting of their own say nothing of what a gpu does without it.
UNSET_SMALLEST_SHARE = 0.25


# From eight on, each half has gpus enough to be a group of its own; an odd level's median is of the larger part.
HALF_SLOW_FEWEST = 2 * FEWEST_PEERS

# Halves of four healthy values lie 1.3 scales apart on average. With the five degrees of freedom of two levels of four,
# 0.06 % of healthy gpus are set apart at eight, whatever their spread; 5 % at 0.5 % of noise are fifteen.
HALF_SLOW_SCALES = 8.0

# Nearer ones are within the limit of each other, floors being the least that noise explains.
HALF_SLOW_NEAREST = 0.03
HALF_SLOW_FLOORS = 3.5

# Between modes there is a gap, no slope.
HALF_SLOW_GAP = 0.5

# Two of eight. Beyond it, the slower ones are no minority, and nothing shows who is at fault.
HALF_SLOW_LARGEST_SHARE = 0.25


# A smaller mode is a minority that robust medians bear, and may well be faulty.
MIXED_SMALLEST_SHARE = 0.4

# Halves of one normal distribution lie 2.2 of their own scales apart, of a uniform one 2.7.
MIXED_SCALES = 6.0

# Between two modes there is nothing, or almost; a slow quarter among the "lower" ones leaves no such gap.
MIXED_GAP = 0.5

# Modes nearer than this are of no interest to anybody who looks for slow gpus.
MIXED_NEAREST = 0.03


# The floor is twice the noise between runs: three runs of one gpu, the mildest case, then still lie inside it.
NOISES_PER_FLOOR = 2.0
LOWEST_FLOOR = 0.005  # clocks and temperatures move every gpu by some tenths of a per cent
HIGHEST_FLOOR = 0.02  # noisier measurements say little; a higher floor would hide faults of 7 %
FLOOR_WHEN_UNKNOWN = 0.01  # noise of 0.5 % is what a careful measurement reaches
RUNS_FOR_NOISE = 3
GPUS_FOR_NOISE = 8

# The variance of three normal values is exponential: one in a thousand lies above ten times the median. A gpu that does
# changed meanwhile or was disturbed. It counts as ten medians: a few say little, and many are the fleet's nature.
NOISE_MOST_MEDIANS = 10.0

# Of values written with few digits most runs are equal. Where a tenth of the gpus (and no less than four) has other
# runs, a step of the last digit is their noise; fewer are gpus that changed.
NOISE_FEWEST_UNEQUAL = 4
NOISE_UNEQUAL_SHARE = 0.1


# Iglewicz and Hoaglin (1993): a modified z beyond 3.5 is an outlier.
BEYOND_SCALES = 3.5

# Less than 3 % is nobody's trouble, and three floors are the least that a noisy measurement can show.
SMALLEST_GATE = 0.03
FLOORS_PER_GATE = 3.0

# Two bad gpus among eight stretch the scale until neither is beyond it; a tenth lost is a fault whatever it says …
PLAIN_LOSS = 0.10
# … unless so many gpus scatter so widely that a tenth is nothing special among them.
WIDE_SCALE = 0.03
WIDE_FEWEST = 16

# Of twenty gpus called outliers at most one is to be healthy.
FALSE_DISCOVERIES = 0.05


# One disturbance (a neighbour's job, a hot hour) must not count as two confirming runs.
CONFIRMATIONS_APART = timedelta(hours=1)
CONFIRMATIONS = 2

# No disturbance of a single card that leaves a run converged and uncontended costs a quarter.
LOSS_AT_ONCE = 0.25

# A run of a node measures its gpus one after another, each in some minutes.
NODE_RUN_WITHIN = timedelta(hours=1)

# A gpu near the limit keeps its level of accusation until it is clearly inside, so that it does not come and go.
CLEAR_PART = 0.8

# With four or five the median is moved by every one of them.
FEWEST_FOR_OUTLIER = 6


# Fewer runs estimate neither the level nor the noise.
BASELINE_RUNS = 8

# Long enough for a creep of 0.05 % per run (found after some 60 runs), short enough to go through for every gpu.
MOST_RUNS = 200

# Runs within an hour share temperature and neighbours: together they are one look at the gpu.
DRIFT_RUNS_APART = timedelta(hours=1)

CUSUM_SLACK = 0.5
CUSUM_DECISION = 5.0
CUSUM_CLIP = 3.0

DRIFT_FEWEST_SINCE = 3
DRIFT_RECENT = 5


# A gpu that is always busy when its turn comes is looked at some other time; three turns or three days are too long.
TURNS_MISSED = 3
STALE_AFTER_AT_LEAST = timedelta(days=3)

# A gpu that nobody expects and that was not heard of for so long is in the fleet no more: machines that live a day
# would else stay for ever. Where it is known how often gpus are measured, so many turns tell it earlier.
RETIRED_AFTER = timedelta(days=90)
RETIRED_AFTER_TURNS = 30
RETIRED_AFTER_AT_LEAST = timedelta(days=7)

# The driver counts such a card and cannot use it: it is there no more for whoever wants to.
LOST_REASONS = frozenset(
    {"gpu_lost", "gpu_reset_required", "nvml_unknown_error", "gpu_irq_issue", "gpu_insufficient_power"}
)

# One failed attempt may be anything; two in a row leave a gpu unmeasured.
FAILURES_IN_A_ROW = 2


# "All gpus of the node" says something from two on.
NODE_FEWEST_GPUS = 2
RACK_FEWEST_NODES = 2

# Beside fewer, the median of places is hardly more than one place's own word.
FEWEST_PLACES = 5

# Less is nobody's trouble, however certain it is.
PLACE_LOSS = 0.03

# Of a thousand evaluations of a healthy fleet no more than five are to accuse a node. Spreads have heavier tails than
# the test supposes: asked for 0.5 %, it accused in 0.8 % (4 gpus a node, noisy) and 0.7 % (2 a node), asked for half
# of that in 0.5 % and 0.4 % (docs/benchmarks.md). Nodes that differ for good do so in both halves of their runs, so
# that these alone do not show it.
FALSE_PLACES = 0.0025

# A gpu of a slow node shares its loss where it lies at least half a gate below its peers.
NODE_GATE_PART = 0.5


# Faults of cards differ; so many that lose the same, give or take noise, rather have one cause.
SLOW_CLUSTER_FEWEST = 4
SLOW_CLUSTER_FLOORS = 2.0


# Sustained products under a power limit reach 70 % of the datasheet on healthy silicon, reads 90 %.
BELOW_PUBLISHED = {"compute": 0.5, "memory": 0.7}


# So many nodes with a setting of their own were set apart by somebody; more are a rollout.
FEW_NODES = 3


# Of these, what a device says of itself while it is timed: without any of it a loss cannot be explained.
EXPLAINING_READINGS = ("power_w", "sm_clock_mhz", "memory_clock_mhz", "temperature_c")


# Differences below these are how readings scatter on like gpus under like load.
POWER_LIMIT_LOWER = 0.02
POWER_LOWER = 0.05
CLOCK_LOWER = 0.015
MEMORY_CLOCK_LOWER = 0.01
HOTTER_C = 8.0
FALLING_PART = 0.03

# What lies lower by less than half of the loss leaves most of it unexplained.
EXPLAINED_PART = 0.5

# Clocks are read beside one run and a loss is the median of three: causes whose parts are nearer are not told apart.
EXPLAINED_STEP = 0.25

# A throttle counter that grew by less during a timed phase explains no loss that counts.
THROTTLE_MS = 5.0


# A cause that half of the gpus do not show is not what the place shares.
SHARED_CAUSE_PART = 0.5
