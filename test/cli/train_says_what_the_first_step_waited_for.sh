# SPDX-License-Identifier: Apache-2.0
# The summary and the ledger tell the parts of the time until the first step was done; a CPU has nothing to tune.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" train --random-weights --model test/data/tiny_model --data test/data/tiny_model/rows.jsonl --quiet --device cpu \
    --context 64 --rank 4 --max-steps 3 --ledger "$work/ledger.sqlite" --out "$work/out" >"$work/said"
grep '^  first step' "$work/said" | sed -E 's/[0-9.]+ m?s/TIME/g'
"$GPUHOURS" runs export --ledger "$work/ledger.sqlite" | grep -oE '"(first_step|(after|prepare|weights|tuning|step)_seconds)"'
