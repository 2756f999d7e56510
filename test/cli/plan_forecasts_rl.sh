# SPDX-License-Identifier: Apache-2.0
# grpo is forecast by its phases, on GPUs that also train, on its own, or beside the training; bad requests end with one sentence each.
ask() { echo "$*"; "$GPUHOURS" plan --objective grpo --model qwen2.5-7b --gpu h100 --search off --ledger off "$@"; }
prompts=test/data/plan/prompts.jsonl
lengths="--response-length 600,1400,4096"
phases() {
    echo "$*"
    "$GPUHOURS" plan --objective grpo --model qwen2.5-7b --gpu h100 --search off --ledger off "$@" --json | tr -d ' \n' |
        sed 's/.*\("objective":"[a-z]*"\),"phases":\[\([^]]*\)\].*/\1 \2/; s/"seconds":[^}]*//g; s/[{},"]/ /g; s/  */ /g'
    echo
}
phases $prompts $lengths --gpus 8
phases $prompts $lengths --gpus 16 --sampler-gpus 8 --steps 400 --reference none
phases $prompts $lengths --gpus 16 --async-steps 1 --reference none
ask $lengths --gpus 16 --sampler-gpus 8 --steps 400 | tr -s ' \n' ' ' | grep -o "on 16 × H100\|in 400 steps\|on 8 of the GPUs, while the others wait"
for size in "--steps 5" "--examples 500" "--steps 5 --mean-length 512" "--examples 500 --tokens 100k" "--tokens 100k --mean-length 200"; do
    { ask --gpus 8 $size $lengths && ask --gpus 8 $size $lengths --explain; } | tr -s ' \n' ' ' |
        grep -oE 'prompts of [0-9]+ tokens( .assumed.)? × 8|lengths_assumed: prompts of [0-9]+|length of a prompt [0-9]+ tokens( .[0-9]+ – [0-9]+.)?, [a-z]+|assumed: (a prompt and its answer|the answers of all rows|near 256 answers|batches simulated|as in the pilot|near 64)'
done
ask --gpus 8 --steps 5
ask --gpus 8 --steps 5 --response-length 600,1400
ask --gpus 8 --steps 5 --response-length 9,8,7
ask --gpus 8 --steps 5 --response-length many
ask --gpus 8 --steps 5 --response-length 600,1400,9000 --context 4096
ask --gpus 8 $lengths
ask --gpus 8 $lengths --tokens 5M
ask --gpus 8 --steps 5 $lengths --sampler-gpus 8
ask --gpus 8 --steps 5 $lengths --sampler-gpus 9
ask --gpus 8 --steps 5 $lengths --generations 0
ask --gpus 8 --steps 5 $lengths --generations 1
ask --gpus 8 --steps 5 $lengths --async-steps 65
ask --gpus 8 --steps 5 $lengths --async-steps 2 --sampler-gpus 0
ask --gpus 1 --steps 5 $lengths --async-steps 1
ask --gpus 8 --steps 5 $lengths --reward other
ask --gpus 8 --steps 5 $lengths --generations 7 --global-batch 64
ask --gpus 8 --steps 0 $lengths
ask --gpus 8 --steps 5 $lengths --sampler other
"$GPUHOURS" plan --model qwen2.5-7b --tokens 1M --generations 8
"$GPUHOURS" plan --model qwen2.5-7b --tokens 1M --objective dpo --rounds 8
"$GPUHOURS" plan --model qwen2.5-7b --tokens 1M --objective dpo --reward model
"$GPUHOURS" plan --model qwen2.5-7b --tokens 1M --objective sft --async-steps 1
ask --gpus 1 --steps 5 $lengths --model llama-3.1-70b --method qlora
echo "exit $?"
