# SPDX-License-Identifier: Apache-2.0
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder" || exit 1
{ head -3 "$OLDPWD/data/example.jsonl"; echo '{"messages": "hello"}'; tail -2 "$OLDPWD/data/example.jsonl"; } > rows.jsonl
case $GPUHOURS in /*) ;; *) GPUHOURS=$OLDPWD/$GPUHOURS ;; esac
$GPUHOURS profile rows.jsonl --tokenizer "$OLDPWD/test/data/small_tokenizer.json" --template chatml
