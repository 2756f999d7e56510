#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# six_pilots.sh [CONFIGURATION…]: short pilots of transformers' Trainer with PEFT forecast its bare runs, in six configurations.
#
# They differ in model, order of rows, accumulation, checkpointing and evaluation; rows have GSM8K's lengths and are padded to
# the longest of their micro-batch, any width. For each: gpuhours plan without a pilot, a pilot of PILOT_SECONDS (58, start-up
# included), gpuhours plan --pilot, and the run with nothing around it. One JSON line each: the seconds of train() against P10,
# P50 and P90 of both plans, which leave out start-up and loading of weights. Without a name all six: about 17 minutes.
# Lines, plans, pilots and time stamps are in six_pilots.tar.gz in OUT (build/six_pilots).
# TRY=1: a stand-in for the trainer that needs neither PyTorch nor a GPU, and few rows, to see that everything runs.
set -eu
cd "$(dirname "$0")/../.."
. bench/gpu/pilot_parts.sh
python=${PYTHON:-python3}
out=${OUT:-build/six_pilots}
work=build/six_pilots.work
try=${TRY:-}
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

# NAME SHAPE ROWS MICRO_BATCH ACCUMULATION BATCHING CHECKPOINTING EVALUATE_EVERY
configurations='
1b-shuffled llama-3.2-1b 4400 8 1 longest none 0
1b-grouped-accumulated llama-3.2-1b 3200 8 4 grouped none 0
3b-shuffled-checkpointed llama-3.2-3b 2240 8 4 longest full 0
3b-grouped-evaluated llama-3.2-3b 2400 8 1 grouped none 50
8b-shuffled llama-3.1-8b 1920 8 1 longest none 0
8b-grouped-accumulated-checkpointed-evaluated llama-3.1-8b 800 4 4 grouped full 10
'

plan() { # MORE…
    "$gpuhours" plan "$folder/rows.jsonl" --model "$shape" --tokenizer $tokenizer --labels all --stack hf-peft --method lora \
        --gpu h200 --gpus 1 --context 1024 --batching "$batching" --micro-batch "$micro" --global-batch $((micro * accumulation)) \
        --precision bf16 --checkpointing "$checkpointing" --parallel single --epochs 1 --search off --ledger off \
        --startup 0 --storage 1e15 --failures-per-gpu-hour 0 --failed-runs 0 \
        --eval-share "$("$python" bench/gpu/six_pilots.py share "$rows" "$evaluate")" \
        --evals-per-epoch "$("$python" bench/gpu/six_pilots.py evaluations "$rows" $((micro * accumulation)) "$evaluate")" \
        --quiet --json "$@" || [ $? -eq 1 ]
}

measure() { # NAME SHAPE ROWS MICRO_BATCH ACCUMULATION BATCHING CHECKPOINTING EVALUATE_EVERY
    name=$1 shape=$2 rows=$3 micro=$4 accumulation=$5 batching=$6 checkpointing=$7 evaluate=$8
    folder=$work/$name
    minutes=$(calculate "${PILOT_SECONDS:-58} / 60")
    if [ "$try" ]; then
        rows=$((micro * accumulation * 60)) minutes=0.15 shape=llama-3.2-1b # no larger one is as fast
        trainer="$python bench/gpu/six_pilots.py stand-in"
    else
        trainer="$python bench/gpu/rows_trainer.py --shape $shape --mask on"
    fi
    trainer="$trainer --rows $folder/rows.jsonl --micro-batch $micro --accumulation $accumulation --evaluate-every $evaluate"
    [ "$batching" = longest ] || trainer="$trainer --group"
    [ "$checkpointing" = none ] || trainer="$trainer --checkpointing"
    rm -rf "$folder"
    mkdir -p "$folder"
    "$python" bench/gpu/six_pilots.py rows "$rows" >"$folder/rows.jsonl"
    plan >"$folder/before.json"
    code=0
    "$gpuhours" pilot --plan "$folder/before.json" --minutes "$minutes" --ledger off --quiet --out "$folder/pilot.json" -- \
        $trainer --out "$folder/piloted" >"$folder/pilot.stdout" 2>"$folder/pilot.stderr" || code=$?
    tr '\r' '\n' <"$folder/pilot.stderr" | grep -a '^gpuhours:' || true
    if [ -s "$folder/pilot.json" ]; then
        [ ! "$try" ] || "$python" bench/gpu/six_pilots.py card "$folder/pilot.json"
        plan --pilot "$folder/pilot.json" >"$folder/after.json" || rm -f "$folder/after.json"
    fi
    if [ ! -s "$folder/after.json" ]; then # the run is still worth its time
        echo "$name: the pilot has no result, exit code $code"
        tail -c 1000 "$folder/pilot.stderr"
    fi
    $trainer --out "$folder/run" >"$folder/run.stdout" 2>"$folder/run.stderr" || tail -c 1000 "$folder/run.stderr"
    "$python" bench/gpu/six_pilots.py judge "$folder" "$name" | tee -a "$work/six_pilots.jsonl"
}

keep() { # as one file, after each configuration: a command may be cut off
    mkdir -p "$out"
    (cd "$work" && tar -czf six_pilots.tar.gz six_pilots.jsonl */before.json */after.json */pilot.json */*/stamps.jsonl \
        */run/result.json 2>/dev/null) || true
    cp "$work/six_pilots.tar.gz" "$out/"
}

rm -rf "$work"
mkdir -p "$work"
: >"$work/six_pilots.jsonl"
echo "$configurations" >"$work/configurations"
while read -r line; do
    name=${line%% *}
    [ "$name" ] || continue
    case " ${*:-$name} " in *" $name "*) ;; *) continue ;; esac
    measure $line </dev/null
    keep
done <"$work/configurations"
"$python" bench/gpu/six_pilots.py summary "$work/six_pilots.jsonl"
