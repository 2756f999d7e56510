// SPDX-License-Identifier: Apache-2.0
#include "base/field.h"
#include "test/test.h"

#include <string.h>

static const char *const sizes[] = { "small", "large", NULL };

struct thing {
    const char *name, *as_of;
    bool fast;
    int size;
    int64_t count;
    double weight, share, memory_bytes, wait_seconds, flops_per_s, price_usd, gpu_hour;
};

static const struct field fields[] = {
    FIELD_NEEDED(thing, name, TEXT, "what it is called"),
    FIELD(thing, as_of, DATE, "when"),
    FIELD(thing, fast, FLAG, "quick"),
    FIELD_OF(thing, size, sizes, "how big"),
    FIELD(thing, count, COUNT, "how many"),
    FIELD(thing, weight, NUMBER, "any number"),
    FIELD(thing, share, SHARE, "of all"),
    FIELD(thing, memory_bytes, BYTES, "memory"),
    FIELD(thing, wait_seconds, SECONDS, "time"),
    { .name = "flops_per_s",
      .kind = FIELD_RATE,
      .offset = offsetof(struct thing, flops_per_s),
      .help = "rate",
      .scale = 1e12 },
    FIELD(thing, price_usd, USD, "price"),
    FIELD(thing, gpu_hour, PRICE, "price of a GPU hour"),
    { 0 },
};

static enum err set(struct thing *thing, const char *name, struct text value)
{
    return field_set(field_find(fields, text_of(name)), thing, &test_arena, value);
}

TEST(field_of_minus_zero_is_zero)
{
    struct thing t = { 0 };
    CHECK(!set(&t, "price_usd", TEXT("-0")) && t.price_usd == 0 && !signbit(t.price_usd));
}

TEST(field_reads_each_kind_in_its_spellings)
{
    struct thing t = { 0 };
    CHECK(!set(&t, "name", TEXT(" a b ")) && !strcmp(t.name, "a b"));
    CHECK(!set(&t, "as-of", TEXT("2026-08-22")) && !set(&t, "as_of", TEXT("2026-08")));
    CHECK(!set(&t, "fast", TEXT("yes")) && t.fast && !set(&t, "fast", TEXT("0")) && !t.fast);
    CHECK(!set(&t, "size", TEXT("large")) && t.size == 1);
    CHECK(!set(&t, "count", TEXT("21.4M")) && t.count == 21400000);
    CHECK(!set(&t, "share", TEXT("20%")) && fabs(t.share - 0.2) < 1e-15);
    CHECK(!set(&t, "memory_bytes", TEXT("80GiB")) && t.memory_bytes == 80.0 * (1 << 30));
    CHECK(!set(&t, "wait-seconds", TEXT("24h")) && t.wait_seconds == 86400);
    CHECK(!set(&t, "price_usd", TEXT("$1.5k")) && t.price_usd == 1500);
    CHECK(!set(&t, "gpu_hour", TEXT("$2.49/gpu-h")) && t.gpu_hour == 2.49);
    CHECK(set(&t, "gpu_hour", TEXT("20/h")) && strstr(error_text(), "e.g. 2.49 or 2.49/gpu-h"));
}

TEST(field_scale_is_for_numbers_without_unit)
{
    struct thing t = { 0 };
    CHECK(!set(&t, "flops_per_s", TEXT("989")) && t.flops_per_s == 989e12);
    CHECK(!set(&t, "flops_per_s", TEXT("989 TFLOP/s")) && t.flops_per_s == 989e12);
}

TEST(field_refuses_hostile_values_and_names_the_field)
{
    static const struct {
        const char *name;
        struct text value;
    } bad[] = {
        { "count", TEXT("-1") },         { "count", TEXT("1e30") },
        { "count", TEXT("nan") },        { "count", TEXT("1.5") },
        { "weight", TEXT("inf") },       { "weight", TEXT("") },
        { "share", TEXT("1.5") },        { "share", TEXT("-0.1") },
        { "share", TEXT("101%") },       { "memory_bytes", TEXT("-1GiB") },
        { "wait_seconds", TEXT("-1h") }, { "flops_per_s", TEXT("1e300") },
        { "fast", TEXT("maybe") },       { "size", TEXT("medium") },
        { "as_of", TEXT("yesterday") },  { "as_of", TEXT("2026-13") },
        { "as_of", TEXT("2026-") },      { "as_of", TEXT("2026-08-32") },
        { "name", TEXT("a\0b") },        { "price_usd", TEXT("-2") },
    };
    struct thing t = { 0 };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t size = strlen(bad[i].name);
        CHECK(set(&t, bad[i].name, bad[i].value) == ERR_INPUT);
        CHECK(!strncmp(error_text(), bad[i].name, size) && error_text()[size] == ':');
    }
}

TEST(field_cleared_is_unknown)
{
    struct thing t = { .count = 3, .weight = 1 };
    field_clear(fields, &t);
    CHECK(!field_known(field_find(fields, TEXT("weight")), &t) && isnan(t.weight) && !t.count);
    CHECK(!field_known(field_find(fields, TEXT("name")), &t));
    CHECK(!*field_spell(field_find(fields, TEXT("weight")), &t, &test_arena));
}

TEST(field_written_reads_back_equal)
{
    struct thing t = { "n\"", "2026", true, 1,      1234567890123, -2.5,
                       0.125, 1e11,   60,   989e12, 14.5,          2.49 };
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    json_open(&w, NULL, '{');
    field_write(fields, &t, &w);
    json_close(&w, '}');
    struct json tree;
    struct thing back;
    field_clear(fields, &back);
    CHECK(!json_read(&tree, &test_arena, out_view(&out), "t"));
    CHECK(!field_read(fields, &back, &test_arena, &tree, "t", true));
    CHECK(!strcmp(back.name, t.name) && back.fast && back.size == 1 && back.count == t.count);
    CHECK(back.weight == t.weight && back.flops_per_s == t.flops_per_s);
    CHECK(back.memory_bytes == t.memory_bytes && back.price_usd == t.price_usd &&
          back.gpu_hour == t.gpu_hour);
}

TEST(field_read_refuses_unknown_keys_and_wrong_kinds)
{
    struct json tree;
    struct thing t = { 0 };
    CHECK(!json_read(&tree, &test_arena, TEXT("{\"nmae\": 1}"), "t"));
    CHECK(field_read(fields, &t, &test_arena, &tree, "t", true) == ERR_INPUT);
    CHECK(!field_read(fields, &t, &test_arena, &tree, "t", false));
    CHECK(!json_read(&tree, &test_arena, TEXT("{\"count\": [1]}"), "t"));
    CHECK(field_read(fields, &t, &test_arena, &tree, "t", true) == ERR_INPUT);
    CHECK(!strcmp(error_text(), "t: count: is a list"));
    CHECK(!json_read(&tree, &test_arena, TEXT("[]"), "t"));
    CHECK(field_read(fields, &t, &test_arena, &tree, "t", true) == ERR_INPUT);
}

static bool refuses_csv(const char *text, const char *sentence)
{
    void *rows;
    size_t count;
    return field_read_csv(fields, sizeof(struct thing), &rows, &count, &test_arena, text_of(text),
                          "t.csv") == ERR_INPUT &&
           !strcmp(error_text(), sentence);
}

TEST(field_catalog_rows_are_checked_with_file_and_line)
{
    void *rows;
    size_t count;
    CHECK(!field_read_csv(fields, sizeof(struct thing), &rows, &count, &test_arena,
                          TEXT("name,count\na,1k\n\nb,\n"), "t.csv"));
    struct thing *things = rows;
    CHECK(count == 2 && things[0].count == 1000 && isnan(things[1].weight));
    CHECK(refuses_csv("count\n1\n", "t.csv: has no column \"name\" (what it is called)"));
    CHECK(refuses_csv("name,count\na,1\n,2\n", "t.csv:3: has no name"));
    CHECK(refuses_csv("name,count\na,-5\n", "t.csv:2: count: \"-5\" is negative"));
    CHECK(refuses_csv("name,colour\na,b\n", "t.csv: has an unknown column \"colour\""));
    CHECK(refuses_csv("name,count,name\na,1,b\n", "t.csv: has the column \"name\" twice"));
}

struct card {
    double memory_bytes_per_s, bf16_flops_per_s;
};

static const struct field card_fields[] = {
    FIELD(card, memory_bytes_per_s, RATE, "bandwidth"),
    FIELD(card, bf16_flops_per_s, RATE, "peak"),
    { 0 },
};

TEST(field_spells_rates_with_the_unit_of_their_name_and_reads_them_back)
{
    struct card card = { 3.35e12, 989.4e12 }, again = { 0 };
    static const char *const spelled[] = { "3.35 TB/s", "989.4 TFLOP/s" };
    for (int i = 0; i < 2; i++) {
        const char *text = field_spell(&card_fields[i], &card, &test_arena);
        CHECK(!strcmp(text, spelled[i]));
        CHECK(!field_set(&card_fields[i], &again, &test_arena, text_of(text)));
        CHECK(field_number(&card_fields[i], &again) == field_number(&card_fields[i], &card));
    }
}

TEST(field_choices_that_are_empty_are_not_offered)
{
    static const char *const offers[] = { "small", "", "large", NULL };
    struct holder {
        int size;
    } holder = { 0 };
    const struct field offered[] = { FIELD_OF(holder, size, offers, "size"), { 0 } };
    struct out out = { .arena = &test_arena };
    field_put_choices(offered, &out, " or ");
    CHECK(!strcmp(out_string(&out), ": small or large"));
    CHECK(!field_set(offered, &holder, &test_arena, TEXT("large")) && holder.size == 2);
    CHECK(field_set(offered, &holder, &test_arena, TEXT("")) == ERR_INPUT);
    CHECK(strstr(error_text(), "is not one of small, large") != NULL);
}

TEST(field_kinds_all_have_their_words)
{
    for (int kind = 0; kind < FIELD_KINDS; kind++) {
        CHECK(field_kinds[kind].name && field_kinds[kind].json);
        CHECK(field_kinds[kind].value || kind == FIELD_FLAG);
        for (int other = 0; other < kind; other++)
            CHECK(strcmp(field_kinds[kind].name, field_kinds[other].name) != 0);
    }
    CHECK(!strcmp(field_kinds[FIELD_PRICE].name, "price"));
}

TEST(field_choices_are_read_however_trainers_spell_them)
{
    static const char *const kinds[] = { "fp32", "fp16", "bf16", NULL };
    static const char *const optimizers[] = { "adamw", "adamw-8bit", "adamw-paged-8bit", NULL };
    static const struct {
        const char *const *choices;
        const char *value;
        int index;
    } cases[] = { { kinds, "BF16", 2 },
                  { kinds, "bfloat16", 2 },
                  { kinds, "float16", 1 },
                  { optimizers, "adamw_8bit", 1 },
                  { optimizers, "AdamW_Torch_Fused", 0 },
                  { optimizers, "paged_adamw_8bit", 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int read = -1;
        struct field field = { "x", FIELD_CHOICE, 0, .choices = cases[i].choices };
        CHECK(!field_set(&field, &read, &test_arena, text_of(cases[i].value)));
        CHECK(read == cases[i].index);
    }
    int read = -1;
    struct field field = { "x", FIELD_CHOICE, 0, .choices = optimizers };
    CHECK(field_set(&field, &read, &test_arena, TEXT("bfloat16")) && read == -1);
    CHECK(field_set(&field, &read, &test_arena, TEXT("adamw-16bit")) && read == -1);
}
