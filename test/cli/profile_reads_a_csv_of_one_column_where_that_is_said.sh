# SPDX-License-Identifier: Apache-2.0
# A header of one word looks like a line of text. The name x.csv says what it is; without a name --format csv does, and where
# neither does, the program says how it reads it.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
program=$(realpath "$GPUHOURS")
tokenizer=$PWD/test/data/small_tokenizer.json
cd "$folder" || exit
profile() {
    "$program" profile "$@" --tokenizer "$tokenizer" --template chatml --json 2> errors |
        grep -E '^  "(examples|tokens|format)"' | tr -d '\n'
    echo
    cat errors
}
printf 'text\n"How, then?"\n"Because, and\n""so""."\n' > named.csv
cp named.csv unnamed
echo "named:"; profile named.csv
echo "from standard input, said to be CSV:"; profile - --format csv < named.csv
echo "without a name, said to be CSV:"; profile unnamed --format csv
echo "from standard input:"; profile - < named.csv
echo "from standard input, said to be text:"; profile - --format text < named.csv
echo "with a column of another name:"; sed '1s/text/review/' named.csv | profile - --format csv --fields text=review
sed '1s/text/review/' named.csv | profile - --fields text=review
echo "text that has no header:"; printf 'Once upon\na time\n' | profile -
printf 'Once upon\na time\n' | profile - --fields text=review
echo "in parts:"; "$program" profile unnamed --format csv --units parts --unit-size 8 --template chatml 2>&1 | head -n 1
"$program" profile named.csv --units others --unit-size 8 --template chatml --quiet | head -n 1
