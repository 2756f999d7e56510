# SPDX-License-Identifier: Apache-2.0
# Tokens of a step from transformers' state, where its bar has none; steps and their times from an
# event file, where nothing is printed. Files of an earlier run do not count.
. test/cli/wrapped.inc
mkdir -p "$work/state/checkpoint-1" "$work/events"
cp test/data/logs/trainer_state.json "$work/state/checkpoint-1"
"$GPUHOURS" pilot --quiet --json --log "$work/state" -- "$trainer" saves 60 5 "$work/state" 2>/dev/null |
    grep '"tokens":'
cp test/data/logs/events* "$work/events"
"$GPUHOURS" pilot --quiet --json --tokens-per-step 100 --log "$work/events" -- sleep 0.3 2>&1 |
    sed 's/in [0-9.]* m*s;/in TIME;/'
rm "$work/events/"*
"$GPUHOURS" pilot --quiet --json --tokens-per-step 100 --log "$work/events" \
    -- sh -c "sleep 0.2; cat test/data/logs/events* >$work/events/events.out.tfevents.1" 2>"$work/err" |
    sed -n '/"steps"/p; /"mean"/p'
said "$work/err"
