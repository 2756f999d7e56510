// SPDX-License-Identifier: Apache-2.0
#include "base/rng.h"
#include "core/forecast/workload.h"
#include "test/test.h"

static struct workload_rule rule_of(double tokens, int batching)
{
    struct workload_rule rule = workload_rule();
    rule.tokens = tokens;
    rule.batching = batching;
    return rule;
}

TEST(workload_processes_every_token_once_an_epoch_and_padding_on_top)
{
    for (int batching = BATCHING_MAX; batching <= BATCHING_PACKED; batching++) {
        struct workload_rule rule = rule_of(21.4e6, batching);
        rule.epochs = 3;
        struct workload workload;
        workload_make(&workload, &rule, 8, 4, 64);
        CHECK_NEAR(workload.processed_tokens * (1 - workload.padding_share), 3 * 21.4e6, 1e-12);
        CHECK(workload.padding_share >= 0 && workload.padding_share < 1);
        CHECK(workload.processed_factor.low <= 1 && workload.processed_factor.high >= 1);
    }
}

TEST(workload_longest_of_two_lognormals_has_its_closed_form)
{
    // E[max] / E[x] of two is 2 Φ(σ / √2).
    for (double spread = 0.1; spread < 1.3; spread += 0.3)
        CHECK_NEAR(workload_longest(spread, 2), 2 * stats_normal_below(spread / sqrt(2)), 1e-7);
    CHECK(workload_longest(0.7, 1) == 1);
    CHECK_NEAR(workload_longest(0, 8), 1, 1e-7);
}

TEST(workload_fills_padded_batches_as_simulated_data_sets_do)
{
    // research: eight random rows padded to the longest, Alpaca 48 %, GSM8K 64 %, T0 31 %.
    struct workload_rule rule = workload_rule();
    CHECK_NEAR(1 / workload_longest(rule.length_spread.mid, 8), 0.48, 0.01);
    CHECK_NEAR(1 / workload_longest(rule.length_spread.low, 8), 0.642, 0.01);
    CHECK_NEAR(1 / workload_longest(rule.length_spread.high, 8), 0.31, 0.01);
}

TEST(workload_of_short_rows_plans_for_the_longest_of_them_not_for_a_context_that_none_fills)
{
    struct workload_rule rule = rule_of(2.75e6, BATCHING_LONGEST);
    rule.mean_length = 250;
    rule.context = 131072;
    struct workload few, many;
    workload_make(&few, &rule, 32, 1, 32);
    CHECK(few.worst.rows == 32 && few.worst.width > 20 * 250 && few.worst.width < 50 * 250);
    rule.tokens *= 100;
    workload_make(&many, &rule, 32, 1, 32);
    CHECK(many.worst.width > few.worst.width);
    rule.context = 4096; // some reach it
    workload_make(&few, &rule, 32, 1, 32);
    CHECK(few.worst.width == 4096);
    rule.context = 131072;
    rule.batching = BATCHING_MAX; // all are padded to it
    workload_make(&few, &rule, 32, 1, 32);
    CHECK(few.worst.width == 131072);
    rule.batching = BATCHING_LONGEST;
    rule.mean_length = NAN; // nothing tells how long they are
    workload_make(&few, &rule, 32, 1, 32);
    CHECK(few.worst.width == 131072);
}

TEST(workload_of_rows_that_fill_the_context_on_average_is_that_of_full_rows)
{
    for (double rows = 1; rows <= 16; rows *= 4) {
        struct workload_rule known = rule_of(1e8, BATCHING_LONGEST), full = known;
        known.mean_length = known.context;
        full.full_rows = true;
        struct workload a, b;
        workload_make(&a, &known, rows, 8, 64);
        workload_make(&b, &full, rows, 8, 64);
        CHECK(a.processed_tokens == b.processed_tokens && a.steps == b.steps);
        CHECK(a.batch.width == b.batch.width && a.batch.squares == b.batch.squares);
        CHECK(a.batch.spread == 0 && a.batch.varies == 0 && !a.batch.padded && !a.varied_widths);
        CHECK(a.distinct_widths == b.distinct_widths);
    }
}

TEST(workload_rows_spread_no_further_than_the_context)
{
    struct workload_rule rule = workload_rule();
    struct range before = rule.length_spread;
    for (rule.mean_length = 8; rule.mean_length <= rule.context; rule.mean_length += 8) {
        struct range spread = workload_spread(&rule);
        CHECK(spread.mid <= before.mid && spread.low <= spread.mid && spread.mid <= spread.high);
        double longest = exp(spread.high * STATS_P90 - spread.high * spread.high / 2);
        CHECK(rule.mean_length * longest <= rule.context * (1 + 1e-9));
        before = spread;
    }
    CHECK(before.high == 0); // a mean of the whole context
    rule.mean_length = 400;
    CHECK(workload_spread(&rule).mid == rule.length_spread.mid); // far from it as usual
}

TEST(workload_of_single_rows_has_no_padding)
{
    for (int batching = BATCHING_LONGEST; batching <= BATCHING_GROUPED; batching++) {
        struct workload_rule rule = rule_of(1e6, batching);
        struct workload workload;
        workload_make(&workload, &rule, 1, 1, 0);
        CHECK(workload.padding_share == 0);
        CHECK(workload.processed_tokens == 1e6);
        CHECK(workload.accumulation == 1);
    }
}

TEST(workload_padded_to_the_context_wastes_what_examples_leave)
{
    struct workload_rule rule = rule_of(1e6, BATCHING_MAX);
    rule.context = 4096;
    rule.mean_length = 1024;
    struct workload workload;
    workload_make(&workload, &rule, 4, 1, 0);
    CHECK_NEAR(workload.padding_share, 0.75, 1e-12);
    CHECK(workload.batch.width == 4096);
    CHECK(workload.processed_factor.low == 1 && workload.processed_factor.high == 1);
}

TEST(workload_has_a_mask_where_rows_of_a_batch_differ)
{
    static const struct {
        int batching;
        double rows;
        bool padded;
    } cases[] = {
        { BATCHING_LONGEST, 8, true },  { BATCHING_GROUPED, 8, true }, { BATCHING_MAX, 1, true },
        { BATCHING_LONGEST, 1, false }, { BATCHING_PACKED, 8, false },
    };
    struct workload workload;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct workload_rule rule = rule_of(1e6, cases[i].batching);
        workload_make(&workload, &rule, cases[i].rows, 1, 0);
        CHECK(workload.batch.padded == cases[i].padded);
        CHECK(workload.worst.padded == cases[i].padded);
    }
    struct workload_rule rule = rule_of(1e6, BATCHING_LONGEST);
    rule.full_rows = true;
    workload_make(&workload, &rule, 8, 1, 0);
    CHECK(!workload.batch.padded);
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < 64; i++)
        lengths_add(&lengths, 500, 500);
    rule.full_rows = false;
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
    workload_make(&workload, &rule, 8, 1, 0);
    CHECK(!workload.batch.padded); // transformers leaves out a mask that hides nothing
    lengths_add(&lengths, 300, 300);
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
    workload_make(&workload, &rule, 8, 1, 0);
    CHECK(workload.batch.padded);
}

TEST(workload_of_a_trainer_that_drops_short_batches_is_measured_as_far_as_the_data_fills_them)
{
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < 100; i++)
        lengths_add(&lengths, 120 + i, 100);
    static const char *const trainers[] = { "nemo", "torchtune", "axolotl" };
    for (int t = 0; t < 3; t++) {
        struct workload_rule rule = rule_of(1, BATCHING_PACKED);
        rule.context = 512;
        CHECK(!workload_measure(&rule, &test_arena, &lengths, trainers[t], 1));
        for (double rows = 1; rows <= 256; rows *= 2) {
            struct workload workload;
            workload_make(&workload, &rule, rows, 1, 0);
            CHECK(workload.padding_share >= 0 && workload.padding_share < 0.5);
            CHECK(workload.steps >= 1 && workload.processed_tokens >= rule.tokens);
        }
    }
}

TEST(workload_plans_memory_for_the_widest_rows)
{
    struct workload_rule rule = rule_of(1e6, BATCHING_LONGEST);
    struct workload workload;
    workload_make(&workload, &rule, 4, 1, 0);
    CHECK(workload.worst.width == rule.context);
    CHECK(workload.batch.width < workload.worst.width);
    CHECK(workload.varied_widths);
}

TEST(workload_steps_follow_from_rows_and_global_batch)
{
    struct workload_rule rule = rule_of(64e3, BATCHING_LONGEST);
    rule.examples = 640;
    rule.epochs = 2;
    struct workload workload;
    workload_make(&workload, &rule, 4, 2, 64);
    CHECK(workload.accumulation == 8);
    CHECK(workload.global_batch == 64);
    CHECK(workload.steps == 20);
    CHECK(workload.mean_length == 100);
}

TEST(workload_of_a_number_of_steps_has_the_epochs_that_these_make)
{
    struct workload_rule rule = rule_of(64e3, BATCHING_LONGEST);
    rule.examples = 640;
    rule.epochs = 3;
    struct workload of_epochs, of_steps;
    workload_make(&of_epochs, &rule, 4, 2, 64);
    rule.steps = 4;
    workload_make(&of_steps, &rule, 4, 2, 64);
    CHECK(of_steps.steps == 4 && of_steps.global_batch == 64);
    CHECK_NEAR(of_steps.epochs, 0.4, 1e-12);
    CHECK_NEAR(of_steps.processed_tokens, of_epochs.processed_tokens * 4 / 30, 1e-12);
}

TEST(workload_keeps_a_micro_batch_above_the_global_one_whole)
{
    struct workload_rule rule = rule_of(1e6, BATCHING_PACKED);
    struct workload workload;
    workload_make(&workload, &rule, 4, 8, 16);
    CHECK(workload.accumulation == 1);
    CHECK(workload.global_batch == 32);
}

TEST(workload_measured_by_a_profile_takes_the_place_of_assumptions)
{
    const struct workload_shape shapes[] = {
        { 1, 1.0, 300, 310, 900, 1000, { .count = 0 }, 0, 0 },
        { 4, 0.6, 500, 500, 900, 1000, { .count = 0 }, 0, 0 }
    };
    struct workload_rule rule = rule_of(6e5, BATCHING_LONGEST);
    rule.shapes = shapes;
    rule.shape_count = 2;
    struct workload workload;
    workload_make(&workload, &rule, 4, 1, 0);
    CHECK_NEAR(workload.padding_share, 0.4, 1e-12);
    CHECK_NEAR(workload.processed_tokens, 1e6, 1e-12);
    CHECK(workload.worst.width == 900);
    CHECK(workload.batch.width == 500);
    CHECK(workload.processed_factor.low == workload.processed_factor.high);
    workload_make(&workload, &rule, 2, 1, 0);
    CHECK(workload.padding_share > 0 && workload.padding_share < 0.4);
}

TEST(workload_of_unknown_lengths_has_full_rows_and_a_range_for_padding)
{
    struct workload_rule rule = rule_of(1e6, BATCHING_LONGEST);
    rule.full_rows = true;
    struct workload workload;
    workload_make(&workload, &rule, 8, 1, 0);
    CHECK(workload.processed_tokens == 1e6 && workload.padding_share == 0);
    CHECK(workload.batch.width == rule.context && !workload.varied_widths);
    CHECK(workload.batch.squares == workload.worst.squares);
    CHECK(workload.processed_factor.low == 1);
    CHECK_NEAR(workload.processed_factor.high, 1 / 0.31, 0.01); // as rows of the usual spread
    rule.batching = BATCHING_PACKED;
    workload_make(&workload, &rule, 8, 1, 0);
    CHECK_NEAR(workload.padding_share, 0.02, 1e-9);
    CHECK(workload.processed_factor.high < 1.05);
}

TEST(workload_refuses_what_no_run_has)
{
    struct workload_rule rule = rule_of(0, BATCHING_PACKED);
    CHECK(workload_check(&rule) == ERR_USAGE);
    rule.tokens = 1e30;
    CHECK(workload_check(&rule) == ERR_USAGE);
    rule.tokens = 1e6;
    CHECK(workload_check(&rule) == OK);
    rule.epochs = -1;
    CHECK(workload_check(&rule) == ERR_USAGE);
    rule.epochs = 1;
    rule.context = 0;
    CHECK(workload_check(&rule) == ERR_USAGE);
    rule.context = 2048;
    rule.examples = 2e6;
    CHECK(workload_check(&rule) == ERR_USAGE);
    rule = workload_rule();
    rule.tokens = 1e6;
    rule.mean_length = 5e-324; // was planned, with "nan %" of the peak
    CHECK(workload_check(&rule) == ERR_USAGE);
}

TEST(workload_counts_new_widths_by_steps_and_reads_them_back_from_its_document)
{
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < 4000; i++)
        lengths_add(&lengths, 50 + (i * 7919) % 700, 1);
    struct workload_rule rule = rule_of(1, BATCHING_LONGEST);
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
    struct workload one, four;
    workload_make(&one, &rule, 8, 1, 8);
    workload_make(&four, &rule, 8, 1, 32);
    CHECK(four.accumulation == 4 && one.distinct_widths > 50);
    CHECK_NEAR(workload_widths(&four, 10), workload_widths(&one, 40), 1e-12);
    CHECK_NEAR(four.distinct_widths, one.distinct_widths, 1e-12);
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    json_open(&w, NULL, '{');
    workload_write_widths(&four, &w);
    json_close(&w, '}');
    struct json tree;
    struct packing_sights sights;
    CHECK(!json_read(&tree, &test_arena, out_view(&out), "plan"));
    workload_read_widths(&sights, &tree, 4);
    CHECK(sights.count > 10 && sights.epoch == 4 * four.steps);
    for (double steps = 1; steps <= four.steps; steps *= 1.5)
        CHECK_NEAR(packing_widths_seen(&sights, 4 * steps) / workload_widths(&four, steps), 1,
                   0.03);
    rule.multiple = 64;
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
    workload_make(&one, &rule, 8, 1, 8);
    CHECK(one.distinct_widths < 14);
}

TEST(workload_of_a_given_micro_batch_is_simulated_at_its_own_size)
{
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < 4000; i++)
        lengths_add(&lengths, 50 + (i * 7919) % 700, 1);
    for (double rows = 3; rows <= 300; rows *= 2) { // none a power of two
        struct workload_rule rule = rule_of(1, BATCHING_LONGEST);
        rule.micro_batch = rows;
        CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
        const struct packing_trainer *trainer;
        struct packing epoch;
        struct packing_setup setup = { .window = (int64_t)rule.context,
                                       .micro_batch = (int64_t)rows,
                                       .seed = 1 };
        CHECK(!packing_trainer_find(&trainer, "hf", NULL));
        struct packing_rule packing = packing_rule(trainer, BATCHING_LONGEST);
        CHECK(!packing_plan(&epoch, &test_arena, &lengths, &packing, &setup));
        struct workload work;
        workload_make(&work, &rule, rows, 1, rows); // at 12 rows it met the widths of 16 before
        double more = work.distinct_widths - (double)epoch.sums.distinct_widths;
        CHECK(more >= 0 && more <= 1); // the short last batch, whose kernels are its own
        CHECK_NEAR(work.processed_tokens / (double)epoch.sums.processed_tokens, 1, 1e-9);
    }
}

TEST(workload_of_unknown_lengths_meets_widths_as_equally_likely_ones)
{
    struct workload_rule rule = rule_of(1e7, BATCHING_LONGEST);
    rule.mean_length = 200;
    struct workload workload;
    workload_make(&workload, &rule, 4, 1, 8);
    double likely = 2 * rule.length_spread.mid * 200;
    CHECK_NEAR(workload_widths(&workload, 20), likely * (1 - exp(-40 / likely)), 1e-9);
    CHECK_NEAR(workload.distinct_widths, likely, 0.01);
    rule.batching = BATCHING_PACKED;
    workload_make(&workload, &rule, 4, 1, 8);
    CHECK(workload.distinct_widths == 1);
}

TEST(workload_meets_each_alignment_of_its_widths_once)
{
    CHECK_NEAR(workload_alignments(1, 1), 1, 1e-12);
    CHECK_NEAR(workload_alignments(2, 1), 4 - 0.25 - 0.5625 - 2 * 0.765625, 1e-12);
    CHECK_NEAR(workload_alignments(1000, 1), 4, 1e-9);
    CHECK_NEAR(workload_alignments(1000, 2), 3, 1e-9);
    CHECK_NEAR(workload_alignments(1000, 12), 2, 1e-9); // by 4 alone, and by 8
    CHECK_NEAR(workload_alignments(1000, 64), 1, 1e-12);
}

TEST(workload_of_padded_rows_differs_between_ranks_unless_they_are_grouped)
{
    struct lengths lengths = { .arena = &test_arena };
    for (int64_t i = 0; i < 4000; i++)
        lengths_add(&lengths, 50 + (i * 7919) % 700, 1);
    struct workload_rule rule = workload_rule();
    struct workload workload;
    rule.batching = BATCHING_LONGEST;
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
    workload_make(&workload, &rule, 4, 8, 0);
    double padded = workload.batch.spread;
    CHECK(padded > 0.2 && padded < 0.4);
    rule.batching = BATCHING_GROUPED;
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
    workload_make(&workload, &rule, 4, 8, 0);
    CHECK(workload.batch.spread < 0.5 * padded);
    rule.batching = BATCHING_MAX;
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
    workload_make(&workload, &rule, 4, 8, 0);
    CHECK(workload.batch.spread == 0);
    // Of unknown lengths those of the assumed data sets.
    struct workload_rule assumed = workload_rule();
    assumed.tokens = 1e6;
    assumed.batching = BATCHING_LONGEST;
    workload_make(&workload, &assumed, 4, 8, 0);
    CHECK_NEAR(workload.batch.spread, step_batch_spread(assumed.length_spread.mid, 4, true), 1e-12);
}

TEST(workload_of_pairs_pads_both_answers_to_the_longer_one)
{
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < 64; i++) { // 100 and 60 of one pair, 300 and 180 of the next
        lengths_add(&lengths, i % 2 ? 300 : 100, 50);
        lengths_add(&lengths, i % 2 ? 180 : 60, 50);
    }
    struct workload_rule rule = workload_rule();
    rule.batching = BATCHING_LONGEST;
    rule.rows_each = 2;
    rule.paired = true;
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "hf", 1));
    CHECK_NEAR(rule.tokens, 32 * 160 + 32 * 480, 1e-12);
    struct workload workload;
    workload_make(&workload, &rule, 1, 2, 8);
    CHECK(workload.batch.rows == 2);
    CHECK_NEAR(workload.batch.width, 200, 1e-12); // half the pairs are 100 wide, half 300
    CHECK_NEAR(workload.padding_share, 0.2, 1e-9);
    CHECK_NEAR(workload.processed_tokens, 2 * 64 * 200, 1e-9);
    CHECK(workload.steps == 8);        // 64 pairs, 8 a step
    CHECK(workload.accumulation == 4); // of 1 pair on 2 GPUs
    CHECK(workload.global_batch == 8);
}

static struct lengths uneven_lengths(size_t count)
{
    struct lengths lengths = { .arena = &test_arena };
    struct rng rng = rng_seeded(7);
    for (size_t i = 0; i < count; i++) {
        int64_t tokens = (int64_t)(20 + exp(5 + 0.8 * rng_normal(&rng)));
        lengths_add(&lengths, tokens, tokens / 2);
    }
    return lengths;
}

TEST(workload_steps_times_the_tokens_of_a_step_are_the_processed_tokens)
{
    struct lengths lengths = uneven_lengths(6000);
    for (const struct packing_trainer *t = packing_trainers; t->name; t++)
        for (int batching = BATCHING_MAX; batching <= BATCHING_PACKED; batching++)
            for (double rows = 1; rows <= 16; rows *= TEST_UNDER_SANITIZER ? 16 : 4)
                for (int asked = 0; asked < 2; asked++) {
                    struct workload_rule rule = rule_of(1, batching);
                    rule.epochs = 2;
                    rule.micro_batch = rows;
                    rule.steps = asked ? 100 : 0;
                    CHECK(!workload_measure(&rule, &test_arena, &lengths, t->name, 1));
                    struct workload w;
                    workload_make(&w, &rule, rows, 2, 32);
                    double step = w.batch.tokens * w.accumulation * 2;
                    double full = w.processed_tokens / step; // the last step of an epoch is not
                    test_check(full <= w.steps * 1.01 && full >= w.steps - w.epochs * 1.01,
                               "steps hold the tokens", t->name, 0);
                    CHECK(w.global_batch == 32 && w.accumulation == 16 / w.micro_batch);
                    CHECK(w.worst.tokens >= w.batch.tokens * 0.999);
                }
}

TEST(workload_of_nemo_takes_packed_rows_one_at_a_time)
{
    struct lengths lengths = uneven_lengths(2000);
    struct workload_rule rule = rule_of(1, BATCHING_PACKED);
    CHECK(!workload_measure(&rule, &test_arena, &lengths, "nemo", 1));
    struct workload one, four;
    workload_make(&one, &rule, 1, 2, 8);
    workload_make(&four, &rule, 4, 2, 0); // as many in a step
    CHECK(four.micro_batch == 1 && four.global_batch == 8 && four.accumulation == 4);
    CHECK(four.batch.tokens == one.batch.tokens && four.worst.tokens == one.worst.tokens);
    CHECK(four.steps == one.steps && four.processed_tokens == one.processed_tokens);
}
