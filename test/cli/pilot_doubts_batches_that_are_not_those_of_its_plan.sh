# SPDX-License-Identifier: Apache-2.0
# A trainer that does not count tokens, but rows, steps or epochs, and these are not the plan's: the pilot says so,
# takes the tokens of its own rows, and the ledger does not learn from it.
. test/cli/wrapped.inc
plan() {
    "$GPUHOURS" plan --model llama-3.2-1b --tokens 20M --gpu h100 --stack hf-peft --context 2048 --packing on "$@" \
        --json --quiet --ledger off >"$work/plan.json"
}
# banner STEPS, then bars: what transformers prints with log_level=info
log() {
    echo "  Instantaneous batch size per device = $1"
    echo "  Total train batch size (w. parallel, distributed & accumulation) = $2"
    echo "  Gradient Accumulation steps = 4"
    bars "$3"
}
bars() {
    printf '  0%%|          | 0/%s [00:00<?, ?it/s]\n' "$1"
    for step in $(seq 40); do printf '  1%%|          | %s/%s [00:%02d<10:00,  1.00s/it]\n' $step "$1" $step; done
}
pilot() {
    "$GPUHOURS" pilot --plan "$work/plan.json" --log "$work/log" --out "$work/pilot.json" --ledger "$work/ledger" \
        >"$work/out" 2>"$work/err"
    sed -n 's/^  speed *\([0-9,]*\) .*/\1 tokens\/s/p; /DOUBTFUL/,/^  steps/p' "$work/out" | grep -v '^  steps'
    sed -n '/not added/p' "$work/err" | wc -l
}
plan --gpus 2 --micro-batch 4 --global-batch 32
echo "== as planned"
log 4 32 305 >"$work/log" && pilot
echo "== micro-batches of 8"
log 8 32 305 >"$work/log" && pilot
echo "== a quarter of the rows"
log 4 8 1220 >"$work/log" && pilot
echo "== four times the steps"
bars 1220 >"$work/log" && pilot
echo "== only the first 40 steps of the run"
bars 40 >"$work/log" && pilot
echo "== four times the steps of an epoch"
{ bars 1000; echo "{'loss': 1.5, 'learning_rate': 1e-4, 'epoch': 0.03}"; } >"$work/log" && pilot
echo "== GPUs"
plan --gpus 4 --micro-batch 4 --global-batch 32
GPUHOURS_NVML=${STAND_INS:-build/fast/stand_in}/nvml.so "$GPUHOURS" pilot --plan "$work/plan.json" --quiet --ledger off \
    --out "$work/pilot.json" -- "$trainer" trains 60 10 2>/dev/null | sed -n '/DOUBTFUL/,/^  steps/p' | grep -v '^  steps'
