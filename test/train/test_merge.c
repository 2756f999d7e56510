// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"
#include "base/rng.h"
#include "test/files.h"
#include "test/test.h"
#include "test/train/tiny_model.h"
#include "train/files/adapter_file.h"
#include "train/files/merge.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANK = 4 };

static float *random_values(int64_t count, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    float *values = ARENA_NEW(&test_arena, float, count);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)(0.3 * rng_normal(&rng));
    return values;
}

// Factors on one linear by the name of its module, and optionally a head saved whole.
static const char *write_adapter(const char *name, struct adapter_file_factors factors,
                                 const struct adapter_file_whole *head)
{
    const char *folder = files_path(name);
    mkdir(folder, 0700);
    struct adapter_file_config config = { .rank = RANK, .alpha = 6 };
    struct adapter_file_content content = { &factors, 1, head, head != NULL, STORAGE_F32, 0 };
    CHECK(!adapter_file_write(folder, &test_arena, &config, &content));
    return folder;
}

static struct adapter_file_factors down_factors(void)
{
    return (struct adapter_file_factors){
        "model.layers.1.mlp.down_proj", 24,  16, random_values(RANK * 24, 1),
        random_values(16 * RANK, 2),    NULL
    };
}

// W + 6/4 · B A of that linear, in doubles and in another order than the program's.
static double merged_value(const struct adapter_file_factors *f, double base, int64_t row,
                           int64_t column)
{
    double sum = 0;
    for (int64_t k = RANK - 1; k >= 0; k--)
        sum += (double)f->b[row * RANK + k] * (double)f->a[k * f->in + column];
    return base + 1.5 * sum;
}

static float *read_item(const struct weights *w, const char *name)
{
    const struct weights_item *item = weights_find(w, name);
    int64_t count = weights_elements(&item->slot);
    float *values = ARENA_NEW(&test_arena, float, count);
    weights_read(values, item, 0, count);
    return values;
}

// Merges into out and holds every weight against the base and the formula.
static void check_merge(const char *base, const char *out, double error)
{
    struct adapter_file_factors f = down_factors();
    struct merge_report report;
    const char *adapter = write_adapter(text_format(&test_arena, "%s-adapter", out), f, NULL);
    const char *path = files_path(out);
    CHECK(!merge_fold(&report, &test_arena, base, adapter, path));
    CHECK(report.folded == 1 && report.replaced == 0 && report.copied > 15);
    struct weights before, after;
    CHECK(!weights_open(&before, &test_arena, base));
    CHECK(!weights_open(&after, &test_arena, path));
    CHECK(!after.quantized && before.count == after.count);
    for (size_t i = 0; i < before.count; i++) {
        const struct weights_slot *slot = &before.items[i].slot;
        const float *old = read_item(&before, slot->name), *new = read_item(&after, slot->name);
        bool adapted = !strcmp(slot->name, "layers.1.down");
        for (int64_t k = 0; k < weights_elements(slot); k++) {
            double wanted =
                adapted ? merged_value(&f, (double)old[k], k / 24, k % 24) : (double)old[k];
            if (fabs((double)new[k] - wanted) > error * fabs(wanted) + 1e-7)
                return CHECK_NEAR((double)new[k], wanted, error);
        }
    }
    weights_release(&before);
    weights_release(&after);
}

TEST(merged_weights_are_the_base_and_the_product)
{
    check_merge(tiny_model_plain("m-f32", tiny_llama, STORAGE_F32), "m-f32-out", 1e-6);
    check_merge(tiny_model_plain("m-bf16", tiny_qwen3, STORAGE_BF16), "m-bf16-out", 0x1p-8);
}

TEST(a_quantized_base_is_dequantized_before_the_adapter_is_added)
{
    struct tiny_model how = { .config = tiny_llama, .type = STORAGE_BF16, .quantized = true };
    check_merge(tiny_model_write("m-nf4", how), "m-nf4-out", 0x1p-8);
}

TEST(a_head_that_was_saved_whole_replaces_the_bases)
{
    const char *base = tiny_model_plain("m-head", tiny_llama, STORAGE_F32);
    struct adapter_file_whole head = { "lm_head.weight", 2, { 40, 16 }, random_values(640, 5) };
    const char *adapter = write_adapter("m-head-adapter", down_factors(), &head);
    struct merge_report report;
    CHECK(!merge_fold(&report, &test_arena, base, adapter, files_path("m-head-out")));
    CHECK(report.folded == 1 && report.replaced == 1);
    struct weights w;
    CHECK(!weights_open(&w, &test_arena, files_path("m-head-out")));
    CHECK(!memcmp(read_item(&w, "head"), head.values, 640 * sizeof(float)));
    weights_release(&w);
}

// --- what is refused, with nothing written -----------------------------------

static bool refused(const char *base, const char *adapter, const char *words)
{
    struct merge_report report;
    const char *out = files_path("m-refused-out");
    enum err err = merge_fold(&report, &test_arena, base, adapter, out);
    bool good = err && strstr(error_text(), words) && access(out, F_OK);
    if (!good)
        printf("wanted \"%s\", got %d: %s\n", words, err, error_text());
    return good;
}

TEST(an_adapter_of_another_model_is_refused_and_nothing_written)
{
    const char *base = tiny_model_plain("m-base", tiny_llama, STORAGE_F32);
    struct adapter_file_factors f = down_factors();
    f.name = "model.layers.7.mlp.down_proj";
    CHECK(refused(base, write_adapter("m-layer", f, NULL), "layers.7.mlp.down_proj, which"));
    f.name = "model.layers.1.mlp.up_proj";
    CHECK(refused(base, write_adapter("m-shape", f, NULL),
                  "as [16, 24], but the weight of the base"));
    f.name = "model.embed_tokens";
    CHECK(refused(base, write_adapter("m-embed", f, NULL), "embedding are not supported"));
    struct adapter_file_whole head = { "lm_head.weight", 2, { 39, 16 }, random_values(640, 5) };
    const char *small = write_adapter("m-small", down_factors(), &head);
    CHECK(refused(base, small, "saves lm_head.weight as [39, 16]"));
    const char *tied = tiny_model_plain("m-tied", tiny_qwen2, STORAGE_F32);
    CHECK(refused(tied, small, "head is tied"));
}

TEST(broken_bases_are_refused_and_nothing_written)
{
    const char *adapter = write_adapter("m-good", down_factors(), NULL);
    struct tiny_model how = { .config = tiny_llama, .type = STORAGE_F32, .broken = "layers.0.v" };
    CHECK(refused(tiny_model_write("m-nan", how), adapter, "not a finite number"));
    CHECK(refused(files_path("m-nothing"), adapter, "config.json: cannot be opened"));
    const char *base = tiny_model_plain("m-there", tiny_llama, STORAGE_F32);
    struct merge_report report;
    CHECK(merge_fold(&report, &test_arena, base, adapter, base) == ERR_INPUT);
    CHECK(strstr(error_text(), "exists and is not empty"));
}
