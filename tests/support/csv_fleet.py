"""A made-up CSV file in the shape that fleets are surveyed in, with what real ones have: repeats, gaps, odd order."""

from __future__ import annotations

import random

HEADER = "device,node,gpu,gpu_index,measured_at,dtype,pi_tflops,beta_gbps,sm_clock_mhz,temperature_c,power_w"

FEW_WITHOUT_A_TIME = 0.01
EVERY_FIFTH_AGAIN = 0.2


def survey(rows: int, *, gpus: int, seed: int = 1) -> list[str]:
    """Lines of a survey, the header first; about a fifth of the rows repeat earlier ones, a few have no time."""
    random_ = random.Random(seed)  # noqa: S311 # made-up measurements
    lines: list[str] = []
    for number in range(rows):
        if lines and random_.random() < EVERY_FIFTH_AGAIN:
            lines.append(random_.choice(lines))
            continue
        gpu = 1 + random_.randrange(gpus)  # a UUID of zeros is none
        moment = f"2020-06-{1 + number % 28:02}T{random_.randrange(24):02}:{number % 60:02}:00Z"
        measured_at = "" if random_.random() < FEW_WITHOUT_A_TIME else moment
        node = f"node-{gpu // 4:04}" if gpu % 3 else ""
        pi = f"{random_.gauss(13.8, 0.2):.4f}"
        rest = f"{random_.randrange(1300, 1400)},{random_.randrange(50, 80)},{random_.gauss(296, 1):.2f}"
        lines.append(f"Tesla V100-SXM2-16GB,{node},GPU-{gpu:04},,{measured_at},float32,{pi},,{rest}")
    return [HEADER, *lines]
