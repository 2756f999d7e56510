# SPDX-License-Identifier: Apache-2.0
# The same plan under two names is two entries, each with its own result; planned once more, each stays one.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs() { "$GPUHOURS" runs --ledger "$work/ledger.sqlite" "$@" 2>&1; }
for name in first second first second; do
    "$GPUHOURS" plan --ledger "$work/ledger.sqlite" --name $name --model llama-3.1-8b --tokens 21.4M --gpu h100 --search off --json \
        >"$work/plan.json"
done
runs actual first --gpu-hours 1.1 | grep -E '^(name|measures)' | sed 's/ of [0-9-]*$//'
runs actual second --gpu-hours 1.2 | grep -E '^(name|measures)' | sed 's/ of [0-9-]*$//'
"$GPUHOURS" runs --ledger "$work/ledger.sqlite" export --csv | cut -d, -f1,3,6 | sort
echo "-- a name that begins with a digit"
"$GPUHOURS" plan --ledger "$work/ledger.sqlite" --name 8b --model llama-3.1-8b --tokens 3M --gpu h100 --search off --json >"$work/plan.json"
runs show 8b | grep -E '^name'
echo "-- hours that the plan's GPU cannot take, and a folder"
runs actual first --gpu-hours 100 --wall-hours 1
"$GPUHOURS" runs --ledger "$work" 2>&1 | sed "s|$work|WORK|"
"$GPUHOURS" plan --tokens 1M --model llama-3.1-8b --gpu h100 --search off --quiet --ledger "$work" 2>&1 >/dev/null | sed "s|$work|WORK|"
