# SPDX-License-Identifier: Apache-2.0
# The models were trained by Debian's spm_train (0.1.97) on the GPL and Vim's tutors: pieces_bpe with
# --model_type=bpe --vocab_size=700 --byte_fallback=true --remove_extra_whitespaces=false
# --user_defined_symbols='<tool>', pieces_unigram with --model_type=unigram --vocab_size=600; on the GPL 3 alone:
# pieces_spaces with --model_type=bpe --vocab_size=400, which collapses runs of spaces, and pieces_char with
# --model_type=char; all with --normalization_rule_name=identity. What is expected is what its spm_encode prints for pieces.txt.
# pieces_symbols has user-defined symbols and pieces of equal score (test/oracles/fixtures.mjs).
for model in pieces_bpe pieces_unigram pieces_spaces pieces_char pieces_symbols; do
    $GPUHOURS tokenize --tokenizer test/data/tokenizers/$model.model test/data/tokenizers/pieces.txt
done
