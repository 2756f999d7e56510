#!/bin/sh
# pilot_engine.sh [OUT]: a pilot of the built-in engine on short rows forecasts a run of it on long rows.
#
# PILOT_SECONDS (180) of gpuhours pilot on data of short rows, then gpuhours plan --pilot on data of long rows, then
# gpuhours train on those for about RUN_SECONDS (600) by that forecast: actual over forecast, and whether P10 to P90 held
# it. One JSON line, also in OUT/pilot_engine.jsonl. MODEL, METHOD, CONTEXT, MICRO_BATCH, ACCUMULATION, PRECISION and GPU
# change what runs. DEVICE=cpu tries the chain where there is no GPU: the pilot is then taken for one of GPU.
set -eu
cd "$(dirname "$0")/../.."
out=${1:-build/pilot_engine}
gpuhours=${GPUHOURS:-build/gpuhours}
model=${MODEL:-llama-3.2-1b} method=${METHOD:-lora} gpu=${GPU:-h200} device=${DEVICE:-auto}
context=${CONTEXT:-4096} rows=${MICRO_BATCH:-4} accumulation=${ACCUMULATION:-2} precision=${PRECISION:-bf16}
pilot_seconds=${PILOT_SECONDS:-180} run_seconds=${RUN_SECONDS:-600}
tokenizer=test/data/tiny_model/tokenizer.json # a token is a byte: ids of any model's vocabulary
rm -rf "$out"
mkdir -p "$out"

make_rows() { # ROWS SHORTEST LONGEST, in bytes, spread evenly over the logarithm
    awk -v rows="$1" -v low="$2" -v high="$3" 'BEGIN {
        srand(7)
        for (i = 0; i < rows; i++) {
            size = int(low * (high / low) ^ rand())
            text = ""
            while (length(text) < size)
                text = text sprintf("%x ", int(rand() * 65536))
            printf "{\"text\": \"%s\"}\n", substr(text, 1, size)
        }
    }'
}
make_rows 8000 $((context / 64)) $((context / 8)) >"$out/short.jsonl"
make_rows 1500 $((context / 3)) $((context - 64)) >"$out/long.jsonl"

number() { # FILE OBJECT KEY, of a document with a member on each line
    awk -v object="\"$2\": {" -v key="\"$3\":" '
        index($0, object) { inside = 1 }
        inside && index($0, key) { sub(/.*: /, ""); sub(/,$/, ""); print; exit }' "$1"
}

plan() { # DATA MORE...
    data=$1
    shift
    "$gpuhours" plan "$out/$data.jsonl" --model "$model" --tokenizer $tokenizer --labels all --stack native \
        --method "$method" --gpu "$gpu" --gpus 1 --context "$context" --batching packed --micro-batch "$rows" \
        --global-batch $((rows * accumulation)) --precision "$precision" --checkpointing none --parallel single \
        --search off --quiet --json "$@" || [ $? -eq 1 ]
}

plan short >"$out/plan_short.json"
"$gpuhours" pilot --plan "$out/plan_short.json" --model "$model" --tokenizer $tokenizer --labels all --device "$device" \
    --minutes "$(awk "BEGIN { print $pilot_seconds / 60 }")" --until-width 0.0001 --at-least 3600 --quiet \
    --out "$out/pilot.json" "$out/short.jsonl"
[ "$device" != cpu ] || sed -i "s/\"cpu\"/\"$gpu\"/" "$out/pilot.json"

plan long >"$out/before.json"
plan long --pilot "$out/pilot.json" >"$out/after.json"
rate=$(number "$out/after.json" tokens_per_second p50)
step_tokens=$(awk "BEGIN { print $(number "$out/after.json" batch tokens) * $accumulation }")
steps=$(awk "BEGIN { n = int($run_seconds * $rate / $step_tokens); print n < 8 ? 8 : n }")
"$gpuhours" train --model "$model" --tokenizer $tokenizer --labels all --data "$out/long.jsonl" --method "$method" \
    --context "$context" --micro-batch "$rows" --accumulation "$accumulation" --precision "$precision" \
    --device "$device" --rate 0 --epochs 100000 --max-steps "$steps" --quiet --out "$out/run" >"$out/train.txt"

awk -v low="$(number "$out/after.json" tokens_per_second p10)" -v mid="$rate" \
    -v high="$(number "$out/after.json" tokens_per_second p90)" \
    -v before_low="$(number "$out/before.json" tokens_per_second p10)" \
    -v before="$(number "$out/before.json" tokens_per_second p50)" \
    -v before_high="$(number "$out/before.json" tokens_per_second p90)" \
    -v piloted="$(number "$out/pilot.json" tokens_per_second mean)" -v model="$model" -v method="$method" '
    function field(name) { match($0, "\"" name "\":[^,}]*"); return substr($0, RSTART + length(name) + 3, RLENGTH) + 0 }
    { steps++; tokens += field("processed_tokens"); seconds += field("seconds") }
    END {
        held = (seconds >= tokens / high && seconds <= tokens / low) ? "true" : "false"
        printf "{\"model\": \"%s\", \"method\": \"%s\", \"steps\": %d, \"tokens\": %d, ", model, method, steps, tokens
        printf "\"pilot_tokens_per_second\": %.1f, \"actual_seconds\": %.2f, ", piloted, seconds
        printf "\"forecast_seconds\": {\"p10\": %.2f, \"p50\": %.2f, \"p90\": %.2f}, ", tokens / high, tokens / mid, tokens / low
        printf "\"without_pilot_seconds\": {\"p10\": %.2f, \"p50\": %.2f, \"p90\": %.2f}, ", \
            tokens / before_high, tokens / before, tokens / before_low
        printf "\"actual_over_forecast\": %.4f, \"held\": %s}\n", seconds * mid / tokens, held
    }' "$out/run/metrics.jsonl" | tee "$out/pilot_engine.jsonl"
