// SPDX-License-Identifier: Apache-2.0
#include "test/test.h"
#include "train/decoder.h"

#include <math.h>
#include <string.h>

static enum err read_with(struct decoder *out, const char *kind, const char *more)
{
    const char *json = text_format(
        &test_arena,
        "{\"model_type\": \"%s\", \"hidden_size\": 64, \"num_hidden_layers\": 4, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"intermediate_size\": 48, "
        "\"vocab_size\": 61, \"max_position_embeddings\": 64%s}",
        kind, more);
    return decoder_read(out, &test_arena, text_of(json), "config.json");
}

TEST(decoder_reads_plain_positions)
{
    struct decoder d;
    CHECK(!read_with(&d, "llama", ", \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-5"));
    CHECK(d.model.head_size == 16 && d.norm_epsilon == 1e-5);
    CHECK(d.frequencies[0] == 1);
    CHECK_NEAR(d.frequencies[4], 0.01, 1e-12); // 10000^(-8/16)
}

TEST(decoder_reads_scaled_positions)
{
    struct decoder plain, linear, smooth;
    CHECK(!read_with(&plain, "llama", ", \"rope_theta\": 500000.0"));
    CHECK(!read_with(&linear, "llama",
                     ", \"rope_theta\": 500000.0, \"rope_scaling\": {\"type\": \"linear\", "
                     "\"factor\": 4}"));
    CHECK(!read_with(&smooth, "llama",
                     ", \"rope_parameters\": {\"rope_theta\": 500000.0, \"rope_type\": \"llama3\", "
                     "\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
                     "\"original_max_position_embeddings\": 8192}"));
    for (int i = 0; i < 8; i++) {
        double wave = 6.283185307179586 / plain.frequencies[i];
        CHECK_NEAR(linear.frequencies[i], plain.frequencies[i] / 4, 1e-12);
        if (wave < 8192.0 / 4) // shorter than a quarter of the training window: untouched
            CHECK_NEAR(smooth.frequencies[i], plain.frequencies[i], 1e-12);
        if (wave > 8192)
            CHECK_NEAR(smooth.frequencies[i], plain.frequencies[i] / 8, 1e-12);
    }
}

TEST(decoder_refuses_what_the_engine_cannot_run)
{
    struct decoder d;
    CHECK(read_with(&d, "olmo2", "") == ERR_INPUT);
    CHECK(strstr(error_text(), "olmo2"));
    CHECK(read_with(&d, "llama", ", \"hidden_act\": \"relu2\"") == ERR_INPUT);
    CHECK(strstr(error_text(), "relu2"));
    CHECK(read_with(&d, "phi3", ", \"partial_rotary_factor\": 1.5") == ERR_INPUT);
    CHECK(read_with(&d, "phi3", ", \"partial_rotary_factor\": 9e19") == ERR_INPUT);
    CHECK(read_with(&d, "qwen3_moe", ", \"num_experts\": 0") == ERR_INPUT);
    CHECK(strstr(error_text(), "no experts"));
    CHECK(read_with(&d, "gemma2",
                    ", \"text_config\": {\"model_type\": \"gemma3_text\", \"hidden_size\": 32, "
                    "\"intermediate_size\": 48, \"num_hidden_layers\": 2}") == ERR_INPUT);
    CHECK(strstr(error_text(), "text_config"));
    CHECK(read_with(&d, "llama", ", \"attention_bias\": true") == ERR_INPUT);
    CHECK(read_with(&d, "llama", ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}") ==
          ERR_INPUT);
    CHECK(strstr(error_text(), "yarn"));
    CHECK(read_with(&d, "llama",
                    ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4}") == ERR_INPUT);
}

TEST(decoder_written_reads_back)
{
    struct decoder d, back;
    CHECK(!read_with(&d, "qwen3",
                     ", \"head_dim\": 32, \"tie_word_embeddings\": true, \"rope_theta\": 1000.0, "
                     "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2}"));
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    decoder_write(&d, &w, "float32");
    CHECK(!decoder_read(&back, &test_arena, out_view(&out), "written"));
    CHECK(!strcmp(back.architecture->type, "qwen3") && back.model.head_size == 32);
    CHECK(back.model.tied_embeddings && back.model.qk_norm == MODEL_QK_HEAD);
    for (int i = 0; i < 16; i++)
        CHECK(back.frequencies[i] == d.frequencies[i]);
}

#define EXPERTS                                                                    \
    ", \"num_experts\": 6, \"num_local_experts\": 6, \"num_experts_per_tok\": 3, " \
    "\"moe_intermediate_size\": 20, \"mlp_only_layers\": [0], \"decoder_sparse_step\": 1"

TEST(decoder_weighs_experts_as_its_config_says)
{
    struct decoder d;
    CHECK(!read_with(&d, "mixtral", EXPERTS));
    CHECK(d.normalises_experts && d.balance == 0);
    CHECK(!read_with(&d, "qwen3_moe", EXPERTS));
    CHECK(!d.normalises_experts); // what transformers assumes; published configs set it
    CHECK(!read_with(&d, "qwen3_moe", EXPERTS ", \"norm_topk_prob\": true"));
    CHECK(d.normalises_experts);
    CHECK(!read_with(&d, "mixtral", EXPERTS ", \"output_router_logits\": true"));
    CHECK(d.balance == 0.001);
}

TEST(decoder_with_experts_written_reads_back)
{
    static const char *const kinds[] = { "mixtral", "qwen3_moe" };
    for (int i = 0; i < 2; i++) {
        struct decoder d, back;
        CHECK(!read_with(&d, kinds[i],
                         EXPERTS ", \"norm_topk_prob\": true, \"output_router_logits\": true, "
                                 "\"router_aux_loss_coef\": 0.02"));
        struct out out = { .arena = &test_arena };
        struct json_writer w = { .out = &out };
        decoder_write(&d, &w, "float32");
        CHECK(!decoder_read(&back, &test_arena, out_view(&out), "written"));
        CHECK(!strcmp(back.architecture->type, kinds[i]) && back.model.experts == 6);
        CHECK(back.model.experts_active == 3 && back.model.expert_width == d.model.expert_width);
        CHECK(back.model.dense_layers == d.model.dense_layers && back.balance == 0.02);
        CHECK(back.normalises_experts);
    }
}

TEST(decoder_gives_windows_to_the_later_layers)
{
    struct decoder d;
    CHECK(!read_with(&d, "mistral", ", \"sliding_window\": 16"));
    CHECK(decoder_window(&d, 0) == 16);
    CHECK(!read_with(&d, "qwen2",
                     ", \"use_sliding_window\": true, \"sliding_window\": 16, "
                     "\"max_window_layers\": 3"));
    CHECK(decoder_window(&d, 2) == 0 && decoder_window(&d, 3) == 16);
    CHECK(!read_with(&d, "qwen2", ", \"use_sliding_window\": false, \"sliding_window\": 16"));
    CHECK(decoder_window(&d, 3) == 0);
}

TEST(decoder_spreads_the_windows_of_gemma_and_rotates_them_apart)
{
    struct decoder d;
    CHECK(!read_with(&d, "gemma2", ", \"head_dim\": 16, \"sliding_window\": 8"));
    CHECK(decoder_window(&d, 0) == 8 && decoder_window(&d, 1) == 0 && decoder_window(&d, 2) == 8);
    CHECK(d.attention_cap == 50 && d.logit_cap == 30 && d.attention_scale == 1 / 16.0);
    CHECK(d.embedding_scale == 8);
    CHECK(!read_with(&d, "gemma2", ", \"attn_logit_softcapping\": null"));
    CHECK(d.attention_cap == 0);
    CHECK(!read_with(&d, "gemma3_text",
                     ", \"head_dim\": 16, \"sliding_window\": 8, \"rope_scaling\": {\"rope_type\": "
                     "\"linear\", \"factor\": 8}, \"layer_types\": [\"full_attention\", "
                     "\"sliding_attention\", \"sliding_attention\", \"sliding_attention\"]"));
    CHECK(decoder_window(&d, 0) == 0 && decoder_window(&d, 3) == 8);
    CHECK(decoder_rotation(&d, 0, 9) == ROTATION_USUAL);
    CHECK(decoder_rotation(&d, 3, 9) == ROTATION_OTHER);
    CHECK_NEAR(d.frequencies[4], 1e-3 / 8, 1e-12); // theta 10⁶, stretched
    CHECK_NEAR(d.frequencies[8 + 4], 1e-2, 1e-12); // theta 10⁴, as it is
}

TEST(decoder_rotates_documents_beyond_the_trained_length_by_other_factors)
{
    struct decoder d, back;
    const char *config =
        ", \"partial_rotary_factor\": 0.25, \"original_max_position_embeddings\": 16, "
        "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 2], \"long_factor\": [4, "
        "8]}";
    CHECK(!read_with(&d, "phi3", config));
    CHECK(d.rotary_size == 4 && d.frequencies[1] == 0.01 / 2 && d.frequencies[3] == 0.01 / 8);
    CHECK(decoder_rotation(&d, 0, 16) == ROTATION_USUAL);
    CHECK(decoder_rotation(&d, 0, 17) == ROTATION_OTHER);
    CHECK_NEAR(d.rotary_scale, sqrt(1.5), 1e-12); // 64 positions of 16: 1 + log 4 / log 16
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    decoder_write(&d, &w, "float32");
    CHECK(!decoder_read(&back, &test_arena, out_view(&out), "written"));
    CHECK(back.frequencies[3] == d.frequencies[3] && back.rotary_scale == d.rotary_scale);
    CHECK(read_with(&d, "phi3",
                    ", \"original_max_position_embeddings\": 16, \"rope_scaling\": {\"type\": "
                    "\"longrope\", \"short_factor\": [1, 2], \"long_factor\": [4, 8]}") ==
          ERR_INPUT); // a head has eight pairs
}

// With the numbers of its published config.json.
TEST(decoder_of_gpt_oss_stretches_slow_turns_alone_and_reads_back)
{
    struct decoder d, back;
    CHECK(!read_with(&d, "gpt_oss",
                     EXPERTS ", \"head_dim\": 64, \"rope_theta\": 150000, \"swiglu_limit\": 7.0, "
                             "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 32.0, "
                             "\"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false, "
                             "\"original_max_position_embeddings\": 4096}"));
    CHECK(d.swiglu.slope == 1.702 && d.swiglu.offset == 1 && d.swiglu.limit == 7);
    CHECK(decoder_window(&d, 0) == 128 && decoder_window(&d, 1) == 0);
    CHECK_NEAR(d.rotary_scale, 0.1 * log(32) + 1, 1e-12);
    CHECK(d.frequencies[0] == 1); // turns often
    CHECK_NEAR(d.frequencies[8], pow(150000, -8 / 32.0), 1e-12);
    CHECK_NEAR(d.frequencies[31], pow(150000, -31 / 32.0) / 32, 1e-12);
    double first = 32 * log(4096 / (32 * 6.283185307179586)) / log(150000);
    double last = 32 * log(4096 / 6.283185307179586) / log(150000);
    double part = (12 - first) / (last - first);
    CHECK_NEAR(d.frequencies[12], pow(150000, -12 / 32.0) * (part / 32 + 1 - part), 1e-12);
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    decoder_write(&d, &w, "bfloat16");
    CHECK(!decoder_read(&back, &test_arena, out_view(&out), "written"));
    CHECK(back.frequencies[12] == d.frequencies[12] && back.rotary_scale == d.rotary_scale);
    CHECK(back.model.experts == 6 && back.model.out_bias && back.model.attention_sinks);
    CHECK(read_with(&d, "gpt_oss",
                    EXPERTS
                    ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2, "
                    "\"mscale\": 1.0, \"original_max_position_embeddings\": 64}") == ERR_INPUT);
    CHECK(strstr(error_text(), "yarn with mscale"));
}

TEST(decoder_of_gemma_written_reads_back)
{
    struct decoder d, back;
    CHECK(!read_with(&d, "gemma2", ", \"head_dim\": 16, \"sliding_window\": 8"));
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    decoder_write(&d, &w, "float32");
    CHECK(!decoder_read(&back, &test_arena, out_view(&out), "written"));
    CHECK(back.attention_cap == 50 && back.attention_scale == d.attention_scale);
    for (int i = 0; i < 4; i++)
        CHECK(decoder_window(&back, i) == decoder_window(&d, i));
}
