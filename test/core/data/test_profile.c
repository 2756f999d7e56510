// SPDX-License-Identifier: Apache-2.0
// Profiles: written and read back, merged, printed.

#include "core/data/profile.h"

#include "test/real_lengths.h"

#include <string.h>

static struct profile profile_of(const struct lengths *list, const char *file)
{
    struct profile profile = { .tokenizer = "llama-3",
                               .exact = true,
                               .labels = "assistant",
                               .format = "question and answer",
                               .duplicates_exact = true };
    profile.files = ARENA_NEW(&test_arena, struct profile_file, 1);
    profile.files[0] = (struct profile_file){ file, 1000 };
    profile.file_count = 1;
    for (size_t i = 0; i < list->count; i++)
        profile_note(&profile, &test_arena, PROFILE_LONGEST, file, (int64_t)i + 1,
                     list->items[i].tokens, NULL);
    profile.rows = (int64_t)list->count;
    CHECK(profile_finish(&profile, &test_arena, list,
                         &(struct profile_settings){ .seed = 3, .batching = BATCHING_LONGEST }) ==
          OK);
    return profile;
}

static const char *document(const struct profile *profile)
{
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    profile_write(profile, &w);
    return out_string(&out);
}

TEST(profile_written_reads_back_and_finishes_to_the_same_document)
{
    struct lengths list = real_lengths("test/data/gsm8k_lengths.csv");
    struct profile profile = profile_of(&list, "a.jsonl"), back;
    profile_note(&profile, &test_arena, PROFILE_BAD, "a.jsonl", 7, 0, "\"messages\" is missing");
    profile.ordered = false; // a profile that was read has no order
    CHECK(profile_finish(&profile, &test_arena, NULL, &profile.settings) == OK);
    const char *written = document(&profile);
    CHECK(profile_read(&back, &test_arena, text_of(written), "p.json") == OK);
    CHECK(profile_finish(&back, &test_arena, NULL, &back.settings) == OK);
    CHECK(!strcmp(document(&back), written));
}

TEST(profile_has_the_keys_that_other_programs_rely_on)
{
    struct lengths list = real_lengths("test/data/gsm8k_lengths.csv");
    struct profile profile = profile_of(&list, "a.jsonl");
    struct json tree;
    CHECK(json_read(&tree, &test_arena, text_of(document(&profile)), "t") == OK);
    CHECK(json_get_number(&tree, "examples", 0) == 7473);
    CHECK(json_get_number(&tree, "tokens", 0) == 1260163);
    CHECK(json_get_number(&tree, "labelled_tokens", 0) > 0);
    CHECK(json_get_number(&tree, "recommended_context", 0) == 512);
    const struct json *length = json_get(&tree, "length");
    CHECK(json_get_number(length, "p50", 0) == 158 && json_get_number(length, "max", 0) == 469);
    const struct json *context = &json_get(&tree, "contexts")->items[0];
    static const char *const keys[] = { "context",
                                        "truncated_examples",
                                        "truncated_tokens",
                                        "padded_efficiency",
                                        "grouped_efficiency",
                                        "packed_efficiency",
                                        "packs" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK(json_get(context, keys[i]));
    CHECK(json_get_bool(json_get(&tree, "tokenizer"), "exact", false));
}

TEST(profile_merged_equals_the_profile_of_both_except_for_the_order)
{
    struct lengths both = real_lengths("test/data/gsm8k_lengths.csv");
    struct lengths first = both, second = both;
    first.count = 5000;
    second.items += 5000;
    second.count -= 5000;
    struct profile a = profile_of(&first, "a"), b = profile_of(&second, "b"), merged;
    CHECK(profile_merge(&merged, &test_arena, &a, &b) == OK);
    CHECK(profile_finish(&merged, &test_arena, NULL, &merged.settings) == OK);

    struct profile whole = profile_of(&both, "a");
    CHECK(merged.tokens == whole.tokens && merged.labelled_tokens == whole.labelled_tokens);
    CHECK(merged.windows.count == whole.windows.count);
    for (size_t i = 0; i < whole.windows.count; i++) {
        const struct window *a_row = &merged.windows.rows[i], *b_row = &whole.windows.rows[i];
        CHECK(a_row->context == b_row->context);
        CHECK(a_row->truncated_examples == b_row->truncated_examples);
        CHECK(a_row->truncated_labelled == b_row->truncated_labelled);
        CHECK_NEAR(a_row->grouped_efficiency, b_row->grouped_efficiency, 0.01);
    }
    CHECK(merged.spots[PROFILE_LONGEST].spots[0].tokens == 469);
    CHECK(merged.file_count == 2 && merged.rows == 7473);
    CHECK(whole.ordered && !merged.ordered && !merged.duplicates_exact);
}

TEST(profile_table_of_contexts_agrees_with_its_batches)
{
    static const char *const trainers[] = { "hf", "axolotl", "llama-factory", "nemo", "torchtune" };
    struct lengths list = real_lengths("test/data/gsm8k_lengths.csv");
    for (size_t t = 0; t < sizeof trainers / sizeof *trainers; t++)
        for (int batching = BATCHING_LONGEST; batching <= BATCHING_PACKED; batching++)
            for (int64_t context = 128; context <= 2048; context *= 4) {
                struct profile profile = { .tokenizer = "t" };
                struct profile_settings settings = { .trainer = trainers[t],
                                                     .batching = batching,
                                                     .context = context,
                                                     .micro_batch = 4,
                                                     .accumulation = 8,
                                                     .seed = 3 };
                CHECK(profile_finish(&profile, &test_arena, &list, &settings) == OK);
                const struct window *row = profile.windows.rows;
                while (row->context != context)
                    row++;
                double table = batching == BATCHING_LONGEST   ? row->padded_efficiency
                               : batching == BATCHING_GROUPED ? row->grouped_efficiency
                                                              : row->packed_efficiency;
                double batches = batching == BATCHING_PACKED ? profile.batches.fill
                                                             : 1 - profile.batches.padding_share;
                CHECK_NEAR(table, batches, 1e-12);
            }
}

TEST(profile_refuses_to_merge_different_tokenizers_templates_or_labels)
{
    struct lengths list = real_lengths("test/data/c4_lengths.csv");
    struct profile a = profile_of(&list, "a"), b = a, merged;
    b.tokenizer = "gpt2";
    CHECK(profile_merge(&merged, &test_arena, &a, &b) == ERR_INPUT);
    CHECK(strstr(error_text(), "llama-3 and gpt2"));
    b = a;
    b.template = "chatml";
    CHECK(profile_merge(&merged, &test_arena, &a, &b) == ERR_INPUT);
    b = a;
    b.exact = false;
    CHECK(profile_merge(&merged, &test_arena, &a, &b) == ERR_INPUT);
}

TEST(profile_refuses_documents_that_are_not_profiles)
{
    static const char *const bad[] = {
        "[]",
        "{}",
        "{\"kind\":\"plan\",\"version\":1}",
        "{\"kind\":\"profile\",\"version\":2}",
        "{\"kind\":\"profile\",\"version\":1}",
        "{\"kind\":\"profile\",\"version\":1,\"length\":{\"histogram\":3}}",
        "{\"kind\":\"profile\",\"version\":1,\"length\":{\"histogram\":[[5,2,3]]},\"examples\":3}",
    };
    struct profile profile;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(profile_read(&profile, &test_arena, text_of(bad[i]), "p.json") == ERR_INPUT);
}

TEST(profile_names_the_first_bad_rows_and_the_longest_ones)
{
    struct profile profile = { 0 };
    static const int64_t tokens[] = { 5, 9, 9, 1, 7, 3, 8, 9, 2 };
    for (int i = 0; i < 9; i++) {
        profile_note(&profile, &test_arena, PROFILE_LONGEST, "f", i, tokens[i], NULL);
        profile_note(&profile, &test_arena, PROFILE_BAD, "f", i, 0, "broken");
    }
    const struct profile_spots *longest = &profile.spots[PROFILE_LONGEST];
    static const int64_t lines[] = { 1, 2, 7, 6, 4 };
    for (int i = 0; i < PROFILE_SPOTS; i++) {
        CHECK(longest->spots[i].line == lines[i]);
        CHECK(profile.spots[PROFILE_BAD].spots[i].line == i);
    }
    CHECK(profile.spots[PROFILE_BAD].count == 9);
}

TEST(profile_prints_within_eighty_columns)
{
    static const char *const paths[] = { "test/data/gsm8k_lengths.csv",
                                         "test/data/c4_lengths.csv" };
    for (int i = 0; i < 2; i++) {
        struct lengths list = real_lengths(paths[i]);
        struct profile profile = profile_of(&list, "some/folder/train.jsonl");
        struct out out = { .arena = &test_arena };
        profile_print(&profile, &test_arena, &out);
        struct text rest = out_view(&out), line;
        while (text_next(&rest, '\n', &line)) {
            size_t columns = 0;
            for (size_t c = 0; c < line.size; c++)
                columns += (line.at[c] & 0xC0) != 0x80;
            CHECK(columns <= 80);
        }
    }
}

TEST(profile_of_nothing_prints_and_writes)
{
    struct lengths none = { .arena = &test_arena };
    struct profile profile = profile_of(&none, "empty.jsonl");
    struct out out = { .arena = &test_arena };
    profile_print(&profile, &test_arena, &out);
    CHECK(strstr(out_string(&out), "0 examples"));
    CHECK(strstr(document(&profile), "\"examples\": 0"));
}

TEST(profile_of_very_many_examples_counts_all_of_their_rows_and_steps)
{
    struct lengths_bin bins[] = { { 100, 2000000, 100000000 }, { 300, 1000003, 200000000 } };
    struct lengths_tally tally = { bins, 2 };
    struct profile_settings settings = { .batching = BATCHING_LONGEST,
                                         .context = 512,
                                         .micro_batch = 16,
                                         .accumulation = 2,
                                         .ranks = 4 };
    struct batches sums;
    CHECK(profile_simulate(&sums, &tally, NULL, &settings) == OK);
    CHECK(sums.rows == 3000064); // repeated up to a whole number of batches for each rank
    CHECK(sums.steps == 23438);
    CHECK_NEAR((double)sums.useful_tokens, 500000900.0, 1e-4);
    CHECK_NEAR((double)sums.labelled_tokens, 300000000.0, 1e-4);
    CHECK(sums.worst.rows == 16 && sums.worst.width == 300);
}
