#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pilot_wrapped_run.sh [pilot|start|finish] [OUT]: a wrapped pilot on short rows forecasts a bare run of that trainer on long ones.
#
#     pilot     PILOT_SECONDS (180) of transformers' Trainer with PEFT (rows_trainer.py) under gpuhours pilot, on rows of 64
#               to 768 tokens, 16 a step (SHORT_ROWS), padded to their longest; gpuhours plan --pilot on rows of 256 to 2048,
#               8 a step (LONG_ROWS), as many as make one epoch of about RUN_SECONDS (600)
#     start     that epoch with the same trainer and nothing around it, in the background
#     finish    waits for it (WAIT_SECONDS, 560; exits with 3 if it still runs) and prints one JSON line, also in
#               OUT/pilot_wrapped_run.jsonl
#
# Without a word all three. What is compared: the trainer's own stamps, from the begin of training to the end of its last
# step, against the tokens of the plan at its P10, P50 and P90 tokens/s and the seconds that it expects the allocator to take
# for new widths; "held" is whether they lie inside. So the padding that the plan simulated is judged too. "whole" has the wall
# time of the trainer's process against the wall hours of the same plan, which is told the pilot's start-up.
# SHAPE (llama-3.2-1b), GPU and MASK (on, as transformers' collators make one; off: without) change what runs. Lengths are
# multiples of MULTIPLE (8), so that widths are those of pad_to_multiple_of=8, which a plan of hf-peft has no option for; with 1 the
# allocator meets every width. TRAINER is a command in the place of rows_trainer.py.
set -eu
cd "$(dirname "$0")/../.."
phase=all
case ${1:-} in pilot | start | finish) phase=$1 && shift ;; esac
out=${1:-build/pilot_wrapped_run}
python=${PYTHON:-python3}
trainer=${TRAINER:-$python bench/gpu/rows_trainer.py}
. bench/gpu/pilot_parts.sh
export PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

plan() { # DATA CONTEXT MICRO_BATCH MORE…
    data=$1 context=$2 rows=$3
    shift 3
    "$gpuhours" plan "$out/$data.jsonl" --model "$shape" --tokenizer $tokenizer --labels all --stack hf-peft --method lora \
        --gpu "$gpu" --gpus 1 --context "$context" --batching longest --micro-batch "$rows" --global-batch "$rows" \
        --precision bf16 --checkpointing none --parallel single --epochs 1 --eval-share 0 --search off --ledger off \
        --quiet --json "$@" || [ $? -eq 1 ]
}

pilot() {
    rm -rf "$out"
    mkdir -p "$out"
    cat >"$out/settings" <<-SETTINGS
	shape=${SHAPE:-llama-3.2-1b} gpu=${GPU:-h200} mask=${MASK:-on} multiple=${MULTIPLE:-8}
	short_rows=${SHORT_ROWS:-16} long_rows=${LONG_ROWS:-8}
	pilot_seconds=${PILOT_SECONDS:-180} run_seconds=${RUN_SECONDS:-600}
	SETTINGS
    . "$out/settings"
    make_rows 20000 64 768 "$multiple" >"$out/short.jsonl"
    plan short 768 "$short_rows" >"$out/plan_short.json"
    code=0
    "$gpuhours" pilot --plan "$out/plan_short.json" --minutes "$(calculate "$pilot_seconds / 60")" --until-width 0.0001 \
        --at-least 3600 --ledger off --quiet --out "$out/pilot.json" -- \
        $trainer --rows "$out/short.jsonl" --out "$out/piloted" --shape "$shape" --micro-batch "$short_rows" --epochs 1000 \
        --mask "$mask" >"$out/pilot.stdout" 2>"$out/pilot.stderr" || code=$?
    grep -a '^  [a-z]' "$out/pilot.stdout" || true
    if [ ! -s "$out/pilot.json" ]; then
        echo "the pilot has no result, exit code $code" && tail -c 2000 "$out/pilot.stderr"
        exit 1
    fi

    startup=$(number "$out/pilot.json" apart startup_seconds)
    make_rows 1600 256 2048 "$multiple" >"$out/long.jsonl"
    plan long 2048 "$long_rows" --pilot "$out/pilot.json" >"$out/after.json"
    many=$(calculate "$long_rows * int(1600 / $long_rows * $run_seconds / $(overhead "$out/after.json" training) + 1)")
    make_rows "$many" 256 2048 "$multiple" >"$out/long.jsonl"
    plan long 2048 "$long_rows" >"$out/before.json"
    plan long 2048 "$long_rows" --pilot "$out/pilot.json" --startup "$startup" >"$out/after.json"
    echo "$many rows: $(overhead "$out/after.json" training) s of steps forecast by a pilot that started in $startup s"
}

start() {
    . "$out/settings"
    rm -rf "$out/run"
    start_apart train $trainer --rows "$out/long.jsonl" --out "$out/run" --shape "$shape" --micro-batch "$long_rows" \
        --epochs 1 --mask "$mask"
}

finish() {
    . "$out/settings"
    wait_for train
    "$python" bench/gpu/pilot_wrapped.py judge "$out" "$wall_seconds" | tee "$out/pilot_wrapped_run.jsonl"
    [ -s "$out/pilot_wrapped_run.jsonl" ]
}

run_phase
