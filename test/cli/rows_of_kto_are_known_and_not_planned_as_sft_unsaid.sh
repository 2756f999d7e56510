# SPDX-License-Identifier: Apache-2.0
# Single answers with a label that is true or false, or 1 or 0: profile says so, plan warns or forecasts KTO; other labels are none of that.
folder=$(mktemp -d)
rows() { # file, column, values of even and odd rows
    awk -v column="$2" -v even="$3" -v odd="$4" 'BEGIN {
        for (i = 0; i < 40; i++)
            printf "{\"prompt\": \"Is %d even?\", \"completion\": \"I think that it is.\", \"%s\": %s}\n", i, column, i % 2 ? odd : even
    }' >"$folder/$1"
}
plan() { "$GPUHOURS" plan "$@" --model llama-3.1-8b --gpu h100 --search off --ledger off --quiet 2>&1; }
rows trl.jsonl label true false
rows factory.jsonl kto_tag true false
rows bits.jsonl label 1 0
rows classes.jsonl label 1 2
rows mixed.jsonl label true 3
printf 'prompt,completion,label\nIs 2 even?,It is.,True\nIs 3 even?,It is.,False\n' >"$folder/table.csv"
printf 'prompt,completion,label\nIs 2 even?,It is.,1\nIs 3 even?,It is.,0\n' >"$folder/bits.csv"
printf 'prompt,completion,label\nIs 2 even?,It is.,1\nIs 3 even?,It is.,5\n' >"$folder/classes.csv"
for file in trl.jsonl factory.jsonl bits.jsonl classes.jsonl mixed.jsonl table.csv bits.csv classes.csv; do
    echo "$file"
    "$GPUHOURS" profile "$folder/$file" --out "$folder/profile.json" --quiet | sed -n '/^  data/s/.*: /  /p; /^  columns/p'
    plan "$folder/$file" | grep -A2 verdicts_as_sft
    plan --profile "$folder/profile.json" | grep -c verdicts_as_sft
done
echo objectives
for objective in sft kto dpo; do
    plan "$folder/trl.jsonl" --objective $objective | grep -oE '^llama.*|verdicts_as_sft|for single answers.*'
done
rm -r "$folder"
