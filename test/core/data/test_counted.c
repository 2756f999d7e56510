// SPDX-License-Identifier: Apache-2.0
// Results of work units: written and read back, whole or refused.

#include "core/data/counted.h"

#include "base/rng.h"
#include "test/test.h"

#include <string.h>

static struct example made(struct rng *rng, int64_t line)
{
    struct example example = { .line = line, .problem = rng_below(rng, 20) ? NULL : "is a number" };
    if (example.problem)
        return example;
    example.tokens = (int64_t)rng_below(rng, 100000);
    example.labelled = (int64_t)rng_below(rng, 1000);
    example.text_bytes = (int64_t)rng_below(rng, UINT64_C(1) << 33);
    example.hash = rng_below(rng, UINT64_MAX);
    example.is_second = rng_below(rng, 2);
    example.is_empty = rng_below(rng, 2);
    example.has_media = rng_below(rng, 2);
    example.adapted = rng_below(rng, 3) ? 0 : CHAT_TOOLS | CHAT_CALLS_ALONE;
    if (!rng_below(rng, 5))
        example.images = (struct vision_load){ .images = 2, .tokens = 0.1, .squares = 1e18 };
    return example;
}

static bool equal(const struct example *a, const struct example *b)
{
    return a->line == b->line && a->tokens == b->tokens && a->labelled == b->labelled &&
           a->text_bytes == b->text_bytes && a->hash == b->hash && a->is_second == b->is_second &&
           a->is_empty == b->is_empty && a->has_media == b->has_media && a->adapted == b->adapted &&
           a->left_out == b->left_out && !memcmp(&a->images, &b->images, sizeof a->images) &&
           !a->problem == !b->problem;
}

enum { EXAMPLES = 2000 };

static struct out written(struct example *examples)
{
    struct rng rng = rng_seeded(7);
    struct out out = { .arena = &test_arena };
    struct counted_writer writer = { .out = &out, .file = 3 };
    int64_t line = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        line = i == EXAMPLES / 2 ? 1 : line + (int64_t)rng_below(&rng, 300);
        examples[i] = made(&rng, line);
        counted_put(&writer, i < EXAMPLES / 2 ? 3 : 5, &examples[i]);
    }
    struct record_column columns[] = { { "text", "text", 0.1 + 0.2, true },
                                       { "id", NULL, 0, false } };
    struct counted_shape shapes[] = { { 3, "messages", false, columns, 2 },
                                      { 5, "text", true, NULL, 0 } };
    struct census census = { .arena = &test_arena };
    census_add(&census, TEXT("text"), "text", 70);
    census_add(&census, TEXT("essay"), NULL, 30);
    counted_put_end(&writer, shapes, 2, &census, 123456);
    return out;
}

static struct counted_reader reader_of(struct text text)
{
    return (struct counted_reader){
        .arena = &test_arena, .at = text.at, .end = text.at + text.size, .file = 3
    };
}

TEST(counted_examples_come_back_as_they_were)
{
    static struct example examples[EXAMPLES];
    struct out out = written(examples);
    struct counted_reader reader = reader_of(out_view(&out));
    struct example example;
    int count = 0, other = 0;
    for (; counted_next(&reader, &example); count++)
        other +=
            !equal(&example, &examples[count]) || reader.file != (count < EXAMPLES / 2 ? 3u : 5u);
    CHECK(count == EXAMPLES && !other && !reader.failed);
    CHECK(reader.lines == 123456 && reader.shape_count == 2);
    CHECK(reader.shapes[0].file == 3 && !strcmp(reader.shapes[0].format, "messages"));
    CHECK(reader.shapes[0].columns[0].share == 0.1 + 0.2 && reader.shapes[0].columns[0].is_text);
    CHECK(!reader.shapes[0].columns[1].part && reader.shapes[1].is_plain);
    CHECK(reader.census.bytes == 100 && reader.census.count == 2);
    CHECK(census_find(&reader.census, TEXT("essay"))->bytes == 30);
    CHECK(!strcmp(census_find(&reader.census, TEXT("text"))->part, "text"));
}

TEST(counted_results_cut_short_are_refused)
{
    static struct example examples[EXAMPLES];
    struct out out = written(examples);
    struct example example;
    int taken = 0;
    for (size_t size = 0; size < out.size; size += size < 400 || out.size - size < 400 ? 1 : 97) {
        struct counted_reader reader = reader_of((struct text){ out.at, size });
        while (counted_next(&reader, &example))
            ;
        taken += !reader.failed;
    }
    CHECK(!taken);
}

TEST(counted_shapes_add_up_to_format_and_columns)
{
    struct record_column text[] = { { "text", "text", 1, true } },
                         pair[] = { { "q", "prompt", 1, true } };
    struct counted_shape shapes[] = { { 0, "text", true, NULL, 0 },
                                      { 1, "text", false, text, 1 },
                                      { 2, "question", false, pair, 1 } };
    struct profile profile = { 0 };
    size_t listed = 0;
    counted_add_shape(&profile, &test_arena, &listed, &shapes[0]);
    counted_add_shape(&profile, &test_arena, &listed, &shapes[1]);
    CHECK(!strcmp(profile.format, "text") && profile.column_count == 1);
    counted_add_shape(&profile, &test_arena, &listed, &shapes[2]);
    CHECK(!strcmp(profile.format, "mixed") && profile.column_count == 2);
}
