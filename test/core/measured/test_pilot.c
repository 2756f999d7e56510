// SPDX-License-Identifier: Apache-2.0
#include "core/measured/pilot.h"

#include "base/rng.h"
#include "test/test.h"

#include <math.h>
#include <string.h>

static struct pilot measured(void)
{
    struct pilot pilot;
    pilot_clear(&pilot);
    pilot.tokens_per_s = (struct pilot_rate){ 9120, 9080, 9160 };
    pilot.warmup_steps = 3, pilot.steps = 120, pilot.steady = true;
    pilot.step_seconds = (struct pilot_seconds){ 7.2, 7.1, 7.19, 7.3, 7.6, 8.1 };
    pilot.fit = (struct pilot_fit){ 0.01, 1e-4, 2e-9, 3e-6, 0.004, 480, 4000, 4096, 120, 900 };
    pilot.composition = (struct pilot_composition){ 65536, 1.2e7, 40000 };
    pilot.peak_bytes = 41e9;
    pilot.gpu.name = "NVIDIA H200", pilot.gpu.count = 1;
    pilot.stack = pilot.configuration.stack = "hf-peft";
    pilot.configuration.model = "llama-3.1-8b";
    pilot.configuration.gpu = "h200-sxm";
    pilot.configuration.gpus = 1;
    pilot.configuration.recipe.rank = 64;
    return pilot;
}

static const char *document(const struct pilot *pilot)
{
    struct out out = { .arena = &test_arena };
    pilot_write(pilot, &out);
    return out_string(&out);
}

TEST(pilot_written_reads_back_as_the_same_document)
{
    struct pilot pilot = measured(), back;
    const char *written = document(&pilot);
    CHECK(pilot_read(&back, &test_arena, text_of(written), "pilot.json") == OK);
    CHECK(!strcmp(document(&back), written));
    CHECK(back.configuration.recipe.rank == 64 && back.fit.seconds_per_square == 2e-9);
    CHECK(isnan(back.gpu.power_watts) && isnan(back.stalls.data_seconds) && !back.verdict);
}

TEST(pilot_has_the_keys_that_others_rely_on)
{
    struct pilot pilot = measured();
    struct json tree;
    CHECK(json_read(&tree, &test_arena, text_of(document(&pilot)), "t") == OK);
    CHECK(text_is(json_get_text(&tree, "kind"), "pilot"));
    CHECK(json_get_number(&tree, "version", 0) == 1);
    const struct json *rate = json_get(&tree, "tokens_per_second");
    CHECK(json_get_number(rate, "mean", 0) == 9120 && json_get_number(rate, "low", 0) == 9080);
    CHECK(json_get_number(rate, "high", 0) == 9160);
    CHECK(json_get_number(&tree, "warmup_steps", 0) == 3 && json_get_number(&tree, "steps", 0) > 3);
    CHECK(json_get_number(&tree, "peak_bytes", 0) == 41e9);
    CHECK(text_is(json_get_text(&tree, "stack"), "hf-peft"));
    static const char *const objects[] = { "step_seconds", "fit", "gpu", "configuration",
                                           "stalls" };
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        CHECK(json_get(&tree, objects[i]) && json_get(&tree, objects[i])->kind == JSON_OBJECT);
}

TEST(pilot_of_another_kind_or_without_a_rate_is_refused_with_a_sentence)
{
    static const struct {
        const char *json, *word;
    } cases[] = {
        { "[]", "an object" },
        { "{}", "not a pilot" },
        { "{\"kind\":\"plan\",\"version\":1}", "not a pilot" },
        { "{\"kind\":\"pilot\",\"version\":2}", "version 2" },
        { "{\"kind\":\"pilot\",\"version\":1}", "configuration" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{}}", "above 0" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{},"
          "\"tokens_per_second\":{\"mean\":-4}}",
          "above 0" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{},"
          "\"tokens_per_second\":{\"mean\":5,\"low\":6,\"high\":7}}",
          "outside its own interval" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{},\"tokens_per_second\":{"
          "\"mean\":5},\"fit\":{\"seconds_per_token\":-1}}",
          "seconds_per_token" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{},\"step_seconds\":{\"mean\":0.2}}",
          "5 steps/s but no tokens/s; set composition.tokens" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{\"method\":\"magic\"}}", "method" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{},\"steps\":\"many\"}", "steps" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{\"planned_tokens\":1e30}}",
          "1e+30 rows or tokens" },
        { "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{\"context\":-1}}",
          "-1 rows or tokens" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pilot pilot;
        CHECK(pilot_read(&pilot, &test_arena, text_of(cases[i].json), "p.json") == ERR_INPUT);
        CHECK(strstr(error_text(), cases[i].word) && strstr(error_text(), "p.json"));
    }
}

TEST(pilot_reads_the_configuration_of_a_plan)
{
    const char *plan = "{\"kind\":\"plan\",\"configuration\":{\"model\":\"qwen3-8b\",\"gpus\":8,"
                       "\"micro_batch\":4,\"method\":\"qlora\",\"alpha\":null,\"new\":1}}";
    struct json tree;
    struct pilot_configuration configuration;
    CHECK(json_read(&tree, &test_arena, text_of(plan), "t") == OK);
    CHECK(pilot_configuration_read(&configuration, &test_arena, &tree, "t") == OK);
    CHECK(configuration.gpus == 8 && configuration.micro_batch == 4);
    CHECK(configuration.recipe.method == RECIPE_QLORA && isnan(configuration.recipe.alpha));
    CHECK(isnan(configuration.context) && !configuration.gpu);
}

TEST(pilot_without_a_rate_gets_one_from_the_tokens_of_a_step)
{
    const char *json = "{\"kind\":\"pilot\",\"version\":1,\"configuration\":{},\"composition\":{"
                       "\"tokens\":4096},\"step_seconds\":{\"mean\":0.5}}";
    struct pilot pilot;
    CHECK(pilot_read(&pilot, &test_arena, text_of(json), "p.json") == OK);
    CHECK(pilot.tokens_per_s.mean == 8192 && isnan(pilot.tokens_per_s.low));
}

// What pilot_lacks() promises is what transfer_open() accepts (test_transfer.c).
TEST(pilot_lacks_what_a_plan_needs_until_it_has_it)
{
    struct pilot pilot;
    pilot_clear(&pilot);
    pilot.gpu.name = "cpu";
    CHECK(strstr(pilot_lacks(&pilot), "on a CPU"));
    pilot.gpu.name = NULL;
    CHECK(strstr(pilot_lacks(&pilot), "--tokens-per-step"));
    pilot.tokens_per_s.mean = 9120;
    CHECK(strstr(pilot_lacks(&pilot), "model and stack"));
    pilot.configuration.model = "llama-3.1-8b", pilot.stack = "hf-peft";
    CHECK(strstr(pilot_lacks(&pilot), "GPU"));
    pilot.gpu.name = "NVIDIA H200";
    CHECK(!pilot_lacks(&pilot));
}

TEST(pilot_text_says_what_was_measured_and_leaves_out_what_was_not)
{
    struct pilot pilot = measured();
    struct out out = { .arena = &test_arena };
    pilot_text(&pilot, &test_arena, &out);
    const char *text = out_string(&out);
    CHECK(strstr(text, "9,120 tokens/s sustained") && strstr(text, "± 0.4 %"));
    CHECK(strstr(text, "120 measured after 3 warm-up steps") && strstr(text, "stalls       none"));
    CHECK(!strstr(text, "nan") && !strstr(text, " W") && !strstr(text, "NOT STEADY"));
    pilot_clear(&pilot);
    out.size = 0;
    pilot_text(&pilot, &test_arena, &out);
    text = out_string(&out);
    CHECK(strstr(text, "not measured") && strstr(text, "NOT STEADY") && !strstr(text, "nan"));
}

TEST(pilot_fit_gives_the_seconds_of_a_micro_batch)
{
    struct pilot pilot = measured();
    // 0.01 + 1e-4 · 4096 + 2e-9 · 1e6 + 3e-6 · 1000
    CHECK_NEAR(pilot_fit_seconds(&pilot.fit, 4096, 1e6, 1000), 0.4246, 1e-12);
    pilot_clear(&pilot);
    CHECK(isnan(pilot_fit_seconds(&pilot.fit, 1, 1, 1)));
}

// A machine of known cost, 1 % of noise and one stall in twenty.
TEST(pilot_fit_finds_the_cost_of_a_micro_batch_through_noise_and_stalls)
{
    enum { SAMPLES = 120 };
    struct pilot_sample samples[SAMPLES];
    struct rng rng = rng_seeded(5);
    const struct pilot_fit truth = { .constant_seconds = 0.004,
                                     .seconds_per_token = 2e-5,
                                     .seconds_per_square = 3e-9,
                                     .seconds_per_labelled = 5e-6 };
    for (int i = 0; i < SAMPLES; i++) {
        double tokens = 512 << i % 4, length = 128 << i % 5, share = i % 3 / 2.0;
        struct pilot_sample *s = &samples[i];
        *s = (struct pilot_sample){ tokens, tokens * fmin(length, tokens), tokens * share, 0 };
        s->seconds = pilot_fit_seconds(&truth, s->tokens, s->squares, s->labelled) *
                     exp(0.01 * rng_normal(&rng)) * (i % 20 == 7 ? 3 : 1);
    }
    struct pilot_fit fit;
    pilot_fit_make(&fit, &test_arena, samples, SAMPLES);
    CHECK(fit.samples > SAMPLES * 9 / 10 && fit.samples <= SAMPLES - SAMPLES / 20);
    CHECK(fit.spread > 0.007 && fit.spread < 0.013);
    CHECK(fit.tokens_low == 512 && fit.tokens_high == 4096);
    CHECK(fit.attended_low == 128 && fit.attended_high == 2048);
    const double compositions[][3] = { { 4096, 4096.0 * 256, 4096 }, { 1024, 1024.0 * 1024, 0 } };
    for (int i = 0; i < 2; i++) {
        const double *c = compositions[i];
        CHECK_NEAR(pilot_fit_seconds(&fit, c[0], c[1], c[2]),
                   pilot_fit_seconds(&truth, c[0], c[1], c[2]), 0.01);
    }
    pilot_fit_make(&fit, &test_arena, samples, 7);
    CHECK(fit.samples == 0 && isnan(fit.constant_seconds));
}
