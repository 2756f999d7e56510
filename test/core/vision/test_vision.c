// SPDX-License-Identifier: Apache-2.0
// Tokens of images against the families' own processors (test/oracles/images.mjs) and against
// figures that were worked out by hand or published.

#include "core/vision/vision.h"

#include "base/csv.h"
#include "host/file.h"
#include "test/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct vision_image measured(const char *family, int64_t width, int64_t height)
{
    const struct vision *vision;
    struct vision_image image = { 0 };
    struct image_size size = { width, height };
    if (vision_find(&vision, &test_arena, family) || !vision)
        return image;
    CHECK(!vision_measure(&image, vision, &size));
    return image;
}

TEST(image_tokens_equal_the_families_own_processors_on_fifty_sizes)
{
    struct text file;
    struct csv csv;
    CHECK(!file_read(&file, &test_arena, "test/data/image_tokens.csv"));
    CHECK(!csv_read(&csv, &test_arena, file, "image_tokens.csv", ','));
    const struct vision *vision = NULL;
    int families = 0, rows_of_family = 50;
    for (size_t i = 0; i < csv.rows; i++, rows_of_family++) {
        int64_t numbers[3];
        const char *family = text_copy(&test_arena, csv_cell(&csv, i, 0));
        for (int k = 0; k < 3; k++)
            CHECK(!text_read_count(&numbers[k], csv_cell(&csv, i, k + 1)));
        if (!vision || strcmp(vision->name, family)) {
            CHECK(rows_of_family == 50);
            rows_of_family = 0;
            families++;
            CHECK(!vision_find(&vision, &test_arena, family) && vision);
        }
        struct vision_image image;
        struct image_size size = { numbers[0], numbers[1] };
        CHECK(!vision_measure(&image, vision, &size));
        if (image.tokens != numbers[2])
            printf("%s %lld × %lld: %lld, must be %lld\n", family, (long long)size.width,
                   (long long)size.height, (long long)image.tokens, (long long)numbers[2]);
        CHECK(image.tokens == numbers[2]);
    }
    CHECK(families == 14);
}

// What the authors state, or short arithmetic.
TEST(image_tokens_are_as_published)
{
    CHECK(measured("gemma-3", 50, 4000).tokens == 256 + 4);
    CHECK(measured("llava-1.5", 1000, 20).tokens == 24 * 24);
    CHECK(measured("llava-next", 672, 672).tokens == 48 * 48 + 48 + 576);
    CHECK(measured("llava-next", 2000, 1000).tokens == 24 * 48 + 24 + 576);
    CHECK(measured("internvl", 448, 448).tokens == 256 + 2);
    CHECK(measured("internvl", 1344, 1792).tokens == 13 * 256 + 2); // 3 × 4 tiles and the overview
    CHECK(measured("llama-4", 336, 336).tokens == 144 + 3);
    CHECK(measured("llama-4", 672, 336).tokens == 3 * 144 + 2 + 3);
    CHECK(measured("pixtral", 1024, 1024).tokens == 64 * 64 + 64);
    CHECK(measured("pixtral", 100, 20).tokens == 2 * 7 + 2);
    // 1024 / 28 is 36.57: 37 × 27 tokens of 28 × 28 pixels, between two markers.
    CHECK(measured("qwen2.5-vl", 1024, 768).tokens == 37 * 27 + 2);
    CHECK(measured("qwen3-vl", 1024, 768).tokens == 32 * 24 + 2);
    // Halves go to the even number, as Python rounds: 70 / 28 is 2.5, 2; 98 / 28 is 3.5, 4.
    CHECK(measured("qwen2-vl", 70, 98).tokens == 2 * 4 + 2);
    CHECK(measured("qwen2-vl", 9000, 9000).tokens <= 16384 + 2);
    // 4 × 3 tiles of 81 with two markers, a line end per row, the overview with three markers.
    CHECK(measured("smolvlm", 1600, 1200).tokens == 12 * 83 + 3 + 84);
    // 9 · 729 tokens at most, and the overview: 81 × 81 with a line end for each row.
    CHECK(measured("llava-onevision", 4000, 4000).tokens == 81 * 81 + 81 + 729);
}

TEST(image_encoders_compute_what_their_tiles_hold)
{
    struct vision_image image = measured("internvl", 1344, 1792);
    CHECK(image.patches == 13 * 1025 && image.squares == 13 * 1025.0 * 1025.0);
    CHECK(image.projected == 13 * 256);
    image = measured("qwen2.5-vl", 1024, 768); // windows of 8 × 8 patches in 28 of 32 layers
    CHECK(image.patches == 4 * 999 && image.squares == 3996.0 * 3996 &&
          image.in_window == 3996.0 * 64);
    image = measured("llama-3.2-vision", 10, 10); // four tiles, three of them empty
    CHECK(image.tokens == 1 && image.patches == 4 * 1601 && image.squares == 6404.0 * 6404);
}

TEST(image_encoders_have_the_published_number_of_weights)
{
    static const struct {
        const char *family;
        double decoder, published, slack;
    } known[] = {
        { "qwen2-vl", 3584, 675e6, 0.01 }, // arXiv:2409.12191
        { "gemma-3", 2560, 417e6, 0.02 },  // arXiv:2503.19786, table 1
        { "internvl", 3584, 304e6 + 27.5e6, 0.02 }, { "internvl-large", 5120, 5.54e9 + 92e6, 0.02 },
        { "pixtral", 5120, 400e6 + 31e6, 0.05 }, // arXiv:2410.07073: 400 M
        { "llama-4", 5120, 850e6, 0.05 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct vision *vision;
        CHECK(!vision_find(&vision, &test_arena, known[i].family) && vision);
        double weights =
            vision_encoder_weights(vision) + vision_projector_weights(vision, known[i].decoder);
        CHECK_NEAR(weights, known[i].published, known[i].slack);
        if (fabs(weights / known[i].published - 1) > known[i].slack)
            printf("%s: %g\n", known[i].family, weights);
    }
}

TEST(image_sizes_that_processors_refuse_are_refused_with_one_sentence)
{
    const struct vision *vision;
    struct vision_image image;
    CHECK(!vision_find(&vision, &test_arena, "qwen2_5_vl") && vision);
    struct image_size none = { 0, 1000000000 }, thin = { 10, 2001 }, longest = { 65535, 65535 };
    CHECK(vision_measure(&image, vision, &none) == ERR_INPUT);
    CHECK(strstr(error_text(), "0 × 1000000000"));
    CHECK(vision_measure(&image, vision, &thin) == ERR_INPUT);
    CHECK(strstr(error_text(), "200 times"));
    CHECK(!vision_measure(&image, vision, &longest) && image.tokens <= 16386);
}

TEST(image_rules_hold_for_any_size)
{
    static const char *const families[] = { "qwen2-vl", "qwen3-vl", "llava-next",
                                            "internvl", "llama-4",  "llama-3.2-vision",
                                            "smolvlm",  "pixtral" };
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        const struct vision *vision;
        CHECK(!vision_find(&vision, &test_arena, families[f]) && vision);
        for (int64_t a = 1; a <= IMAGE_LONGEST; a *= 4)
            for (int64_t b = 1; b <= IMAGE_LONGEST; b *= 4) {
                struct vision_image image;
                struct image_size size = { a, b };
                if (vision_measure(&image, vision, &size))
                    continue;
                CHECK(image.tokens >= 1 && image.tokens < 40000 && image.patches >= 1);
                CHECK(image.in_window <= image.squares);
            }
    }
}

// The family with a processor's file, and what an image of that size then has.
static int64_t tokens_with(const char *family, const char *json, int64_t width, int64_t height)
{
    const struct vision *vision = NULL;
    struct vision_image image = { 0 };
    struct image_size size = { width, height };
    CHECK(!vision_find(&vision, &test_arena, family) && vision);
    if (vision_read_processor(&vision, &test_arena, text_of(json), "preprocessor_config.json"))
        return -1;
    CHECK(!vision_measure(&image, vision, &size));
    return image.tokens;
}

TEST(settings_of_a_models_own_processor_change_the_tokens_of_images_in_every_family)
{
    static const struct {
        const char *family, *json;
        int64_t width, height, tokens;
    } cases[] = {
        // 600,000 pixels at most: 868 × 644, of 28 × 28 each
        { "qwen2.5-vl", "{\"max_pixels\": 600000}", 1024, 768, 2 + 31 * 23 },
        { "qwen2.5-vl", "{\"size\": {\"shortest_edge\": 3136, \"longest_edge\": 600000}}", 1024,
          768, 2 + 31 * 23 },
        { "qwen2-vl", "{\"min_pixels\": 200704, \"max_pixels\": 12845056}", 28, 28, 2 + 256 },
        { "qwen3-vl", "{\"image_processor\": {\"size\": {\"longest_edge\": 262144}}}", 1024, 1024,
          2 + 256 },
        { "llava-1.5", "{\"crop_size\": {\"height\": 224, \"width\": 224}}", 500, 500, 16 * 16 },
        // one grid alone: 2 × 2 tiles of 24 × 24, a newline a row, and the whole image
        { "llava-next", "{\"image_grid_pinpoints\": [[672, 672]]}", 672, 672,
          48 * 48 + 48 + 24 * 24 },
        { "llava-onevision", "{\"image_grid_pinpoints\": [[384, 384]]}", 384, 384,
          27 * 27 + 27 + 27 * 27 },
        { "internvl", "{\"max_patches\": 1, \"size\": {\"height\": 448, \"width\": 448}}", 2000,
          900, 2 + 256 },
        { "gemma-3", "{\"size\": {\"height\": 448, \"width\": 448}}", 900, 900, 4 + 64 },
        { "llama-3.2-vision", "{\"max_image_tiles\": 1}", 2000, 900, 1 },
        { "llama-4", "{\"max_patches\": 1}", 2000, 900, 3 + 144 },
        { "smolvlm", "{\"size\": {\"longest_edge\": 768}}", 768, 768, 3 + 5 * 81 + 4 * 2 + 2 },
        { "smolvlm", "{\"do_image_splitting\": false}", 768, 768, 3 + 81 },
        { "pixtral", "{\"size\": {\"longest_edge\": 512}}", 1024, 1024, 32 * 32 + 32 },
        { "mistral-small", "{\"size\": {\"longest_edge\": 560}, \"patch_size\": {\"height\": 14}}",
          1120, 1120, 20 * 20 + 20 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t tokens =
            tokens_with(cases[i].family, cases[i].json, cases[i].width, cases[i].height);
        if (tokens != cases[i].tokens)
            printf("%s %s: %lld, must be %lld\n", cases[i].family, cases[i].json, (long long)tokens,
                   (long long)cases[i].tokens);
        CHECK(tokens == cases[i].tokens);
        CHECK(tokens_with(cases[i].family, "{}", cases[i].width, cases[i].height) > 0);
    }
}

TEST(settings_of_a_processor_that_no_image_can_have_are_one_sentence)
{
    static const char *const cases[][3] = {
        { "qwen2.5-vl", "{\"max_pixels\": 0}",
          "preprocessor_config.json: max_pixels is 0, must be" },
        { "qwen2.5-vl", "{\"min_pixels\": 9000000, \"max_pixels\": 3136}", "out of order" },
        { "qwen2.5-vl", "[]", "must be an object" },
        { "llava-next", "{\"image_grid_pinpoints\": [[1, 2]]}", "pairs of 1 to 9 times" },
        { "llama-4", "{\"max_patches\": 100000}", "most_tiles is 100000" },
        { "gemma-3", "{\"do_pan_and_scan\": true}", "is not counted" },
        { "gemma-3", "{\"size\": {\"height\": 10}}", "side is 10, must be at least" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(tokens_with(cases[i][0], cases[i][1], 500, 500) == -1);
        CHECK(strstr(error_text(), cases[i][2]));
    }
}
