// SPDX-License-Identifier: Apache-2.0
// Our half of tools/peft_roundtrip.py, which sets ROUNDTRIP to the folder it made and judges what
// is written here. Without it there is nothing to do.

#include "test/test.h"
#include "train/files/adapter_file.h"
#include "train/files/weights.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const kinds[] = { "llama", "qwen2", "qwen3", "gpt_oss" };
enum { KINDS = sizeof kinds / sizeof *kinds, QUANTIZED = KINDS - 1 }; // bitsandbytes: not the last

static const char *folder_of(const char *kind, const char *name)
{
    const char *folder = getenv("ROUNDTRIP");
    return folder ? text_format(&test_arena, "%s/%s/%s", folder, kind, name) : NULL;
}

static float *load(const struct safetensors_tensor *t)
{
    size_t count = (size_t)safetensors_elements(t);
    float *values = ARENA_NEW(&test_arena, float, count);
    storage_read(values, t->type, t->at, count);
    return values;
}

static enum err write_again(const char *from, const char *to)
{
    struct adapter_file in;
    TRY(adapter_file_open(&in, &test_arena, from));
    struct adapter_file_factors *factors =
        ARENA_NEW(&test_arena, struct adapter_file_factors, in.module_count);
    struct adapter_file_whole *whole =
        ARENA_NEW(&test_arena, struct adapter_file_whole, in.saved_count + 1);
    int64_t experts = 0;
    for (size_t i = 0; i < in.module_count; i++) {
        const struct adapter_file_module *m = &in.modules[i];
        factors[i] = (struct adapter_file_factors){ m->name,
                                                    m->in,
                                                    m->out,
                                                    adapter_file_a(&test_arena, m),
                                                    adapter_file_b(&test_arena, m),
                                                    m->magnitude ? load(m->magnitude) : NULL };
        experts = m->stack ? m->stack->experts : experts;
    }
    for (size_t i = 0; i < in.saved_count; i++) {
        const struct safetensors_tensor *t = in.saved[i].tensor;
        whole[i] = (struct adapter_file_whole){
            in.saved[i].name, t->rank, { t->shape[0], t->shape[1] }, load(t)
        };
    }
    struct adapter_file_content content = { factors,        in.module_count, whole,
                                            in.saved_count, STORAGE_F32,     experts };
    mkdir(to, 0777);
    enum err err = adapter_file_write(to, &test_arena, &in.config, &content);
    adapter_file_release(&in);
    return err;
}

TEST(adapters_of_peft_are_written_again_for_it)
{
    if (!getenv("ROUNDTRIP"))
        return test_skip("tools/peft_roundtrip.py runs this");
    for (int i = 0; i < KINDS; i++)
        if (!access(folder_of(kinds[i], "peft"), F_OK)) // those that it was asked for
            CHECK(!write_again(folder_of(kinds[i], "peft"), folder_of(kinds[i], "ours")));
}

static bool quantizes(const struct weights_slot *slot)
{
    return slot->rank == 2 && slot->layer >= 0;
}

static enum err put_weight(struct safetensors_writer *out, const struct weights_item *item,
                           size_t slot, const struct nf4_slots *parts)
{
    int64_t count = weights_elements(&item->slot);
    float *values = ARENA_NEW(&test_arena, float, count);
    weights_read(values, item, 0, count);
    if (!quantizes(&item->slot))
        return safetensors_write(out, slot, 0, item->tensor->at, item->tensor->bytes);
    struct nf4 nf4;
    nf4_quantize(&nf4, &test_arena, values, item->slot.shape[0], item->slot.shape[1],
                 item->slot.type);
    return nf4_write(out, parts, &nf4);
}

static enum err put_weights(struct safetensors_writer *out, const struct weights *w)
{
    size_t *at = ARENA_NEW(&test_arena, size_t, w->count);
    struct nf4_slots *parts = ARENA_NEW(&test_arena, struct nf4_slots, w->count);
    for (size_t i = 0; i < w->count; i++) {
        const struct weights_slot *s = &w->items[i].slot;
        if (quantizes(s))
            parts[i] = nf4_declare(out, s->file_name, s->shape[0], s->shape[1]);
        else
            at[i] = safetensors_declare(out, s->file_name, s->type, s->rank, s->shape);
    }
    TRY(safetensors_begin(out));
    for (size_t i = 0; i < w->count; i++)
        TRY(put_weight(out, &w->items[i], at[i], &parts[i]));
    return safetensors_finish(out);
}

static enum err quantize(const char *from, const char *to)
{
    struct weights w;
    TRY(weights_open(&w, &test_arena, from));
    struct safetensors_writer out;
    mkdir(to, 0777);
    safetensors_init(&out, &test_arena, to, "model");
    enum err err = put_weights(&out, &w);
    safetensors_release_writer(&out);
    weights_release(&w);
    return err;
}

TEST(models_are_quantized_for_bitsandbytes)
{
    if (!getenv("ROUNDTRIP"))
        return test_skip("tools/peft_roundtrip.py runs this");
    for (int i = 0; i < QUANTIZED; i++)
        if (!access(folder_of(kinds[i], "base"), F_OK))
            CHECK(!quantize(folder_of(kinds[i], "base"), folder_of(kinds[i], "ours_nf4")));
}
