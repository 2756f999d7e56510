#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pilot_engine.sh [pilot|start|finish] [OUT]: a pilot of the built-in engine on short rows forecasts a run of it on long rows.
#
#     pilot     PILOT_SECONDS (180) of gpuhours pilot on short rows; gpuhours plan --pilot on long ones, as many as make one
#               epoch of about RUN_SECONDS (600)
#     start     that epoch with gpuhours train, in the background
#     finish    waits for it (WAIT_SECONDS, 560; exits with 3 if it still runs) and prints one JSON line, also in
#               OUT/pilot_engine.jsonl
#
# Without a word all three. What is compared: the seconds of the steps, as metrics.jsonl has them, against the tokens of the
# plan at its P10, P50 and P90 tokens/s; "held" is whether they lie inside. Evaluation there is none, and the save at the end
# is no step. "whole" has the wall time of the gpuhours process against the wall hours of the same plan, which is told the
# pilot's start-up; it also expects weights to be read, where the run makes random ones.
# MODEL, METHOD, CONTEXT, MICRO_BATCH, ACCUMULATION, PRECISION and GPU change what runs; the later phases take them from the
# first. DEVICE=cpu tries the chain where there is no GPU: the pilot is then taken for one of GPU.
set -eu
cd "$(dirname "$0")/../.."
phase=all
case ${1:-} in pilot | start | finish) phase=$1 && shift ;; esac
out=${1:-build/pilot_engine}
. bench/gpu/pilot_parts.sh

plan() { # DATA MORE…
    data=$1
    shift
    "$gpuhours" plan "$out/$data.jsonl" --model "$model" --tokenizer $tokenizer --labels all --stack native \
        --method "$method" --gpu "$gpu" --gpus 1 --context "$context" --batching packed --micro-batch "$rows" \
        --global-batch $((rows * accumulation)) --precision "$precision" --checkpointing none --parallel single \
        --epochs 1 --eval-share 0 --search off --ledger off --quiet --json "$@" || [ $? -eq 1 ]
}

pilot() {
    rm -rf "$out"
    mkdir -p "$out"
    cat >"$out/settings" <<-SETTINGS
	model=${MODEL:-llama-3.2-1b} method=${METHOD:-lora} gpu=${GPU:-h200} device=${DEVICE:-auto}
	context=${CONTEXT:-4096} rows=${MICRO_BATCH:-4} accumulation=${ACCUMULATION:-2} precision=${PRECISION:-bf16}
	pilot_seconds=${PILOT_SECONDS:-180} run_seconds=${RUN_SECONDS:-600}
	SETTINGS
    . "$out/settings"
    make_rows 8000 $((context / 64)) $((context / 8)) 1 >"$out/short.jsonl"
    plan short >"$out/plan_short.json"
    "$gpuhours" pilot --plan "$out/plan_short.json" --model "$model" --tokenizer $tokenizer --labels all \
        --device "$device" --minutes "$(calculate "$pilot_seconds / 60")" --until-width 0.0001 --at-least 3600 \
        --ledger off --quiet --out "$out/pilot.json" "$out/short.jsonl"
    [ "$device" != cpu ] || sed -i "s/\"cpu\"/\"$gpu\"/" "$out/pilot.json"

    startup=$(number "$out/pilot.json" apart startup_seconds)
    make_rows 1000 $((context / 3)) $((context - 64)) 1 >"$out/long.jsonl"
    plan long --pilot "$out/pilot.json" >"$out/after.json"
    many=$(calculate "int(1000 * $run_seconds / $(overhead "$out/after.json" training)) + 1")
    make_rows "$many" $((context / 3)) $((context - 64)) 1 >"$out/long.jsonl"
    plan long >"$out/before.json"
    plan long --pilot "$out/pilot.json" --startup "$startup" >"$out/after.json"
    echo "$many rows: $(overhead "$out/after.json" training) s of steps forecast by a pilot that started in $startup s"
}

start() {
    . "$out/settings"
    rm -rf "$out/run"
    start_apart train "$gpuhours" train --random-weights --model "$model" --tokenizer $tokenizer --labels all --data "$out/long.jsonl" \
        --method "$method" --context "$context" --micro-batch "$rows" --accumulation "$accumulation" \
        --precision "$precision" --device "$device" --rate 0 --epochs 1 --ledger off --quiet --out "$out/run"
}

finish() {
    . "$out/settings"
    wait_for train
    after="$out/after.json" before="$out/before.json"
    awk -v low="$(number "$after" tokens_per_second p10)" -v mid="$(number "$after" tokens_per_second p50)" \
        -v high="$(number "$after" tokens_per_second p90)" -v planned="$(number "$after" workload processed_tokens)" \
        -v before_low="$(number "$before" tokens_per_second p10)" -v before="$(number "$before" tokens_per_second p50)" \
        -v before_high="$(number "$before" tokens_per_second p90)" \
        -v wall_low="$(number "$after" wall_hours p10)" -v wall_mid="$(number "$after" wall_hours p50)" \
        -v wall_high="$(number "$after" wall_hours p90)" -v wall="$wall_seconds" -v pilot_seconds="$pilot_seconds" \
        -v piloted="$(number "$out/pilot.json" tokens_per_second mean)" -v model="$model" -v method="$method" '
        function field(name) { match($0, "\"" name "\":[^,}]*"); return substr($0, RSTART + length(name) + 3, RLENGTH) + 0 }
        function range(name, a, b, c) { printf "\"%s\": {\"p10\": %.2f, \"p50\": %.2f, \"p90\": %.2f}, ", name, a, b, c }
        function inside(x, a, b) { return x >= a && x <= b ? "true" : "false" }
        { steps++; tokens += field("processed_tokens"); seconds += field("seconds") }
        END {
            printf "{\"model\": \"%s\", \"method\": \"%s\", \"pilot_seconds\": %g, ", model, method, pilot_seconds
            printf "\"pilot_tokens_per_second\": %.1f, ", piloted
            printf "\"steps\": %d, \"planned_tokens\": %d, \"tokens\": %d, ", steps, planned, tokens
            range("forecast_seconds", planned / high, planned / mid, planned / low)
            range("without_pilot_seconds", planned / before_high, planned / before, planned / before_low)
            printf "\"actual_seconds\": %.2f, \"actual_over_forecast\": %.4f, ", seconds, seconds * mid / planned
            printf "\"held\": %s, \"whole\": {", inside(seconds, planned / high, planned / low)
            range("forecast_seconds", 3600 * wall_low, 3600 * wall_mid, 3600 * wall_high)
            printf "\"actual_seconds\": %.2f, \"actual_over_forecast\": %.4f, ", wall, wall / (3600 * wall_mid)
            printf "\"held\": %s}}\n", inside(wall, 3600 * wall_low, 3600 * wall_high)
        }' "$out/run/metrics.jsonl" | tee "$out/pilot_engine.jsonl"
}

run_phase
