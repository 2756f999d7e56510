# SPDX-License-Identifier: Apache-2.0
# An image that a row names is read only where it is a regular file in the folder: a FIFO is refused, not waited for.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkfifo "$work/image.png"
echo '{"messages":[{"role":"user","content":[{"type":"image","image":"image.png"}]},{"role":"assistant","content":"x"}]}' >"$work/rows.jsonl"
timeout -s KILL 20 "$GPUHOURS" profile "$work/rows.jsonl" --model qwen2.5-vl-7b --quiet 2>&1 | sed "s|$work|DIR|g"
