// SPDX-License-Identifier: Apache-2.0
// Finds, checks and reads one expert's part of a tensor that holds those of all experts.

#include "train/files/stacked.h"

#include "train/mxfp4.h"

#include <stdlib.h>
#include <string.h>

enum { PARALLEL = 1 << 16 }; // elements that are worth the start of threads

static const float levels[] = { MXFP4_LEVEL_TABLE };

// --- names and shapes --------------------------------------------------------

// "….experts.7.down_proj.bias" → "….experts.down_proj_bias"
const char *stacked_name(struct arena *arena, const char *name, int64_t *expert)
{
    const char *experts = strstr(name, ".experts."), *number = experts + strlen(".experts.");
    const char *linear = strchr(number, '.') + 1, *end = strrchr(name, '.');
    *expert = strtoll(number, NULL, 10);
    return text_format(arena, "%.*s%.*s%s", (int)(number - name), name, (int)(end - linear), linear,
                       strcmp(end, ".bias") ? "" : "_bias");
}

static enum err check_shape(struct arena *arena, const struct safetensors_tensor *t, int rank,
                            const int64_t *shape)
{
    bool same = t->rank == rank;
    for (int i = 0; same && i < rank; i++)
        same = t->shape[i] == shape[i];
    return same ? OK
                : fail(ERR_INPUT, "%s: has shape %s, but config.json needs %s", t->name,
                       safetensors_shape(arena, t->rank, t->shape),
                       safetensors_shape(arena, rank, shape));
}

static enum err check_plain(const struct stacked *s, struct arena *arena)
{
    const struct safetensors_tensor *t = s->tensor;
    int64_t matrix[] = { s->experts, s->columns, s->rows }, bias[] = { s->experts, s->rows };
    if (!storage_is_real(t->type))
        return fail(ERR_INPUT, "%s: is stored as %s; F64, F32, F16, BF16 and MXFP4 can be read",
                    t->name, storage_name(t->type));
    return check_shape(arena, t, s->columns ? 3 : 2, s->columns ? matrix : bias);
}

static enum err check_packed(const struct stacked *s, struct arena *arena)
{
    int64_t blocks = s->columns / MXFP4_BLOCK;
    int64_t codes[] = { s->experts, s->rows, blocks, MXFP4_BLOCK / 2 };
    if (s->columns % MXFP4_BLOCK)
        return fail(ERR_INPUT, "%s: has rows of %lld values, which is no multiple of %d",
                    s->tensor->name, (long long)s->columns, MXFP4_BLOCK);
    if (s->tensor->type != STORAGE_U8 || s->scales->type != STORAGE_U8)
        return fail(ERR_INPUT, "%s: codes and scales of MXFP4 must be stored as U8",
                    s->tensor->name);
    TRY(check_shape(arena, s->tensor, 4, codes));
    return check_shape(arena, s->scales, 3, codes);
}

enum err stacked_find(struct stacked *out, struct arena *arena, const struct safetensors *in,
                      const char *name)
{
    const char *stack = stacked_name(arena, name, &out->expert);
    out->tensor = safetensors_find(in, stack);
    if (out->tensor)
        return check_plain(out, arena);
    out->tensor = safetensors_find(in, text_format(arena, "%s_blocks", stack));
    out->scales = safetensors_find(in, text_format(arena, "%s_scales", stack));
    if (!out->tensor || !out->scales)
        return fail(ERR_INPUT, "%s: is not in the files, as values or as %s_blocks and %s_scales",
                    stack, stack, stack);
    return check_packed(out, arena);
}

// --- bytes -------------------------------------------------------------------

const char *stacked_at(const struct stacked *in)
{
    return in->tensor->at + (size_t)in->expert * stacked_bytes(in);
}

size_t stacked_bytes(const struct stacked *in)
{
    return in->tensor->bytes / (size_t)in->experts;
}

static const unsigned char *scales_of(const struct stacked *in)
{
    return (const unsigned char *)in->scales->at +
           (size_t)in->expert * (in->scales->bytes / (size_t)in->experts);
}

int64_t stacked_row(const struct stacked *in, int64_t row)
{
    int64_t half = in->rows / 2;
    return in->alternates ? row % half * 2 + row / half : row;
}

static void read_packed(float *out, const struct stacked *in, const char *bytes, int64_t row,
                        int64_t first, int64_t count)
{
    const unsigned char *codes = (const unsigned char *)bytes + row * in->columns / 2;
    const unsigned char *scales = scales_of(in) + row * in->columns / MXFP4_BLOCK;
    for (int64_t i = first, last = first + count; i < last;) {
        float power = mxfp4_power(scales[i / MXFP4_BLOCK]);
        int64_t end = (i / MXFP4_BLOCK + 1) * MXFP4_BLOCK;
        for (end = end < last ? end : last; i < end; i++)
            *out++ = levels[codes[i / 2] >> (i % 2 ? 4 : 0) & 15] * power;
    }
}

static void read_plain(float *out, const struct stacked *in, const char *bytes, int64_t row,
                       int64_t first, int64_t count)
{
    enum storage type = in->tensor->type;
    size_t size = storage_bytes(type);
    for (int64_t i = first; i < first + count; i++)
        storage_read(out++, type, bytes + (size_t)(i * in->rows + row) * size, 1);
}

void stacked_read(float *out, const struct stacked *in, const char *bytes, int64_t first,
                  int64_t count)
{
    int64_t columns = in->columns ? in->columns : 1, last = first + count;
    int64_t end = (last + columns - 1) / columns;
#pragma omp parallel for if (count > PARALLEL)
    for (int64_t row = first / columns; row < end; row++) {
        int64_t from = row * columns < first ? first : row * columns;
        int64_t to = (row + 1) * columns < last ? (row + 1) * columns : last;
        (in->scales ? read_packed : read_plain)(
            out + (from - first), in, bytes, stacked_row(in, row), from - row * columns, to - from);
    }
}

void stacked_arrange(float *out, const struct stacked *of, const float *values)
{
    int64_t columns = of->columns ? of->columns : 1;
    for (int64_t row = 0; row < of->rows; row++)
        for (int64_t i = 0, at = stacked_row(of, row); i < columns; i++)
            out[i * of->rows + at] = values[row * columns + i];
}

bool stacked_is_finite(const struct stacked *in, const char *bytes)
{
    size_t count = (size_t)(in->rows * (in->columns ? in->columns : 1));
    if (!in->scales)
        return storage_first_not_finite(in->tensor->type, bytes, count) == count;
    const unsigned char *scales = scales_of(in);
    for (size_t i = 0; i < count / MXFP4_BLOCK; i++)
        if (scales[i] > MXFP4_SCALE_MOST)
            return false;
    return true;
}
