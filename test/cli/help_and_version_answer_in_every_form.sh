# SPDX-License-Identifier: Apache-2.0
# help, help COMMAND, COMMAND --help and --version; a mistyped command names the nearest.
export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$GPUHOURS" help >"$work/guide"
"$GPUHOURS" --help | cmp - "$work/guide" && head -1 "$work/guide"
"$GPUHOURS" help merge >"$work/merge"
"$GPUHOURS" merge --help | cmp - "$work/merge" && cat "$work/merge"
"$GPUHOURS" --help merge | cmp - "$work/merge"
"$GPUHOURS" --version | sed "s/$(cat VERSION)/VERSION/; s/(.*, features: /(REVISION, features: /; s/ yes/ YESNO/g; s/ no/ YESNO/g"
"$GPUHOURS" help exit-codes | head -4
"$GPUHOURS" help environment | grep -o 'XDG_DATA_HOME'
"$GPUHOURS" memry
echo "exit $?"
"$GPUHOURS" help memry
echo "exit $?"
"$GPUHOURS" memory --help | grep -cE -- '--(deadline|budget|retries|epochs|data) '
"$GPUHOURS" memory --model llama-3.1-8b --retries 3
echo "exit $?"
