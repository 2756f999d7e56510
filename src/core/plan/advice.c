// SPDX-License-Identifier: Apache-2.0
// The warnings of a plan: a table of codes, and for each the function that finds it.
// Long because every kind of mistake has a function, which only the table calls.

#include "core/plan/advice.h"

#include "core/plan/advice_internal.h"
#include "core/step/engine.h"

#include <math.h>
#include <string.h>

const struct plan_alternative *advice_alternative(const struct plan *plan, const char *why)
{
    for (size_t i = 0; i < plan->alternative_count; i++)
        if (!strcmp(plan->alternatives[i].why, why))
            return &plan->alternatives[i];
    return NULL;
}

// --- whether it is the run that was meant -------------------------------------

static const char *pairs_as_sft(const struct plan *plan, struct arena *arena)
{
    (void)arena;
    if (!plan->request->has_pairs || plan->request->objective != OBJECTIVE_AUTO)
        return NULL;
    return "the data holds chosen and rejected answers, and this forecast is for supervised tuning "
           "on both; --objective dpo (ipo, orpo, simpo, kto, reward) forecasts preference tuning, "
           "--objective sft keeps this one";
}

static const char *verdicts_as_sft(const struct plan *plan, struct arena *arena)
{
    (void)arena;
    if (!plan->request->has_verdicts || plan->request->objective != OBJECTIVE_AUTO)
        return NULL;
    return "the data holds answers that are labelled true or false, or 1 or 0, and this forecast "
           "is for supervised tuning on all of them; --objective kto forecasts KTO, --objective "
           "sft keeps this one";
}

static const char *prompts_as_sft(const struct plan *plan, struct arena *arena)
{
    (void)arena;
    if (!plan->request->has_prompts || objective_samples(plan->objective.kind))
        return NULL;
    return "the data holds prompts without answers, from which supervised tuning learns nothing; "
           "--objective grpo (dapo, gspo, rloo, ppo) forecasts RL, which samples the answers, and "
           "--fields completion=NAME names the column of answers";
}

// --- whether it can run ------------------------------------------------------

static const char *deadline_missed(const struct plan *plan, struct arena *arena)
{
    if (plan->meets_deadline || isnan(plan->request->deadline))
        return NULL;
    return text_format(arena, "the median is %s, the deadline %s; more or faster GPUs are needed",
                       text_seconds(arena, plan_wall_hours(plan)->mid * 3600),
                       text_seconds(arena, plan->request->deadline));
}

static const char *peak_for_sustained(const struct plan *plan, struct arena *arena)
{
    if (plan->meets_deadline || isnan(plan->request->deadline) || plan->sweep.runs)
        return NULL;
    double peak_seconds = plan->estimate.timing.peak_share * exp(plan->efficiency.log_mid) *
                          plan->forecast.middle.seconds[OVERHEAD_TRAINING];
    if (peak_seconds >= plan->request->deadline)
        return NULL;
    return text_format(
        arena,
        "at the datasheet's peak rate it would take %s and meet the deadline, but "
        "training sustains %s of that rate and takes %s",
        text_seconds(arena, peak_seconds),
        text_share(arena, plan->estimate.timing.peak_share * exp(plan->efficiency.log_mid)),
        text_seconds(arena, plan->forecast.wall_hours.mid * 3600));
}

// The plan's price is the median of what providers ask; hosts looks at each offer.
static const char *budget_missed(const struct plan *plan, struct arena *arena)
{
    double deadline = plan->request->deadline, budget = plan->request->budget;
    if (plan->meets_budget || isnan(budget))
        return NULL;
    const char *missed = text_format(
        arena, "the median cost%s is %s, the budget is %s", plan->sweep.runs ? " of the sweep" : "",
        text_usd(arena, plan_cost_usd(plan)->mid), text_usd(arena, budget));
    if (plan->price.own || !plan->price.oldest || plan->sweep.runs)
        return missed;
    const char *in_time =
        isnan(deadline) ? "" : text_format(arena, " --deadline %.6gh", deadline / 3600);
    return text_format(arena,
                       "%s; that is at the median of the providers' prices, and single offers may "
                       "cost less: gpuhours hosts --plan plan.json%s --budget %.10g compares them",
                       missed, in_time, budget);
}

static const char *unsupported_precision(const struct plan *plan, struct arena *arena)
{
    int asked = plan->request->recipe.precision, used = plan->chosen.recipe.precision;
    if (asked == used)
        return NULL;
    return text_format(arena, "%s has no %s: this plan is in %s%s", plan->chosen.gpu->title,
                       recipe_precisions[asked], recipe_precisions[used],
                       used == RECIPE_FP16 ? " with loss scaling (--precision fp16)" : "");
}

static const char *context_beyond_model(const struct plan *plan, struct arena *arena)
{
    double most = (double)plan->model->max_positions;
    if (most <= 0 || plan->rule.context <= most)
        return NULL;
    return text_format(arena,
                       "--context %.0f exceeds the %.0f positions of %s; use RoPE scaling or a "
                       "shorter context",
                       plan->rule.context, most, plan->model->name);
}

// --- the data ----------------------------------------------------------------

// A row is cut in the middle of an image, and its text no longer has as many places as the image
// has tokens: most trainers stop there.
static const char *images_cut(const struct plan *plan, struct arena *arena)
{
    const struct vision_load *images = &plan->rule.images;
    double tokens = images->images > 0 ? images->tokens / images->images : 0;
    if (tokens <= plan->rule.context)
        return NULL;
    return text_format(
        arena,
        "an image has %s tokens on average, more than the context of %.0f: rows are "
        "cut within images, and most trainers stop at such a row; give --context %.0f or "
        "--image-max-pixels",
        text_commas(arena, (int64_t)(tokens + 0.5)), plan->rule.context,
        1024 * ceil(1.25 * tokens / 1024));
}

static const char *longer_context(const struct plan *plan, struct arena *arena)
{
    double whole = 1024 * ceil(plan->rule.loss.longest / 1024), context = plan->rule.context;
    double most = plan->model->max_positions > 0 ? (double)plan->model->max_positions : whole;
    if (whole <= most)
        return text_format(arena, "--context %.0f keeps all", whole);
    return context < most ? text_format(arena, "--context %.0f keeps more", most)
                          : "the model has no more positions: split long rows into several";
}

static const char *rows_cut(const struct plan *plan, struct arena *arena)
{
    const struct packing_loss *loss = &plan->rule.loss;
    double mean = loss->tokens / loss->examples, context = plan->rule.context;
    if (!packing_loss_matters(loss))
        return NULL;
    if (!isnan(loss->cut))
        return text_format(arena, "%s; %s", packing_loss_text(loss, arena, context),
                           longer_context(plan, arena));
    return text_format(arena,
                       "examples have %s tokens on average and are cut at the context of %.0f: at "
                       "least %s of the tokens are not trained on; --context %.0f keeps most",
                       text_commas(arena, llround(mean)), context,
                       text_share(arena, 1 - context / mean), 1024 * ceil(2 * mean / 1024));
}

static const char *samples_for_tokens(const struct plan *plan, struct arena *arena)
{
    double tokens = plan->rule.tokens;
    bool too_few = isnan(plan->rule.examples) ? tokens < 2e5 : tokens < 8 * plan->rule.examples;
    if (!too_few)
        return NULL;
    const char *count = text_commas(arena, (int64_t)tokens);
    if (tokens < fmin(plan->rule.context, 1000)) // as millions are written, but for their unit
        return text_format(arena,
                           "%s tokens do not fill one row of %.0f; if %.0f million are meant, "
                           "write --tokens %.0fM; if it is the number of examples, --examples "
                           "with --mean-length",
                           count, plan->rule.context, tokens, tokens);
    return text_format(arena,
                       "%s tokens are very few; if this is the number of examples, use --examples "
                       "with --mean-length instead",
                       count);
}

static const char *no_packing(const struct plan *plan, struct arena *arena)
{
    const struct plan_alternative *packed = advice_alternative(plan, "packed");
    double padding = plan->chosen.workload.padding_share;
    if (plan->rule.batching == BATCHING_PACKED || padding < 0.15 || !plan_may_pack(plan))
        return NULL;
    const char *share = text_share(arena, padding);
    if (!packed || packed->result.gpu_hours >= plan->chosen.gpu_hours)
        return text_format(
            arena, "%s of the processed tokens are padding; --packing on removes most of it",
            share);
    bool alone = !strcmp(packed->changes, "packed");
    return text_format(arena,
                       "%s of the processed tokens are padding; --packing on takes %s GPU hours "
                       "instead of %s%s",
                       share, text_hours(arena, packed->result.gpu_hours),
                       text_hours(arena, plan->chosen.gpu_hours),
                       alone ? "" : text_format(arena, " (with %s)", packed->changes));
}

// TRL reads images while it trains, and packs only what it has read before.
static const char *packed_images(const struct plan *plan, struct arena *arena)
{
    const char *trainer = plan->stack->pads_pairs;
    if (plan->rule.batching != BATCHING_PACKED || !(plan->rule.images.images > 0) || !trainer ||
        strcmp(trainer, "TRL"))
        return NULL;
    return text_format(arena,
                       "%s trains with TRL, which refuses to pack rows with images; --packing off "
                       "forecasts what it runs",
                       plan->stack->name);
}

static const char *packed_pairs(const struct plan *plan, struct arena *arena)
{
    enum objective_kind kind = plan->objective.kind;
    const char *trainer = plan->stack->pads_pairs;
    if (!trainer || !*trainer || plan->rule.batching != BATCHING_PACKED || kind == OBJECTIVE_SFT ||
        objective_samples(kind))
        return NULL;
    return text_format(arena,
                       "%s does not pack %s of %s, it pads them; --packing off forecasts what it "
                       "runs",
                       trainer, objective_is_paired(kind) ? "pairs" : "rows",
                       objective_names[kind]);
}

// Encoders of images of any size, whose attention starts anew for each of them without
// FlashAttention.
static const char *images_one_by_one(const struct plan *plan, struct arena *arena)
{
    const double worth = 1.1;
    const struct vision *tower = plan->model->tower;
    struct setup setup = search_setup(&plan->chosen, plan->model, plan->stack);
    struct estimate quicker;
    if (!tower || tower->rule != VISION_NATIVE || !(setup.batch.images.images > 0) ||
        plan->chosen.recipe.attention == RECIPE_FLASH2 || !plan->chosen.gpu->supports_bf16)
        return NULL; // FlashAttention-2 needs a card that has bf16
    setup.recipe.attention = RECIPE_FLASH2;
    if (estimate_make(&quicker, arena, &setup) ||
        quicker.tokens_per_s < worth * plan->estimate.tokens_per_s)
        return NULL;
    return text_format(arena,
                       "the encoder of %s starts attention anew for each image%s, which the host "
                       "is slow at; FlashAttention takes all at once: with --attention flash2 the "
                       "speed would be %.1f × that of this plan, by the step model; nobody "
                       "measured it",
                       plan->model->name, tower->window ? ", and each window of one" : "",
                       quicker.tokens_per_s / plan->estimate.tokens_per_s);
}

static const char *lengths_assumed(const struct plan *plan, struct arena *arena)
{
    const double notable_saving = 0.1; // packing itself varies by 2 %
    if (plan_assumes_prompts(plan->request))
        return text_format(
            arena,
            "prompts of %.0f tokens are assumed (80 %% range %.0f – %.0f): the range "
            "of hours allows for that, the range of tokens/s does not; give the "
            "data, or --mean-length",
            plan->rollout.prompt_length, plan->prompts[0].length, plan->prompts[1].length);
    const struct workload *workload = &plan->chosen.workload;
    struct range mean = workload_mean_lengths(&plan->rule);
    const struct range *factor = &plan->lengths_factor;
    bool packed = plan->rule.batching == BATCHING_PACKED;
    if (plan_knows_mean(plan->request) || (packed && factor->low > 1 - notable_saving))
        return NULL;
    if (packed)
        return text_format(arena,
                           "each packed row is taken as one example; with examples of %.0f tokens, "
                           "to which attention is limited, the run takes %.2g times as long: the "
                           "range of hours allows for that, the range of tokens/s does not; give "
                           "the data, or --mean-length",
                           mean.mid, factor->low);
    if (!plan->rule.full_rows)
        return text_format(arena,
                           "examples of %.0f tokens are assumed (80 %% range %.0f – %.0f); steps, "
                           "padding and speed follow from them: the range of hours allows for "
                           "that, the range of tokens/s does not; give the data, or --mean-length",
                           workload->mean_length, mean.low, mean.high);
    if (factor->low == factor->high)
        return NULL;
    bool longer = factor->high > 1; // else full rows take longer: attention over a long context
    const char *padded =
        workload->micro_batch > 1
            ? text_format(arena, ", padded to the longest of %.0f,", workload->micro_batch)
            : "";
    return text_format(arena,
                       "every row is assumed to fill the context; with typical rows of %.0f "
                       "tokens%s the run takes %s%.2g times as long: the range of hours allows "
                       "for that, the range of tokens/s does not; give the data, or "
                       "--mean-length%s",
                       mean.mid, padded, longer ? "up to " : "",
                       longer ? factor->high : factor->low,
                       plan_may_pack(plan) ? ", or --packing on" : "");
}

static const char *tokens_estimated(const struct plan *plan, struct arena *arena)
{
    (void)arena;
    return plan->request->token_spread > 0
               ? "the tokens were counted without the model's own tokenizer; --tokenizer with its "
                 "tokenizer.json makes them exact"
               : NULL;
}

static const char *data_is_a_sample(const struct plan *plan, struct arena *arena)
{
    const struct plan_request *request = plan->request;
    const struct plan_request *given = request->given;
    bool of_rows = request->most_examples > 0 || request->held_out >= 1;
    bool assumed = of_rows && given && given->examples <= 0 && isnan(request->mean_length);
    if (given && !request->lengths && given->tokens > request->tokens)
        return text_format(
            arena,
            "--tokens is %s and the plan is for %s: the trainer's configuration leaves the others "
            "out, or only evaluates on them%s",
            text_commas(arena, given->tokens), text_commas(arena, request->tokens),
            !assumed ? ""
                     : text_format(arena,
                                   "; it tells a number of rows, and %.0f tokens are assumed of "
                                   "each: give the data, or --mean-length",
                                   plan_assumed_mean(request)));
    if (!(request->sample_examples > 0))
        return NULL;
    const char *counted = text_commas(arena, llround(request->sample_examples));
    const char *planned = text_commas(arena, request->examples);
    if (!given || (given->tokens <= 0 && given->examples <= 0))
        return text_format(arena,
                           "%s examples were counted and the plan is for %s: the trainer's "
                           "configuration leaves the others out, or only evaluates on them",
                           counted, planned);
    return text_format(arena, "%s examples were counted and the plan is for %s, as --%s says; %s",
                       counted, planned, given->tokens > 0 ? "tokens" : "examples",
                       "their lengths are taken as those of all");
}

// Of a context that somebody gave: the usual one holds the longest of many assumed rows.
static const char *context_beyond_data(const struct plan *plan, struct arena *arena)
{
    if (!(plan->request->context > 0) || plan->request->context_from_data)
        return NULL;
    const double p99 = 2.326; // of the standard normal
    double spread = workload_spread(&plan->rule).mid;
    double long_row = plan->chosen.workload.mean_length * exp(spread * p99 - spread * spread / 2);
    double widest = plan->chosen.workload.worst.width;
    if (plan->rule.shapes)
        return widest * 2 > plan->rule.context || plan->rule.batching == BATCHING_PACKED
                   ? NULL
                   : text_format(arena,
                                 "no example is longer than %.0f tokens; a --context of %.0f "
                                 "only costs memory",
                                 widest, plan->rule.context);
    if (!plan_knows_mean(plan->request) || long_row * 2 > plan->rule.context ||
        plan->rule.batching == BATCHING_PACKED)
        return NULL;
    return text_format(arena,
                       "with %.0f tokens on average, 99 %% of examples should be under %.0f; a "
                       "--context of %.0f plans for memory that the data does not use",
                       plan->chosen.workload.mean_length, long_row, plan->rule.context);
}

// --- the recipe --------------------------------------------------------------

static const char *wide_adapters(const struct plan *plan, struct arena *arena)
{
    (void)arena;
    const struct recipe *recipe = &plan->chosen.recipe;
    if (recipe->method == RECIPE_FULL || recipe->adapter_dtype != RECIPE_FP32 ||
        recipe->precision != RECIPE_BF16 || plan->stack->adapters == STACK_ADAPTERS_FUSED)
        return NULL;
    return "fp32 adapters cost extra memory and time for casts; --adapter-dtype bf16 avoids that";
}

static const char *engine_lacks_gpu(const struct plan *plan, struct arena *arena)
{
    const struct gpu *gpu = plan->chosen.gpu;
    bool runs = stack_runs_on(plan->stack, gpu->vendor) && gpu->supports_bf16;
    if (!stack_is_engine(plan->stack) || runs)
        return NULL;
    return text_format(arena,
                       "the engine runs on NVIDIA GPUs with bf16, Ampere or newer, not on %s; the "
                       "forecast is hypothetical: choose another --stack",
                       gpu->title);
}

static const char *stack_lacks_gpu(const struct plan *plan, struct arena *arena)
{
    const struct gpu *gpu = plan->chosen.gpu;
    const char *vendors = plan->stack->vendors;
    if (stack_runs_on(plan->stack, gpu->vendor) || stack_is_engine(plan->stack))
        return NULL;
    struct out list = { .arena = arena };
    struct text rest = text_of(vendors), name;
    while (text_next(&rest, '|', &name))
        out_put(&list, "%s%.*s", list.size ? " and " : "", TEXT_ARGS(name));
    return text_format(arena,
                       "%s runs on accelerators of %s, not on %s; the forecast is hypothetical: "
                       "choose another --stack or --gpu",
                       plan->stack->name, out_string(&list), gpu->title);
}

static const char *engine_lacks_experts(const struct plan *plan, struct arena *arena)
{
    (void)arena;
    if (!stack_is_engine(plan->stack) || !plan->model->experts)
        return NULL;
    if (!engine_trains(plan->model))
        return "the engine trains mixtures like Mixtral, Qwen3-MoE and gpt-oss, not this one; the "
               "forecast is hypothetical: choose another --stack";
    if (!engine_adapts(plan->model, &plan->chosen.recipe))
        return "adapters on the experts of this model have no dropout, in the engine as in PEFT; "
               "give --dropout 0, or --targets attention";
    return NULL;
}

static const char *engine_lacks_objective(const struct plan *plan, struct arena *arena)
{
    const struct objective *objective = &plan->objective;
    enum objective_reference reference = objective_reference_of(objective, &plan->chosen.recipe);
    bool trained = objective->kind == OBJECTIVE_SFT ||
                   (objective->kind == OBJECTIVE_DPO && reference == REFERENCE_ADAPTERS);
    if (!stack_is_engine(plan->stack) || trained)
        return NULL;
    return text_format(arena,
                       "the engine trains sft, and dpo with its adapters switched off as the "
                       "reference; this forecast of %s is hypothetical: choose another --stack",
                       objective_names[objective->kind]);
}

static const char *launch_bound(const struct plan *plan, struct arena *arena)
{
    const struct timing *t = &plan->estimate.timing;
    double device =
        t->matmul_seconds + t->attention_seconds + t->elementwise_seconds + t->dequantize_seconds;
    double pace = exp(-plan->efficiency.log_mid); // as the step's seconds are printed
    if (t->host_seconds < device)
        return NULL;
    return text_format(arena,
                       "the host takes longer to launch the kernels (%s per micro-batch) than the "
                       "GPU to run them (%s); a larger micro-batch, packing or compilation helps. "
                       "Hosts differ in speed by 10 %% and more: gpuhours pilot measures yours",
                       text_seconds(arena, t->host_seconds * pace),
                       text_seconds(arena, device * pace));
}

static const char *better_settings(const struct plan *plan, struct arena *arena)
{
    const struct plan_alternative *better = advice_alternative(plan, "better settings");
    if (!better)
        return NULL;
    return text_format(arena, "with %s it takes %s GPU hours instead of %s", better->changes,
                       text_hours(arena, better->result.gpu_hours),
                       text_hours(arena, plan->chosen.gpu_hours));
}

// --- hours and money ---------------------------------------------------------

static const char *more_gpus_cost_more(const struct plan *plan, struct arena *arena)
{
    const struct search_result *smaller = NULL;
    double least = plan->chosen.gpu_hours / 1.15;
    for (size_t i = 0; i < plan->scaling_count; i++) {
        const struct search_result *r = &plan->scaling[i];
        bool in_time = !(r->wall_hours * 3600 > plan->request->deadline);
        if (r->gpus < plan->chosen.gpus && r->stable && in_time && r->gpu_hours < least) {
            smaller = r;
            least = r->gpu_hours;
        }
    }
    if (!smaller)
        return NULL;
    return text_format(arena, "%s GPU hours on %lld GPUs, but only %s on %lld (wall clock %s)",
                       text_hours(arena, plan->chosen.gpu_hours), (long long)plan->chosen.gpus,
                       text_hours(arena, smaller->gpu_hours), (long long)smaller->gpus,
                       text_seconds(arena, smaller->wall_hours * 3600));
}

static const char *other_batch(const struct plan *plan, struct arena *arena)
{
    return text_format(arena,
                       "--global-batch %.0f becomes %.0f: it must be a multiple of micro-batch × "
                       "data-parallel GPUs",
                       (double)plan->request->global_batch, plan->chosen.workload.global_batch);
}

static const char *global_batch_raised(const struct plan *plan, struct arena *arena)
{
    double asked = (double)plan->request->global_batch;
    return asked > 0 && plan->chosen.workload.global_batch > asked ? other_batch(plan, arena)
                                                                   : NULL;
}

static const char *global_batch_lowered(const struct plan *plan, struct arena *arena)
{
    double asked = (double)plan->request->global_batch;
    return plan->chosen.workload.global_batch < asked ? other_batch(plan, arena) : NULL;
}

static const char *padding_of_a_former_plan(const struct plan *plan, struct arena *arena)
{
    double known = plan->rule.only_rows, used = plan->chosen.workload.micro_batch;
    const char *name = plan->request->former_name;
    if (!(known > 0) || !name)
        return NULL;
    if (used == known)
        return text_format(arena,
                           "%s was written before 0.9.9 and tells the padding of --micro-batch "
                           "%.0f alone, which is kept; the data, or a new plan of it, tells others",
                           name, known);
    return text_format(arena,
                       "%s was written before 0.9.9 and tells the padding of --micro-batch %.0f "
                       "alone; with %.0f it is another one: plan from the data again",
                       name, known, used);
}

// NeMo refuses packed micro-batches of more than one row.
static const char *single_packed_rows(const struct plan *plan, struct arena *arena)
{
    double asked = 0;
    if (!plan->rule.single_rows || plan_request_rows(&asked, plan->request) || asked <= 1)
        return NULL;
    return text_format(arena,
                       "%s takes packed rows one at a time: --micro-batch %.0f is planned as 1, "
                       "with as many rows in a step; a longer --context packs more into each pass",
                       plan->stack->name, asked);
}

// Public recipes repeat small, picked data sets often (LIMA: 1,000 rows, 15 times), larger ones
// seldom more than four times. In pretraining, four passes over the same text are worth as much as
// new text, and further ones ever less (Muennighoff et al., arXiv:2305.16264).
static const char *many_epochs(const struct plan *plan, struct arena *arena)
{
    const double usual = 4, few_rows = 5000,
                 most = 100; // no recipe is known that repeats more often
    const struct workload *w = &plan->chosen.workload;
    bool few = plan->request->examples > 0 && w->examples < few_rows;
    if (w->epochs <= (few ? most : usual))
        return NULL;
    double training = plan->forecast.middle.seconds[OVERHEAD_TRAINING] / 3600;
    return text_format(
        arena,
        "%s epochs: public fine-tuning recipes mostly take 1 to 4, and "
        "repeating the same text helps less and less after about 4; the epochs beyond these take "
        "%s GPU hours. Evaluate after each and stop when the loss rises",
        workload_spell_epochs(w->epochs, arena),
        text_hours(arena, training * (w->epochs - usual) / w->epochs * (double)plan->chosen.gpus));
}

static const char *no_evaluation(const struct plan *plan, struct arena *arena)
{
    (void)arena;
    if (overhead_evaluates(&plan->overheads))
        return NULL;
    return "no evaluation is planned; public recipes hold out 5 % of the data (--eval-share 0.05)";
}

static const char *no_saves(const struct plan *plan, struct arena *arena)
{
    const struct overhead_times *times = &plan->forecast.middle;
    bool asked = !isnan(plan->request->save_interval) || plan->request->save_every >= 0 ||
                 !isnan(plan->request->saves_per_epoch);
    if (!asked || times->saves > 1 || plan->forecast.wall_hours.mid < 4)
        return NULL;
    return text_format(
        arena,
        "the only checkpoint is saved after %s, and a failure before that loses the whole run; "
        "saving takes %s: set a shorter --save-interval",
        text_seconds(arena, plan->forecast.wall_hours.mid * 3600),
        text_seconds(arena, times->seconds[OVERHEAD_SAVES]));
}

static const char *unmeasured_stack(const struct plan *plan, struct arena *arena)
{
    if (plan->efficiency.sources > 1 || plan->efficiency.is_piloted)
        return NULL;
    if (plan->efficiency.runs == 1)
        return text_format(
            arena,
            "there is one measured run of %s, so its speed is partly that of similar "
            "stacks; %s measures it",
            plan->stack->name, plan_pilot_length(plan, arena));
    if (plan->efficiency.runs > 0)
        return text_format(arena,
                           "all measured runs of %s (%lld) come from one source, so its speed is "
                           "partly that of similar stacks; %s measures it",
                           plan->stack->name, (long long)plan->efficiency.runs,
                           plan_pilot_length(plan, arena));
    return text_format(arena,
                       "there is no measured run of %s, so its speed is that of similar stacks; %s "
                       "measures it",
                       plan->stack->name, plan_pilot_length(plan, arena));
}

static const char *unmeasured_configuration(const struct plan *plan, struct arena *arena)
{
    return plan->efficiency.is_piloted || plan->efficiency.own ? NULL
                                                               : plan_unmeasured_words(plan, arena);
}

// Below a tenth the line of the ledger says enough.
static const char *ledger_changes_hours(const struct plan *plan, struct arena *arena)
{
    double change = plan->forecast.gpu_hours.mid / plan->gpu_hours_without_ledger.mid;
    return fabs(log(change)) > 0.1 ? plan_ledger_words(plan, arena) : NULL;
}

// --- the pilot ---------------------------------------------------------------

static const char *pilot_not_steady(const struct plan *plan, struct arena *arena)
{
    const struct pilot *pilot = plan->request->pilot;
    if (!pilot || pilot->steady)
        return NULL;
    return text_format(arena, "the pilot's rate was not steady%s%s; a longer one narrows the range",
                       pilot->verdict ? ": " : "", pilot->verdict ? pilot->verdict : "");
}

static const char *pilot_doubtful(const struct plan *plan, struct arena *arena)
{
    const struct pilot *pilot = plan->request->pilot;
    return pilot && pilot->doubts
               ? text_format(arena,
                             "what the pilot read contradicts itself or its plan: %s; its "
                             "speed counts less and the range is wider",
                             pilot->doubts)
               : NULL;
}

static const char *pilot_contradicts(const struct plan *plan, struct arena *arena)
{
    const struct pilot *pilot = plan->request->pilot;
    if (!pilot || !(fabs(plan->transferred.contradiction) > TRANSFER_CONTRADICTS))
        return NULL;
    const struct transfer *transfer = &plan->transfer;
    double expected = transfer->roofline_tokens_per_s * exp(transfer->prior.log_mid);
    return text_format(arena,
                       "the pilot measured %s tokens/s and its stack is expected to reach %s; the "
                       "range spans both; check its tokens per step, and that %s",
                       text_commas(arena, llround(pilot->tokens_per_s.mean)),
                       text_commas(arena, llround(expected)),
                       pilot->gpu.name ? "nothing else used the GPU"
                                       : text_format(arena, "it ran on %s: no GPU was seen at work",
                                                     transfer->setup.gpu->name));
}

static const char *pilot_throttled(const struct plan *plan, struct arena *arena)
{
    const struct pilot *pilot = plan->request->pilot;
    if (!pilot || !(pilot->gpu.throttled_share > 0.05))
        return NULL;
    return text_format(arena,
                       "the pilot's GPU was throttled %.0f %% of the time%s%s; another machine may "
                       "be faster",
                       100 * pilot->gpu.throttled_share, pilot->gpu.throttling ? ": " : "",
                       pilot->gpu.throttling ? pilot->gpu.throttling : "");
}

static const char *pilot_of_another_stack(const struct plan *plan, struct arena *arena)
{
    if (!plan->request->pilot || plan->transferred.same_stack)
        return NULL;
    return text_format(arena, "the pilot ran %s and this plan is for %s: its speed is not used",
                       plan->transfer.setup.stack->name, plan->stack->name);
}

// Months since year zero of a date "2026-08-22".
static int months(const char *date)
{
    int year = 0, month = 0;
    for (int i = 0; i < 4 && date[i]; i++)
        year = year * 10 + (date[i] - '0');
    if (strlen(date) >= 7)
        month = (date[5] - '0') * 10 + (date[6] - '0');
    return year * 12 + month;
}

static const char *stale_prices(const struct plan *plan, struct arena *arena)
{
    const struct price *price = &plan->price;
    if (!price->oldest || months(price->newest) - months(price->oldest) < 6)
        return NULL;
    return text_format(
        arena,
        "some prices are old (they date from %s to %s); --price sets your own, gpuhours show "
        "offers --import reads newer ones",
        price->oldest, price->newest);
}

// The number of GPUs that costs least, of those that cost less than the plan's; as many as are paid
// for come first. NULL: none, or --search off.
static const struct search_result *cheaper_count(const struct plan *plan, int64_t paid)
{
    const struct search_result *least = NULL;
    for (size_t i = 0; i < plan->scaling_count; i++) {
        const struct search_result *r = &plan->scaling[i];
        if (r->gpus == plan->chosen.gpus || !r->stable ||
            !(r->cost_usd < plan->forecast.cost_usd.mid) ||
            r->wall_hours * 3600 > plan->request->deadline)
            continue;
        if (r->gpus == paid)
            return r;
        least = !least || r->cost_usd < least->cost_usd ? r : least;
    }
    return least;
}

// Whole instances are billed, so a part of one costs as much per hour as all of it.
static const char *idle_gpus(const struct plan *plan, struct arena *arena)
{
    long long used = plan->chosen.gpus;
    long long paid = llround((double)used * plan->price.paid_per_used);
    const struct search_result *cheaper = cheaper_count(plan, paid);
    if (paid <= used || (plan->request->search && !cheaper))
        return NULL;
    const char *instead =
        cheaper ? text_format(arena, "--gpus %lld costs %s instead of %s", (long long)cheaper->gpus,
                              text_usd(arena, cheaper->cost_usd),
                              text_usd(arena, plan->forecast.cost_usd.mid))
                : text_format(arena, "--gpus %lld leaves none idle", paid);
    return text_format(arena,
                       "whole instances are paid for, %lld of these GPUs for the %lld that are "
                       "used: %s",
                       paid, used, instead);
}

static const char *unconnected_gpus(const struct plan *plan, struct arena *arena)
{
    const struct search_result *chosen = &plan->chosen;
    if (!plan->price.unconnected)
        return NULL;
    return text_format(arena,
                       "no offer has %lld × %s in one instance or over a known network; hours and "
                       "cost assume that they are joined as in a usual node",
                       (long long)chosen->gpus, chosen->gpu->name);
}

static const struct {
    const char *code;
    notice *notice;
} mistakes[] = {
    { "pairs_as_sft", pairs_as_sft },
    { "verdicts_as_sft", verdicts_as_sft },
    { "prompts_as_sft", prompts_as_sft },
    { "does_not_fit", advice_does_not_fit },
    { "tight_memory", advice_tight_memory },
    { "deadline_missed", deadline_missed },
    { "peak_for_sustained", peak_for_sustained },
    { "budget_missed", budget_missed },
    { "unsupported_precision", unsupported_precision },
    { "context_beyond_model", context_beyond_model },
    { "images_cut", images_cut },
    { "rows_cut", rows_cut },
    { "samples_for_tokens", samples_for_tokens },
    { "no_packing", no_packing },
    { "packed_images", packed_images },
    { "packed_pairs", packed_pairs },
    { "images_one_by_one", images_one_by_one },
    { "lengths_assumed", lengths_assumed },
    { "tokens_estimated", tokens_estimated },
    { "data_is_a_sample", data_is_a_sample },
    { "padding_of_a_former_plan", padding_of_a_former_plan },
    { "context_beyond_data", context_beyond_data },
    { "checkpointing_without_pressure", advice_checkpointing_without_pressure },
    { "logits_peak", advice_logits_peak },
    { "worst_batch", advice_worst_batch },
    { "host_memory", advice_host_memory },
    { "wide_adapters", wide_adapters },
    { "engine_lacks_gpu", engine_lacks_gpu },
    { "stack_lacks_gpu", stack_lacks_gpu },
    { "engine_lacks_experts", engine_lacks_experts },
    { "engine_lacks_objective", engine_lacks_objective },
    { "qlora_where_lora_fits", advice_qlora_where_lora_fits },
    { "full_under_pressure", advice_full_under_pressure },
    { "launch_bound", launch_bound },
    { "better_settings", better_settings },
    { "more_gpus_cost_more", more_gpus_cost_more },
    { "global_batch_raised", global_batch_raised },
    { "global_batch_lowered", global_batch_lowered },
    { "single_packed_rows", single_packed_rows },
    { "many_epochs", many_epochs },
    { "no_evaluation", no_evaluation },
    { "no_saves", no_saves },
    { "unmeasured_stack", unmeasured_stack },
    { "unmeasured_configuration", unmeasured_configuration },
    { "ledger_changes_hours", ledger_changes_hours },
    { "pilot_not_steady", pilot_not_steady },
    { "pilot_contradicts", pilot_contradicts },
    { "pilot_doubtful", pilot_doubtful },
    { "pilot_throttled", pilot_throttled },
    { "pilot_of_another_stack", pilot_of_another_stack },
    { "pilot_needs_more_memory", advice_pilot_needs_more_memory },
    { "stale_prices", stale_prices },
    { "unconnected_gpus", unconnected_gpus },
    { "idle_gpus", idle_gpus },
};

void advice_give(struct advice *advice, const struct plan *plan)
{
    _Static_assert(sizeof mistakes / sizeof *mistakes + PROFILE_WARNINGS <= ADVICE_ITEMS,
                   "room for all");
    const struct plan_request *request = plan->request;
    for (size_t i = 0; i < request->uncounted_count; i++)
        advice->items[advice->count++] =
            (struct advice_item){ request->uncounted[i].code, request->uncounted[i].text };
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        const char *text = mistakes[i].notice(plan, advice->arena);
        if (text)
            advice->items[advice->count++] = (struct advice_item){ mistakes[i].code, text };
    }
}
