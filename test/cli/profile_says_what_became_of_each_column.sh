# SPDX-License-Identifier: Apache-2.0
# Columns that are used and unused, text that is not used, images, and parts that the template drops.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cat > "$folder/dolly.jsonl" <<'ROWS'
{"instruction": "Who?", "context": "A story.", "response": "She.", "category": "qa"}
{"instruction": "Why?", "context": "", "response": "Because.", "category": "qa"}
ROWS
cat > "$folder/essay.jsonl" <<'ROWS'
{"prompt": "Write.", "completion": "Done.", "Essay": "A text that is longer than all the rest of the row.", "score": 7}
ROWS
cat > "$folder/tools.jsonl" <<'ROWS'
{"images": ["a.png"], "tools": [{"name": "f"}], "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "reasoning_content": "hm", "content": "", "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {}}}]}]}
ROWS
for file in dolly essay tools; do
    echo "== $file"
    $GPUHOURS profile "$folder/$file.jsonl" --tokenizer "test/data/small_tokenizer.json" --template chatml --out "$folder/p.json" |
        sed -n '/^  data/p; /^  columns/,/^  tokenizer/p; /^  tokens/p; /^  inspect/,/^  written/p' | grep -v '^  tokenizer\|written' | sed "s|$folder/||"
    grep -A3 '"warnings"' "$folder/p.json"
done
$GPUHOURS plan "$folder/essay.jsonl" --model llama-3.1-8b --gpu h100 --tokenizer test/data/small_tokenizer.json --json 2>&1 > /dev/null | grep -v Forecast
