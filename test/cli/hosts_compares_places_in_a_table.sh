# SPDX-License-Identifier: Apache-2.0
# A table within 100 columns, a recommendation with its reason, and what would change it.
table=$(mktemp)
"$GPUHOURS" hosts --model llama-3.1-8b --tokens 21.4M --epochs 3 --gpus 8 --region us-east \
    --provider aws,gcp --deadline 4h --budget 500 --today 2026-11-15 --rows 6 >"$table"
status=$?
awk 'length($0) > 130 { print "too wide: " $0 }' "$table" # bytes; a dash has three
sed -n 1p "$table"
grep -E '^(Recommended|Advice)' "$table"
grep -cE '^(aws|gcp) ' "$table"
tr '\n' ' ' <"$table" | tr -s ' ' |
    grep -oE 'meets the deadline of 4 h 00 min with at least 90 % probability and within the budget of .500'
rm "$table"
exit $status
