# SPDX-License-Identifier: Apache-2.0
# The settings beside a model's config.json change the tokens of an image in profile, plan and memory; a file that no
# processor could use is one sentence.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/model"
cat >"$work/model/config.json" <<'CONFIG'
{"model_type": "qwen2_5_vl", "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16,
 "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": true, "max_position_embeddings": 128000,
 "vision_config": {"depth": 32, "hidden_size": 1280, "num_heads": 16, "intermediate_size": 3420, "patch_size": 14}}
CONFIG
count() {
    "$GPUHOURS" plan --model "$work/model" --images 1 --image-size 2000x1500 --examples 1000 --mean-length 200 --gpu h100 \
        --search off --quiet 2>&1 | sed "s,$work/,," | grep -o -E '1 per example, [0-9,]* tokens|preprocessor_config.json: .*'
}
count
printf '{"min_pixels": 3136, "max_pixels": 1003520}' >"$work/model/preprocessor_config.json"
count
printf '{"image_processor": {"size": {"shortest_edge": 3136, "longest_edge": 200704}}}' >"$work/model/processor_config.json"
rm "$work/model/preprocessor_config.json"
count
printf '{"max_pixels": -1}' >"$work/model/preprocessor_config.json"
count
