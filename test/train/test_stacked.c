// SPDX-License-Identifier: Apache-2.0
// Weights of experts that files hold as one tensor: where each value lies, in MXFP4 and without.

#include "test/files.h"
#include "test/train/gradient.h"
#include "train/files/weights.h"
#include "train/mxfp4.h"
#include "train/transformer_files.h"

#include <string.h>
#include <sys/stat.h>

enum { EXPERTS = 3, WIDTH = 64, INNER = 32, BLOCK = 32 };

static const char config[] =
    "{\"model_type\": \"gpt_oss\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "
    "\"intermediate_size\": 32, \"vocab_size\": 40, \"num_local_experts\": 3, "
    "\"num_experts_per_tok\": 2, \"sliding_window\": 4, \"max_position_embeddings\": 64, "
    "\"rms_norm_eps\": 1e-05, \"rope_theta\": 100.0, \"rope_scaling\": {\"rope_type\": "
    "\"default\"}, \"tie_word_embeddings\": false}";

static const double e2m1[16] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6 };

// A number of a weight's element, the same in every form of the file.
static uint32_t drawn(const struct weights_slot *slot, int64_t row, int64_t column)
{
    uint32_t hash = 2166136261;
    for (const char *c = slot->name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619;
    return (hash + (uint32_t)(row * 7919 + column * 104729)) * 2654435761u >> 8;
}

static uint8_t code_of(const struct weights_slot *slot, int64_t row, int64_t column)
{
    return drawn(slot, row, column) & 15;
}

static uint8_t scale_of(const struct weights_slot *slot, int64_t row, int64_t block)
{
    return (uint8_t)(120 + drawn(slot, row, block + 1000) % 5);
}

static bool is_matrix_of_expert(const struct weights_slot *slot)
{
    return slot->expert >= 0 && !slot->bias;
}

static float value_of(const struct weights_slot *slot, int64_t row, int64_t column)
{
    if (is_matrix_of_expert(slot))
        return (float)ldexp(e2m1[code_of(slot, row, column)],
                            scale_of(slot, row, column / BLOCK) - 127);
    return (float)(drawn(slot, row, column) % 64) / 64 - 0.5f;
}

static float *values_of(const struct weights_slot *slot)
{
    int64_t columns = slot->rank == 2 ? slot->shape[1] : 1;
    float *values = ARENA_NEW(&test_arena, float, weights_elements(slot));
    for (int64_t i = 0; i < weights_elements(slot); i++)
        values[i] = value_of(slot, i / columns, i % columns);
    return values;
}

struct slots {
    struct weights_slot *at;
    size_t count;
};

static struct slots slots_of(enum storage type)
{
    struct slots out;
    struct model model;
    CHECK(!model_read_config(&model, &test_arena, text_of(config), "config.json"));
    CHECK(!weights_list(&out.at, &out.count, &test_arena, &model, type));
    return out;
}

static const char *new_folder(const char *name)
{
    const char *path = files_path(name);
    mkdir(path, 0700);
    files_write(text_format(&test_arena, "%s/config.json", name), text_of(config));
    return path;
}

static const char *write_plain(const char *name, enum storage type)
{
    const char *folder = new_folder(name);
    struct slots slots = slots_of(type);
    struct weights_writer out;
    CHECK(!weights_create(&out, &test_arena, folder, slots.at, slots.count));
    for (size_t i = 0; i < slots.count; i++) {
        int64_t count = weights_elements(&slots.at[i]), half = count / 2;
        const float *values = values_of(&slots.at[i]);
        CHECK(!weights_write(&out, i, 0, values, half)); // in two pieces
        CHECK(!weights_write(&out, i, half, values + half, count - half));
    }
    CHECK(!weights_finish(&out));
    weights_release_writer(&out);
    return folder;
}

// --- MXFP4 -------------------------------------------------------------------

// Rows of gate and up in turn, as OpenAI's files have them.
static int64_t matrix_row(const struct weights_slot *slot, int64_t row)
{
    return strcmp(slot->part, "expert_gate_up") ? row : row / 2 + (row % 2 ? INNER : 0);
}

struct packed_tensors {
    size_t values, scales;
};

struct damage {
    bool scale, shape, no_scales;
};

static struct packed_tensors declare_packed(struct safetensors_writer *out,
                                            const struct weights_slot *slot, struct damage damage)
{
    int64_t expert, blocks = slot->shape[1] / BLOCK;
    int64_t codes[] = { EXPERTS, slot->shape[0], blocks, damage.shape ? 32 : 16 };
    const char *name = stacked_name(&test_arena, slot->file_name, &expert);
    CHECK(expert == 0);
    struct packed_tensors made = { 0, 0 };
    made.values =
        safetensors_declare(out, text_format(&test_arena, "%s_blocks", name), STORAGE_U8, 4, codes);
    if (!damage.no_scales)
        made.scales = safetensors_declare(out, text_format(&test_arena, "%s_scales", name),
                                          STORAGE_U8, 3, codes);
    return made;
}

static void write_packed_expert(struct safetensors_writer *out, struct packed_tensors to,
                                const struct weights_slot *slot, struct damage damage)
{
    int64_t rows = slot->shape[0], columns = slot->shape[1], blocks = columns / BLOCK;
    size_t bytes = (size_t)(rows * columns / 2) * (damage.shape ? 2 : 1);
    size_t count = (size_t)(rows * blocks);
    uint8_t *codes = ARENA_NEW(&test_arena, uint8_t, bytes);
    uint8_t *scales = ARENA_NEW(&test_arena, uint8_t, count);
    for (int64_t i = 0; i < rows * columns; i++) {
        uint8_t code = code_of(slot, matrix_row(slot, i / columns), i % columns);
        codes[i / 2] |= (uint8_t)(i % 2 ? code << 4 : code);
    }
    for (int64_t i = 0; i < rows * blocks; i++)
        scales[i] = scale_of(slot, matrix_row(slot, i / blocks), i % blocks);
    if (damage.scale && slot->expert == 2)
        scales[5] = 255; // no number
    CHECK(!safetensors_write(out, to.values, (size_t)slot->expert * bytes, codes, bytes));
    if (!damage.no_scales)
        CHECK(!safetensors_write(out, to.scales, (size_t)slot->expert * count, scales, count));
}

static const char *write_packed(const char *name, struct damage damage)
{
    const char *folder = new_folder(name);
    struct slots slots = slots_of(STORAGE_F32);
    struct packed_tensors *to = ARENA_NEW(&test_arena, struct packed_tensors, slots.count);
    struct safetensors_writer out;
    safetensors_init(&out, &test_arena, folder, "model");
    for (size_t i = 0; i < slots.count; i++) {
        const struct weights_slot *slot = &slots.at[i];
        int64_t expert, bias[] = { EXPERTS, slot->shape[0] };
        if (slot->expert > 0)
            to[i] = to[i - 2]; // matrix and bias of the expert before lie between
        else if (is_matrix_of_expert(slot))
            to[i] = declare_packed(&out, slot, damage);
        else
            to[i].values = safetensors_declare(
                &out,
                slot->stacked ? stacked_name(&test_arena, slot->file_name, &expert)
                              : slot->file_name,
                STORAGE_F32, slot->stacked ? 2 : slot->rank, slot->stacked ? bias : slot->shape);
    }
    CHECK(!safetensors_begin(&out));
    for (size_t i = 0; i < slots.count; i++) {
        const struct weights_slot *slot = &slots.at[i];
        int64_t count = weights_elements(slot);
        if (is_matrix_of_expert(slot)) {
            write_packed_expert(&out, to[i], slot, damage);
            continue;
        }
        float *values = values_of(slot);
        for (int64_t j = 0; slot->stacked && j < count; j++)
            values[j] = value_of(slot, matrix_row(slot, j), 0);
        CHECK(!safetensors_write_floats(&out, to[i].values,
                                        slot->stacked ? slot->expert * count : 0, values, count));
    }
    CHECK(!safetensors_finish(&out));
    safetensors_release_writer(&out);
    return folder;
}

// --- tests -------------------------------------------------------------------

static void check_values(const char *folder)
{
    struct weights in;
    enum err err = weights_open(&in, &test_arena, folder);
    test_check(!err, err ? error_text() : "", folder, 0);
    CHECK(!weights_check_finite(&in));
    for (size_t i = 0; i < in.count; i++) {
        int64_t count = weights_elements(&in.items[i].slot), third = count / 3;
        float *read = ARENA_NEW(&test_arena, float, count);
        weights_read(read, &in.items[i], 0, third);
        weights_read(read + third, &in.items[i], third, count - third);
        test_check(!memcmp(read, values_of(&in.items[i].slot), (size_t)count * sizeof *read),
                   "the values are those that were written", in.items[i].slot.name, 0);
    }
    weights_release(&in);
}

TEST(stacked_experts_are_read_as_they_were_written_in_every_form)
{
    check_values(write_plain("stacked_f32", STORAGE_F32));
    check_values(write_plain("stacked_bf16", STORAGE_BF16));
    check_values(write_packed("stacked_mxfp4", (struct damage){ 0 }));
}

// As transformers has them: (experts, in, out), gate and up in turn.
TEST(stacked_experts_lie_where_transformers_looks_for_them)
{
    struct safetensors in;
    struct slots slots = slots_of(STORAGE_F32);
    CHECK(!safetensors_open(&in, &test_arena, write_plain("stacked_layout", STORAGE_F32)));
    const struct safetensors_tensor *gate =
        safetensors_find(&in, "model.layers.1.mlp.experts.gate_up_proj");
    const struct safetensors_tensor *bias =
        safetensors_find(&in, "model.layers.1.mlp.experts.gate_up_proj_bias");
    CHECK(gate && gate->rank == 3 && gate->shape[1] == WIDTH && gate->shape[2] == 2 * INNER);
    CHECK(bias && bias->rank == 2 && bias->shape[0] == EXPERTS && bias->shape[1] == 2 * INNER);
    for (size_t i = 0; i < slots.count; i++) {
        const struct weights_slot *slot = &slots.at[i];
        float stored;
        if (!strcmp(slot->name, "layers.1.expert_gate_up.2")) {
            memcpy(&stored, gate->at + 4 * ((2 * WIDTH + 7) * 2 * INNER + 2 * 9 + 1), 4);
            CHECK(stored == value_of(slot, INNER + 9, 7)); // row 9 of up, column 7
        } else if (!strcmp(slot->name, "layers.1.expert_gate_up.2.bias")) {
            memcpy(&stored, bias->at + 4 * (2 * 2 * INNER + 2 * 9), 4);
            CHECK(stored == value_of(slot, 9, 0)); // row 9 of gate
        }
    }
    safetensors_release(&in);
}

static void check_refused(const char *folder, const char *words)
{
    struct weights in;
    enum err err = weights_open(&in, &test_arena, folder);
    if (!err) {
        err = weights_check_finite(&in);
        weights_release(&in);
    }
    CHECK(err == ERR_INPUT);
    test_check(strstr(error_text(), words), error_text(), words, 0);
}

TEST(stacked_experts_that_are_damaged_are_refused)
{
    check_refused(write_packed("stacked_scale", (struct damage){ .scale = true }),
                  "expert 2 has a value that is no finite number");
    check_refused(write_packed("stacked_shape", (struct damage){ .shape = true }),
                  "has shape [3, 64, 2, 32], but config.json needs [3, 64, 2, 16]");
    check_refused(write_packed("stacked_no_scales", (struct damage){ .no_scales = true }),
                  "gate_up_proj_scales");
}

// --- training ----------------------------------------------------------------

struct loaded {
    struct decoder decoder;
    struct recipe recipe;
    struct transformer t;
};

static struct loaded *load(const char *folder, int method)
{
    struct loaded *l = ARENA_NEW(&test_arena, struct loaded, 1);
    struct weights in;
    l->recipe = recipe_default();
    l->recipe.method = method;
    l->recipe.targets = "attention";
    CHECK(!decoder_read(&l->decoder, &test_arena, text_of(config), "config.json"));
    struct transformer_setup setup = { .decoder = &l->decoder,
                                       .recipe = &l->recipe,
                                       .compute = DTYPE_F32,
                                       .tokens = 8,
                                       .labelled = 8,
                                       .longest = 8 };
    CHECK(!transformer_init(&l->t, &test_arena, gradient_device(), &setup));
    CHECK(!weights_open(&in, &test_arena, folder));
    CHECK(!transformer_load(&l->t, &in));
    weights_release(&in);
    transformer_random_adapters(&l->t, 1);
    return l;
}

static double loss_of(const char *folder)
{
    struct transformer *t = &load(folder, RECIPE_LORA)->t;
    struct transformer_sums sums;
    static const int32_t ids[] = { 3, 1, 4, 1, 5, 9, 2, 6 }, at[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    static const struct span span = { 0, 8 };
    struct micro_batch batch = { .tokens = 8,
                                 .ids = ids,
                                 .positions = at,
                                 .spans = &span,
                                 .span_count = 1,
                                 .rows = at,
                                 .targets = ids + 1,
                                 .labelled = 7 };
    transformer_begin(t);
    transformer_loss(t, &batch, 0.1);
    transformer_backward(t, &batch);
    CHECK(!transformer_sums(t, &sums));
    transformer_release(t);
    return sums.loss;
}

TEST(training_from_mxfp4_is_training_from_its_values)
{
    double loss = loss_of(write_plain("stacked_train_f32", STORAGE_F32));
    CHECK(loss > 1);
    CHECK(loss == loss_of(write_packed("stacked_train_mxfp4", (struct damage){ 0 })));
}

// Not a bit of what was published is lost, whichever power of two a block had.
TEST(qlora_keeps_experts_in_mxfp4_as_they_were_published)
{
    struct loaded *l = load(write_packed("stacked_qlora", (struct damage){ 0 }), RECIPE_QLORA);
    struct slots slots = slots_of(STORAGE_F32);
    int compared = 0;
    for (size_t i = 0; i < slots.count; i++) {
        const struct weights_slot *slot = &slots.at[i];
        const struct parameter *p = transformer_find(&l->t, slot->file_name);
        CHECK(p);
        if (!p || !p->quantized.is_mxfp4)
            continue;
        struct tensor values = gradient_tensor(DTYPE_F32, slot->shape[0], slot->shape[1]);
        backend_cpu.dequantize(gradient_device(), values, &p->quantized);
        const float *wanted = values_of(slot);
        for (int64_t j = 0; j < tensor_count(values); j++)
            CHECK(((float *)values.at)[j] == wanted[j]);
        compared++;
    }
    CHECK(compared == 2 * 2 * EXPERTS); // gate_up and down of each expert of two layers
    transformer_release(&l->t);
}

TEST(mxfp4_takes_the_nearest_level_and_of_two_the_even_one)
{
    static const float levels[] = { MXFP4_LEVEL_TABLE };
    for (int i = 0; i < 8; i++) {
        CHECK(mxfp4_code(levels[i]) == (unsigned)i);
        CHECK(i == 0 || mxfp4_code(-levels[i]) == 8u + (unsigned)i);
        if (i == 7)
            break;
        float middle = (levels[i] + levels[i + 1]) / 2;
        CHECK(mxfp4_code(middle) == (unsigned)(i % 2 ? i + 1 : i));
        CHECK(mxfp4_code(middle * 0.999f) == (unsigned)i);
        CHECK(mxfp4_code(middle * 1.001f) == (unsigned)i + 1);
    }
    CHECK(mxfp4_code(7.9f) == 7 && mxfp4_scale(0) == 0 && mxfp4_scale(1) == 125);
    CHECK(mxfp4_power(127) == 1 && mxfp4_power(0) == 0x1p-127f && mxfp4_inverse(0) == 0x1p127f);
    for (unsigned scale = 1; scale <= MXFP4_SCALE_MOST; scale++)
        CHECK(mxfp4_scale(6 * mxfp4_power(scale)) == scale);
}
