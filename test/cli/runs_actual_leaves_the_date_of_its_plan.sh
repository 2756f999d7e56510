# SPDX-License-Identifier: Apache-2.0
# A plan of an earlier day, by its file and by its name: what is added is the run.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ledger() { "$GPUHOURS" "$@" --ledger "$work/ledger.sqlite"; }
ledger plan --model llama-3.1-8b --tokens 21.4M --gpu h100 --name night --search off --json >"$work/plan.json"
ledger runs export >"$work/runs.json"
rm "$work"/ledger.sqlite*
sed -i 's/"at": "[^"]*"/"at": "2026-03-04T05:06:07Z"/' "$work/runs.json"
ledger runs import "$work/runs.json"
ledger runs actual --plan "$work/plan.json" --gpu-hours 1.1 --name night >/dev/null
ledger runs actual night --gpu-hours 1.2 >/dev/null
ledger runs | sed "s/$(date -u +%Y-%m-%d)/TODAY/" | awk '/plan|run / { print $2, $3 }'
