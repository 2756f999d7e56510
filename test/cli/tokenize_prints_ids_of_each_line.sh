# SPDX-License-Identifier: Apache-2.0
printf 'the quick fox\n<|endoftext|>\n\nthe' |
    $GPUHOURS tokenize --tokenizer test/data/tokenizers/gpt2.json
printf 'the quick fox\n\nthe\n' |
    $GPUHOURS tokenize --tokenizer test/data/tokenizers/llama3.json --count --special
