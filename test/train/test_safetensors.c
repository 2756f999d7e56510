// SPDX-License-Identifier: Apache-2.0
#include "test/files.h"
#include "test/test.h"
#include "train/files/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A file as the format describes it: length, header, data_bytes bytes that count up from 0.
static struct text make_file(const char *header, size_t data_bytes)
{
    size_t size = strlen(header);
    char *at = arena_alloc(&test_arena, 8 + size + data_bytes);
    for (int i = 0; i < 8; i++)
        at[i] = (char)((uint64_t)size >> 8 * i & 255);
    memcpy(at + 8, header, size);
    for (size_t i = 0; i < data_bytes; i++)
        at[8 + size + i] = (char)i;
    return (struct text){ at, 8 + size + data_bytes };
}

static enum err read_made(struct safetensors *in, const char *header, size_t data_bytes)
{
    return safetensors_read(in, &test_arena, make_file(header, data_bytes), "x");
}

// That such a file is refused, with these words in the sentence.
static bool refuses(const char *header, size_t data_bytes, const char *words)
{
    struct safetensors in;
    enum err err = read_made(&in, header, data_bytes);
    bool good = err == ERR_INPUT && strstr(error_text(), words);
    if (!good)
        printf("wanted \"%s\", got %d: %s\n", words, err, err ? error_text() : "");
    return good;
}

TEST(a_tensor_is_found_by_name_with_type_shape_and_bytes)
{
    struct safetensors in;
    CHECK(!read_made(&in,
                     "{\"__metadata__\":{\"format\":\"pt\"},"
                     "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                     "\"a\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]}}   ",
                     14));
    CHECK(in.count == 2);
    const struct safetensors_tensor *a = safetensors_find(&in, "a"),
                                    *b = safetensors_find(&in, "b");
    CHECK(a && a->type == STORAGE_BF16 && a->rank == 1 && a->shape[0] == 3 && a->bytes == 6);
    CHECK(b && b->type == STORAGE_F32 && b->rank == 2 && safetensors_elements(b) == 2);
    CHECK(a && a->at[0] == 8 && b && b->at[7] == 7);
    CHECK(!safetensors_find(&in, "c"));
    CHECK(text_is(json_get_text(&in.metadata, "format"), "pt"));
    CHECK(!strcmp(safetensors_shape(&test_arena, b->rank, b->shape), "[2, 1]"));
}

TEST(scalars_and_tensors_without_elements_are_read)
{
    struct safetensors in;
    CHECK(!read_made(&in,
                     "{\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[0,0]},"
                     "\"one\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}",
                     1));
    CHECK(safetensors_elements(safetensors_find(&in, "none")) == 0);
    CHECK(safetensors_elements(safetensors_find(&in, "one")) == 1);
    CHECK(!read_made(&in, "{}", 0) && !in.count && !safetensors_find(&in, "none"));
}

#define T(name, type, shape, from, to) \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"

TEST(a_lying_header_is_refused)
{
    CHECK(refuses("{" T("a", "F32", "2", "0", "4") "}", 4, "does not take 4 bytes"));
    CHECK(refuses("{" T("a", "F32", "2", "0", "8") "}", 4, "cut off"));
    CHECK(refuses("{" T("a", "F32", "1", "8", "4") "}", 8, "bytes 8 to 4"));
    CHECK(refuses("{" T("a", "F31", "1", "0", "4") "}", 4, "\"F31\" is not known"));
    CHECK(refuses("{" T("a", "F32", "-1", "0", "4") "}", 4, "whole and not negative"));
    CHECK(refuses("{" T("a", "F32", "0.25", "0", "1") "}", 1, "whole and not negative"));
    CHECK(refuses("{" T("a", "F32", "1e300", "0", "4") "}", 4, "whole and not negative"));
    CHECK(refuses("{" T("a", "F32", "\"1\"", "0", "4") "}", 4, "no number"));
    CHECK(refuses("{" T("a", "U8", "4294967296,4294967296", "0", "0") "}", 0, "does not take"));
    CHECK(refuses("{" T("a", "U8", "1,1,1,1,1,1,1,1,1", "0", "1") "}", 1, "more than 8"));
    CHECK(refuses("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "lacks"));
    CHECK(refuses("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "must be 2"));
    CHECK(refuses("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 1, "twice"));
    CHECK(refuses("{\"a\":{\"dtype\":\"U8\",\"colour\":1}}", 1, "\"colour\""));
    CHECK(refuses("{\"a\":7}", 1, "by an object"));
    CHECK(refuses("{\"\":{}}", 0, "name is empty"));
    CHECK(refuses("{\"a\\u0000b\":{}}", 0, "zero byte"));
    CHECK(refuses("[1]", 0, "not a JSON object"));
    CHECK(refuses("{\"__metadata__\":{\"x\":1}}", 0, "object of strings"));
}

TEST(overlaps_holes_and_duplicate_names_are_refused)
{
    CHECK(refuses("{" T("a", "U8", "4", "0", "4") "," T("b", "U8", "4", "3", "7") "}", 7,
                  "a and b overlap"));
    CHECK(
        refuses("{" T("a", "U8", "4", "0", "4") "," T("b", "U8", "4", "0", "4") "}", 4, "overlap"));
    CHECK(refuses("{" T("a", "U8", "4", "0", "4") "," T("b", "U8", "2", "6", "8") "}", 8,
                  "2 unused bytes"));
    CHECK(refuses("{" T("a", "U8", "4", "1", "5") "}", 5, "1 unused bytes"));
    CHECK(refuses("{" T("a", "U8", "4", "0", "4") "}", 9, "5 bytes after a belong to no tensor"));
    CHECK(refuses("{" T("a", "U8", "1", "0", "1") "," T("a", "U8", "1", "1", "2") "}", 2, "twice"));
}

TEST(headers_that_do_not_end_or_go_too_deep_are_refused)
{
    CHECK(refuses("{" T("a", "U8", "1", "0", "1"), 1, "x:"));
    char deep[1200] = "{\"a\":";
    memset(deep + 5, '[', 1000);
    CHECK(refuses(deep, 0, "x:"));
    char nested[1200] = "{\"__metadata__\":";
    memset(nested + 16, '[', 1000);
    CHECK(refuses(nested, 0, "x:"));
}

TEST(every_truncation_of_a_file_is_refused)
{
    struct text whole = make_file("{" T("a", "F32", "2", "0", "8") "}", 8);
    for (size_t size = 0; size < whole.size; size++) {
        char *cut = malloc(size + 1); // of its own, so that a sanitizer sees one byte too far
        memcpy(cut, whole.at, size);
        struct safetensors in;
        enum err err = safetensors_read(&in, &test_arena, (struct text){ cut, size }, "x");
        free(cut);
        if (err != ERR_INPUT)
            return CHECK(err == ERR_INPUT);
    }
    struct safetensors in;
    struct text huge = { "\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10 };
    CHECK(safetensors_read(&in, &test_arena, huge, "x") && strstr(error_text(), "header"));
}

// --- writing -----------------------------------------------------------------

static const char *make_folder(const char *name)
{
    const char *path = files_path(name);
    mkdir(path, 0700);
    return path;
}

// Three tensors of different types, of which the widest is declared last.
static enum err write_three(const char *folder, size_t shard_bytes)
{
    static const int64_t bytes_shape[] = { 3 }, half_shape[] = { 2, 1 }, real_shape[] = { 2 };
    static const float reals[] = { 1.5f, -2 };
    struct safetensors_writer out;
    safetensors_init(&out, &test_arena, folder, "model");
    out.shard_bytes = shard_bytes;
    safetensors_note(&out, "step", "12");
    size_t bytes = safetensors_declare(&out, "bytes", STORAGE_U8, 1, bytes_shape);
    size_t half = safetensors_declare(&out, "half", STORAGE_BF16, 2, half_shape);
    size_t real = safetensors_declare(&out, "real", STORAGE_F32, 1, real_shape);
    char stored[4];
    storage_write(stored, STORAGE_BF16, reals, 2);
    enum err err = safetensors_begin(&out);
    err = err ? err : safetensors_write(&out, real, 4, &reals[1], 4);
    err = err ? err : safetensors_write(&out, real, 0, &reals[0], 4);
    err = err ? err : safetensors_write(&out, half, 0, stored, 4);
    err = err ? err : safetensors_write(&out, bytes, 0, "\1\2\3", 3);
    err = err ? err : safetensors_finish(&out);
    safetensors_release_writer(&out);
    return err;
}

static void check_three(const char *folder)
{
    struct safetensors in;
    CHECK(!safetensors_open(&in, &test_arena, folder));
    const struct safetensors_tensor *real = safetensors_find(&in, "real");
    const struct safetensors_tensor *half = safetensors_find(&in, "half");
    const struct safetensors_tensor *bytes = safetensors_find(&in, "bytes");
    float values[2] = { 0 };
    CHECK(in.count == 3 && real && half && bytes);
    if (in.count == 3) {
        storage_read(values, real->type, real->at, 2);
        CHECK(values[0] == 1.5f && values[1] == -2 && (uintptr_t)real->at % 4 == 0);
        storage_read(values, half->type, half->at, 2);
        CHECK(values[0] == 1.5f && values[1] == -2 && (uintptr_t)half->at % 2 == 0);
        CHECK(!memcmp(bytes->at, "\1\2\3", 3));
        CHECK(text_is(json_get_text(&in.metadata, "format"), "pt"));
        CHECK(text_is(json_get_text(&in.metadata, "step"), "12"));
    }
    safetensors_release(&in);
}

TEST(what_is_written_is_read_again_and_aligned)
{
    const char *folder = make_folder("st-one");
    CHECK(!write_three(folder, 1000));
    CHECK(!access(files_path("st-one/model.safetensors"), F_OK));
    check_three(folder);
    check_three(files_path("st-one/model.safetensors"));
}

TEST(large_models_are_written_in_several_files_with_an_index)
{
    const char *folder = make_folder("st-many");
    CHECK(!write_three(folder, 1000));
    CHECK(!write_three(folder, 7)); // 3 + 4 bytes in the first file, 8 in the second
    CHECK(!access(files_path("st-many/model-00001-of-00002.safetensors"), F_OK));
    CHECK(!access(files_path("st-many/model-00002-of-00002.safetensors"), F_OK));
    CHECK(access(files_path("st-many/model.safetensors"), F_OK)); // the older one is gone
    check_three(folder);
    check_three(files_path("st-many/model.safetensors.index.json"));
}

// As checkpoints are: 12 GB are one file, whose name resumption knows. Nothing of it is written
// here.
TEST(a_writer_without_a_limit_makes_one_file_of_any_size)
{
    const char *folder = make_folder("st-large");
    static const int64_t shape[] = { 1 << 15, 1 << 15 };
    struct safetensors_writer out;
    safetensors_init(&out, &test_arena, folder, "state");
    out.shard_bytes = SIZE_MAX;
    for (int i = 0; i < 3; i++)
        safetensors_declare(&out, text_format(&test_arena, "m.%d", i), STORAGE_F32, 2, shape);
    CHECK(!safetensors_begin(&out));
    CHECK(out.shard_count == 1);
    safetensors_release_writer(&out);
    CHECK(!rmdir(folder));
}

TEST(what_was_not_finished_leaves_nothing_behind)
{
    const char *folder = make_folder("st-stopped");
    static const int64_t shape[] = { 4 };
    struct safetensors_writer out;
    safetensors_init(&out, &test_arena, folder, "model");
    size_t slot = safetensors_declare(&out, "a", STORAGE_U8, 1, shape);
    CHECK(!safetensors_begin(&out));
    CHECK(!safetensors_write(&out, slot, 0, "ab", 2));
    CHECK(safetensors_finish(&out) == ERR_BUG && strstr(error_text(), "2 of 4 bytes"));
    safetensors_release_writer(&out);
    CHECK(!rmdir(folder)); // an empty folder only
}

TEST(a_folder_that_is_not_there_cannot_be_written_to)
{
    CHECK(write_three(files_path("st-nowhere"), 1000) == ERR_INPUT);
    CHECK(strstr(error_text(), "cannot be written"));
    struct safetensors in;
    CHECK(safetensors_open(&in, &test_arena, make_folder("st-empty")) == ERR_INPUT);
    CHECK(strstr(error_text(), "neither model.safetensors nor"));
}

// --- the index ---------------------------------------------------------------

static bool index_refused(const char *index, const char *words)
{
    struct safetensors in;
    const char *path = files_write("st-index/model.safetensors.index.json", text_of(index));
    bool good =
        safetensors_open(&in, &test_arena, path) == ERR_INPUT && strstr(error_text(), words);
    if (!good)
        printf("wanted \"%s\": %s\n", words, error_text());
    return good;
}

TEST(an_index_that_lies_is_refused)
{
    files_write("st-index/one.safetensors", make_file("{" T("a", "U8", "1", "0", "1") "}", 1));
    files_write("st-index/bad.safetensors", make_file("{" T("b", "U8", "2", "0", "1") "}", 1));
    CHECK(index_refused("{\"weight_map\":{\"b\":\"one.safetensors\"}}", "is not in one"));
    CHECK(index_refused("{\"weight_map\":{\"b\":\"bad.safetensors\"}}", "does not take"));
    CHECK(index_refused("{\"weight_map\":{\"a\":\"two.safetensors\"}}", "cannot be opened"));
    CHECK(index_refused("{\"weight_map\":{\"a\":\"../one.safetensors\"}}", "in the same folder"));
    CHECK(index_refused("{\"weight_map\":{\"a\":\"one.safetensors\",\"a\":\"one.safetensors\"}}",
                        "twice"));
    CHECK(index_refused("{\"weight_map\":{\"a\":3}}", "is not a string"));
    CHECK(index_refused("{\"weight_map\":[]}", "must be an object"));
    CHECK(index_refused("{}", "no weight_map"));
    CHECK(index_refused("{\"weight_map\":{\"a\":\"one.safetensors\"}", "index.json"));
}

TEST(the_first_number_that_is_not_finite_is_found)
{
    float values[10000] = { 0 };
    char stored[20000];
    CHECK(storage_first_not_finite(STORAGE_F32, values, 10000) == 10000);
    values[9000] = NAN;
    values[9500] = INFINITY;
    CHECK(storage_first_not_finite(STORAGE_F32, values, 10000) == 9000);
    storage_write(stored, STORAGE_BF16, values, 10000);
    CHECK(storage_first_not_finite(STORAGE_BF16, stored, 10000) == 9000);
    CHECK(storage_first_not_finite(STORAGE_BF16, stored, 9000) == 9000);
    storage_write(stored, STORAGE_F16, values + 9400, 600);
    CHECK(storage_first_not_finite(STORAGE_F16, stored, 600) == 100);
    double wide[3] = { 1, -INFINITY, 2 };
    CHECK(storage_first_not_finite(STORAGE_F64, wide, 3) == 1);
}
