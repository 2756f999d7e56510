# SPDX-License-Identifier: Apache-2.0
# A date without a day was printed as the 0th, after a read outside of a table.
for date in 2026-02-28 2026-02 2026; do
    echo '[{"role": "user", "content": "Hi"}]' |
        $GPUHOURS template --template test/data/templates/dates.jinja --messages - --date $date 2>&1
    echo
done
exit 0
