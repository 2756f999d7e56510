// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"
#include "base/rng.h"
#include "test/files.h"
#include "test/test.h"
#include "train/nf4.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static float *normal_values(int64_t count, float size)
{
    struct rng rng = rng_seeded(7);
    float *values = ARENA_NEW(&test_arena, float, count);
    for (int64_t i = 0; i < count; i++)
        values[i] = half_from_bf16(half_to_bf16((float)rng_normal(&rng) * size));
    return values;
}

// The thresholds of bitsandbytes' kernel, as published: the code is the number of those below.
static const float thresholds[15] = {
    -0.8480964004993439f,  -0.6106329262256622f,  -0.4599952697753906f,   -0.33967943489551544f,
    -0.23460740596055984f, -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f,
    0.1202552504837513f,   0.2035212516784668f,   0.2920137718319893f,    0.3893125355243683f,
    0.5016634166240692f,   0.6427869200706482f,   0.8614784181118011f,
};

static int code_of(float scaled)
{
    int code = 0;
    for (int i = 0; i < 15; i++)
        code += scaled > thresholds[i];
    return code;
}

TEST(codes_are_those_of_the_published_thresholds)
{
    enum { COUNT = 64 * 300 };
    float *values = normal_values(COUNT, 0.02f);
    struct nf4 nf4;
    nf4_quantize(&nf4, &test_arena, values, 300, 64, STORAGE_BF16);
    for (int b = 0; b < COUNT / 64; b++) {
        float most = 0;
        for (int i = 0; i < 64; i++)
            most = fmaxf(most, fabsf(values[64 * b + i]));
        for (int i = 0; i < 64; i++) {
            int at = 64 * b + i, found = at % 2 ? nf4.codes[at / 2] & 15 : nf4.codes[at / 2] >> 4;
            if (found != code_of(values[at] * (1.0f / most)))
                return CHECK(!"each code is that of the thresholds");
        }
    }
    // Every threshold, and the floats on its two sides.
    for (int i = 0; i < 15; i++) {
        float around[64] = { 1, nextafterf(thresholds[i], -2), thresholds[i],
                             nextafterf(thresholds[i], 2) };
        nf4_quantize(&nf4, &test_arena, around, 1, 64, STORAGE_F32);
        CHECK((nf4.codes[0] & 15) == i && nf4.codes[1] >> 4 == i && (nf4.codes[1] & 15) == i + 1);
    }
}

// Section 3 of the layout, spelled out for one element without any function of ours.
static double reference(const struct nf4 *nf4, int64_t i)
{
    static const double levels[16] = { -1.0,
                                       -0.6961928009986877,
                                       -0.5250730514526367,
                                       -0.39491748809814453,
                                       -0.28444138169288635,
                                       -0.18477343022823334,
                                       -0.09105003625154495,
                                       0.0,
                                       0.07958029955625534,
                                       0.16093020141124725,
                                       0.24611230194568634,
                                       0.33791524171829224,
                                       0.44070982933044434,
                                       0.5626170039176941,
                                       0.7229568362236023,
                                       1.0 };
    int64_t block = i / 64;
    float top;
    memcpy(&top, nf4->nested_scales + 4 * (block / 256), 4);
    int code = i % 2 == 0 ? nf4->codes[i / 2] / 16 : nf4->codes[i / 2] % 16;
    int scale = (unsigned char)nf4->scales[block];
    return levels[code] * ((double)nf4->nested_levels[scale] * (double)top + (double)nf4->offset);
}

TEST(decoding_is_within_bf16_rounding_of_the_formula)
{
    enum { ROWS = 259, COLUMNS = 257 }; // blocks that cross rows, and a last one that is not full
    float *values = normal_values(ROWS * COLUMNS, 0.05f), out[ROWS];
    struct nf4 nf4;
    nf4_quantize(&nf4, &test_arena, values, ROWS, COLUMNS, STORAGE_BF16);
    for (int64_t row = 0; row < COLUMNS; row++) { // in pieces that begin and end inside blocks
        nf4_dequantize(out, &nf4, row * ROWS, ROWS);
        for (int64_t i = 0; i < ROWS; i++) {
            double wanted = reference(&nf4, row * ROWS + i);
            double rounded = (double)half_from_bf16(half_to_bf16(out[i]));
            if (fabs(rounded - wanted) > fabs(wanted) * 0x1p-8 ||
                fabs((double)out[i] - wanted) > fabs(wanted) * 1e-6)
                return CHECK_NEAR((double)out[i], wanted, 1e-6);
        }
    }
}

TEST(the_error_of_four_bits_is_that_of_the_levels)
{
    enum { COUNT = 64 * 1000 };
    float *values = normal_values(COUNT, 1), *out = ARENA_NEW(&test_arena, float, COUNT);
    struct nf4 nf4;
    nf4_quantize(&nf4, &test_arena, values, 1000, 64, STORAGE_F32);
    nf4_dequantize(out, &nf4, 0, COUNT);
    double error = 0, size = 0;
    for (int i = 0; i < COUNT; i++) {
        error += pow((double)out[i] - (double)values[i], 2);
        size += pow((double)values[i], 2);
        float scale;
        nf4_scales(&scale, &nf4, i / 64, 1);
        // Half the widest gap is 0.152; the scale itself is off by less than 2 %.
        if (fabs((double)out[i] - (double)values[i]) > 0.172 * (double)scale)
            return CHECK(!"each weight is nearer than half a gap");
    }
    CHECK(sqrt(error / size) > 0.08 && sqrt(error / size) < 0.1); // about 9 % of a normal weight
}

TEST(nested_levels_are_the_256_of_the_dynamic_map)
{
    float one[1] = { 1 };
    struct nf4 nf4;
    nf4_quantize(&nf4, &test_arena, one, 1, 1, STORAGE_F32);
    const float *levels = nf4.nested_levels;
    // The ends and the middle, as bitsandbytes prints them.
    CHECK_NEAR((double)levels[0], -0.99296875, 1e-6);
    CHECK_NEAR((double)levels[1], -0.97890625, 1e-6);
    CHECK_NEAR((double)levels[126], -5.5e-7, 1e-6);
    CHECK(levels[127] == 0 && levels[255] == 1);
    CHECK_NEAR((double)levels[128], 5.5e-7, 1e-6);
    CHECK_NEAR((double)levels[129], 3.25e-6, 1e-6);
    CHECK_NEAR((double)levels[254], 0.99296875, 1e-6);
    for (int i = 1; i < 256; i++)
        CHECK(levels[i] > levels[i - 1]);
}

TEST(blocks_of_zeros_stay_zero)
{
    float values[256] = { 0 }, out[256];
    values[200] = 3;
    struct nf4 nf4;
    nf4_quantize(&nf4, &test_arena, values, 2, 128, STORAGE_F32);
    nf4_dequantize(out, &nf4, 0, 256);
    for (int i = 0; i < 256; i++)
        CHECK(i == 200 || out[i] == 0);
    CHECK_NEAR((double)out[200], 3, 0.02);
}

// --- files -------------------------------------------------------------------

static const char name[] = "model.layers.0.mlp.up_proj.weight";

static const char *write_one(const char *folder, const struct nf4 *nf4)
{
    const char *path = files_path(folder);
    mkdir(path, 0700);
    struct safetensors_writer out;
    safetensors_init(&out, &test_arena, path, "model");
    struct nf4_slots slots = nf4_declare(&out, name, nf4->rows, nf4->columns);
    CHECK(!safetensors_begin(&out));
    CHECK(!nf4_write(&out, &slots, nf4));
    CHECK(!safetensors_finish(&out));
    safetensors_release_writer(&out);
    return path;
}

TEST(a_quantized_weight_is_written_and_read_bit_for_bit)
{
    enum { ROWS = 33, COLUMNS = 127 };
    float *values = normal_values(ROWS * COLUMNS, 0.05f);
    float *before = ARENA_NEW(&test_arena, float, ROWS *COLUMNS);
    float *after = ARENA_NEW(&test_arena, float, ROWS *COLUMNS);
    struct nf4 nf4, again;
    nf4_quantize(&nf4, &test_arena, values, ROWS, COLUMNS, STORAGE_BF16);
    nf4_dequantize(before, &nf4, 0, ROWS * COLUMNS);

    struct safetensors in;
    CHECK(!safetensors_open(&in, &test_arena, write_one("nf4-one", &nf4)));
    CHECK(in.count == 6 && nf4_is(&in, name) && !nf4_is(&in, "model.norm.weight"));
    for (size_t i = 0; i < in.count; i++)
        CHECK(nf4_is_part(in.tensors[i].name) == (strcmp(in.tensors[i].name, name) != 0));
    CHECK(!nf4_read(&again, &test_arena, &in, name));
    CHECK(again.rows == ROWS && again.columns == COLUMNS && again.type == STORAGE_BF16);
    nf4_dequantize(after, &again, 0, ROWS * COLUMNS);
    CHECK(!memcmp(before, after, ROWS * COLUMNS * sizeof *before));
    const struct safetensors_tensor *codes = safetensors_find(&in, name);
    CHECK(codes->rank == 2 && codes->shape[0] == (ROWS * COLUMNS + 1) / 2 && codes->shape[1] == 1);
    safetensors_release(&in);
}

// A file with plain fp32 scales, as bitsandbytes writes one without double quantization.
static struct text plain_file(const char *state)
{
    static const char header[] =
        "{\"w.quant_map\":{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,64]},"
        "\"w.absmax\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[64,72]},"
        "\"w\":{\"dtype\":\"U8\",\"shape\":[33,1],\"data_offsets\":[72,105]},"
        "\"w.quant_state.bitsandbytes__nf4\":{\"dtype\":\"U8\",\"shape\":[%zu],"
        "\"data_offsets\":[105,%zu]}}";
    char *at = arena_alloc(&test_arena, 2048);
    int size = snprintf(at + 8, 1024, header, strlen(state), 105 + strlen(state));
    at[0] = (char)(size & 255);
    at[1] = (char)(size >> 8);
    char *data = at + 8 + size;
    const float scales[2] = { 2, 4 };
    memcpy(data, nf4_levels, 64);
    memcpy(data + 64, scales, 8);
    memset(data + 72, 0xF7, 33); // levels 1 and 0 in turn
    memcpy(data + 105, state, strlen(state));
    return (struct text){ at, (size_t)(data + 105 - at) + strlen(state) };
}

static enum err read_plain(struct nf4 *out, const char *state)
{
    struct safetensors in;
    CHECK(!safetensors_read(&in, &test_arena, plain_file(state), "x"));
    return nf4_read(out, &test_arena, &in, "w");
}

TEST(scales_that_are_not_nested_are_read)
{
    struct nf4 nf4;
    float out[66];
    CHECK(!read_plain(&nf4, "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"float16\", "
                            "\"shape\": [6, 11]}"));
    nf4_dequantize(out, &nf4, 0, 66);
    CHECK(out[0] == 2 && out[1] == 0 && out[62] == 2 && out[64] == 4 && out[65] == 0);
}

TEST(a_quant_state_that_does_not_fit_its_tensors_is_refused)
{
    struct nf4 nf4;
#define STATE(type, block, shape) \
    "{\"quant_type\": \"" type "\", \"blocksize\": " block ", \"dtype\": \"float16\", " shape "}"
    CHECK(read_plain(&nf4, STATE("fp4", "64", "\"shape\": [6, 11]")) == ERR_INPUT);
    CHECK(read_plain(&nf4, STATE("nf4", "0", "\"shape\": [6, 11]")) == ERR_INPUT);
    CHECK(read_plain(&nf4, STATE("nf4", "32", "\"shape\": [6, 11]")) == ERR_INPUT);
    CHECK(strstr(error_text(), "must be 3 numbers of F32"));
    CHECK(read_plain(&nf4, STATE("nf4", "64", "\"shape\": [6, 12]")) == ERR_INPUT);
    CHECK(strstr(error_text(), "must be 36 numbers of U8"));
    CHECK(read_plain(&nf4, STATE("nf4", "64", "\"shape\": [1e30, 12]")) == ERR_INPUT);
    CHECK(read_plain(&nf4, STATE("nf4", "64", "\"shape\": 6")) == ERR_INPUT);
    CHECK(read_plain(&nf4, "{") == ERR_INPUT);
    CHECK(read_plain(&nf4, STATE("nf4", "64",
                                 "\"shape\": [6, 11], \"nested_blocksize\": 4, "
                                 "\"nested_offset\": 1")) == ERR_INPUT);
    CHECK(strstr(error_text(), "w.absmax"));
}
