# SPDX-License-Identifier: Apache-2.0
# Nothing is printed; the log becomes another file in the middle. Lines of an earlier run are not
# counted.
. test/cli/wrapped.inc
echo '{"step": 999, "total_steps": 1000, "loss": 1.5}' >"$work/log.jsonl"
marked "$GPUHOURS" pilot --quiet --json --tokens-per-step 10 --log "$work/log.jsonl" --until-width 0.001 \
    -- "$trainer" rotates 90 20 "$work/log.jsonl" >"$work/out" 2>"$work/err"
grep -c . "$work/log.jsonl" "$work/log.jsonl.1" | sed "s|$work/||"
said "$work/err" | grep -c recognised
left
