#!/bin/bash
# Epilog of slurm.conf: measures a node soon after a job failed on it, where that is wanted.
#
# Slurm asks that an epilog be short and call none of its commands, so this one only tells systemd to start
# fleetridge-agent.service, which waits until the GPUs are idle. Off unless /etc/fleetridge/slurm.env says
# FLEETRIDGE_SLURM_MEASURE_AFTER_FAILURE=yes. It always ends with 0: an epilog that fails drains the node.
set -uo pipefail
trap 'exit 0' EXIT

# Slurm sets none.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
readonly SETTINGS=${FLEETRIDGE_SLURM_ENV:-/etc/fleetridge/slurm.env}

if [[ -r $SETTINGS ]]; then
    # shellcheck source=/dev/null
    . "$SETTINGS"
fi

# Status of the job as wait(2) gives it: 0 for one that ended well. A job that was cancelled (signal 9 or 15) says nothing.
status=${SLURM_JOB_EXIT_CODE:-0}
[[ $status =~ ^[0-9]{1,6}$ ]] || exit 0
signal=$((10#$status & 127))
if [[ ${FLEETRIDGE_SLURM_MEASURE_AFTER_FAILURE:-no} == yes ]] && ((10#$status != 0 && signal != 9 && signal != 15)); then
    timeout 5 systemctl start --no-block fleetridge-agent.service
fi
