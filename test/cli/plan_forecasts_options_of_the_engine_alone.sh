# SPDX-License-Identifier: Apache-2.0
# DoRA and sums in any order are forecast for our engine, slower and faster; elsewhere they are refused, because nobody measured them there,
# as are the levels of recomputation that only our engine has. What our engine refuses beside DoRA is refused here, too.
ask() { "$GPUHOURS" plan --model llama-3.1-8b --tokens 100M --gpu h200 --gpus 1 --context 32768 --micro-batch 1 --global-batch 1 --search off --ledger off --quiet "$@"; }
rate() { ask --stack native --json "$@" | tr -d ' \n' | sed 's/.*"tokens_per_second":{[^}]*"p50":\([0-9.]*\).*/\1/'; }
echo "$(rate) $(rate --nondeterministic) $(rate --dora)" |
    awk '{ print ($2 > $1 ? "any order is faster" : $0) ", " ($3 < $1 * 0.95 ? "magnitudes cost time" : $0) }'
ask --stack hf-peft --dora
ask --stack hf-peft --nondeterministic
ask --stack hf-peft --checkpointing projections
echo "$(rate --checkpointing none) $(rate --checkpointing selective) $(rate --checkpointing gate) $(rate --checkpointing projections) $(rate --checkpointing full)" |
    awk '{ print ($1 > $2 && $2 > $3 && $3 > $4 && $4 > $5) ? "each level costs time" : $0 }'
ask --stack native --dora --method full
echo "exit $?"
ask --stack native --dora --dropout 0.1
ask --stack native --dora --precision fp8
ask --stack native --dora --model qwen3-30b-a3b
ask --stack native --dora --parallel fsdp --gpus 2
echo "exit $?"
