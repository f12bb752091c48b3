#!/bin/bash
# Prolog of slurm.conf: keeps a job off a node whose last measurement was degraded, where that is wanted. It touches no GPU.
#
# It ends with 0 unless /etc/fleetridge/slurm.env says FLEETRIDGE_SLURM_ENFORCE=yes and the last verdict is "degraded":
# a prolog that fails drains the node and requeues the job, so an old, missing or unsure verdict, and an agent that is broken
# or hangs, must never do that.
set -uo pipefail

readonly SETTINGS=${FLEETRIDGE_SLURM_ENV:-/etc/fleetridge/slurm.env}

if [[ -r $SETTINGS ]]; then
    set -a
    # shellcheck source=/dev/null
    . "$SETTINGS"
    set +a
fi

if [[ ${FLEETRIDGE_SLURM_ENFORCE:-no} != yes ]]; then
    exit 0
fi

line=$(timeout --kill-after=1 10 fleetridge-agent check --max-age "${FLEETRIDGE_SLURM_MAX_AGE:-50h}" \
    --state-dir "${FLEETRIDGE_STATE_DIR:-/var/lib/fleetridge}" 2>/dev/null)
code=$?

# A Python that cannot even start the agent also ends with 1, so the word counts as well.
if [[ "$code $line" == "1 degraded"* ]]; then
    printf 'fleetridge: %s\n' "$line" >&2
    exit 1
fi
exit 0
