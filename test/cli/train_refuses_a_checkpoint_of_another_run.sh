# SPDX-License-Identifier: Apache-2.0
# A folder that holds another run's checkpoints is not written over: the options that differ are named.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rows=test/data/tiny_model/rows.jsonl
try() {
    "$GPUHOURS" train --random-weights --model test/data/tiny_model --quiet --context 64 --max-steps 4 --out "$work/out" \
        "$@" 2>&1 >/dev/null | sed "s|$work|WORK|g"
}
try --data $rows --rank 8
try --data $rows --rank 16
try --data $rows --rank 8 --rate 0.5 --precision bf16
try --data $rows --rank 8 --alpha 4 --targets q,v
head -20 $rows >"$work/fewer.jsonl"
try --data "$work/fewer.jsonl" --rank 8
try --data "$work/fewer.jsonl" --method full
