// SPDX-License-Identifier: Apache-2.0
#include "base/embedded.h"
#include "core/forecast/transfer.h"

#include "core/measured/validate.h"
#include "test/core/planning.h"

#include <math.h>

// A pilot of what a plan chose: its batches at that rate.
static struct pilot *pilot_of(const struct plan *plan, double tokens_per_s, double relative_half)
{
    struct pilot *pilot = ARENA_NEW(&test_arena, struct pilot, 1);
    const struct search_result *chosen = &plan->chosen;
    const struct workload *w = &chosen->workload;
    double steps = w->accumulation * (double)chosen->layout.data;
    pilot_clear(pilot);
    pilot->tokens_per_s = (struct pilot_rate){ tokens_per_s, tokens_per_s * (1 - relative_half),
                                               tokens_per_s * (1 + relative_half) };
    pilot->steady = true, pilot->steps = 100;
    pilot->stack = plan->stack->name;
    pilot->composition =
        (struct pilot_composition){ steps * w->batch.tokens, steps * w->batch.squares,
                                    steps * w->batch.labelled };
    pilot->peak_bytes = chosen->memory.total_bytes;
    pilot->configuration = (struct pilot_configuration){
        .model = plan->model->name,
        .stack = plan->stack->name,
        .gpu = chosen->gpu->name,
        .gpus = chosen->gpus,
        .parallel = layout_spell(&chosen->layout, &test_arena),
        .context = plan->rule.context,
        .batching = batching_names_auto[w->batching],
        .micro_batch = w->micro_batch,
        .accumulation = w->accumulation,
        .global_batch = w->global_batch,
        .recipe = chosen->recipe,
    };
    return pilot;
}

static enum err try_with(struct plan *plan, const char *json, const struct pilot *pilot)
{
    struct plan_request *request = ARENA_NEW(&test_arena, struct plan_request, 1);
    TRY(plan_request_read(request, &test_arena, text_of(json), "request"));
    request->pilot = pilot;
    request->pilot_name = "pilot.json";
    return plan_make(plan, &test_arena, planning_data(), request);
}

static const struct plan *plan_with(const char *json, const struct pilot *pilot)
{
    struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
    enum err err = try_with(plan, json, pilot);
    test_check(!err, err ? error_text() : "", json, 0);
    return plan;
}

#define JOB(rest)                                                                                 \
    "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"h200\",\"stack\":\"hf-peft\","    \
    "\"micro_batch\":\"2\",\"global_batch\":64,\"checkpointing\":\"none\",\"search\":false," rest \
    "}"
#define ON(gpu, precision)                                                                        \
    "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"" gpu "\",\"stack\":\"hf-peft\"," \
    "\"micro_batch\":\"2\",\"global_batch\":64,\"checkpointing\":\"full\",\"search\":false,"      \
    "\"context\":2048,\"gpus\":1,\"precision\":\"" precision "\"}"
static const char one_gpu[] = JOB("\"context\":4096,\"gpus\":1,\"batching\":\"packed\"");
static const char eight_gpus[] = JOB("\"context\":4096,\"gpus\":8,\"parallel\":\"ddp\","
                                     "\"batching\":\"packed\"");

static double relative_width(const struct range *range)
{
    return (range->high - range->low) / range->mid;
}

TEST(transfer_to_the_same_configuration_gives_the_pilots_own_rate)
{
    const struct plan *before = planning_make(one_gpu);
    const double factors[] = { 0.5, 0.9, 1.3 };
    for (int i = 0; i < 3; i++) {
        double rate = before->forecast.tokens_per_s.mid * factors[i];
        const struct plan *after = plan_with(one_gpu, pilot_of(before, rate, 0.004));
        CHECK_NEAR(after->forecast.tokens_per_s.mid, rate, 0.005);
        CHECK(after->transferred.alike && after->transferred.weight == 1);
        CHECK(after->chosen.gpus == 1);
    }
}

// The engine recomputes by layer as much as the card needs: a pilot of that is of the same run.
TEST(transfer_of_an_engine_that_fills_the_card_gives_the_pilots_own_rate)
{
    static const char fills[] =
        "{\"model\":\"qwen2.5-32b\",\"tokens\":\"10M\",\"gpu\":\"h200\",\"gpus\":1,"
        "\"stack\":\"native\",\"method\":\"qlora\",\"context\":65536,\"micro_batch\":\"1\","
        "\"batching\":\"packed\",\"search\":false}";
    const struct plan *before = planning_make(fills);
    CHECK(before->estimate.memory.filled.lighter > 0);
    double rate = 0.9 * before->forecast.tokens_per_s.mid;
    struct pilot *pilot = pilot_of(before, rate, 0.004);
    pilot->configuration.recipe.checkpointing = before->estimate.memory.filled.level;
    pilot->configuration.lighter_share =
        (double)before->estimate.memory.filled.lighter / (double)before->model->layers;
    CHECK_NEAR(plan_with(fills, pilot)->forecast.tokens_per_s.mid, rate, 0.001);
    struct plan_request like = { 0 };
    plan_request_like(&like, pilot, &test_arena);
    CHECK(like.recipe.checkpointing == RECIPE_AUTO);
    pilot->configuration.lighter_share = 0; // all layers alike, which somebody asked for
    plan_request_like(&like, pilot, &test_arena);
    CHECK(like.recipe.checkpointing == before->estimate.memory.filled.level);
}

// Without a pilot a slow host is in the range; the pilot met its host.
TEST(transfer_leaves_no_slow_tail)
{
    static const char waits[] = JOB("\"context\":256,\"gpus\":1,\"batching\":\"packed\"");
    const struct plan *before = planning_make(waits);
    CHECK(before->efficiency.slow_tail > 0.5);
    double rate = before->forecast.tokens_per_s.mid;
    CHECK(plan_with(waits, pilot_of(before, rate, 0.004))->efficiency.slow_tail == 0);
}

TEST(transfer_leaves_the_interval_and_the_spread_between_runs)
{
    const struct plan *before = planning_make(one_gpu);
    double rate = before->forecast.tokens_per_s.mid;
    const struct plan *after = plan_with(one_gpu, pilot_of(before, rate, 0.004));
    // A 90 % interval of ± 0.4 % is a deviation of 0.4 / 1.645; run to run has 2 %.
    double interval = 0.004 / 1.6448536, left = hypot(interval, 0.02);
    CHECK_NEAR(after->efficiency.log_spread, left, 1e-3); // and hardly waits for the host
    CHECK_NEAR(log(after->forecast.tokens_per_s.high / after->forecast.tokens_per_s.mid),
               STATS_P90 * left, 0.05);
    CHECK(relative_width(&after->forecast.tokens_per_s) <
          0.4 * relative_width(&before->forecast.tokens_per_s));
}

TEST(transfer_of_a_tighter_pilot_is_tighter_and_of_a_wide_one_never_wider_than_none)
{
    const struct plan *before = planning_make(one_gpu);
    double rate = before->forecast.tokens_per_s.mid, last = 0;
    const double halves[] = { 0.001, 0.01, 0.05, 0.2, 0.6, 0.95 };
    for (int i = 0; i < 6; i++) {
        const struct plan *after = plan_with(one_gpu, pilot_of(before, rate, halves[i]));
        double width = relative_width(&after->forecast.tokens_per_s);
        CHECK(width >= last);
        CHECK(width <= relative_width(&before->forecast.tokens_per_s) * (1 + 1e-9));
        last = width;
    }
}

// 27 pilots on H200s were 5.8 % off the speed of their whole runs where the host sets the pace.
TEST(transfer_to_the_same_run_is_wider_where_steps_wait_for_the_host)
{
    static const char host_bound[] =
        "{\"model\":\"llama-3.2-1b\",\"method\":\"lora\",\"gpu\":\"h200\",\"gpus\":1,\"stack\":"
        "\"hf-peft\","
        "\"tokens\":1000000,\"micro_batch\":\"1\",\"context\":256,\"batching\":\"packed\"}";
    const struct plan *busy = planning_make(one_gpu), *waiting = planning_make(host_bound);
    busy = plan_with(one_gpu, pilot_of(busy, busy->forecast.tokens_per_s.mid, 0.01));
    waiting = plan_with(host_bound, pilot_of(waiting, waiting->forecast.tokens_per_s.mid, 0.01));
    double spread = busy->transferred.spreads[TRANSFER_RUNS];
    CHECK(spread >= 0.02 && spread < 0.03);
    spread = waiting->transferred.spreads[TRANSFER_RUNS];
    CHECK(spread > 0.07 && spread < 0.085);
}

TEST(plan_takes_the_start_up_that_a_pilot_measured)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, before->forecast.tokens_per_s.mid, 0.01);
    pilot->apart.startup_seconds = 45;
    const struct plan *after = plan_with(one_gpu, pilot);
    CHECK(after->overheads.startup_seconds.origin == ASSUMPTION_MEASURED);
    CHECK(after->overheads.startup_seconds.value.mid == 45);
    CHECK(after->overheads.load_bytes == 0 &&
          before->overheads.load_bytes > 0); // it is in the 45 s
}

TEST(transfer_of_a_pilot_that_was_not_steady_is_wider_and_warns)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 9000, 0.004);
    pilot->steady = false;
    const struct plan *after = plan_with(one_gpu, pilot);
    // Weighed against the prior by their variances, and wider than a steady one.
    double own = hypot(0.05, after->transferred.spreads[TRANSFER_RUNS]),
           prior = before->efficiency.log_spread;
    CHECK_NEAR(after->efficiency.log_spread, own * prior / hypot(own, prior), 1e-9);
    CHECK(after->efficiency.log_spread > 0.04 && after->efficiency.log_spread < own);
    bool warned = false;
    for (size_t i = 0; i < after->advice.count; i++)
        warned |= !strcmp(after->advice.items[i].code, "pilot_not_steady");
    CHECK(warned);
}

TEST(transfer_of_a_pilot_whose_log_contradicts_itself_counts_no_more_than_the_prior_and_warns)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 0.8 * before->forecast.tokens_per_s.mid, 0.004);
    pilot->doubts = "the clock goes back at 3 of its steps";
    const struct plan *after = plan_with(one_gpu, pilot);
    double share = after->forecast.tokens_per_s.mid / before->forecast.tokens_per_s.mid;
    CHECK(share > sqrt(0.8) && share < 0.99);
    CHECK(after->efficiency.log_spread > 0.7 * before->efficiency.log_spread);
    bool warned = false;
    for (size_t i = 0; i < after->advice.count; i++)
        warned |= !strcmp(after->advice.items[i].code, "pilot_doubtful") &&
                  strstr(after->advice.items[i].text, pilot->doubts);
    CHECK(warned);
}

TEST(transfer_to_more_epochs_scales_the_training_exactly)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 8000, 0.004);
    const struct plan *once = plan_with(one_gpu, pilot);
    const struct plan *thrice =
        plan_with(JOB("\"context\":4096,\"gpus\":1,\"batching\":\"packed\",\"epochs\":3"), pilot);
    CHECK_NEAR(thrice->forecast.middle.seconds[OVERHEAD_TRAINING],
               3 * once->forecast.middle.seconds[OVERHEAD_TRAINING], 1e-12);
    CHECK(thrice->transferred.alike);
    CHECK_NEAR(once->forecast.middle.seconds[OVERHEAD_TRAINING],
               once->chosen.workload.processed_tokens / 8000, 1e-9);
}

TEST(transfer_of_a_pilot_counts_new_widths_once_and_loads_no_kernels_again)
{
    const char *padded = JOB("\"context\":2048,\"gpus\":1,\"batching\":\"longest\","
                             "\"mean_length\":400");
    const struct plan *before = planning_make(padded);
    double without = before->forecast.middle.seconds[OVERHEAD_WIDTHS];
    double first = before->overheads.first_steps_seconds.value.mid;
    double again = before->overheads.first_steps_seconds.value.low;
    struct pilot *pilot = pilot_of(before, 8000, 0.004);
    CHECK(without > first && first > 0);
    // It did not tell them from its ordinary steps: they are in its rate.
    CHECK_NEAR(plan_with(padded, pilot)->forecast.middle.seconds[OVERHEAD_WIDTHS], first, 1e-9);
    pilot->transient.seconds_per_width = 0.2;
    pilot->transient.first_steps_seconds = 3;
    const struct plan *after = plan_with(padded, pilot);
    CHECK_NEAR(after->forecast.middle.seconds[OVERHEAD_WIDTHS],
               again + 0.2 * after->chosen.workload.distinct_widths, 1e-9);
    pilot->transient.first_steps_seconds = 0.1 * again;
    after = plan_with(padded, pilot);
    CHECK_NEAR(after->forecast.middle.seconds[OVERHEAD_WIDTHS],
               0.1 * again + 0.2 * after->chosen.workload.distinct_widths, 1e-9);
    pilot->transient.seconds_per_width = pilot->transient.first_steps_seconds = NAN;
    pilot->configuration.batching = batching_names_auto[BATCHING_PACKED]; // it met one width
    CHECK_NEAR(plan_with(padded, pilot)->forecast.middle.seconds[OVERHEAD_WIDTHS], without, 1e-9);
}

TEST(transfer_of_a_pilot_that_evaluated_loads_no_kernels_for_it_again)
{
    const char *padded = JOB("\"context\":2048,\"gpus\":1,\"batching\":\"longest\","
                             "\"mean_length\":400,\"eval_share\":0.05");
    const struct plan *before = planning_make(padded);
    const struct range *first = &before->overheads.first_evaluation_seconds.value;
    struct pilot *pilot = pilot_of(before, 8000, 0.004);
    pilot->transient.first_steps_seconds = 3;
    double without = plan_with(padded, pilot)->forecast.middle.seconds[OVERHEAD_EVALUATION];
    pilot->stalls.evaluation_seconds = 2;
    double with = plan_with(padded, pilot)->forecast.middle.seconds[OVERHEAD_EVALUATION];
    CHECK(first->mid > 2 && first->mid < 5);
    CHECK_NEAR(without - with, first->mid - first->low, 1e-9);
}

// Four evaluations and one save an epoch.
#define EVALUATED(rest)                                                                         \
    JOB("\"context\":4096,\"gpus\":1,\"batching\":\"packed\",\"epochs\":2,\"evals_per_epoch\":" \
        "4," rest)

TEST(plan_takes_the_evaluations_and_saves_that_a_pilot_measured)
{
    const char *job = EVALUATED("\"eval_share\":0.05");
    const struct plan *before = planning_make(job);
    struct pilot *pilot = pilot_of(before, 8000, 0.004);
    pilot->apart.evaluations = 3, pilot->apart.saves = 1;
    pilot->apart.first_evaluation_seconds = 9, pilot->apart.evaluation_seconds = 6;
    pilot->apart.save_seconds = 1.5, pilot->stalls.evaluation_seconds = 21;
    pilot->apart.evaluation_share = 0.05;
    pilot->step_seconds.p10 = 0.9, pilot->step_seconds.p90 = 1.1;
    const struct plan *after = plan_with(job, pilot);
    const struct overhead_times *times = &after->forecast.middle;
    CHECK_NEAR(times->seconds[OVERHEAD_EVALUATION],
               8 * 6 + before->overheads.first_evaluation_seconds.value.low, 1e-9);
    CHECK_NEAR(times->seconds[OVERHEAD_SAVES], times->saves * 1.5, 1e-9);
    CHECK(after->overheads.evaluation_seconds.origin == ASSUMPTION_MEASURED);
    // More of them are known better.
    double width = relative_width(&after->overheads.evaluation_seconds.value),
           saves = relative_width(&after->overheads.save_seconds.value);
    pilot->apart.evaluations = 30, pilot->apart.saves = 10;
    after = plan_with(job, pilot);
    CHECK(relative_width(&after->overheads.evaluation_seconds.value) < width);
    CHECK(relative_width(&after->overheads.save_seconds.value) < saves / 2);
    // Half as many rows held out take half as long; no evaluation takes none.
    after = plan_with(EVALUATED("\"eval_share\":0.025"), pilot);
    CHECK_NEAR(after->overheads.evaluation_seconds.value.mid, 3, 1e-9);
    after = plan_with(EVALUATED("\"eval_share\":0"), pilot);
    CHECK(after->forecast.middle.seconds[OVERHEAD_EVALUATION] == 0);
    after = plan_with(eight_gpus, pilot); // another machine evaluates and saves otherwise
    CHECK(!(after->overheads.evaluation_seconds.value.mid > 0));
    CHECK(!(after->overheads.save_seconds.value.mid > 0));
}

TEST(plan_adds_the_stalls_that_recurred_in_a_pilot)
{
    struct pilot *pilot = pilot_of(planning_make(one_gpu), 8000, 0.004);
    const struct plan *without = plan_with(one_gpu, pilot);
    pilot->stalls.recurring_share = 0.2, pilot->stalls.recurring_error = 0.02;
    const struct plan *with = plan_with(one_gpu, pilot);
    const double *seconds = with->forecast.middle.seconds;
    CHECK_NEAR(seconds[OVERHEAD_TRAINING], without->forecast.middle.seconds[OVERHEAD_TRAINING],
               1e-9);
    CHECK_NEAR(seconds[OVERHEAD_RECURRING], 0.2 * seconds[OVERHEAD_TRAINING], 1e-9);
    CHECK(with->forecast.wall_hours.mid > 1.1 * without->forecast.wall_hours.mid);
    // Fewer seen are less certain; one may be the only one.
    double width = relative_width(&with->overheads.stall_share.value);
    pilot->stalls.recurring_error = 0.1;
    with = plan_with(one_gpu, pilot);
    CHECK(relative_width(&with->overheads.stall_share.value) > 4 * width);
    pilot->stalls.recurring_error = 0.2;
    with = plan_with(one_gpu, pilot);
    CHECK(with->overheads.stall_share.value.low == 0);
    CHECK_NEAR(with->overheads.stall_share.value.mid, 0.1, 1e-9);
    CHECK(with->overheads.stall_share.value.high > 0.4);
}

// The pilot's part of the speed is without its stalls, the stack's part has those of its runs.
TEST(plan_of_another_method_takes_a_pilots_stalls_by_the_pilots_weight)
{
    // A card of which little was measured: elsewhere the stack's own speed is known as well as
    // that.
    const char *own = ON("rtx-5000-ada", "bf16"), *other = ON("rtx-5000-ada", "fp16");
    const struct plan *planned = planning_make(own);
    struct pilot *pilot = pilot_of(planned, 0.9 * planned->forecast.tokens_per_s.mid, 0.004);
    const struct plan *without = plan_with(other, pilot);
    double weight = without->transferred.weight;
    pilot->stalls.recurring_share = 0.2, pilot->stalls.recurring_error = 0.02;
    const struct plan *with = plan_with(other, pilot);
    const struct range *share = &with->overheads.stall_share.value;
    CHECK(weight > 0 && weight < 1);
    CHECK_NEAR(share->mid, 0.2 * weight, 1e-9);
    CHECK(share->low == 0 && share->high > 0.2);
    CHECK(with->forecast.wall_hours.mid > without->forecast.wall_hours.mid);
}

TEST(plan_does_not_take_the_loading_of_kernels_for_the_time_of_an_evaluation)
{
    const char *job = JOB("\"context\":2048,\"gpus\":1,\"batching\":\"longest\","
                          "\"mean_length\":400,\"eval_share\":0.05");
    const struct plan *before = planning_make(job);
    double load = before->overheads.evaluation_load_seconds;
    struct pilot *pilot = pilot_of(before, 8000, 0.004);
    pilot->apart.evaluations = 1, pilot->apart.first_evaluation_seconds = load + 1;
    CHECK(!(plan_with(job, pilot)->overheads.evaluation_seconds.value.mid > 0));
    // A long one holds it, but is not made of it.
    pilot->apart.first_evaluation_seconds = load + 60;
    const struct range *seconds = &plan_with(job, pilot)->overheads.evaluation_seconds.value;
    CHECK_NEAR(seconds->mid, 60, 1e-9);
    CHECK(load > 2 && seconds->low < 60 - load / 2 && seconds->high > 60 + load);
}

static const struct plan *plan_of_lengths(const struct lengths *lengths, const struct pilot *pilot)
{
    struct plan_request *request = ARENA_NEW(&test_arena, struct plan_request, 1);
    const char *json = "{\"model\":\"llama-3.2-1b\",\"gpu\":\"h200\",\"gpus\":1,\"stack\":"
                       "\"hf-peft\",\"method\":\"lora\",\"micro_batch\":\"8\",\"context\":2048,"
                       "\"batching\":\"grouped\",\"eval_share\":0.05,\"search\":false}";
    CHECK(!plan_request_read(request, &test_arena, text_of(json), "request"));
    request->lengths = lengths;
    request->pilot = pilot, request->pilot_name = "pilot.json";
    struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
    CHECK(!plan_make(plan, &test_arena, planning_data(), request));
    return plan;
}

// A trainer counts its tokens, not their squares. Taken from the mean width, these were fewer than
// the plan's own: the run seemed to have other lengths, and its measured evaluations were not used.
TEST(transfer_of_a_pilot_that_counted_tokens_alone_is_to_the_same_lengths)
{
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < 3000; i++)
        lengths_add(&lengths, 40 + (int64_t)i * i % 1900, 30);
    const struct plan *before = plan_of_lengths(&lengths, NULL);
    struct pilot *pilot = pilot_of(before, before->forecast.tokens_per_s.mid, 0.01);
    pilot->composition.squares = pilot->composition.labelled = NAN;
    pilot->apart.evaluations = 2, pilot->apart.evaluation_seconds = 0.75;
    const struct plan *after = plan_of_lengths(&lengths, pilot);
    CHECK(after->transferred.alike);
    CHECK(after->transferred.spreads[TRANSFER_LENGTHS] < 1e-6);
    CHECK_NEAR(after->overheads.evaluation_seconds.value.mid, 0.75, 1e-9);
}

TEST(plan_takes_the_compilation_that_a_pilot_measured)
{
    const char *job =
        "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"h200\",\"gpus\":1,"
        "\"stack\":\"hf-compile\",\"micro_batch\":\"2\",\"global_batch\":64,"
        "\"context\":4096,\"batching\":\"packed\",\"search\":false}";
    struct pilot *pilot = pilot_of(planning_make(job), 8000, 0.004);
    pilot->apart.startup_seconds = 45, pilot->transient.first_steps_seconds = 33;
    const struct plan *after = plan_with(job, pilot);
    CHECK_NEAR(after->forecast.middle.seconds[OVERHEAD_COMPILATION], 33, 1e-9);
    CHECK(after->overheads.compile_seconds.origin == ASSUMPTION_MEASURED);
}

TEST(plans_of_a_used_machine_leave_out_the_loading_of_kernels)
{
    const char *fresh = JOB("\"context\":2048,\"gpus\":1,\"batching\":\"longest\","
                            "\"mean_length\":400");
    const char *used = JOB("\"context\":2048,\"gpus\":1,\"batching\":\"longest\","
                           "\"mean_length\":400,\"file_cache\":\"warm\"");
    const struct plan *before = planning_make(fresh), *after = planning_make(used);
    double load = before->overheads.first_steps_seconds.value.mid;
    CHECK(load > 1);
    CHECK_NEAR(after->overheads.first_steps_seconds.value.mid, 0.1 * load, 1e-9);
    CHECK_NEAR(before->forecast.middle.seconds[OVERHEAD_WIDTHS] -
                   after->forecast.middle.seconds[OVERHEAD_WIDTHS],
               0.9 * load, 1e-9);
}

TEST(transfer_to_eight_gpus_scales_by_the_communication_model)
{
    const struct plan *one = planning_make(one_gpu), *eight = planning_make(eight_gpus);
    struct pilot *pilot = pilot_of(one, 0.9 * one->forecast.tokens_per_s.mid, 0.004);
    const struct plan *one_after = plan_with(one_gpu, pilot);
    const struct plan *eight_after = plan_with(eight_gpus, pilot);
    double model = eight->forecast.tokens_per_s.mid / one->forecast.tokens_per_s.mid;
    double carried = eight_after->forecast.tokens_per_s.mid / one_after->forecast.tokens_per_s.mid;
    CHECK(model > 6 && model < 8);
    CHECK_NEAR(carried, model, 0.005);
    CHECK(!eight_after->transferred.alike && eight_after->transferred.spreads[TRANSFER_GPUS] > 0);
    CHECK(eight_after->efficiency.log_spread > one_after->efficiency.log_spread);
    CHECK(eight_after->efficiency.log_spread <= eight->efficiency.log_spread);
}

TEST(transfer_uncertainty_grows_with_the_distance)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 0.9 * before->forecast.tokens_per_s.mid, 0.004);
    double same = plan_with(one_gpu, pilot)->efficiency.log_spread;
    static const char *const near[] = {
        JOB("\"context\":3072,\"gpus\":1,\"batching\":\"packed\""),
        JOB("\"context\":2048,\"gpus\":1,\"batching\":\"packed\""),
        JOB("\"context\":2048,\"gpus\":2,\"parallel\":\"ddp\",\"batching\":\"packed\""),
        JOB("\"context\":2048,\"gpus\":8,\"parallel\":\"ddp\",\"batching\":\"packed\""),
        JOB("\"context\":2048,\"gpus\":8,\"parallel\":\"ddp\",\"batching\":\"packed\","
            "\"method\":\"qlora\""),
    };
    double last = same;
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        const struct plan *after = plan_with(near[i], pilot);
        // Until it is as if there were no pilot.
        CHECK(after->efficiency.log_spread > last ||
              after->efficiency.log_spread == after->prior.log_spread);
        CHECK(i > 0 || after->efficiency.log_spread < after->prior.log_spread);
        CHECK(after->efficiency.log_spread <= after->prior.log_spread);
        last = after->efficiency.log_spread;
    }
}

TEST(transfer_to_another_method_is_pulled_towards_the_stacks_own)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 0.6 * before->forecast.tokens_per_s.mid, 0.004);
    const char *full = JOB("\"context\":4096,\"gpus\":1,\"batching\":\"packed\","
                           "\"method\":\"full\"");
    const struct plan *after = plan_with(full, pilot), *without = planning_make(full);
    CHECK(after->transferred.weight < 1);
    double measured = after->transfer.log_measured, prior = without->efficiency.log_mid;
    CHECK(after->efficiency.log_mid > measured && after->efficiency.log_mid <= prior);
    // Two runs of deviation s each that differ by d: correlation 1 - d² / 2 s².
    double s = fmin(without->efficiency.log_spread, before->efficiency.log_spread);
    double weight = fmax(0, 1 - 0.24 * 0.24 / (2 * s * s));
    CHECK_NEAR(after->transferred.weight, weight, 1e-9);
    CHECK_NEAR(after->efficiency.log_mid, prior + weight * (measured - prior), 1e-9);
}

// Ten milliseconds and 100 µs a token, nothing for lengths: a flat machine.
static struct pilot *flat_pilot(const struct plan *plan)
{
    const struct step_batch *batch = &plan->chosen.workload.batch;
    double seconds = 0.01 + 1e-4 * batch->tokens;
    struct pilot *pilot = pilot_of(plan, batch->tokens / seconds, 0.002);
    pilot->fit = (struct pilot_fit){ .constant_seconds = 0.01,
                                     .seconds_per_token = 1e-4,
                                     .seconds_per_square = 0,
                                     .seconds_per_labelled = 0,
                                     .spread = 0.01,
                                     .samples = 400,
                                     .tokens_low = 1000,
                                     .tokens_high = 9000,
                                     .attended_low = 100,
                                     .attended_high = 8192 };
    return pilot;
}

TEST(transfer_to_other_lengths_uses_the_pilots_fit)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = flat_pilot(before);
    const char *shorter = JOB("\"context\":1024,\"gpus\":1,\"batching\":\"packed\"");
    const struct plan *after = plan_with(shorter, pilot);
    CHECK(after->transferred.by_fit);
    double tokens = after->chosen.workload.batch.tokens;
    CHECK(tokens == 2048);
    CHECK_NEAR(after->forecast.tokens_per_s.mid, tokens / (0.01 + 1e-4 * tokens), 0.005);
    CHECK_NEAR(after->transferred.spreads[TRANSFER_LENGTHS], 0.005, 1e-9);
    pilot->fit.samples = 0;
    const struct plan *by_list = plan_with(shorter, pilot);
    CHECK(!by_list->transferred.by_fit);
    CHECK(by_list->efficiency.log_spread > after->efficiency.log_spread);
}

TEST(transfer_outside_the_fitted_range_is_less_certain)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = flat_pilot(before);
    const char *longer = JOB("\"context\":8192,\"gpus\":1,\"batching\":\"packed\"");
    double outside = plan_with(longer, pilot)->transferred.spreads[TRANSFER_LENGTHS];
    pilot->fit.tokens_high = 20000;
    double inside = plan_with(longer, pilot)->transferred.spreads[TRANSFER_LENGTHS];
    CHECK(outside > inside && inside > 0);
}

TEST(transfer_of_another_stack_changes_no_number_and_warns)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 5000, 0.004);
    const char *other = "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"h200\","
                        "\"gpus\":1,\"stack\":\"unsloth\",\"search\":false}";
    const struct plan *with = plan_with(other, pilot), *without = planning_make(other);
    CHECK(with->forecast.gpu_hours.mid == without->forecast.gpu_hours.mid);
    CHECK(with->forecast.gpu_hours.high == without->forecast.gpu_hours.high);
    bool warned = false;
    for (size_t i = 0; i < with->advice.count; i++)
        warned |= !strcmp(with->advice.items[i].code, "pilot_of_another_stack");
    CHECK(warned);
}

TEST(transfer_of_more_memory_than_predicted_warns_where_the_run_would_not_fit)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 9000, 0.004);
    pilot->peak_bytes = before->chosen.memory.total_bytes;
    const struct plan *as_predicted = plan_with(one_gpu, pilot);
    CHECK_NEAR(transfer_memory_ratio(&as_predicted->transfer), 1, 1e-9);
    pilot->peak_bytes = 1.05 * before->chosen.memory.device_bytes;
    const struct plan *more = plan_with(one_gpu, pilot);
    for (int i = 0; i < 2; i++) {
        const struct plan *plan = i ? more : as_predicted;
        bool warned = false;
        for (size_t k = 0; k < plan->advice.count; k++)
            warned |= !strcmp(plan->advice.items[k].code, "pilot_needs_more_memory");
        CHECK(warned == (i == 1));
    }
}

TEST(transfer_shows_as_measured_assumptions_and_in_words)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 8939, 0.004);
    pilot->as_of = "2026-11-15";
    const struct plan *after = plan_with(eight_gpus, pilot);
    int measured = 0;
    for (size_t i = 0; i < after->assumption_count; i++) {
        const struct assumption *a = &after->assumptions[i];
        measured += a->origin == ASSUMPTION_MEASURED && a->source &&
                    (!strcmp(a->source, "pilot.json") || !strcmp(a->name, "other number of GPUs"));
        CHECK(a->origin == ASSUMPTION_GIVEN || a->source);
    }
    CHECK(measured == 4);
    struct out out = { .arena = &test_arena };
    plan_text(after, &test_arena, &out);
    const char *text = out_string(&out);
    CHECK(strstr(text, "8,939 tokens/s measured on 1 × h200-sxm"));
    CHECK(strstr(plan_pilot_words(after, &test_arena), "causes: other number of GPUs"));
    CHECK(!strstr(text, "a five-minute pilot"));
    out.size = 0;
    plan_write(after, &test_arena, &out);
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, out_view(&out), "plan"));
    const struct json *member = json_get(&tree, "pilot");
    CHECK(member && json_get_number(member, "tokens_per_second", 0) == 8939);
    CHECK(json_get(member, "left")->count == 3);
}

// Packs of short documents: without data of its own, a plan takes the run's rows to be the pilot's.
TEST(transfer_takes_unknown_lengths_to_be_those_of_the_pilot)
{
    const char *native = "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"gpu\":\"h200\","
                         "\"gpus\":1,\"stack\":\"native\",\"micro_batch\":\"2\","
                         "\"global_batch\":16,\"context\":4096,\"checkpointing\":\"none\","
                         "\"search\":false}";
    const struct plan *before = planning_make(native);
    struct pilot *pilot = pilot_of(before, 14000, 0.004);
    pilot->composition = (struct pilot_composition){ 8 * 8000, 8 * 8000 * 150.0, 8 * 4000 };
    const struct plan *after = plan_with(native, pilot);
    CHECK_NEAR(after->forecast.tokens_per_s.mid, 14000, 0.005);
    CHECK(after->transferred.alike);
    CHECK_NEAR(after->chosen.workload.batch.tokens, 8000, 1e-9);
    CHECK_NEAR(after->chosen.workload.batch.squares, 8000 * 150.0, 1e-9);
    CHECK_NEAR(after->chosen.workload.batch.labelled, 4000, 1e-9);
    CHECK_NEAR(after->chosen.workload.processed_tokens, 21.4e6, 1e-9);
    CHECK(after->chosen.workload.worst.width == 4096);
}

TEST(transfer_refuses_pilots_of_unknown_models_stacks_and_gpus)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 50, 0.1);
    struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
    pilot->gpu.name = "cpu";
    CHECK(try_with(plan, one_gpu, pilot) == ERR_INPUT && strstr(error_text(), "CPU"));
    pilot->gpu.name = NULL;
    pilot->configuration.gpu = NULL;
    CHECK(try_with(plan, one_gpu, pilot) == ERR_INPUT &&
          strstr(error_text(), "the GPU that it ran on"));
    pilot->configuration.gpu = "abacus-9000";
    CHECK(try_with(plan, one_gpu, pilot) == ERR_INPUT && strstr(error_text(), "pilot.json"));
    pilot->configuration.gpu = "h200";
    pilot->configuration.model = "hal-9000";
    CHECK(try_with(plan, one_gpu, pilot) == ERR_INPUT && strstr(error_text(), "hal-9000"));
}

TEST(transfer_takes_the_drivers_name_of_a_gpu)
{
    const struct plan *before = planning_make(one_gpu);
    struct pilot *pilot = pilot_of(before, 8939, 0.004);
    pilot->configuration.gpu = NULL;
    pilot->gpu.name = "NVIDIA H200";
    CHECK(plan_with(one_gpu, pilot)->transferred.alike);
}

// --- against measured runs ---------------------------------------------------

// Takes each measured run as the pilot of each other of its source and stack, and counts how often
// the other's rate lies within P10 to P90 of what is carried; sources weigh the same.
TEST(transfer_ranges_hold_80_percent_of_the_pairs_of_measured_runs)
{
    SKIP_BELOW_SANITIZERS("a statistic");
    const struct plan_data *data = planning_data();
    struct run *runs;
    size_t count, used = 0;
    CHECK(!run_read(&runs, &count, &test_arena, embedded_file("runs.csv"), "runs.csv"));
    struct transfer *carries = ARENA_NEW(&test_arena, struct transfer, count);
    struct text *source_of = ARENA_NEW(&test_arena, struct text, count);
    static const struct pilot no_fit;
    for (size_t i = 0; i < count; i++) {
        struct transfer *c = &carries[used];
        struct estimate estimate;
        double measured = runs[i].tokens_per_s_total;
        if (!(measured > 0) ||
            run_setup(&c->setup, &test_arena, &runs[i], &data->catalog, data->stacks,
                      data->stack_count) ||
            !c->setup.gpu || estimate_make(&estimate, &test_arena, &c->setup))
            continue;
        c->pilot = &no_fit;
        c->recipe = estimate_recipe(&c->setup);
        c->calibration = &data->calibration;
        c->prior = calibration_at(c->calibration, &c->setup);
        c->roofline_tokens_per_s = estimate.tokens_per_s;
        c->log_measured = log(measured / estimate.tokens_per_s);
        c->log_interval = 0.02;
        source_of[used++] = run_source(&runs[i]);
    }
    CHECK(used > 300);
    double covered = 0, sources = 0;
    for (size_t first = 0; first < used; first++) {
        bool seen = false;
        for (size_t i = 0; i < first; i++)
            seen |= text_equal(source_of[i], source_of[first]);
        double inside = 0, pairs = 0;
        for (size_t i = first; !seen && i < used; i++)
            for (size_t k = first; k < used; k++) {
                struct transferred carried;
                if (k == i || !text_equal(source_of[i], source_of[first]) ||
                    !text_equal(source_of[k], source_of[first]))
                    continue;
                transfer_to(&carried, &carries[i], &test_arena, &carries[k].setup);
                const struct efficiency *e = &carried.efficiency;
                if (!carried.same_stack)
                    continue;
                inside += fabs(carries[k].log_measured - e->log_mid) <= STATS_P90 * e->log_spread;
                pairs += 1;
            }
        if (pairs >= 10)
            covered += inside / pairs, sources += 1; // fewer are too few to count
    }
    CHECK(sources > 20);
    CHECK(covered / sources > 0.75 && covered / sources < 0.9);
}

TEST(transfer_of_a_pilot_that_contradicts_its_stack_spans_both_and_warns)
{
    const struct plan *before = planning_make(one_gpu);
    double expected = before->chosen.tokens_per_s, spread = before->efficiency.log_spread;
    struct pilot *pilot = pilot_of(before, expected * exp(-4 * spread), 0.004);
    const struct plan *after = plan_with(one_gpu, pilot);
    bool warned = false;
    for (size_t i = 0; i < after->advice.count; i++)
        warned |= !strcmp(after->advice.items[i].code, "pilot_contradicts");
    CHECK(warned);
    CHECK(strstr(plan_pilot_words(after, &test_arena), ": it contradicts what its stack reaches"));
    CHECK(after->forecast.tokens_per_s.low < pilot->tokens_per_s.mean);
    CHECK(after->forecast.tokens_per_s.high > 0.95 * expected);
    pilot = pilot_of(before, expected * exp(-2 * spread), 0.004);
    after = plan_with(one_gpu, pilot);
    for (size_t i = 0; i < after->advice.count; i++)
        CHECK(strcmp(after->advice.items[i].code, "pilot_contradicts"));
}
