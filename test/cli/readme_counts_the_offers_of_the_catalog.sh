# SPDX-License-Identifier: Apache-2.0
# How many offers of how many providers there are, README says in one place: as many as the catalog has.
work=$(mktemp)
"$GPUHOURS" show offers --json >"$work"
offers=$(grep -c '"provider":' "$work")
providers=$(grep '"provider":' "$work" | sort -u | grep -c .)
rm "$work"
grep -o 'priced on [0-9,]* offers of [0-9]* providers' README.md | tr -d , |
    sed "s/ $offers offers/ all offers/; s/ $providers providers/ all providers/"
