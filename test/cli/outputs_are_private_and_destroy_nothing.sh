# SPDX-License-Identifier: Apache-2.0
# profile --lengths writes through links and FIFOs, and follows no link that was planted beside its name; what holds
# text of the user (packed tokens) is for its owner alone.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
rows=$OLDPWD/test/data/tiny_model/rows.jsonl program=$(cd "$OLDPWD" && realpath "$GPUHOURS")
umask 022

echo precious >victim
ln -s victim lengths.csv.part
"$program" profile "$rows" --quiet --lengths lengths.csv >/dev/null && cat victim && head -n 1 lengths.csv

echo former >target && chmod 600 target && ln -s target link
"$program" profile "$rows" --quiet --lengths link >/dev/null
stat -c '%F %a' link target && head -n 1 target

mkfifo fifo
head -n 1 fifo &
"$program" profile "$rows" --quiet --lengths fifo >/dev/null
wait && stat -c %F fifo

"$program" profile "$rows" --quiet --lengths no/such.csv 2>&1 >/dev/null
"$program" pack "$rows" --model "$OLDPWD/test/data/tiny_model" --context 64 --quiet --out packed >/dev/null
stat -c "%n %a" packed
