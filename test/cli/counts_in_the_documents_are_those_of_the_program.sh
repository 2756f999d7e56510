# SPDX-License-Identifier: Apache-2.0
# README and guide name how many measured runs and offers there are.
commas() { sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta'; }
set -- $("$GPUHOURS" validate --ledger off | grep -oE '^[0-9]+ runs, [0-9]+ usable' | grep -oE '[0-9]+' | commas)
for file in README.md docs/guide.md; do
    grep -c "$1 measured runs" $file
    grep -c "$2" $file
done
grep -c "$("$GPUHOURS" show offers --json | grep -c '"instance":') offers of" README.md
