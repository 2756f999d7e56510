# SPDX-License-Identifier: Apache-2.0
# SIGTERM is the trainer's as it is ours; what it did by then is recorded.
. test/cli/wrapped.inc
"$GPUHOURS" plan --model llama-3.2-1b --tokens 2M --gpu h100 --stack hf-peft --json --quiet >"$work/plan.json"
env GPUHOURS_TEST_MARK="$mark" "$GPUHOURS" watch --quiet --plan "$work/plan.json" --out "$work/run.json" \
    -- "$trainer" trains 60000 10 >"$work/out" 2>"$work/err" &
for i in $(seq 3000); do grep -aqs ' 20/60000 ' "$work/err" && break; sleep 0.02; done
kill -TERM $!
wait $!
echo "exit $?"
said "$work/err" | grep -v 'at this rate'
sed -n '/"complete"/p; /"exit_code"/p' "$work/run.json"
left
