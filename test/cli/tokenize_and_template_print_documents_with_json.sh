# SPDX-License-Identifier: Apache-2.0
printf 'the quick fox\n\nthe\n' | $GPUHOURS tokenize --tokenizer test/data/tokenizers/gpt2.json --json
printf 'the quick fox\n\nthe\n' | $GPUHOURS tokenize --tokenizer test/data/tokenizers/gpt2.json --json --count
printf '[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]' |
    $GPUHOURS template --template chatml --messages - --labels assistant --json
