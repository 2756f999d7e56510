// SPDX-License-Identifier: Apache-2.0
#include "test/test.h"
#include "train/loader.h"

#include <string.h>

// Examples 0 … count − 1; token j of example i is 1000 i + j, the first half without a label.
static struct loader *filled(int count, struct loader_settings settings)
{
    struct loader *loader = ARENA_NEW(&test_arena, struct loader, 1);
    loader_init(loader, &test_arena, &settings);
    for (int i = 0; i < count; i++) {
        int32_t ids[64];
        uint8_t learned[64];
        int size = 2 + i * 7 % 23;
        for (int j = 0; j < size; j++) {
            ids[j] = 1000 * i + j;
            learned[j] = j >= size / 2;
        }
        loader_add(loader, ids, learned, size);
    }
    CHECK(!loader_start(loader));
    return loader;
}

TEST(loader_shows_every_token_once_an_epoch)
{
    struct loader *loader = filled(50, (struct loader_settings){ 32, 2, 1, 0, false });
    static uint8_t seen[50000];
    for (int epoch = 0; epoch < 2; epoch++) {
        int64_t tokens = 0;
        memset(seen, 0, sizeof seen);
        CHECK(!loader_epoch(loader, epoch));
        for (int64_t i = 0; i < loader->train.micro_batches; i++) {
            struct micro_batch batch;
            loader_batch(loader, &batch, i);
            CHECK(batch.tokens <= 64);
            for (int64_t j = 0; j < batch.tokens; j++, tokens++)
                CHECK(!seen[batch.ids[j]]++);
        }
        CHECK(tokens == loader->starts[50]);
    }
    loader_release(loader);
}

TEST(loader_predicts_the_next_token_of_the_same_document)
{
    struct loader *loader = filled(20, (struct loader_settings){ 32, 2, 1, 0, false });
    int64_t labelled = 0;
    for (int64_t i = 0; i < loader->train.micro_batches; i++) {
        struct micro_batch batch;
        loader_batch(loader, &batch, i);
        for (int64_t j = 0; j < batch.labelled; j++)
            CHECK(batch.targets[j] == batch.ids[batch.rows[j]] + 1);
        for (int64_t s = 0, next = 0; s < batch.span_count; next += batch.spans[s++].size)
            for (int32_t j = 0; j < batch.spans[s].size; j++) {
                CHECK(batch.spans[s].start == next);
                CHECK(batch.positions[batch.spans[s].start + j] == j);
            }
        CHECK(batch.labelled == loader_labelled(loader, i, 1));
        labelled += batch.labelled;
    }
    CHECK(labelled == loader_labelled(loader, 0, loader->train.micro_batches));
    loader_release(loader);
}

static uint64_t order_of(struct loader *loader, int64_t epoch)
{
    uint64_t hash = 1;
    CHECK(!loader_epoch(loader, epoch));
    for (int64_t i = 0; i < loader->train.micro_batches; i++) {
        struct micro_batch batch;
        loader_batch(loader, &batch, i);
        for (int64_t j = 0; j < batch.tokens; j++)
            hash = (hash ^ (uint64_t)batch.ids[j]) * 0x100000001B3u;
    }
    return hash;
}

TEST(loader_shuffles_by_seed_and_epoch)
{
    struct loader *a = filled(40, (struct loader_settings){ 32, 1, 1, 0, false });
    struct loader *b = filled(40, (struct loader_settings){ 32, 1, 1, 0, false });
    struct loader *c = filled(40, (struct loader_settings){ 32, 1, 2, 0, false });
    CHECK(order_of(a, 3) == order_of(b, 3));
    CHECK(order_of(a, 1) != order_of(a, 2));
    CHECK(order_of(a, 1) != order_of(c, 1));
    CHECK(order_of(a, 0) == order_of(b, 0)); // after other epochs too
    loader_release(a);
    loader_release(b);
    loader_release(c);
}

TEST(loader_begins_with_the_heaviest_row)
{
    struct loader *loader = filled(37, (struct loader_settings){ 40, 1, 5, 0, false });
    struct micro_batch first, other;
    loader_batch(loader, &first, 0);
    int64_t tokens = first.tokens;
    for (int64_t i = 1; i < loader->train.micro_batches; i++) {
        loader_batch(loader, &other, i);
        CHECK(other.tokens <= tokens);
    }
    loader_release(loader);
}

TEST(loader_holds_out_examples_that_training_never_sees)
{
    struct loader *loader = filled(50, (struct loader_settings){ 32, 2, 1, 0.2, false });
    CHECK(loader->held_out.lengths.count == 10 && loader->train.lengths.count == 40);
    bool held[50] = { 0 };
    struct micro_batch batch;
    for (int64_t i = 0; i < loader->held_out.micro_batches; i++) {
        loader_held_out(loader, &batch, i);
        for (int64_t j = 0; j < batch.tokens; j++)
            held[batch.ids[j] / 1000] = true;
    }
    for (int64_t i = 0; i < loader->train.micro_batches; i++) {
        loader_batch(loader, &batch, i);
        for (int64_t j = 0; j < batch.tokens; j++)
            CHECK(!held[batch.ids[j] / 1000]);
    }
    loader_release(loader);
}

// Example i of filled() has 2 + 7 i mod 23 tokens, and token j of it is 1000 i + j.
TEST(loader_keeps_the_answers_of_a_pair_together_and_cuts_each_at_the_window)
{
    struct loader *loader = filled(40, (struct loader_settings){ 16, 2, 1, 0.1, true });
    int64_t pairs = 0, cut = 0;
    CHECK(loader->train.lengths.count == 18 && loader->held_out.lengths.count == 2);
    for (int64_t i = 0; i < loader->train.micro_batches; i++) {
        struct micro_batch batch;
        loader_batch(loader, &batch, i);
        CHECK(batch.tokens <= 2 * 2 * 16 && batch.span_count % 2 == 0);
        CHECK(loader_losses(loader, i, 1) == batch.span_count / 2);
        CHECK(loader_labelled(loader, i, 1) == batch.labelled);
        for (int64_t s = 0; s < batch.span_count; s++) {
            int example = batch.ids[batch.spans[s].start] / 1000, size = 2 + example * 7 % 23;
            CHECK(batch.spans[s].size == (size > 16 ? 16 : size));
            CHECK(example % 2 == s % 2);
            cut += size > 16;
        }
        pairs += batch.span_count / 2;
    }
    CHECK(pairs == 18 && cut > 0);
    loader_release(loader);
}

TEST(loader_drops_a_chosen_answer_whose_rejected_one_did_not_come)
{
    struct loader loader;
    const int32_t ids[] = { 1, 2, 3 };
    const uint8_t learned[] = { 0, 1, 1 };
    loader_init(&loader, &test_arena,
                &(struct loader_settings){ .window = 8, .micro_batch = 1, .pairs = true });
    for (int i = 0; i < 3; i++)
        loader_add(&loader, ids, learned, 3);
    loader_drop_half(&loader);
    CHECK(loader.count == 2);
    loader_drop_half(&loader);
    CHECK(loader.count == 2);
    loader_add(&loader, ids, learned, 3);
    loader_add(&loader, ids, learned, 0); // an empty answer: nothing to compare
    CHECK(!loader_start(&loader) && loader.train.lengths.count == 1);
    loader_release(&loader);
}

TEST(loader_refuses_data_without_a_label)
{
    struct loader loader;
    int32_t ids[] = { 1, 2, 3 };
    uint8_t learned[] = { 1, 0, 0 }; // the first token is predicted by none
    loader_init(&loader, &test_arena, &(struct loader_settings){ 32, 1, 1, 0, false });
    loader_add(&loader, ids, learned, 3);
    CHECK(loader_start(&loader) == ERR_INPUT);
    CHECK(strstr(error_text(), "has a labelled token"));
    loader_release(&loader);
}
