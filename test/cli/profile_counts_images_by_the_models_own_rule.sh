# SPDX-License-Identifier: Apache-2.0
# Rows name their images in columns, parts of a content and data URLs; sizes come from the files' headers. Files that are
# missing, broken, elsewhere or of no size are one sentence each.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/data" "$work/data/pictures"
png() { # FILE WIDTH HEIGHT, as four bytes each
    printf '\211PNG\r\n\032\n\0\0\0\rIHDR'"$2$3"'\010\002\0\0\0' >"$1"
}
png "$work/data/pictures/wide.png" '\0\0\004\0' '\0\0\003\0'
png "$work/outside.png" '\0\0\0\012' '\0\0\0\012'
png "$work/data/none.png" '\0\0\0\0' '\073\232\312\0'
printf '\377\330\377\300\0\021\010\377\377\377\377\003' >"$work/data/largest.jpg"
head -c 20 "$work/data/pictures/wide.png" >"$work/data/cut.png"
ln -s ../outside.png "$work/data/link.png"
row() { # FILE IMAGE
    printf '{"images": ["%s"], "messages": [{"role": "user", "content": "<image>What?"}, {"role": "assistant", "content": "A cat."}]}\n' \
        "$2" >"$work/data/$1.jsonl"
}
row rows pictures/wide.png
cat >>"$work/data/rows.jsonl" <<'ROWS'
{"messages": [{"role": "user", "content": [{"type": "image", "image": "pictures/wide.png"}, {"type": "text", "text": "And?"}]}, {"role": "assistant", "content": "A dog."}]}
{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAABAAAAAMACAIAAAA="}}]}, {"role": "assistant", "content": "A cow."}]}
ROWS
for model in qwen2.5-vl-7b qwen3-vl-8b internvl3-8b llava-1.5-7b llava-next-7b gemma-3-4b llama-4-scout pixtral-12b smolvlm; do
    "$GPUHOURS" profile "$work/data/rows.jsonl" --model $model --out "$work/p.json" | sed -n "s/^  images     /$model/p"
done
"$GPUHOURS" profile "$work/data/rows.jsonl" --model llama-3.1-8b --out - | tr -d '\n' | grep -o '"media_examples": [0-9]*'

echo '--- one sentence each'
for name in gone.png none.png cut.png link.png ../outside.png http://example.org/a.png; do
    row one "$name"
    (cd "$work/data" && "$OLDPWD/$GPUHOURS" profile one.jsonl --model qwen2.5-vl-7b --out - 2>&1) | sed 's/; --image-folder.*//'
done
row one largest.jpg
"$GPUHOURS" profile "$work/data/one.jsonl" --model qwen2.5-vl-7b --out "$work/p.json" | grep images
row one gone.png
"$GPUHOURS" profile "$work/data/one.jsonl" --model qwen2.5-vl-7b --image-size 448x448 --out "$work/p.json" | grep images
"$GPUHOURS" profile "$work/data/rows.jsonl" --model qwen2.5-vl-7b --image-max-pixels 589824 --out "$work/p.json" | grep images
"$GPUHOURS" profile "$work/data/rows.jsonl" --model qwen2.5-vl-7b --image-size 0x1000000000 2>&1

echo '--- a profile stands for its images, and merges'
"$GPUHOURS" profile --merge "$work/p.json" "$work/p.json" --out "$work/both.json" | grep images
"$GPUHOURS" plan --profile "$work/both.json" --model qwen2.5-vl-7b --gpu h100 --search off --quiet | grep -o '1 per example, [0-9,]* tokens'
"$GPUHOURS" plan --profile "$work/both.json" --model gemma-3-4b --gpu h100 --search off --quiet 2>&1 | sed "s,$work/,,"
"$GPUHOURS" plan --profile "$work/both.json" --model llama-3.1-8b --gpu h100 --search off --quiet 2>&1 | sed "s,$work/,,"
