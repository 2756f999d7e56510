# SPDX-License-Identifier: Apache-2.0
# Export and import, twice: nothing is doubled, nothing lost; a whole ledger can be imported, too.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" plan --model llama-3.1-8b --tokens 5M --gpu h100 --ledger "$work/a.sqlite" >/dev/null
"$GPUHOURS" runs actual 1 --gpu-hours 1.5 --ledger "$work/a.sqlite" >/dev/null
"$GPUHOURS" runs export --ledger "$work/a.sqlite" >"$work/a.json"
"$GPUHOURS" runs import "$work/a.json" --ledger "$work/b.sqlite"
"$GPUHOURS" runs import "$work/a.json" --ledger "$work/b.sqlite"
"$GPUHOURS" runs import "$work/a.sqlite" --ledger "$work/b.sqlite"
"$GPUHOURS" runs import "$work/a.sqlite" --ledger "$work/c.sqlite"
for other in b c; do
    "$GPUHOURS" runs export --ledger "$work/$other.sqlite" | sed 's/"id": [0-9]*/"id": N/' >"$work/$other.json"
done
sed 's/"id": [0-9]*/"id": N/' "$work/a.json" | cmp - "$work/b.json" && cmp "$work/b.json" "$work/c.json" && echo the same
"$GPUHOURS" runs export --csv --ledger "$work/c.sqlite" | cut -d, -f3,9-14
"$GPUHOURS" runs delete 1 --ledger "$work/c.sqlite" | sed 's/ of .*//'
"$GPUHOURS" runs --json --ledger "$work/c.sqlite" | grep -c '"uid"'
