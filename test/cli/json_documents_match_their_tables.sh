# SPDX-License-Identifier: Apache-2.0
# Every key that the program prints is in the table of its document, and every key of a table is
# printed by one of these commands, or marked as printed only sometimes.
[ -n "$FAULTS" ] || { echo "below the sanitizers: documents are the same"; exit 77; }
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR="$work"
model=test/data/tiny_model
rows=$model/rows.jsonl
trainer=${STAND_INS:-build/fast/stand_in}/trainer
write() { # FILE COMMAND...
    file=$work/$1.json
    shift
    "$GPUHOURS" "$@" >"$file" 2>"$work/said" </dev/null
    code=$?
    [ $code -le 1 ] || { echo "exit $code: $*"; tail -2 "$work/said"; }
}
keys() { # KIND FILE...
    kind=$1
    shift
    (cd "$work" && "$manual" keys "$kind" "$@") && echo "$kind"
}
manual=$(cd "$(dirname "$MANUAL")" && pwd)/$(basename "$MANUAL")

write plan plan example --model llama-3.1-8b --gpu h100 --gpus 8 --deadline 10h --budget 100 --json
write full plan --tokens 10M --model llama-3.1-70b --method full --gpu h100 --json
write configured plan $rows --from test/data/from/axolotl.yml --gpu mi210 --json
write piloted plan --tokens 10M --pilot test/data/pilot/h200_8b_lora.json --json
write long plan --tokens 10M --model llama-3.1-8b --context 32768 --gpu h200 --gpus 1 --stack native --search off --json
keys plan plan.json full.json configured.json piloted.json long.json

write small plan $rows --model $model --labels completion --stack native --gpu h100 --gpus 1 --context 64 \
    --micro-batch 2 --global-batch 4 --precision fp32 --search off --json
write pilot pilot --plan "$work/small.json" --model $model --device cpu --steps 12 --quiet --json
write wrapped pilot --from test/data/from/axolotl.yml --gpus 1 --json --quiet -- "$trainer" trains 120 10
keys pilot pilot.json wrapped.json

printf '{"messages": [{"role": "user", "content": "x"}]}\n{"bad": 1}\n' >"$work/bad.jsonl"
write profile profile example --model llama-3.1-8b --json
write bad profile "$work/bad.jsonl" --bad-rows skip --model llama-3.1-8b --json
keys profile profile.json bad.json

write unit profile $rows --tokenizer $model --units "$work/counted" --shard 1/1 --json
cp "$work/counted/units.json" "$work/units.json"
keys unit unit.json
keys units units.json

write memory memory --model llama-3.1-8b --gpu h100 --json
write filled memory --model llama-3.1-8b --context 32768 --gpu h200 --stack native --json
keys memory memory.json filled.json

write hosts hosts --plan "$work/plan.json" --json --today 2026-11-01
write managed hosts --plan "$work/plan.json" --price 2.1/gpu-h --deadline 48h --budget 100 --managed-price 3 \
    --runs-per-month 20 --today 2026-11-01 --json
keys hosts hosts.json managed.json
write launch launch --plan "$work/plan.json" --to sky --today 2026-11-01 --json -- torchrun train.py
keys launch launch.json

write run watch --plan "$work/plan.json" --json --quiet -- "$trainer" trains 120 10
keys run run.json
write actual runs actual --plan "$work/plan.json" --wall-hours 3 --json
write ledger runs export
keys ledger actual.json ledger.json
write coverage runs coverage --json
keys coverage coverage.json
write validation validate --json
sed -n '1p; /^FMS-/s/,A100-80GB,/,RTX-4090,/p' data/runs.csv >"$work/off.csv" # none of the shipped groups is off
write off validate "$work/off.csv" --json
keys validation validation.json off.json

random=$("$GPUHOURS" help train | grep -o -- --random-weights | head -1) # the small model has no weights
write train train $random --model $model --data $rows --context 64 --held-out 0.2 --method full --max-steps 2 --quiet --json --out "$work/base"
write adapted train --model "$work/base" --tokenizer $model --data $rows --context 64 --max-steps 2 --quiet --json --out "$work/adapter"
write preferred train --model "$work/base" --tokenizer $model --data test/data/plan/pairs.jsonl --objective dpo --context 512 --max-steps 1 \
    --quiet --json --out "$work/preferred"
keys train train.json preferred.json
keys metrics base/metrics.jsonl preferred/metrics.jsonl
write merge merge --model "$work/base" --adapter "$work/adapter" --out "$work/merged" --json
keys merge merge.json
write packed pack $rows --model $model --context 64 --out "$work/packed" --json
keys packed packed.json
printf 'the quick fox\n\n' >"$work/lines.txt"
printf '[{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]' >"$work/chat"
write tokens tokenize --tokenizer $model "$work/lines.txt" --json
write counts tokenize --tokenizer $model "$work/lines.txt" --json --count
keys tokens tokens.json counts.json
write rendered template --template chatml --messages "$work/chat" --labels assistant --json
keys rendered rendered.json
write report report "$work/plan.json" "$work/profile.json" --json
keys report report.json
for catalog in models gpus nodes offers operations colocation stacks; do
    write $catalog show $catalog --json
    keys $catalog $catalog.json
done
