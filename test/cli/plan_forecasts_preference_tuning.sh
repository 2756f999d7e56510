# SPDX-License-Identifier: Apache-2.0
# Pairs of answers are forecast by objective, with the phases of a step; what is not modelled, or not in the data, is said.
pairs=test/data/plan/pairs.jsonl
ask() { echo "$*"; "$GPUHOURS" plan --model llama-3.1-8b --gpu h100 --search off --ledger off "$@"; }
phases() { # the phases of a step, in order
    echo "$*"
    "$GPUHOURS" plan --model llama-3.1-8b --gpu h100 --search off --ledger off "$@" --json | tr -d ' \n' |
        sed 's/.*\("objective":"[a-z]*"\),"phases":\[\([^]]*\)\].*/\1 \2/; s/"seconds":[^}]*//g; s/[{},"]/ /g; s/  */ /g'
    echo
}
phases $pairs
phases $pairs --objective dpo
phases $pairs --objective dpo --method full
phases $pairs --objective orpo
phases $pairs --objective kto
phases $pairs --objective reward
ask $pairs 2>&1 | grep -A2 pairs_as_sft
ask $pairs --objective sft 2>&1 | grep pairs_as_sft
ask example --objective dpo
ask $pairs --objective ppo
ask $pairs --objective orpo --reference model
ask $pairs --objective dpo --method full --reference adapters
ask $pairs --objective best
ask $pairs --objective dpo --reference other
echo "exit $?"
