# SPDX-License-Identifier: Apache-2.0
# The reference of DPO is the model without --adapter, and it is said: only with the adapter merged first, as it says, the loss
# starts at log 2.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=test/data/tiny_model
cat >"$work/pairs.jsonl" <<'P'
{"prompt": "one ", "chosen": "two three", "rejected": "nine"}
{"prompt": "four ", "chosen": "five", "rejected": "six seven"}
P
train() { "$GPUHOURS" train --context 64 --quiet --ledger off --json "$@" 2>&1 | sed "s|$work|WORK|g"; }
losses() { grep -o 'gpuhours: --adapter.*\|"loss":[0-9.]*'; }
train --random-weights --model $model --data $model/rows.jsonl --method full --max-steps 1 --out "$work/base" >/dev/null
train --model "$work/base" --data $model/rows.jsonl --max-steps 8 --rate 0.1 --out "$work/tuned" >/dev/null
set -- --data "$work/pairs.jsonl" --objective dpo --max-steps 1
train --model "$work/base" --adapter "$work/tuned" --out "$work/held" "$@" | losses | sed '/loss/s/0\.6931.*/log 2/; s/:[0-9].*/: not log 2/'
"$GPUHOURS" merge --model "$work/base" --adapter "$work/tuned" --out "$work/merged" >/dev/null
train --model "$work/merged" --out "$work/after" "$@" | losses | sed '/loss/s/0\.6931.*/log 2/'
