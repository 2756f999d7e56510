// SPDX-License-Identifier: Apache-2.0
// The encoder of images in the step list: FLOPs by the closed formula, weights, what is kept.

#include "core/step/encoder.h"

#include "core/step/compute.h"
#include "test/core/knowledge.h"

// A model with its encoder, and rows of so many tokens with one image of 1024 × 768 each.
static struct setup with_images(struct knowledge *k, const char *model, double rows, double width)
{
    struct setup setup = knowledge_setup(k, model, "hf", rows, width);
    struct image_size size = { 1024, 768 };
    struct vision_image image;
    struct vision_load load = { 0 };
    CHECK(!model_find_tower(&setup.model, &test_arena) && setup.model->tower);
    CHECK(!vision_measure(&image, setup.model->tower, &size));
    vision_load_add(&load, &image);
    setup.batch.images = vision_load_scaled(&load, rows);
    return setup;
}

static double flops_of_images(const struct step *step, int phase)
{
    double sum = 0;
    for (size_t i = 0; i < step->count; i++)
        if (step->ops[i].of_images && (int)step->ops[i].phase == phase)
            sum += step->ops[i].flops * step->ops[i].repeats;
    return sum;
}

TEST(encoder_frozen_runs_forward_once_by_the_closed_formula_and_keeps_pixels_alone)
{
    struct knowledge k = knowledge_open();
    struct setup setup = with_images(&k, "internvl3-8b", 2, 4096);
    struct estimate estimate = knowledge_estimate(&setup);
    // 1024 × 768 is 4 × 3 tiles and the overview, of 1,025 patches each; two images.
    double n = 2 * 13 * 1025, squares = 2 * 13 * 1025.0 * 1025, w = 1024, f = 4096, c = 3584;
    double layers = 24 * (2 * n * (4 * w * w + 2 * w * f) + 4 * w * squares);
    double projector = 2 * 2 * 13 * 256 * (4096 * c + c * c), patches = 2 * n * 588 * w;
    CHECK_NEAR(flops_of_images(&estimate.step, STEP_FORWARD), layers + projector + patches, 1e-9);
    CHECK(flops_of_images(&estimate.step, STEP_BACKWARD) == 0);
    CHECK(flops_of_images(&estimate.step, STEP_RECOMPUTE) == 0);
    CHECK_NEAR(estimate.step.images_kept_bytes, 4 * n * 588, 1e-9);
}

TEST(encoder_trained_runs_backward_and_keeps_its_activations)
{
    struct knowledge k = knowledge_open();
    struct setup setup = with_images(&k, "qwen2.5-vl-7b", 1, 2048);
    setup.recipe.method = RECIPE_FULL;
    struct estimate frozen = knowledge_estimate(&setup);
    setup.recipe.trains_encoder = true;
    struct estimate trained = knowledge_estimate(&setup);
    double forward = flops_of_images(&trained.step, STEP_FORWARD);
    double backward = flops_of_images(&trained.step, STEP_BACKWARD);
    CHECK(forward == flops_of_images(&frozen.step, STEP_FORWARD));
    CHECK(backward > 1.99 * forward && backward < 2.51 * forward);
    double weights = vision_encoder_weights(setup.model->tower) +
                     vision_projector_weights(setup.model->tower, 3584);
    CHECK_NEAR(trained.step.trained_weights - frozen.step.trained_weights, weights, 1e-9);
    CHECK(trained.step.images_kept_bytes > 50 * frozen.step.images_kept_bytes);
    CHECK(trained.memory.total_bytes > frozen.memory.total_bytes);
    setup.recipe.checkpointing = RECIPE_RECOMPUTE;
    struct estimate lean = knowledge_estimate(&setup);
    CHECK(lean.step.images_kept_bytes < 0.2 * trained.step.images_kept_bytes);
    CHECK(flops_of_images(&lean.step, STEP_RECOMPUTE) > 0.9 * forward);
}

TEST(encoder_under_lora_gets_adapters_where_it_is_trained)
{
    struct knowledge k = knowledge_open();
    struct setup setup = with_images(&k, "internvl3-8b", 1, 4096);
    setup.recipe.method = RECIPE_LORA;
    struct estimate frozen = knowledge_estimate(&setup);
    setup.recipe.trains_encoder = true;
    struct estimate trained = knowledge_estimate(&setup);
    double rank = (double)setup.recipe.rank, w = 1024, f = 4096, c = 3584;
    double layer = (w + 3 * w) + (w + w) + 2 * (w + f);
    double more = rank * (24 * layer + (588 + w) + (4096 + c) + (c + c));
    CHECK_NEAR(trained.step.trained_weights - frozen.step.trained_weights, more, 1e-9);
    CHECK(trained.step.frozen_weights == frozen.step.frozen_weights);
}

TEST(encoder_is_held_without_images_unless_the_decoder_is_trained_apart)
{
    struct knowledge k = knowledge_open();
    struct setup text = knowledge_setup(&k, "qwen2.5-7b", "hf", 1, 1024);
    struct setup seeing = knowledge_setup(&k, "qwen2.5-vl-7b", "hf", 1, 1024);
    CHECK(!model_find_tower(&seeing.model, &test_arena));
    struct estimate without = knowledge_estimate(&text), with = knowledge_estimate(&seeing);
    CHECK_NEAR(with.step.frozen_weights - without.step.frozen_weights, 675e6, 0.01);
    CHECK(step_flops(&with.step) == step_flops(&without.step));
    struct setup gemma = knowledge_setup(&k, "gemma-3-4b", "hf", 1, 1024), own = gemma;
    CHECK(!model_find_tower(&own.model, &test_arena) && own.model->tower);
    CHECK(knowledge_estimate(&own).memory.total_bytes ==
          knowledge_estimate(&gemma).memory.total_bytes);
}

TEST(encoder_of_llama_vision_is_attended_to_by_a_fifth_of_the_layers)
{
    struct knowledge k = knowledge_open();
    struct setup setup = with_images(&k, "llama-3.2-11b-vision", 1, 512);
    struct estimate estimate = knowledge_estimate(&setup);
    double keys = 0;
    for (size_t i = 0; i < estimate.step.count; i++)
        if (!strcmp(estimate.step.ops[i].name, "cross k v") &&
            estimate.step.ops[i].phase == STEP_FORWARD)
            keys += estimate.step.ops[i].flops * estimate.step.ops[i].repeats;
    CHECK_NEAR(keys, 8 * 2.0 * 6404 * 2048 * 4096, 1e-9);
    // 10.67 B with the encoder, as its page says.
    double all = (double)model_parameters(setup.model) +
                 vision_encoder_weights(setup.model->tower) +
                 vision_projector_weights(setup.model->tower, 4096);
    CHECK_NEAR(all, 10.67e9, 0.02);
}

static double host_of_images(const struct setup *setup)
{
    struct estimate estimate = knowledge_estimate(setup);
    double sum = 0;
    for (size_t i = 0; i < estimate.step.count; i++)
        if (estimate.step.ops[i].of_images)
            sum += estimate.step.ops[i].repeats *
                   compute_host_seconds(&estimate.step.ops[i], setup->stack);
    return sum;
}

// Two images of 1024 × 768 on an H200's host: Qwen2.5-VL's encoder took 0.161 s, Qwen3-VL's, which
// has no windows, 0.035 s (bench/results/h200.md).
TEST(encoder_starts_attention_for_each_window_unless_its_kernel_takes_lengths)
{
    struct knowledge k = knowledge_open();
    struct setup windows = with_images(&k, "qwen2.5-vl-7b", 2, 2048);
    struct setup none = with_images(&k, "qwen3-vl-8b", 2, 2048);
    CHECK(!stack_find(&windows.stack, k.stacks, k.stack_count, "hf-peft"));
    none.stack = windows.stack;
    windows.recipe.method = none.recipe.method = RECIPE_LORA;
    CHECK(host_of_images(&windows) > 0.16 && host_of_images(&windows) < 0.3);
    CHECK(host_of_images(&none) > 0.005 && host_of_images(&none) < 0.035);
    windows.recipe.attention = RECIPE_FLASH2;
    CHECK(host_of_images(&windows) < 0.035);
}

static double backward_of_images(const struct setup *setup)
{
    struct estimate estimate = knowledge_estimate(setup);
    return flops_of_images(&estimate.step, STEP_BACKWARD);
}

TEST(encoder_frozen_runs_backward_under_recomputation_where_transformers_asks_for_gradients)
{
    struct knowledge k = knowledge_open();
    struct setup asked = with_images(&k, "llava-1.5-7b", 2, 2048);
    struct setup unnamed = with_images(&k, "qwen3-vl-8b", 2, 2048);
    CHECK(backward_of_images(&asked) == 0);
    struct estimate before = knowledge_estimate(&asked);
    asked.recipe.checkpointing = unnamed.recipe.checkpointing = RECIPE_RECOMPUTE;
    struct estimate estimate = knowledge_estimate(&asked);
    CHECK(flops_of_images(&estimate.step, STEP_BACKWARD) > 0);
    CHECK(flops_of_images(&estimate.step, STEP_RECOMPUTE) > 0);
    CHECK(estimate.step.images_kept_bytes > before.step.images_kept_bytes);
    CHECK(estimate.step.trained_weights == before.step.trained_weights);
    CHECK(backward_of_images(&unnamed) == 0); // it names no embedding of patches
    CHECK(!stack_find(&asked.stack, k.stacks, k.stack_count, "torchtune"));
    CHECK(backward_of_images(&asked) == 0);
}
