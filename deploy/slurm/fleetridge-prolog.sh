#!/bin/bash
# Prolog of slurm.conf: keeps a job off a node whose last measurement was degraded, where that is wanted. It touches no GPU.
#
# It ends with 0 unless /etc/fleetridge/slurm.env says FLEETRIDGE_SLURM_ENFORCE=yes and the last verdict is "degraded":
# a prolog that fails drains the node and requeues the job, so an old, missing or unsure verdict, and an agent that is broken
# or hangs, must never do that. Neither must a mistake in that file, which is the same on every node.
set -uo pipefail
trap 'exit 0' EXIT

# Slurm sets none. What is installed elsewhere is named in slurm.env: PATH=/opt/slurm/bin:$PATH
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
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

# Two lines: what the agent says and what it ends with. Nothing is waited for that keeps the pipe open after them.
line='' code=''
{
    IFS= read -r -n 200 -t 30 line
    IFS= read -r -n 200 -t 12 code
} < <(
    timeout --kill-after=1 10 fleetridge-agent check --max-age "${FLEETRIDGE_SLURM_MAX_AGE:-50h}" \
        --state-dir "${FLEETRIDGE_STATE_DIR:-/var/lib/fleetridge}" 2>/dev/null
    echo $?
)

# A Python that cannot even start the agent also ends with 1, so the word counts as well.
if [[ "$code $line" == "1 degraded"* ]]; then
    printf 'fleetridge: %s\n' "$line" >&2
    trap - EXIT
    exit 1
fi
