# SPDX-License-Identifier: Apache-2.0
# SIGKILL to us: what the trainer started, also what detached itself, is gone a moment later.
. test/cli/wrapped.inc
env GPUHOURS_TEST_MARK="$mark" "$GPUHOURS" pilot --quiet --grace 0.2 --out "$work/pilot.json" \
    -- sh -c "'$trainer' daemon 60000 10 & wait" >"$work/out" 2>"$work/err" &
for i in $(seq 3000); do grep -aqs ' 6/60000 ' "$work/err" && break; sleep 0.02; done
kill -KILL $!
wait $! 2>/dev/null
for i in $(seq 3000); do [ "$(left)" = "left behind: 0" ] && break; sleep 0.02; done
left
