// SPDX-License-Identifier: Apache-2.0
// Reads and writes NF4 weights in safetensors files, with the part names of bitsandbytes.

#include "train/nf4.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char state_ending[] = ".quant_state.bitsandbytes__nf4";

// The JSON of a weight is written when its scales are known, into space reserved before.
enum { STATE_BYTES = 256 };

static const char *part_name(struct arena *arena, const char *name, const char *ending)
{
    return text_format(arena, "%s%s", name, ending);
}

bool nf4_is(const struct safetensors *in, const char *name)
{
    struct arena scratch = { 0 };
    bool is = safetensors_find(in, part_name(&scratch, name, state_ending)) ||
              safetensors_find(in, part_name(&scratch, name, ".quant_state.bitsandbytes__fp4")) ||
              safetensors_find(in, part_name(&scratch, name, ".quant_map"));
    arena_release(&scratch);
    return is;
}

bool nf4_is_part(const char *name)
{
    static const char *const endings[] = { ".weight.absmax", ".weight.quant_map",
                                           ".weight.nested_absmax", ".weight.nested_quant_map",
                                           ".weight.quant_state.bitsandbytes__nf4" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (text_ends(text_of(name), endings[i]))
            return true;
    return false;
}

// --- reading -----------------------------------------------------------------

struct reading {
    struct arena *arena;
    const struct safetensors *in;
    const char *name;
};

static enum err find_part(const struct reading *r, const char *ending, enum storage type,
                          int64_t count, const char **at)
{
    const struct safetensors_tensor *found =
        safetensors_find(r->in, part_name(r->arena, r->name, ending));
    if (!found)
        return fail(ERR_INPUT, "%s: is quantized, but %s%s is not in the file", r->name, r->name,
                    ending);
    if (found->type != type || safetensors_elements(found) != count)
        return fail(ERR_INPUT, "%s%s: is %s of %s, must be %lld numbers of %s", r->name, ending,
                    storage_name(found->type),
                    safetensors_shape(r->arena, found->rank, found->shape), (long long)count,
                    storage_name(type));
    *at = found->at;
    return OK;
}

// A block size or a side of the shape.
static enum err read_count(const struct reading *r, const struct json *value, const char *what,
                           int64_t most, int64_t *out)
{
    double number = value && value->kind == JSON_NUMBER ? value->number : NAN;
    if (!(number >= 1 && number <= (double)most) || number != floor(number))
        return fail(ERR_INPUT, "%s%s: %s must be a whole number from 1 to %lld", r->name,
                    state_ending, what, (long long)most);
    *out = (int64_t)number;
    return OK;
}

static enum err read_state(struct nf4 *out, const struct reading *r)
{
    const char *key = part_name(r->arena, r->name, state_ending);
    const struct safetensors_tensor *state = safetensors_find(r->in, key);
    if (!state)
        return fail(ERR_INPUT,
                    "%s: is quantized, but not to NF4 of bitsandbytes, the only supported format",
                    r->name);
    struct json json;
    TRY(json_read(&json, r->arena, (struct text){ state->at, state->bytes }, key));
    if (json.kind != JSON_OBJECT || !text_is(json_get_text(&json, "quant_type"), "nf4"))
        return fail(ERR_INPUT, "%s: must be an object with quant_type nf4", key);
    struct text type = json_get_text(&json, "dtype");
    if (!storage_find_torch(&out->type, type) || !storage_is_real(out->type))
        return fail(ERR_INPUT, "%s: dtype \"%.*s\" is not known", key, TEXT_BRIEF(type));
    const struct json *shape = json_get(&json, "shape");
    if (!shape || shape->kind != JSON_ARRAY || shape->count != 2)
        return fail(ERR_INPUT, "%s: shape must be a list of two numbers", key);
    TRY(read_count(r, &shape->items[0], "shape", 1 << 30, &out->rows));
    TRY(read_count(r, &shape->items[1], "shape", 1 << 30, &out->columns));
    TRY(read_count(r, json_get(&json, "blocksize"), "blocksize", 1 << 16, &out->block));
    out->nested = json_get(&json, "nested_blocksize") != NULL;
    if (!out->nested)
        return OK;
    TRY(read_count(r, json_get(&json, "nested_blocksize"), "nested_blocksize", 1 << 16,
                   &out->nested_block));
    double offset = json_get_number(&json, "nested_offset", NAN);
    if (!(fabs(offset) <= 1e30))
        return fail(ERR_INPUT, "%s: nested_offset must be a number", key);
    out->offset = (float)offset;
    return OK;
}

// The kernels have the levels built in, so a file with other levels cannot be decoded.
static enum err check_levels(const struct reading *r)
{
    const char *at;
    float levels[NF4_LEVELS];
    TRY(find_part(r, ".quant_map", STORAGE_F32, NF4_LEVELS, &at));
    memcpy(levels, at, sizeof levels);
    for (int i = 0; i < NF4_LEVELS; i++)
        if (!(fabsf(levels[i] - nf4_levels[i]) <= 1e-6f))
            return fail(ERR_INPUT, "%s.quant_map: level %d is %g, must be %g as NF4 has it",
                        r->name, i, (double)levels[i], (double)nf4_levels[i]);
    return OK;
}

static enum err check_finite(const struct reading *r, const char *what, const char *at,
                             int64_t count)
{
    size_t bad = storage_first_not_finite(STORAGE_F32, at, (size_t)count);
    if (bad < (size_t)count)
        return fail(ERR_INPUT, "%s%s: number %zu is not finite", r->name, what, bad);
    return OK;
}

static enum err read_scales(struct nf4 *out, const struct reading *r)
{
    int64_t blocks = nf4_blocks(out);
    if (!out->nested) {
        TRY(find_part(r, ".absmax", STORAGE_F32, blocks, &out->scales));
        return check_finite(r, ".absmax", out->scales, blocks);
    }
    int64_t nested = (blocks + out->nested_block - 1) / out->nested_block;
    const char *levels;
    TRY(find_part(r, ".absmax", STORAGE_U8, blocks, &out->scales));
    TRY(find_part(r, ".nested_absmax", STORAGE_F32, nested, &out->nested_scales));
    TRY(find_part(r, ".nested_quant_map", STORAGE_F32, NF4_NESTED_LEVELS, &levels));
    TRY(check_finite(r, ".nested_absmax", out->nested_scales, nested));
    TRY(check_finite(r, ".nested_quant_map", levels, NF4_NESTED_LEVELS));
    memcpy(out->nested_levels, levels, sizeof out->nested_levels);
    return OK;
}

enum err nf4_read(struct nf4 *out, struct arena *arena, const struct safetensors *in,
                  const char *name)
{
    struct reading r = { arena, in, name };
    const char *codes;
    *out = (struct nf4){ 0 };
    TRY(read_state(out, &r));
    TRY(find_part(&r, "", STORAGE_U8, (out->rows * out->columns + 1) / 2, &codes));
    out->codes = (const uint8_t *)codes;
    TRY(check_levels(&r));
    return read_scales(out, &r);
}

// --- writing -----------------------------------------------------------------

struct nf4_slots nf4_declare(struct safetensors_writer *out, const char *name, int64_t rows,
                             int64_t columns)
{
    struct nf4 shape = { .rows = rows, .columns = columns, .block = NF4_BLOCK };
    const int64_t codes[] = { (rows * columns + 1) / 2, 1 }, levels = NF4_LEVELS;
    const int64_t blocks = nf4_blocks(&shape), nested_levels = NF4_NESTED_LEVELS;
    const int64_t nested = (blocks + NF4_NESTED_BLOCK - 1) / NF4_NESTED_BLOCK, state = STATE_BYTES;
    struct arena *arena = out->arena;
    return (struct nf4_slots){
        .codes = safetensors_declare(out, name, STORAGE_U8, 2, codes),
        .scales =
            safetensors_declare(out, part_name(arena, name, ".absmax"), STORAGE_U8, 1, &blocks),
        .levels =
            safetensors_declare(out, part_name(arena, name, ".quant_map"), STORAGE_F32, 1, &levels),
        .nested_scales = safetensors_declare(out, part_name(arena, name, ".nested_absmax"),
                                             STORAGE_F32, 1, &nested),
        .nested_levels = safetensors_declare(out, part_name(arena, name, ".nested_quant_map"),
                                             STORAGE_F32, 1, &nested_levels),
        .state =
            safetensors_declare(out, part_name(arena, name, state_ending), STORAGE_U8, 1, &state),
    };
}

static void spell_state(char out[STATE_BYTES], const struct nf4 *nf4)
{
    struct arena scratch = { 0 };
    struct out text = { .arena = &scratch };
    out_put(&text,
            "{\"quant_type\": \"nf4\", \"blocksize\": %lld, \"dtype\": \"%s\", \"shape\": [%lld, "
            "%lld], \"nested_blocksize\": %lld, \"nested_dtype\": \"float32\", \"nested_offset\": "
            "%.9g}",
            (long long)nf4->block, storage_torch_name(nf4->type), (long long)nf4->rows,
            (long long)nf4->columns, (long long)nf4->nested_block, (double)nf4->offset);
    assert(text.size <= STATE_BYTES);
    memset(out, ' ', STATE_BYTES);
    memcpy(out, text.at, text.size);
    arena_release(&scratch);
}

enum err nf4_write(struct safetensors_writer *out, const struct nf4_slots *slots,
                   const struct nf4 *nf4)
{
    assert(nf4->nested && nf4->block == NF4_BLOCK);
    size_t blocks = (size_t)nf4_blocks(nf4);
    size_t nested = (blocks + NF4_NESTED_BLOCK - 1) / NF4_NESTED_BLOCK;
    size_t codes = (size_t)(nf4->rows * nf4->columns + 1) / 2;
    char state[STATE_BYTES];
    spell_state(state, nf4);
    TRY(safetensors_write(out, slots->codes, 0, nf4->codes, codes));
    TRY(safetensors_write(out, slots->scales, 0, nf4->scales, blocks));
    TRY(safetensors_write(out, slots->levels, 0, nf4_levels, sizeof nf4_levels));
    TRY(safetensors_write(out, slots->nested_scales, 0, nf4->nested_scales, 4 * nested));
    TRY(safetensors_write(out, slots->nested_levels, 0, nf4->nested_levels,
                          sizeof nf4->nested_levels));
    return safetensors_write(out, slots->state, 0, state, sizeof state);
}
