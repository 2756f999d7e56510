# SPDX-License-Identifier: Apache-2.0
# A run of the engine has in the ledger the words and lengths that a plan of the same rows has; only the CPU differs, so that no
# later plan learns from it, even one of its name.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=test/data/tiny_model/rows.jsonl
set -- --model test/data/tiny_model --method lora --context 64 --micro-batch 2 --name tiny --ledger "$work/ledger.sqlite" --quiet
"$GPUHOURS" plan $rows "$@" --stack native --gpu h200 --precision fp32 --global-batch 4 >"$work/before"
"$GPUHOURS" train $rows "$@" --random-weights --device cpu --accumulation 2 --max-steps 3 --held-out 0 --out "$work/out" >/dev/null
"$GPUHOURS" plan $rows "$@" --stack native --gpu h200 --precision fp32 --global-batch 4 >"$work/after"
"$GPUHOURS" runs export --ledger "$work/ledger.sqlite" >"$work/export"
python3 - "$work/export" "$work/id" <<'P'
import json, sys
entries = [[e for e in json.load(open(sys.argv[1]))["runs"] if e["kind"] == kind][0] for kind in ("run", "plan")]
run, plan = [entry["configuration"] for entry in entries]
print(entries[0]["id"], file=open(sys.argv[2], "w"))
same = [key for key in run if key in plan and run[key] == plan[key]]
print("the same:", *same)
print("not the same:", *[f"{key} {run[key]}, {plan[key]}" for key in run if key in plan and run[key] != plan[key]], sep="\n  ")
P
"$GPUHOURS" runs show "$(cat "$work/id")" --ledger "$work/ledger.sqlite" | grep 'CPU\|learn'
cmp "$work/before" "$work/after" && echo 'the next plan is the same'
