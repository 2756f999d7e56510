# SPDX-License-Identifier: Apache-2.0
# Names of the table, whole, cut and with their kind, choose a place; without one it is the recommended.
[ -n "$FAULTS" ] || { echo "below the sanitizers: hosts and launch have tests of their own"; exit 77; }
. test/cli/launch.inc
"$program" hosts --plan plan.json --today 2026-11-01 >table
place() { "$program" launch --plan plan.json --to sky --today 2026-11-01 --json --quiet "$@" -- x 2>said | tr -d '\n' |
    sed 's/.*"provider": "*\([^",]*\)"*, *"instance": "*\([^",]*\)"*,.*"kind": "*\([a-z0-9-]*\)"*, *"gpu".*/\1 \2 \3/'; echo; }
"$program" hosts --plan plan.json --today 2026-11-01 --json | tr -d '\n' |
    sed 's/.*"recommended": \([0-9]*\),.*/\1/' >best
[ "$(place)" = "$(place --offer "$(awk -v row="$(cat best)" 'NR == row + 2 { print $1 "/" $2 "/" $3 }' table)")" ] &&
    echo "the recommendation is taken"
place --offer azure/Standard_ND96isr_H100_v5
place --offer azure/Standard_ND96isr_H100_v5/on-demand
place --offer Standard_ND96isr_H100_v5
place --offer azure/Standard_ND96…v5
place --offer plan
count=0 refused=0
sed -n '2,5p' table >rows
while read -r provider instance kind rest; do
    case $kind in on-demand | spot | reserved* | colocation) ;; *) continue ;; esac
    for name in "$provider/$instance" "$provider/$instance/$kind"; do
        count=$((count + 1))
        "$program" launch --plan plan.json --to script --today 2026-11-01 --quiet --offer "$name" -- x >/dev/null 2>said ||
            { refused=$((refused + 1)); cat said; }
    done
done <rows
[ $count -ge 8 ] && echo "names of the table that were refused: $refused"
