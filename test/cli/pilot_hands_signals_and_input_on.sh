# SPDX-License-Identifier: Apache-2.0
# What stands on standard input is the trainer's; its terminals are apart as ours are. SIGTERM to us
# stops the trainer and is told.
. test/cli/wrapped.inc
echo hello | marked "$GPUHOURS" pilot --quiet -- "$trainer" echoes 2>"$work/err"
said "$work/err" | sed 's/in [0-9.]* m*s;/in TIME;/'
env GPUHOURS_TEST_MARK="$mark" "$GPUHOURS" pilot --quiet --tokens-per-step 10 --out "$work/pilot.json" \
    -- "$trainer" trains 60000 10 >"$work/out" 2>"$work/err" &
for i in $(seq 3000); do grep -aqs ' 6/60000 ' "$work/err" && break; sleep 0.02; done
kill -TERM $!
wait $!
echo "exit $?"
said "$work/err" | sed 's/after [0-9]* steps/after N steps/'
left
