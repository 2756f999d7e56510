# SPDX-License-Identifier: Apache-2.0
# On terminals of 60 to 200 columns no line is longer; colours only on a terminal that wants them; ASCII without UTF-8.
command -v script >/dev/null || { echo "there is no script to make a terminal"; exit 77; }
. test/cli/every_command.inc
export TERM=xterm
escape=$(printf '\033')
screen() { # COLUMNS WORDS... : what a terminal of so many columns gets, without its escape sequences
    wide=$1
    shift
    script -qec "stty cols $wide rows 40; $GPUHOURS $* 2>/dev/null" /dev/null </dev/null | tr -d '\r' >"$work/raw"
    sed "s/$escape\[[0-9;]*m//g" "$work/raw"
}
case $GPUHOURS in */san/*) sweep=: ;; *) sweep=every_text ;; esac # sanitizers see these texts in output_that_cannot_be_written…
fits() {
    for columns in 60 100 200; do
        screen $columns "$@" | sed 's/[^ -~]/x/g' | grep ".\{$((columns + 1))\}" | head -2 >"$work/long"
        [ ! -s "$work/long" ] || { echo "$* at $columns:"; cat "$work/long"; }
    done
}
$sweep fits

echo "-- colours"
coloured() { grep -c "$escape" "$work/raw" | sed 's/^[1-9].*/styled/; s/^0$/plain/'; }
screen 80 plan $job >/dev/null
coloured
NO_COLOR=1 screen 80 plan $job >/dev/null
coloured
TERM=dumb screen 80 plan $job >/dev/null
coloured
(unset TERM; screen 80 plan $job >/dev/null)
coloured
TERM=xterm "$GPUHOURS" plan $job >"$work/raw"
coloured

echo "-- a line that is drawn again"
drawn() {
    rm -rf "$work/out"
    script -qec "$GPUHOURS train --random-weights --model $tiny --data $tiny/rows.jsonl --labels completion --context 64 --max-steps 2 \
        --out $work/out" /dev/null </dev/null | grep -c "$escape\[K" | sed 's/^[1-9].*/drawn/; s/^0$/not drawn/'
}
drawn
TERM=dumb drawn

echo "-- ASCII"
ascii() {
    LC_ALL=C "$GPUHOURS" "$@" >"$work/raw" 2>&1
    rest=$(LC_ALL=C tr -d '\000-\177' <"$work/raw" | wc -c)
    [ "$rest" = 0 ] || { echo "$*: $rest bytes"; LC_ALL=C grep -n '[^ -~]' "$work/raw" | head -2; }
}
$sweep ascii
LC_ALL=C "$GPUHOURS" memory $shape | sed -n '/weights/p'
LC_ALL=C "$GPUHOURS" memory $shape | wc -L >"$work/ascii"
"$GPUHOURS" memory $shape | wc -L | cmp - "$work/ascii" && echo "as wide as before"
"$GPUHOURS" plan $job --ledger off --json >"$work/utf8.json"
LC_ALL=C "$GPUHOURS" plan $job --ledger off --json | cmp - "$work/utf8.json" && echo "the same JSON"
LC_ALL= LC_CTYPE= LANG=de_DE.utf8 "$GPUHOURS" memory $shape | grep -c '█'
COLUMNS=132 "$GPUHOURS" hosts $job | head -1
