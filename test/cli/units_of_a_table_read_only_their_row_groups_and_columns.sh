# SPDX-License-Identifier: Apache-2.0
# Parquet and Arrow files are cut into units at row groups and record batches. Of a Parquet file on a server only the columns that
# are trained on are fetched, each row group by one unit; a bad row has its number in the file.
command -v python3 > /dev/null || { echo "python3 is not installed"; exit 77; }
PATH=$PATH:/sbin ldconfig -p | grep -q 'libcurl[a-z-]*.so.4' || { echo "libcurl4 is not installed"; exit 77; }
work=$(mktemp -d)
trap 'exec 9>&-; rm -rf "$work"' EXIT
mkdir -p "$work/files/data"
python3 test/stand_ins/write_parquet.py "$work/files/data/wide.parquet" 12 100 10000
mkfifo "$work/end" "$work/port"
python3 test/stand_ins/object_store.py "$work/files" 100 < "$work/end" > "$work/port" &
exec 9> "$work/end"
read -r port < "$work/port"
export AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=secret/Key+OfTheTest/0123456789abcdefghij AWS_REGION=eu-west-1 AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port HOME=$work
profile() { "$GPUHOURS" profile "$@" --tokenizer test/data/small_tokenizer.json --template plain --ledger off --quiet --bad-rows skip > "$work/text" 2>&1 || cat "$work/text"; }
served() { # WHAT PERCENT: of the file, at most
    bytes=$(python3 -c "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:$port/served').read().decode())")
    [ $((bytes * 100)) -le $(($2 * $(wc -c < "$wide"))) ] && echo "$1: at most $2 % of the file" || echo "$1: $bytes bytes"
}
wide=$work/files/data/wide.parquet
profile "$wide" --out "$work/disk.json" --lengths "$work/disk.csv"
profile s3://data/wide.parquet --out "$work/store.json" --lengths "$work/store.csv"
served "by column" 10
cmp "$work/disk.csv" "$work/store.csv" && echo "the same lengths"
profile "$wide" --units "$work/disk" --unit-size 2MB --out "$work/units.json"
cmp "$work/disk.json" "$work/units.json" && echo "$(ls "$work/disk" | grep -c unit$) units of a file: the same profile"
profile s3://data/wide.parquet --units "$work/store" --unit-size 2MB --shard 4/7
served "one of 7 units, the first page of each column twice" 20
profile s3://data/wide.parquet --units "$work/store" --unit-size 2MB --out "$work/units.json"
cmp "$work/store.json" "$work/units.json" && echo "$(ls "$work/store" | grep -c unit$) units of an object: the same profile"
for file in rows.arrow rows.feather rows.parquet; do
    profile test/data/$file --out "$work/one.json"
    profile test/data/$file --units "$work/$file" --unit-size 1KB --out "$work/units.json"
    cmp "$work/one.json" "$work/units.json" && echo "$file: $(ls "$work/$file" | grep -c unit$) units, the same profile"
done
for share in 1 2 3 4 5 6 7; do
    "$GPUHOURS" profile test/data/rows.arrow --format text --tokenizer test/data/small_tokenizer.json --template plain --ledger off --quiet --units "$work/bad" --unit-size 1KB --shard $share/7 2>&1 | sed -n '/rows.arrow/p'
done
