# SPDX-License-Identifier: Apache-2.0
# Half of the steps were done before: hours and cost of the plan are those of the other half, and the
# ledger learns the speed, but not that a run took half of its hours.
. test/cli/wrapped.inc
"$GPUHOURS" plan --model llama-3.2-1b --tokens 61440 --gpu h100 --stack hf-peft --price 2 \
    --context 512 --packing on --micro-batch 1 --global-batch 1 --json --quiet >"$work/plan.json"
watch() {
    "$GPUHOURS" watch --quiet --tokens-per-step 512 --plan "$work/plan.json" --ledger "$work/ledger" --out "$work/run.json" \
        -- "$trainer" "$1" 120 10 >"$work/out" 2>"$work/err"
    sed -n 's/^\(  run.*\) in [0-9.]* m*s$/\1 in TIME/; /^  run/p; /^  trainer/p; s/hours    [0-9.]*; \(planned[^:]*\): .*/hours    N; \1/; /^  GPU/p' "$work/out"
    grep -a 'at this rate' "$work/err" | sed 's/takes .*//'
    sed -n '/"steps"/p; /resumed/p' "$work/run.json"
    tr -d ' \n' <"$work/run.json" | grep -o '"planned":.*"peak' | grep -oE '"(gpu_hours|wall_hours)":\{[^}]*' |
        sed 's/.*p50":\([0-9.e-]*\).*/\1/' >>"$work/hours"
}
watch trains
watch resumes
# p50 of wall and GPU hours: start-up, and half of the rest
awk '{ h[NR] = $1 } END { for (i = 1; i < 3; i++) { s = h[i + 2] / h[i]; print (s > 0.5 && s < 0.95) ? "a part" : "share " s } }' "$work/hours"
"$GPUHOURS" runs --ledger "$work/ledger" --json | grep -oE '"(actual_gpu_hours|actual_tokens_per_second)": (null|[0-9])' | sed "s/second\": [0-9]/second\": N/" | sort
