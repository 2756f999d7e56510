# SPDX-License-Identifier: Apache-2.0
# Whatever is wrong with the ledger, a plan is printed and exits as it would without.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap '' XFSZ
asked="plan --model llama-3.1-8b --tokens 5M --gpu h100"
"$GPUHOURS" $asked --ledger off >"$work/plain"
try() { # WORDS THEN A COMMAND
    echo "--- $1"
    shift
    "$@" >"$work/out" 2>"$work/said"
    code=$?
    cmp -s "$work/out" "$work/plain" && echo "the same plan, exit $code"
    sed "s|$work|WORK|g" "$work/said"
}
echo 'not a database' >"$work/notes.txt"
try 'a file that is no ledger' "$GPUHOURS" $asked --ledger "$work/notes.txt"
cat "$work/notes.txt"
mkdir -p "$work/home/gpuhours"
echo 'not a database' >"$work/home/gpuhours/ledger.sqlite"
try 'a damaged ledger' env XDG_DATA_HOME="$work/home" "$GPUHOURS" $asked
try 'the new one' env XDG_DATA_HOME="$work/home" "$GPUHOURS" $asked
try 'no folder, not asked for' env XDG_DATA_HOME=/dev/null "$GPUHOURS" $asked
try 'no folder, asked for' "$GPUHOURS" $asked --ledger /dev/null/ledger
try 'no home' env -u XDG_DATA_HOME -u HOME "$GPUHOURS" $asked
full() { (ulimit -f 8 && "$GPUHOURS" $asked --ledger "$work/full.sqlite"); }
try 'a full disk' full
echo "--- does not fit"
"$GPUHOURS" plan --model llama-3.1-70b --method full --tokens 5M --gpu t4 --gpus 1 --ledger /dev/null/x >/dev/null 2>"$work/said"
echo "exit $?"
sed "s|$work|WORK|g" "$work/said"
