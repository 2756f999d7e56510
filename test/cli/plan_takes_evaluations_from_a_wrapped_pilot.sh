# SPDX-License-Identifier: Apache-2.0
# A trainer that evaluates every 20 steps: the pilot tells the first evaluation from the others, and the plan takes their time in
# the place of the assumed share.
. test/cli/wrapped.inc
plan() {
    "$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens 20M --gpu h200 --context 1024 \
        --batching packed --micro-batch 1 --global-batch 1 --evals-per-epoch 4 --search off --ledger off "$@"
}
plan --json >"$work/plan.json"
marked "$GPUHOURS" pilot --quiet --plan "$work/plan.json" --steps 60 --until-width 0.9 --at-least 0 --out "$work/pilot.json" -- "$trainer" evaluates 6000 10 >"$work/out" 2>"$work/err"
sed -n '/"apart"/,/}/s/^ *\("[a-z_]*evaluation[a-z_]*"\): [0-9.]*,$/\1/p' "$work/pilot.json"
plan --pilot "$work/pilot.json" --explain | sed -n 's/^  evaluation  *[0-9.]* [a-z]*s  \(.*\)/\1/p' | sed 's/[0-9]* ms each/TIME each/'
left
