// SPDX-License-Identifier: Apache-2.0
// Adapters on experts that a model holds as one tensor: PEFT's names and layout, and the way back.

#include "host/file.h"
#include "test/files.h"
#include "test/train/tiny.h"
#include "train/files/adapter_file.h"
#include "train/files/merge.h"
#include "train/transformer_files.h"

#include <string.h>
#include <sys/stat.h>

enum { EXPERTS = 5, RANK = 4, WIDTH = 32, INNER = 48 }; // of tiny's gpt-oss

static struct transformer *open_gpt_oss(int method, const char *targets)
{
    struct tiny *tiny = tiny_make("gpt_oss");
    tiny->recipe.method = method;
    tiny->recipe.targets = targets;
    tiny->setup.compute = DTYPE_F32;
    return tiny_open(tiny);
}

static const char *save(struct transformer *t, const char *name)
{
    const char *folder = files_path(name);
    mkdir(folder, 0700);
    enum err err = transformer_save_adapter(t, &test_arena, folder, "base");
    test_check(!err, err ? error_text() : "", name, 0);
    return folder;
}

static enum err open_saved(struct safetensors *out, const char *folder)
{
    return safetensors_open(out, &test_arena,
                            text_format(&test_arena, "%s/adapter_model.safetensors", folder));
}

static const char *config_of(const char *folder)
{
    struct text text;
    CHECK(
        !file_read(&text, &test_arena, text_format(&test_arena, "%s/adapter_config.json", folder)));
    return text_copy(&test_arena, text);
}

static const float *factor(const struct safetensors *in, const char *module, const char *name,
                           int64_t rows, int64_t columns)
{
    const struct safetensors_tensor *t = safetensors_find(
        in, text_format(&test_arena, "base_model.model.%s.lora_%s.weight", module, name));
    bool good = t && t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns;
    test_check(good, "the file has this factor in its shape", module, 0);
    return good ? (const float *)(const void *)t->at : NULL;
}

static const float *own(struct transformer *t, int64_t expert, const char *linear, const char *name)
{
    struct parameter *p = transformer_find(
        t, text_format(&test_arena,
                       "base_model.model.model.layers.1.mlp.experts.%lld.%s.lora_%s.weight",
                       (long long)expert, linear, name));
    CHECK(p);
    return (const float *)p->master.at;
}

// PEFT adds einsum("o r e, e r i → e i o", B, A) to the tensor (experts, in, out), with A reshaped
// to (experts, rank, in) and B to (out, rank, experts). Our row j of gate is their output 2 j, and
// that of up 2 j + 1.
static void check_change(struct transformer *t, const struct safetensors *in, const char *module,
                         const char *linear, int64_t inputs, int64_t outputs)
{
    const float *A = factor(in, module, "A", EXPERTS * RANK, inputs);
    const float *B = factor(in, module, "B", outputs, RANK * EXPERTS);
    bool alternates = !strcmp(linear, "gate_up_proj");
    double off = 0, size = 0;
    for (int64_t e = 0; A && B && e < EXPERTS; e++) {
        const float *a = own(t, e, linear, "A"), *b = own(t, e, linear, "B");
        for (int64_t i = 0; i < inputs; i++)
            for (int64_t o = 0; o < outputs; o++) {
                double theirs = 0, ours = 0;
                int64_t row = !alternates ? o : o % 2 ? outputs / 2 + o / 2 : o / 2;
                for (int64_t r = 0; r < RANK; r++) {
                    theirs += (double)B[(o * RANK + r) * EXPERTS + e] *
                              (double)A[(e * RANK + r) * inputs + i];
                    ours += (double)b[row * RANK + r] * (double)a[r * inputs + i];
                }
                off = fmax(off, fabs(theirs - ours));
                size = fmax(size, fabs(ours));
            }
    }
    CHECK(size > 0.01 && off == 0);
}

TEST(adapters_on_stacked_experts_lie_where_peft_looks_for_them)
{
    struct transformer *t = open_gpt_oss(RECIPE_LORA, "all-linear");
    const char *folder = save(t, "stack_all");
    struct safetensors in;
    CHECK(!open_saved(&in, folder));
    CHECK(in.count == 2 * 2 * (4 + 2));
    check_change(t, &in, "model.layers.1.mlp.experts.base_layer", "gate_up_proj", WIDTH, 2 * INNER);
    check_change(t, &in, "model.layers.1.mlp.experts", "down_proj", INNER, WIDTH);
    const char *config = config_of(folder);
    CHECK(strstr(config, "\"mlp.experts.down_proj\",\n    \"mlp.experts.gate_up_proj\""));
    CHECK(strstr(config, "\"o_proj\"") && !strstr(config, "\"down_proj\""));
    safetensors_release(&in);
    transformer_release(t);
}

// A module with one adapted parameter has one wrapper. Without modules the list is empty: where it
// is null PEFT adapts those that it takes for usual.
TEST(adapters_on_one_linear_of_stacked_experts_have_the_name_of_their_module)
{
    static const struct {
        const char *targets, *linear;
        int64_t in, out;
    } cases[] = { { "down", "down_proj", INNER, WIDTH },
                  { "gate,up", "gate_up_proj", WIDTH, 2 * INNER } };
    for (int i = 0; i < 2; i++) {
        struct transformer *t = open_gpt_oss(RECIPE_LORA, cases[i].targets);
        const char *folder = save(t, text_format(&test_arena, "stack_%s", cases[i].linear));
        struct safetensors in;
        CHECK(!open_saved(&in, folder));
        check_change(t, &in, "model.layers.1.mlp.experts", cases[i].linear, cases[i].in,
                     cases[i].out);
        CHECK(strstr(config_of(folder), "\"target_modules\": []"));
        safetensors_release(&in);
        transformer_release(t);
    }
}

static double loss_of(struct transformer *t)
{
    static const int32_t sizes[] = { 9, 14 };
    struct micro_batch batch = tiny_batch(sizes, 2, 7);
    return tiny_loss(t, &batch);
}

TEST(adapters_on_stacked_experts_are_read_back_to_the_same_bits)
{
    static const char *const targets[] = { "all-linear", "down", "gate_up,q" };
    for (int i = 0; i < 3; i++) {
        struct transformer *t = open_gpt_oss(RECIPE_LORA, targets[i]);
        const char *folder = save(t, text_format(&test_arena, "stack_back_%d", i));
        double loss = loss_of(t);
        transformer_random_adapters(t, 3);
        CHECK(loss_of(t) != loss);
        enum err err = transformer_load_adapter(t, &test_arena, folder);
        test_check(!err, err ? error_text() : "", targets[i], 0);
        CHECK(loss_of(t) == loss);
        transformer_release(t);
    }
}

TEST(adapters_on_stacked_experts_are_merged_into_the_tensors_of_their_base)
{
    struct transformer *full = open_gpt_oss(RECIPE_FULL, "all-linear");
    const char *base = files_path("stack_base"), *out = files_path("stack_merged");
    mkdir(base, 0700);
    CHECK(!transformer_save(full, &test_arena, base, NULL));
    struct transformer *t = open_gpt_oss(RECIPE_LORA, "all-linear");
    for (size_t i = 0; i < full->parameter_count; i++) {
        struct parameter *to = transformer_find(t, full->parameters[i].name);
        transformer_set(t, to, STORAGE_F32, full->parameters[i].value.at);
    }
    struct merge_report report;
    enum err err = merge_fold(&report, &test_arena, base, save(t, "stack_to_merge"), out);
    test_check(!err, err ? error_text() : "", "merge", 0);
    CHECK(report.folded == 2 * (4 + 2 * EXPERTS));
    struct weights merged;
    CHECK(!weights_open(&merged, &test_arena, out));
    double before = loss_of(full);
    CHECK(!transformer_load(full, &merged));
    weights_release(&merged);
    CHECK_NEAR(loss_of(full), loss_of(t), 1e-5 * loss_of(t));
    CHECK(fabs(before - loss_of(full)) > 1e-2);
    transformer_release(t);
    transformer_release(full);
}

// --- files of others ---------------------------------------------------------

// A module with factors of these shapes, under a config that names these parameters.
static enum err open_file(struct adapter_file *in, const char *name, const char *parameters,
                          const char *module, int64_t a_rows, int64_t out, int64_t b_columns)
{
    const char *folder = files_path(name);
    mkdir(folder, 0700);
    files_write(text_format(&test_arena, "%s/adapter_config.json", name),
                text_of(text_format(&test_arena,
                                    "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, "
                                    "\"target_modules\": [], \"target_parameters\": %s}",
                                    parameters)));
    struct safetensors_writer w;
    static const float values[64] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    int64_t a[] = { a_rows, 3 }, b[] = { out, b_columns };
    safetensors_init(&w, &test_arena, folder, "adapter_model");
    const char *path = text_format(&test_arena, "base_model.model.%s.lora_", module);
    safetensors_declare(&w, text_format(&test_arena, "%sA.weight", path), STORAGE_F32, 2, a);
    safetensors_declare(&w, text_format(&test_arena, "%sB.weight", path), STORAGE_F32, 2, b);
    CHECK(!safetensors_begin(&w));
    CHECK(!safetensors_write_floats(&w, 0, 0, values, a_rows * 3));
    CHECK(!safetensors_write_floats(&w, 1, 0, values, b_columns * out));
    CHECK(!safetensors_finish(&w));
    safetensors_release_writer(&w);
    return adapter_file_open(in, &test_arena, folder);
}

TEST(adapters_on_the_experts_of_some_layers_are_read)
{
    struct adapter_file in;
    CHECK(!open_file(&in, "stack_some",
                     "[\"7.mlp.experts.down_proj\", \"9.mlp.experts.gate_up_proj\"]",
                     "model.layers.7.mlp.experts", 6, 2, 6));
    CHECK(in.module_count == 3);
    const struct adapter_file_module *m =
        adapter_file_find(&in, "model.layers.7.mlp.experts.1.down_proj");
    CHECK(m && m->in == 3 && m->out == 2);
    const float *a = adapter_file_a(&test_arena, m), *b = adapter_file_b(&test_arena, m);
    CHECK(a[0] == 7 && a[5] == 12);                           // the second six rows' …
    CHECK(b[0] == 2 && b[1] == 5 && b[2] == 8 && b[3] == 11); // every third column
    adapter_file_release(&in);
}

TEST(adapters_on_stacked_experts_that_do_not_fit_their_config_are_refused)
{
    struct adapter_file in;
    const char *both = "[\"mlp.experts.down_proj\", \"mlp.experts.gate_up_proj\"]";
    CHECK(open_file(&in, "stack_r", both, "model.layers.0.mlp.experts", 5, 2, 5) == ERR_INPUT);
    CHECK(strstr(error_text(), "[experts · r, in] and [out, r · experts]"));
    CHECK(open_file(&in, "stack_b", both, "model.layers.0.mlp.experts", 6, 2, 4) == ERR_INPUT);
    CHECK(open_file(&in, "stack_inner", "[\"mlp.experts.down_proj\"]",
                    "model.layers.0.mlp.experts.base_layer", 6, 2, 6) == ERR_INPUT);
    CHECK(open_file(&in, "stack_odd", both, "model.layers.0.mlp.experts.base_layer", 6, 1, 6) ==
          ERR_INPUT); // gate and up have as many outputs
    CHECK(open_file(&in, "stack_linear", "[\"mlp.router.weight\"]", "model.layers.0.mlp.router", 2,
                    2, 2) == ERR_INPUT);
    CHECK(strstr(error_text(), "target_parameters has mlp.router.weight"));
}
