# SPDX-License-Identifier: Apache-2.0
# Each wrong request ends with one sentence that says the way out, and the exit code of its kind.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" # the search for leaks takes seconds a process
try() {
    echo "hosts $*"
    "$GPUHOURS" hosts $job "$@" --today 2026-11-15 2>&1 >/dev/null && status=0 || status=$?
    echo "exit $status"
}
# Which offer comes first is the estimate's matter.
unrank() {
    sed -E 's/(with --(deadline|budget)) .*/\1 …/; s/(such as) .*/\1 …/'
}
{
job=
try
try plan.json
try --plan test/data/hosts/nowhere.json
try --plan test/data/hosts/mine.csv
try --plan test/data/tiny_model/rows.jsonl
echo '{"kind": "plan", "version": 2}' >build/newer-plan.json
try --plan build/newer-plan.json
echo '{"kind": "plan", "version": 1, "configuration": {}}' >build/newer-plan.json
try --plan build/newer-plan.json
rm build/newer-plan.json
job="--model llama-3.1-8b --tokens 21.4M --gpu h100 --gpus 8"
try --price -2.49
try --price 0
try --price 2.49/month
try --discount 1.5
try --gpu h1000
try --region us-esat
try --provider awz
try --kind sopt
try --queue 6h,1h
try --deadline soon
try --offers test/data/hosts/nowhere.csv
try --managed-price -1
try --explain
try --explain aws/p9.48xlarge
try --gpu t4
try --provider lambda --kind spot
try --compliance hippa
try --deadline 1min
try --budget 0.01
} | unrank
