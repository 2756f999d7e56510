# SPDX-License-Identifier: Apache-2.0
# What a trainer is configured with becomes options; the command line beats it; contradictions are
# said on standard error; files that a file names are read from beside it.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
from=test/data/from
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "-- a plan"
"$GPUHOURS" plan --quiet --tokens 10M --gpu h100 --gpus 4 --rank 8 --from $from/axolotl.yml >"$work/plan"
head -1 "$work/plan"
grep -A1 'settings  .*--context' "$work/plan"

echo "-- understood, ignored, beaten"
"$GPUHOURS" plan --quiet --tokens 10M --gpu h100 --gpus 4 --rank 8 --from $from/axolotl.yml --explain |
    sed -n '/^From/,/^1 /p' | sed '$d'

echo "-- what the user says of the length comes before what the file says, and is said once"
"$GPUHOURS" plan --quiet --tokens 10M --gpu h100 --gpus 4 --from $from/axolotl.yml --search off | grep -A1 '  run '
"$GPUHOURS" plan --quiet --tokens 10M --gpu h100 --gpus 4 --from $from/axolotl.yml --search off --epochs 2 --json \
    >"$work/plan.json"
"$GPUHOURS" plan --quiet --plan "$work/plan.json" --search off | grep '  run '
for twice in '--steps 9 --epochs 2' '--save-every 9 --save-interval 1h' '--evaluate-every 9 --evals-per-epoch 2'; do
    # shellcheck disable=SC2086 # words
    "$GPUHOURS" plan --quiet --tokens 10M --gpu h100 --model llama-3.1-8b $twice 2>&1
    echo "exit $?"
done

echo "-- --packing beats the packing of the file"
"$GPUHOURS" plan --quiet --tokens 10M --gpu h100 --gpus 4 --from $from/axolotl.yml --search off --packing off --json |
    grep -o '"batching": "[a-z]*"' | tail -1
for twice in '--packing off --batching packed' '--tokens 20M --examples 5 --mean-length 10'; do
    # shellcheck disable=SC2086 # words
    "$GPUHOURS" plan --quiet --tokens 10M --gpu h100 --model llama-3.1-8b $twice 2>&1
    echo "exit $?"
done

echo "-- a file that a file names"
"$GPUHOURS" memory --gpu h100 --gpus 2 --from $from/llama_factory.yaml --json >"$work/memory.json"
grep -o '"name": "test/data/from.*"' "$work/memory.json"
grep -o '"becomes": "zero2 offload optimizer"' "$work/memory.json" | sort -u

echo "-- several files that contradict"
"$GPUHOURS" memory --gpu h200 --gpus 4 --from $from/adapter_config.json --from=$from/training_args.json \
    --from $from/deepspeed_batch.json 2>&1 >"$work/out" | sed "s|$from/||g"
grep -c 'train_batch_size' "$work/out"
"$GPUHOURS" memory --gpu h200 --gpus 4 --from $from/adapter_config.json --from $from/deepspeed_batch.json \
    --json 2>"$work/err" | sed -n '/"contradictions"/,/]/p' | sed "s|$from/||g"

echo "-- a command line"
"$GPUHOURS" memory --gpu h100 --explain -- torchrun --nproc-per-node=2 "$(command -v true)" \
    trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --use_peft --lora_target_modules q_proj v_proj \
    --packing --bf16 --config none.yaml | sed -n '/^From/,$p'

echo "-- what is no configuration"
for file in laughs.yaml loop.yaml empty.yaml package.json nowhere.yml training_args.bin; do
    "$GPUHOURS" memory --from $from/$file
    echo "exit $?"
done 2>&1
"$GPUHOURS" memory --from command
echo "exit $?"
