# SPDX-License-Identifier: Apache-2.0
# A pilot's document keeps how many tokens its plan had, so that plan --pilot needs no other option; one
# that was made without a plan says what to add.
program=$(realpath "$GPUHOURS")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp test/data/pilot/h200_8b_lora.json "$work/none.json"
cd "$work" || exit 1
sed 's/"context": 4096,/"context": 4096, "planned_tokens": 21400000, "planned_padding_share": 0,/' none.json >pilot.json
"$program" plan --pilot pilot.json --epochs 3 --search off | sed -n '1p;/^  GPU hours/p;/^  run /p'
"$program" plan --pilot pilot.json --explain | sed -n '/^9 /,$p' | grep -A 1 '^  tokens '
echo "without"
"$program" plan --pilot none.json --epochs 3 2>&1
echo "exit $?"
