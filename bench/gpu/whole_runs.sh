#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# whole_runs.sh predict|run [NAME…]: whole runs of transformers' Trainer with PEFT against the forecast made before them.
#
# predict writes bench/gpu/whole_runs.jsonl: P10, P50 and P90 of train() in seconds for each configuration, without a pilot and
# without start-up. It needs no GPU, and is committed before anything is measured. run trains on this machine's H200 (about a
# minute each), and prints a JSON line for each: seconds of train() beside the forecast. No two have the same model: none finds its
# kernels loaded. Rows have GSM8K's lengths, or those of conversations with tools; widths are rounded and batches large, so that steps
# wait for the GPU: how fast the host of a rented machine is, no forecast knows (six_pilots.sh). A run that fails, or takes longer than
# RUN_S (150) seconds, has no line, and the next begins; lines are also in OUT/whole_runs.jsonl (build/whole_runs). TRY=1 runs few rows
# by a stand-in for the trainer that needs neither PyTorch nor a GPU, to see that everything runs.
set -eu
cd "$(dirname "$0")/../.."
. bench/gpu/pilot_parts.sh
python=${PYTHON:-python3}
work=build/whole_runs out=${OUT:-build/whole_runs}
forecasts=bench/gpu/whole_runs.jsonl
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

# NAME SHAPE LENGTHS CONTEXT ROWS MICRO_BATCH ACCUMULATION BATCHING CHECKPOINTING EVALUATE_EVERY SAVE_EVERY MULTIPLE
configurations='
1b-chat-rounded-evaluated-saved llama-3.2-1b glaive 2048 1760 16 1 longest none 40 60 128
3b-rounded-grouped-checkpointed llama-3.2-3b gsm8k 1024 3840 32 1 grouped full 0 0 64
8b-chat-rounded-accumulated-again llama-3.1-8b glaive 2048 400 4 4 longest none 0 0 128
'

plan() { # MORE…
    "$gpuhours" plan "$folder/rows.jsonl" --model "$shape" --tokenizer $tokenizer --labels all --stack hf-peft --method lora \
        --gpu h200 --gpus 1 --context "$context" --batching "$batching" --micro-batch "$micro" --global-batch $((micro * accumulation)) \
        --pad-to-multiple-of "$multiple" --precision bf16 --checkpointing "$checkpointing" --parallel single --epochs 1 \
        --search off --ledger off --startup 0 --failures-per-gpu-hour 0 --retries 0 --failed-runs 0 \
        --eval-share "$("$python" bench/gpu/six_pilots.py share "$rows" "$evaluate")" \
        --evals-per-epoch "$("$python" bench/gpu/six_pilots.py evaluations "$rows" $((micro * accumulation)) "$evaluate")" \
        --quiet --json "$@" || [ $? -eq 1 ]
}

predict() {
    plan --save-interval 1e9 >"$folder/plan.json"
    if [ "$save" != 0 ]; then # an interval in steps, as one in seconds
        steps=$((rows / (micro * accumulation)))
        plan --save-interval "$(calculate "$(overhead "$folder/plan.json" training) * $save / $steps")" >"$folder/plan.json.2"
        mv "$folder/plan.json.2" "$folder/plan.json"
    fi
    "$python" bench/gpu/six_pilots.py forecast "$folder/plan.json" "$name" >>$forecasts
}

run() {
    trainer="$python bench/gpu/rows_trainer.py --shape $shape --mask on"
    [ ! "${TRY:-}" ] || trainer="$python bench/gpu/six_pilots.py stand-in"
    trainer="$trainer --rows $folder/rows.jsonl --micro-batch $micro --accumulation $accumulation --evaluate-every $evaluate --save-every $save --multiple $multiple"
    [ "$batching" = longest ] || trainer="$trainer --group"
    [ "$checkpointing" = none ] || trainer="$trainer --checkpointing"
    echo "$name: begins"
    rm -rf "$folder/run"
    timeout -k 5 "${RUN_S:-150}" $trainer --out "$folder/run" >"$folder/run.stdout" 2>"$folder/run.stderr" || tail -c 1000 "$folder/run.stderr"
    if [ -s "$folder/run/result.json" ]; then
        "$python" bench/gpu/six_pilots.py took "$folder/run/result.json" "$name" $forecasts | tee -a "$out/whole_runs.jsonl"
    else
        echo "$name: no result"
        code=1
    fi
}

what=$1 code=0
shift
mkdir -p "$work" "$out"
[ "$what" = run ] || : >$forecasts
echo "$configurations" >"$work/configurations"
while read -r name shape lengths context rows micro accumulation batching checkpointing evaluate save multiple; do
    [ "$name" ] || continue
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    folder=$work/$name
    mkdir -p "$folder"
    [ "$what" != run ] || [ ! "${TRY:-}" ] || rows=$((micro * accumulation * 10))
    "$python" bench/gpu/six_pilots.py rows "$rows" "$lengths" >"$folder/rows.jsonl"
    $what </dev/null
done <"$work/configurations"
exit $code
