# SPDX-License-Identifier: Apache-2.0
# Logs that cannot be true, or not of the plan: each is refused, or named in the result, in the plan and for the ledger.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" plan --model llama-3.2-1b --stack hf-peft --method lora --tokens 20M --gpu h200 --context 2048 --batching packed \
    --micro-batch 4 --global-batch 4 --search off --json --ledger off --quiet >"$work/plan.json"
log() { # STEP SECONDS COUNTER [MORE]: of the i-th line; what is empty is left out
    awk "function put(name, value) { if (value != \"\") printf \"%s\\\"%s\\\": %s\", n++ ? \", \" : \"{\", name, value }
         BEGIN { for (i = 1; i <= ${lines:-60}; i++) { n = 0; put(\"step\", sprintf(\"%.0f\", $1)); put(\"loss\", 1.5)
                 put(\"wall_time\", $2); put(\"num_input_tokens_seen\", $3); print \"${4:+, $4}}\" } }"
}
show() { # NAME, the log on standard input
    cat >"$work/$1.jsonl"
    rm -f "$work/pilot.json" "$work/ledger"
    echo "-- $1"
    "$GPUHOURS" pilot --plan "$work/plan.json" --log "$work/$1.jsonl" --out "$work/pilot.json" --ledger "$work/ledger" --quiet \
        >"$work/out" 2>"$work/err"
    echo "exit $?; $(sed -n 's/^  speed  *\([0-9,]* tokens.s\).*/\1/p' "$work/out"); ledger: $("$GPUHOURS" runs export --ledger "$work/ledger" 2>/dev/null |
        grep -c '"kind": "pilot"')"
    sed "s|$work/||g" "$work/err" | cut -c1-160
    sed -n '/^  DOUBTFUL/,/^  [a-z]/p; /^  NOT STEADY/,/^  [a-z]/p' "$work/out" | grep -v '^  [a-z]'
    [ ! -e "$work/pilot.json" ] || "$GPUHOURS" plan --pilot "$work/pilot.json" --search off --ledger off 2>&1 |
        sed -n "s|$work/||; /^gpuhours/p; s/^  \(pilot_[a-z_]*\):.*/  plan warns: \1/p"
}
second='sprintf("%.2f", 1.7e9 + i / 5)'
log i "$second" '8192 * i' | show sound
log i 'sprintf("%.2f", 1.7e9 + i / 5 - (i > 30 ? 6 : 0))' '8192 * i' | show times_go_back
log i '"NaN"' '"NaN"' '\"seconds\": NaN' | show not_a_number
log i "$second" '""' '\"tokens_per_second\": -32000' | show negative_tokens_per_second
log i "$second" '-8192 * i' | show negative_counter
log 'i * 1e9' "$second" '8192 * i' | show billions_of_steps
log i "$second" '8192 * i' >"$work/rank0"
log i "$second" '4096 * i' | paste -d '\n' "$work/rank0" - | show two_ranks_that_disagree
log 'i > 20 ? i - 20 : 1' "$second" '8192 * (i > 20 ? i - 20 : 1)' | paste -d '\n' "$work/rank0" - | show a_rank_that_is_behind
log i 'sprintf("%.2f", 1.7e9 + 2.5 * i)' '131072 * i' | show another_run
log i "$second" '""' '\"tokens_per_second\": 900000' | show reports_above_the_peak
log i "$second" '""' '\"tokens_per_second\": 4096' | show reports_a_tenth_of_the_plans_tokens
log i 'sprintf("%.2f", 1.7e9 + i / 50)' '8192 * i' | show steps_above_the_peak
log i 'sprintf("%.2f", 1.7e9 + 250 * i)' '8192 * i' | show milliseconds_for_seconds
lines=5 log i 'sprintf("%.2f", 1.7e9 + 3 * i)' '8192 * i' | show only_a_warm_up
: | show empty
