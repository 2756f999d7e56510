# SPDX-License-Identifier: Apache-2.0
# SIGTERM is the trainer's as it is ours; what it did by then is recorded. One that saves and ends with 0 has not
# finished, unless it came to its last step.
. test/cli/wrapped.inc
"$GPUHOURS" plan --model llama-3.2-1b --tokens 2M --gpu h100 --stack hf-peft --json --quiet >"$work/plan.json"
stop() { # MODE STEPS
    rm -f "$work/err" # what the last one wrote says nothing of this one
    env GPUHOURS_TEST_MARK="$mark" "$GPUHOURS" watch --quiet --plan "$work/plan.json" --out "$work/run.json" \
        -- "$trainer" "$1" "$2" 10 >"$work/out" 2>"$work/err" &
    for i in $(seq 3000); do grep -aqs " 20/$2 " "$work/err" && break; sleep 0.02; done
    kill -TERM $!
    wait $!
    echo "$1: exit $?"
    said "$work/err" | grep -v 'at this rate\|ledger' | sed 's/after [0-9]* of/after N of/'
    sed -n '/"complete"/p; /"exit_code"/p; /"stopped_by/p' "$work/run.json"
}
stop trains 60000
stop yields 60000
stop stubborn 200
left
