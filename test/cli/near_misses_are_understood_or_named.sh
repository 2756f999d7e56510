# SPDX-License-Identifier: Apache-2.0
# What trainers and people call an option, a card or a provider is understood, or the refusal says
# what to write instead.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
try() {
    echo "plan $*"
    "$GPUHOURS" plan --model llama-3.1-8b --tokens 10M --search off --ledger off --quiet "$@" | head -1
}
for option in max-seq-length seq-len batch-size lora-rank lora-r lora-alpha gradient-accumulation \
    gradient-accumulation-steps load-in-4bit num-train-epochs per-device-train-batch-size lr; do
    try --$option 4
done
try --method dora
try --method qdora
try --gpu '8 x H100'
try --gpu 8xh100
try --gpu h100:8
try --gpu m4
try --gpu mac
try --gpu rtx6000
try --gpu h100 --gpus 8 --parallel single
"$GPUHOURS" launch --nodes 2
make_plan() {
    "$GPUHOURS" plan --model llama-3.1-8b --gpu h100 --search off --ledger off --json $1
}
same() { # two spellings of one plan
    [ "$(make_plan "$1")" = "$(make_plan "$2")" ] && echo "$2 is $1"
}
same '--tokens 10M' '--tokens 10,000,000'
same '--tokens 10M --optimizer adamw-8bit' '--tokens 10M --optimizer adamw_8bit'
same '--tokens 10M --precision bf16' '--tokens 10M --precision bfloat16'
same '--tokens 10M --precision fp16' '--tokens 10M --precision Float16'
"$GPUHOURS" hosts --model llama-3.1-8b --tokens 10M --ledger off --provider RunPod --rows 1 --json |
    grep -c '"provider": "runpod"' | sed 's/^[1-9][0-9]*$/some of runpod/'
