// SPDX-License-Identifier: Apache-2.0
#include "base/csv.h"
#include "base/embedded.h"
#include "core/measured/run.h"
#include "core/measured/validate.h"
#include "host/file.h"
#include "test/core/knowledge.h"
#include "test/core/measured/shipped.h"

static struct run *reference(size_t *count)
{
    struct run *runs = NULL;
    CHECK(!run_read(&runs, count, &test_arena, embedded_file("runs.csv"), "runs.csv"));
    return runs;
}

static struct calibration fit_shipped(const struct knowledge *k)
{
    size_t run_count;
    struct run *runs = reference(&run_count);
    struct validate_model model = { &k->catalog, k->stacks, k->stack_count };
    struct residual *residuals;
    size_t count = validate_residuals(&residuals, &test_arena, runs, run_count, &model);
    struct calibration fit;
    calibration_fit(&fit, &test_arena, k->stacks, k->stack_count, residuals, count, NULL);
    return fit;
}

static struct calibration read_shipped(void)
{
    struct calibration read = { 0 };
    CHECK(!calibration_read(&read, &test_arena, embedded_file("efficiency.csv"), "efficiency.csv",
                            embedded_file("evidence.csv"), "evidence.csv"));
    return read;
}

TEST(calibration_file_is_the_fit_of_the_shipped_runs)
{
    struct knowledge k = knowledge_open();
    struct calibration fit = fit_shipped(&k), read = read_shipped();
    CHECK(read.stack_count == k.stack_count);
    for (size_t i = 0; i < read.stack_count && i < k.stack_count; i++) {
        CHECK(!strcmp(read.stacks[i].stack, fit.stacks[i].stack));
        // else: gpuhours validate --fit
        CHECK(fabs(read.stacks[i].log_mid - fit.stacks[i].log_mid) < 1e-5);
    }
    // else: gpuhours validate --evidence
    CHECK(fabs(read.evidence.log_widest - fit.evidence.log_widest) < 1e-3);
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 4, 2048);
    for (size_t i = 0; i < k.stack_count; i++) {
        setup.stack = &k.stacks[i];
        CHECK(fabs(calibration_at(&read, &setup).log_spread -
                   calibration_at(&fit, &setup).log_spread) < 1e-3);
    }
}

TEST(calibration_of_the_unmeasured_is_wider)
{
    struct knowledge k = knowledge_open();
    struct calibration c = read_shipped();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 4, 2048);
    double known = calibration_at(&c, &setup).log_spread;
    struct setup other = setup;
    CHECK(!catalog_gpu(&other.gpu, &k.catalog, "mi210"));
    CHECK(calibration_at(&c, &other).log_spread > 1.1 * known);
    other = setup;
    CHECK(!catalog_model(&other.model, &k.catalog, "qwen3-30b-a3b"));
    CHECK(calibration_at(&c, &other).log_spread > 1.2 * known);
    other = setup;
    CHECK(!stack_find(&other.stack, k.stacks, k.stack_count, "xtuner")); // one source
    CHECK(calibration_at(&c, &other).log_spread > 1.5 * known);
}

TEST(calibration_of_a_card_that_few_have_measured_is_wider)
{
    struct knowledge k = knowledge_open();
    struct calibration c = read_shipped();
    const struct gpu *gpus[3];
    static const char *const names[] = { "mi210", "gb10", "h100-sxm" }; // 0, 1 and 33 sources
    double spread[3];
    for (int i = 0; i < 3; i++) {
        struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 4, 2048);
        CHECK(!catalog_gpu(&gpus[i], &k.catalog, names[i]));
        setup.gpu = gpus[i];
        spread[i] = calibration_at(&c, &setup).log_spread;
    }
    CHECK_NEAR(calibration_strange_card(&c, gpus[0]), 0.4, 1e-9);
    CHECK_NEAR(calibration_strange_card(&c, gpus[1]), 0.4 * exp(-1 / 3.0), 1e-9);
    CHECK(calibration_strange_card(&c, gpus[2]) < 0.001);
    CHECK(spread[0] > 0.4 && spread[0] > spread[1] && spread[1] > 0.2 + spread[2]);
}

// Except the one that this program has itself.
TEST(calibration_of_a_trainer_that_few_have_measured_is_wider)
{
    struct knowledge k = knowledge_open();
    struct calibration c = read_shipped();
    const struct stack *few, *many, *own;
    CHECK(!stack_find(&few, k.stacks, k.stack_count, "megatron-swift"));
    CHECK(!stack_find(&many, k.stacks, k.stack_count, "hf-deepspeed"));
    CHECK(!stack_find(&own, k.stacks, k.stack_count, "native"));
    double strangeness = calibration_strange_trainer(&c, few);
    CHECK(strangeness > 0.25);
    CHECK(calibration_strange_trainer(&c, many) < 0.05);
    CHECK(calibration_strange_trainer(&c, own) == 0);
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "megatron-swift", 4, 2048);
    double stranger = calibration_at(&c, &setup).log_spread;
    c.knows_trainers = true;
    CHECK_NEAR(hypot(calibration_at(&c, &setup).log_spread, strangeness), stranger, 1e-6);
}

static struct text cell(const struct csv *csv, size_t row, const char *column)
{
    return csv_cell(csv, row, csv_column(csv, column));
}

static double number(const struct csv *csv, size_t row, const char *column)
{
    double value = NAN;
    CHECK(!text_read_number(&value, cell(csv, row, column)));
    return value;
}

// Runs that were written down before any forecast of them (bench/blind/README.md), with the ranges
// of then and what is added since for cards and trainers that few had measured. Each source counts
// once.
TEST(calibration_holds_three_quarters_of_the_speeds_that_nobody_had_looked_at)
{
    struct csv csv = { 0 };
    struct file file;
    const char *path = "bench/blind/speeds.csv";
    CHECK(!file_open(&file, path));
    CHECK(!csv_read(&csv, &test_arena, file.text, path, ','));
    double before = 0, now = 0, sources = 0;
    for (size_t i = 0, first = 0; i < csv.rows; i = first) {
        double rows = 0, held[2] = { 0 };
        struct text source = cell(&csv, i, "source");
        for (; first < csv.rows && text_equal(cell(&csv, first, "source"), source); first++) {
            double measured = log(number(&csv, first, "measured"));
            double end = log(number(&csv, first, measured < 0 ? "p10" : "p90"));
            double card = calibration_strangeness((int64_t)number(&csv, first, "card_sources"));
            double trainer = calibration_strangeness((int64_t)number(&csv, first, "stack_sources"));
            double wider = hypot(end, STATS_P90 * hypot(card, trainer));
            held[0] += fabs(measured) <= fabs(end);
            held[1] += fabs(measured) <= wider;
            rows++;
        }
        before += held[0] / rows;
        now += held[1] / rows;
        sources++;
    }
    file_close(&file);
    CHECK(sources > 20);
    CHECK(before < 0.62 * sources);
    CHECK(now > 0.74 * sources && now < 0.86 * sources);
}

// Of the runs that were measured those off most wait for others.
TEST(calibration_of_steps_that_wait_for_the_network_is_wider)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-deepspeed", 1, 1024);
    CHECK(!catalog_gpu(&setup.gpu, &k.catalog, "a100-sxm-80gb"));
    setup.layout.data = 16;
    setup.layout.zero = 3;
    double spread[2];
    for (int i = 0; i < 2; i++) {
        struct node node = { .gpus = 8,
                             .link = "nvlink",
                             .link_bytes_per_s = 300e9,
                             .network_bytes_per_s_per_gpu = i ? 2e9 : 200e9 };
        setup.node = &node;
        spread[i] = calibration_step_spread(&setup);
    }
    CHECK(spread[1] > hypot(spread[0], 0.15));
    CHECK(spread[1] < 0.32);
}

// Of two runs with the same description one is mostly faster.
TEST(calibration_range_of_the_best_measured_holds_what_no_recipe_tells)
{
    struct knowledge k = knowledge_open();
    struct calibration c = read_shipped();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 4, 2048);
    for (size_t i = 0; i < k.stack_count; i++) {
        setup.stack = &k.stacks[i];
        CHECK(calibration_at(&c, &setup).log_spread > 0.08);
    }
}

// Of nine rented machines six had the host that is assumed, and three one that took 1.2 to 1.6
// times as long. A step whose products are long does not wait for it.
TEST(calibration_of_runs_that_wait_for_the_host_reaches_further_down)
{
    struct knowledge k = knowledge_open();
    struct calibration c = read_shipped();
    struct setup narrow = knowledge_setup(&k, "llama-3.2-1b", "hf-peft", 1, 256);
    struct setup wide = knowledge_setup(&k, "llama-3.1-8b", "hf-peft", 4, 2048);
    struct setup graphs = knowledge_setup(&k, "llama-3.1-8b", "native", 4, 2048);
    struct efficiency e = calibration_at(&c, &narrow);
    CHECK(efficiency_at(&e, STATS_P90) == e.log_mid + STATS_P90 * e.log_spread);
    CHECK(e.log_mid - efficiency_at(&e, -STATS_P90) >
          log(1.45)); // all of it: 1.47, and other doubts
    CHECK(calibration_at(&c, &wide).slow_tail < 0.1);
    CHECK(calibration_at(&c, &graphs).slow_tail < 0.01);
}

// The middle knows nothing of the row's source, nor does the range.
TEST(calibration_ranges_hold_four_fifths_of_sources_left_out)
{
    SKIP_BELOW_SANITIZERS("a statistic");
    size_t count;
    const struct validate_row *rows = shipped_rows(&count);
    double inside = 0, timed = 0, moe_inside = 0, moe = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].setup && rows[i].tokens_per_s.error > 0) {
            timed++;
            inside += rows[i].tokens_per_s.inside;
            moe += rows[i].setup->model->experts > 0;
            moe_inside += rows[i].setup->model->experts > 0 && rows[i].tokens_per_s.inside;
        }
    CHECK(inside > 0.78 * timed && inside < 0.87 * timed);
    CHECK(moe < 5 || moe_inside >= 0.7 * moe);
}

TEST(calibration_finds_what_sources_agree_on)
{
    struct knowledge k = knowledge_open();
    struct setup setup = knowledge_setup(&k, "llama-3.1-8b", "litgpt", 4, 2048);
    static char names[40][4];
    struct residual residuals[400];
    for (int i = 0; i < 400; i++) { // forty sources of ten runs, half as fast as the roofline
        names[i / 10][0] = (char)('a' + i / 10 % 26);
        names[i / 10][1] = (char)('a' + i / 260);
        residuals[i] = (struct residual){ .stack = setup.stack,
                                          .source = text_of(names[i / 10]),
                                          .log_ratio = log(0.5) + (i % 2 ? 0.1 : -0.1),
                                          .place = calibration_place(NULL, &setup) };
    }
    struct calibration fit;
    calibration_fit(&fit, &test_arena, k.stacks, k.stack_count, residuals, 400, NULL);
    struct efficiency row = calibration_at(&fit, &setup);
    CHECK_NEAR(exp(row.log_mid), 0.5, 0.03);
    CHECK(row.log_spread > 0.05 && row.log_spread < 0.15);
    CHECK(row.sources == 40 && row.runs == 400);
}

TEST(calibration_leaves_out_what_is_marked)
{
    struct knowledge k = knowledge_open();
    struct residual residuals[] = {
        { .stack = &k.stacks[0], .source = TEXT("a"), .log_ratio = log(0.8) },
        { .stack = &k.stacks[0], .source = TEXT("b"), .log_ratio = log(0.2), .left_out = true },
    };
    struct calibration fit;
    calibration_fit(&fit, &test_arena, k.stacks, k.stack_count, residuals, 2, NULL);
    CHECK_NEAR(exp(fit.stacks[0].log_mid), 0.8, 1e-9);
    CHECK(fit.stacks[0].runs == 1);
}

// Steps with images were measured on one H200 with transformers, their encoders frozen.
TEST(calibration_of_steps_with_images_is_wide_beyond_what_all_of_them_share)
{
    struct knowledge k = knowledge_open();
    struct calibration c = read_shipped();
    double widest = exp(c.evidence.log_widest);
    struct setup near = knowledge_setup(&k, "qwen2.5-vl-7b", "hf-peft", 2, 1200);
    CHECK(!model_find_tower(&near.model, &test_arena));
    near.batch.images = (struct vision_load){ 2, 2002, 7992, 3.2e7, 5.1e5, 1998 };
    CHECK(calibration_at(&c, &near).log_spread < 0.7 * widest);
    struct setup beyond[] = { near, near, near, near, near };
    CHECK(!catalog_gpu(&beyond[0].gpu, &k.catalog, "mi300x"));
    beyond[1].layout.data = 8;
    CHECK(!stack_find(&beyond[2].stack, k.stacks, k.stack_count, "unsloth"));
    beyond[3].recipe.trains_encoder = true;
    CHECK(!catalog_model(&beyond[4].model, &k.catalog, "qwen3-vl-30b-a3b"));
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++)
        CHECK(calibration_at(&c, &beyond[i]).log_spread >= widest);
}

TEST(calibration_widening_keeps_the_slow_side_the_longer_one)
{
    struct efficiency e = { .log_spread = 0.3, .slow_tail = 0.5 };
    efficiency_widen(&e, 0);
    CHECK(e.log_spread == 0.3 && e.slow_tail == 0.5);
    efficiency_widen(&e, 0.4);
    CHECK_NEAR(e.log_spread, 0.5, 1e-9);                                          // 0.3 and 0.4
    CHECK_NEAR(e.log_spread * (1 + e.slow_tail), sqrt(0.45 * 0.45 + 0.16), 1e-9); // 0.45 and 0.4
}
