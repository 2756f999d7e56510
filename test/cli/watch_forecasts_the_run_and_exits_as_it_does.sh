# SPDX-License-Identifier: Apache-2.0
# A plan of hours for a run of a second: it is said that the range does not hold. The record is what
# the run was, and the exit code is the trainer's.
. test/cli/wrapped.inc
"$GPUHOURS" plan --model llama-3.2-1b --tokens 2M --gpu h100 --stack hf-peft --price 2 --json --quiet >"$work/plan.json"
watch() {
    marked "$GPUHOURS" watch --quiet --tokens-per-step 512 --plan "$work/plan.json" --out "$work/run.json" -- "$@" \
        >"$work/out" 2>"$work/err"
    echo "exit $?"
    said "$work/err" | sed 's/takes [0-9.]* ([^)]*) GPU/takes N GPU/; s/plan.s [0-9.]* – [0-9.]*/plan range/'
}
watch "$trainer" trains 120 10
sed -n 's/^\(  run.*\) in [0-9.]* m*s$/\1 in TIME/; /^  run/p; /^  trainer/p; s/hours    [0-9.]*; planned: [^)]*)/hours    N; planned: M/; /^  GPU/p' "$work/out"
sed -n '/"kind"/p; /"complete"/p; /"exit_code"/p; /"steps"/p; /"place/p; /"model"/p' "$work/run.json"
watch "$trainer" fails 30 10 | grep -v 'at this rate'
sed -n '/"complete"/p; /"exit_code"/p; /"place/p' "$work/run.json"
watch no-such-trainer
left
"$GPUHOURS" watch --plan "$work/plan.json"
"$GPUHOURS" watch -- true
"$GPUHOURS" watch --plan "$work/run.json" -- true 2>&1 | sed "s|$work|WORK|"
