#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# six_pilots.sh [predict] [CONFIGURATION…]: short pilots of transformers' Trainer with PEFT forecast its bare runs.
#
# Six configurations differ in model, lengths, order of rows, accumulation, checkpointing, evaluation and saves; rows are padded to
# the longest of their micro-batch, any width. Two have GSM8K's lengths, on which the costs of new widths were measured, two those of
# conversations with tools, two those of web pages. All were forecast before they were measured (bench/results/h200.md); to forecast others
# blindly, write others here. Former ones are in the history of this file.
# Rows are as many as make train() last 125 to 135 s by the plan. Two more run only when they are named, with PILOT_SECONDS=40 about
# 125 s each: widths rounded to multiples of 64, and rows that were packed before, all of 1,024 tokens. Neither has many first sights
# of widths.
#
# predict writes bench/gpu/six_pilots.jsonl: P10, P50 and P90 of train() in seconds without a pilot, of all eight or of those
# that are named; lines of others stay. It needs no GPU, and is committed before anything is measured. Otherwise, for each
# configuration: gpuhours plan without a pilot, a pilot of PILOT_SECONDS (50, start-up included; 0: none), gpuhours plan --pilot, and
# the run with nothing around it, together about 190 s (without a pilot 145). One JSON line each: the
# seconds of train() against P10, P50 and P90 of both plans, which leave out start-up and loading of weights, and know whether a pilot
# has run on the machine before: predict with PILOT_SECONDS=0 for runs without one. Lines, plans, pilots and time stamps are in six_pilots.tar.gz in OUT (build/six_pilots).
# A pilot or a run that takes longer than RUN_S (300) seconds is ended, and what there is of it judged.
# TRY=1: a stand-in for the trainer that needs neither PyTorch nor a GPU, and few rows, to see that everything runs.
set -eu
cd "$(dirname "$0")/../.."
. bench/gpu/pilot_parts.sh
python=${PYTHON:-python3}
out=${OUT:-build/six_pilots}
work=build/six_pilots.work
try=${TRY:-}
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

forecasts=bench/gpu/six_pilots.jsonl
cache=warm # by the pilot
[ "${PILOT_SECONDS:-50}" != 0 ] || cache=cold

# NAME SHAPE LENGTHS CONTEXT ROWS MICRO_BATCH ACCUMULATION BATCHING CHECKPOINTING EVALUATE_EVERY SAVE_EVERY MULTIPLE
configurations='
1b-chat-shuffled-accumulated llama-3.2-1b glaive 2048 3096 9 2 longest none 0 0 1
3b-web-grouped-checkpointed llama-3.2-3b c4 2048 1404 6 1 grouped full 0 0 1
8b-shuffled-evaluated-saved llama-3.1-8b gsm8k 1024 3120 12 1 longest none 50 100 1
1b-grouped-accumulated-checkpointed-evaluated llama-3.2-1b gsm8k 1024 4840 10 4 grouped full 30 0 1
3b-chat-shuffled-evaluated llama-3.2-3b glaive 2048 1398 6 1 longest none 60 0 1
8b-web-grouped-accumulated llama-3.1-8b c4 2048 960 3 4 grouped none 0 0 1
'
when_named='
1b-rounded llama-3.2-1b gsm8k 1024 2880 8 1 longest none 0 0 64
1b-packed llama-3.2-1b full 1024 1840 8 1 longest none 0 0 1
'

plan() { # MORE…
    "$gpuhours" plan "$folder/rows.jsonl" --model "$shape" --tokenizer $tokenizer --labels all --stack hf-peft --method lora \
        --gpu h200 --gpus 1 --context "$context" --batching "$batching" --micro-batch "$micro" --global-batch $((micro * accumulation)) \
        --precision bf16 --checkpointing "$checkpointing" --parallel single --epochs 1 --search off --ledger off \
        --pad-to-multiple-of "$multiple" --file-cache $cache --startup 0 --storage 1e15 --failures-per-gpu-hour 0 --failed-runs 0 \
        --eval-share "$("$python" bench/gpu/six_pilots.py share "$rows" "$evaluate")" \
        --evals-per-epoch "$("$python" bench/gpu/six_pilots.py evaluations "$rows" $((micro * accumulation)) "$evaluate")" \
        --save-interval "$interval" --quiet --json "$@" || [ $? -eq 1 ]
}

configure() { # a line of the table
    name=$1 shape=$2 data=$3 context=$4 rows=$5 micro=$6 accumulation=$7 batching=$8 checkpointing=$9
    shift 9
    evaluate=$1 save=$2 multiple=$3 interval=1e9
    folder=$work/$name
    if [ "$try" ]; then
        rows=$((micro * accumulation * 60)) shape=llama-3.2-1b # no larger one is as fast
    fi
    rm -rf "$folder"
    mkdir -p "$folder"
    "$python" bench/gpu/six_pilots.py rows "$rows" "$data" >"$folder/rows.jsonl"
    plan >"$folder/before.json"
    [ "$save" != 0 ] || return 0
    interval=$(calculate "$(overhead "$folder/before.json" training) * $save * $micro * $accumulation / $rows") # of steps, in seconds
    plan >"$folder/before.json"
}

predict() {
    grep -v "^{\"name\": \"$name\"" $forecasts >"$folder/others" || true
    "$python" bench/gpu/six_pilots.py forecast "$folder/before.json" "$name" | cat "$folder/others" - >$forecasts
}

measure() {
    minutes=$(calculate "${PILOT_SECONDS:-50} / 60")
    if [ "$try" ]; then
        minutes=0.15
        trainer="$python bench/gpu/six_pilots.py stand-in"
    else
        trainer="$python bench/gpu/rows_trainer.py --shape $shape --mask on"
    fi
    trainer="$trainer --rows $folder/rows.jsonl --micro-batch $micro --accumulation $accumulation --evaluate-every $evaluate --save-every $save"
    [ "$multiple" = 1 ] || trainer="$trainer --multiple $multiple"
    [ "$batching" = longest ] || trainer="$trainer --group"
    [ "$checkpointing" = none ] || trainer="$trainer --checkpointing"
    code=0 limit="timeout -k 5 ${RUN_S:-300}"
    [ "${PILOT_SECONDS:-50}" = 0 ] || pilot
    echo "$name: run"
    $limit $trainer --out "$folder/run" >"$folder/run.stdout" 2>"$folder/run.stderr" || tail -c 1000 "$folder/run.stderr"
    "$python" bench/gpu/six_pilots.py judge "$folder" "$name" | tee -a "$work/six_pilots.jsonl"
}

pilot() {
    echo "$name: pilot"
    $limit "$gpuhours" pilot --plan "$folder/before.json" --minutes "$minutes" --ledger off --quiet --out "$folder/pilot.json" -- \
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
}

keep() { # as one file, after each configuration: a command may be cut off
    mkdir -p "$out"
    (cd "$work" && tar -czf six_pilots.tar.gz six_pilots.jsonl */before.json */after.json */pilot.json */*/stamps.jsonl \
        */run/result.json 2>/dev/null) || true
    cp "$work/six_pilots.tar.gz" "$out/"
}

what=measure
if [ "${1:-}" = predict ]; then
    what=predict
    shift
    set -- "${@:-all}"
fi
rm -rf "$work"
mkdir -p "$work"
: >"$work/six_pilots.jsonl"
echo "$configurations${*:+$when_named}" >"$work/configurations"
count=0
while read -r line; do
    name=${line%% *}
    [ "$name" ] || continue
    case " ${*:-all} " in *" $name "* | *" all "*) ;; *) continue ;; esac
    configure $line
    count=$((count + 1))
    $what </dev/null
    [ "$what" = predict ] || keep
done <"$work/configurations"
[ "$what" = predict ] || "$python" bench/gpu/six_pilots.py summary "$work/six_pilots.jsonl"
[ "$what" = predict ] || [ "$(wc -l <"$work/six_pilots.jsonl")" -eq $count ] # else a run has no result
