#!/bin/bash
# HealthCheckProgram of slurm.conf: tells Slurm what the last measurement of this node said. It touches no GPU.
#
#     HealthCheckProgram=/usr/libexec/fleetridge/fleetridge-healthcheck.sh
#     HealthCheckInterval=600
#     HealthCheckNodeState=IDLE,CYCLE
#
# slurmd runs it as root on every node, those that are drained and idle included, and kills it after 60 s: the longest that
# its steps may take together is 55 s. It changes a node only where /etc/fleetridge/slurm.env says FLEETRIDGE_SLURM_DRAIN=yes.
# Then it drains a node whose last verdict is "degraded", as long as fewer than FLEETRIDGE_SLURM_MOST_DRAINED nodes are
# drained for this reason, and resumes a node that it had drained once the verdict is "ok". An old, missing or unsure
# verdict, an agent that is broken or hangs, and a mistake in that file change nothing. It always ends with 0.
set -uo pipefail
trap 'exit 0' EXIT

# Slurm sets none. What is installed elsewhere is named in slurm.env: PATH=/opt/slurm/bin:$PATH
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
readonly SETTINGS=${FLEETRIDGE_SLURM_ENV:-/etc/fleetridge/slurm.env}
readonly PREFIX='fleetridge:'

if [[ -r $SETTINGS ]]; then
    set -a
    # shellcheck source=/dev/null
    . "$SETTINGS"
    set +a
fi

say() {
    timeout 5 logger --tag fleetridge-healthcheck -- "$*"
}

node=${SLURMD_NODENAME:-$(hostname -s)}
[[ -n $node ]] || exit 0

# Two lines: what the agent says and what it ends with. Nothing is waited for that keeps the pipe open after them.
line='' code=''
{
    IFS= read -r -n 200 -t 30 line
    IFS= read -r -n 200 -t 12 code
} < <(
    timeout --kill-after=1 14 fleetridge-agent check --max-age "${FLEETRIDGE_SLURM_MAX_AGE:-50h}" \
        --state-dir "${FLEETRIDGE_STATE_DIR:-/var/lib/fleetridge}" 2>/dev/null
    echo $?
)
# A Python that cannot even start the agent also ends with 1, so the word counts as well. Only what Slurm takes stays in it.
line=${line//[^a-zA-Z0-9 .,:%+-]/}
case "$code $line" in
"1 degraded"*) verdict=degraded ;;
"0 ok"*) verdict=ok ;;
*) exit 0 ;;
esac

if [[ ${FLEETRIDGE_SLURM_DRAIN:-no} != yes ]]; then
    if [[ $verdict == degraded ]]; then
        say "$node: $line; not drained, since FLEETRIDGE_SLURM_DRAIN is not yes"
    fi
    exit 0
fi

if ! reason=$(timeout 10 sinfo --noheader --nodes="$node" --format='%E'); then
    say "$node: $line; nothing is done, since sinfo does not answer (PATH in $SETTINGS says where it is)"
    exit 0
fi

# Change this node, and log it.
tell_slurm() {
    if timeout 10 scontrol update NodeName="$node" "$@"; then
        say "$node: $line; $1"
    else
        say "$node: $line; scontrol failed at $1"
    fi
}

if [[ $verdict == ok && $reason == "$PREFIX"* ]]; then
    tell_slurm State=RESUME
elif [[ $verdict == degraded && $reason == none* ]]; then
    drained=$(timeout 10 sinfo --noheader --Node --states=drain --format='%N %E' | awk -v prefix="$PREFIX" \
        '$2 == prefix { nodes[$1] } END { print length(nodes) }') || exit 0
    most=${FLEETRIDGE_SLURM_MOST_DRAINED:-2}
    # Bash would take what is no number for an error, and an error for a limit that is not reached.
    if ! [[ $most =~ ^[0-9]{1,6}$ ]]; then
        say "$node: $line; not drained, since FLEETRIDGE_SLURM_MOST_DRAINED is no number: $most"
    elif ((drained >= 10#$most)); then
        say "$node: $line; not drained, since $drained nodes are drained already and $most is the most"
    else
        tell_slurm State=DRAIN Reason="$PREFIX $line"
    fi
fi
