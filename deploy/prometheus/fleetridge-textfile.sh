#!/bin/bash
# Says how full a node's spool is, for node_exporter's textfile collector. From /etc/cron.d, every ten minutes:
#
#     */10 * * * * root /usr/libexec/fleetridge/fleetridge-textfile.sh /var/lib/fleetridge /var/lib/prometheus/node-exporter
set -euo pipefail

readonly STATE=${1:?give the state directory of the agent}
readonly OUTPUT=${2:?give the directory that node_exporter reads}

reports_in() {
    if [[ -d $1 ]]; then
        find "$1" -maxdepth 1 -type f -name '*.json' -printf '.' | wc -c
    else
        echo 0
    fi
}

# node_exporter must never see half a file.
scratch=$(mktemp "$OUTPUT/.fleetridge.XXXXXX")
trap 'rm -f "$scratch"' EXIT
cat > "$scratch" <<TEXT
# HELP fleetridge_agent_spool_reports Reports that wait for the server.
# TYPE fleetridge_agent_spool_reports gauge
fleetridge_agent_spool_reports $(reports_in "$STATE/spool")
# HELP fleetridge_agent_dead_letters Reports that the server will never take.
# TYPE fleetridge_agent_dead_letters gauge
fleetridge_agent_dead_letters $(reports_in "$STATE/dead-letter")
TEXT
chmod 0644 "$scratch"
mv "$scratch" "$OUTPUT/fleetridge.prom"
