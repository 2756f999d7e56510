# SPDX-License-Identifier: Apache-2.0
# A tokenizer file without a template beside it: the model's template is used as without the file.
# Without a model no template is known, and the error says how to name one.
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
echo '{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}' \
    >"$folder/chat.jsonl"
cp test/data/small_tokenizer.json "$folder/tokenizer.json"
for model in '--model llama-3.1-8b' '--model qwen3-8b' ''; do
    echo "${model:-no model}"
    # shellcheck disable=SC2086 # two words
    $GPUHOURS profile "$folder/chat.jsonl" $model --tokenizer "$folder/tokenizer.json" --out "$folder/profile.json" 2>&1 |
        grep template | sed "s|$folder/||"
done
