# SPDX-License-Identifier: Apache-2.0
# Every example of every command's help runs, one after another in one folder, as a reader would type
# them. The folder holds the files that the examples take for granted; torchrun is a stand-in.
[ -n "$FAULTS" ] || { echo "below the sanitizers: every command has tests of its own"; exit 77; }
program=$(cd "$(dirname "$GPUHOURS")" && pwd)/$(basename "$GPUHOURS")
trainer=$(cd "${STAND_INS:-build/fast/stand_in}" && pwd)/trainer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$program" "$work/bin/gpuhours"
printf '#!/bin/sh\nexec %s trains 120 10\n' "$trainer" >"$work/bin/torchrun"
chmod +x "$work/bin/torchrun"
cp test/data/tiny_model/rows.jsonl "$work/train.jsonl"
cp test/data/plan/pairs.jsonl "$work/pairs.jsonl"
cp test/data/logs/transformers.log "$work/train.log"
cp test/data/from/axolotl.yml "$work/axolotl.yml"
(head -1 data/runs.csv; grep ',lora,' data/runs.csv | head -5) >"$work/measured.csv"
echo '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]' >"$work/chat.json"
printf 'one line\nand another\n' >"$work/notes.txt"
random=$("$GPUHOURS" help train | grep -o -- --random-weights | head -1) # the small model has no weights
"$GPUHOURS" train $random --model test/data/tiny_model --data "$work/train.jsonl" --method full --context 64 --max-steps 1 \
    --quiet --ledger off --out "$work/model" >/dev/null || exit 1
cp test/data/tiny_model/tokenizer* "$work/model"
cd "$work" || exit 1
PATH=$work/bin:$PATH
export PATH TMPDIR="$work"
count=0
for command in $(gpuhours help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
    gpuhours help "$command" | sed -n '/^Examples:/,$ s/^  \(gpuhours .*\)/\1/p' >examples
    [ -s examples ] || echo "$command has no example"
    while read -r line; do
        count=$((count + 1))
        sh -c "$line" </dev/null >said 2>&1
        code=$?
        case "$code $line" in
        0*) ;;
        "1 gpuhours pilot"*) ;; # on a busy machine the speed may not settle
        *) echo "exit $code: $line"; tail -3 said ;;
        esac
    done <examples
done
[ $count -ge 30 ] && echo "30 examples or more" || echo "$count examples"
