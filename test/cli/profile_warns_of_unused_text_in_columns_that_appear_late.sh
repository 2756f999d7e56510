# SPDX-License-Identifier: Apache-2.0
# After the first 64 rows, which the format is found by: in lines and lists of JSON, the same in units
# and with threads, also where every row has other keys. Columns that are used are listed too.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
case $GPUHOURS in /*) program=$GPUHOURS ;; *) program=$PWD/$GPUHOURS ;; esac
tokenizer=$PWD/test/data/small_tokenizer.json
cd "$folder" || exit
exec 2>&1
awk 'BEGIN {
    for (i = 0; i < 3000; i++)
        printf("{\"question\": \"How many are %d and %d?\", \"answer\": \"%d\"%s%s}\n", i, i, 2 * i,
            i == 100 ? ", \"system\": \"Add.\"" : "",
            i > 500 ? ", \"working\": \"They are " i " and " i ", so twice as many.\"" : "")
}' > late.jsonl
asked="late.jsonl --tokenizer $tokenizer --template chatml --quiet"
$program profile $asked --threads 1 --json > one.json
sed -n '/"columns"/,/^  \]/p' one.json | grep 'name\|part\|share' | tr -d '\n'
echo
grep unused_text -A1 one.json
$program profile $asked --threads 4 --json | cmp - one.json && echo "the same with four threads"
$program profile $asked --units counted --unit-size 20KiB --json | cmp - one.json && echo "the same in units"
(echo '['; sed '$!s/$/,/' late.jsonl; echo ']') > late.json
$program profile late.json --tokenizer $tokenizer --template chatml --quiet --json | grep -c '"unused_text"'
$program pack $asked --context 64 --out packed --json > packed.json
echo "== every row has other keys"
awk 'BEGIN {
    for (i = 0; i < 3000; i++)
        printf "{\"question\": \"q\", \"answer\": \"a\", \"key %d\": \"v\"}\n", i
}' > many.jsonl
$program profile many.jsonl --tokenizer $tokenizer --template chatml --quiet --json > many.json
grep -c '"name": "key' many.json
$program profile many.jsonl --tokenizer $tokenizer --template chatml --quiet --units many --unit-size 20KiB --json |
    cmp - many.json && echo "the same in units"
