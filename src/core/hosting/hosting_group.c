// The job on one kind of machine: estimated once, drawn once, shared by all offers of that kind.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <string.h>

// --- draws -------------------------------------------------------------------

// The middles of equally likely slices, in random order: a Latin hypercube fills each dimension
// evenly, so that its quantiles settle sooner than those of independent draws.
static double *slices(struct arena *arena, struct rng *rng, const double *values)
{
    double *drawn = ARENA_NEW(arena, double, HOSTING_DRAWS);
    for (size_t i = 0; i < HOSTING_DRAWS; i++) {
        size_t at = (size_t)rng_below(rng, i + 1);
        drawn[i] = drawn[at];
        drawn[at] = values[i];
    }
    return drawn;
}

// Draws of a quantity instead of those of its standard normal variable.
static void apply(double *values, const struct assumption *assumption)
{
    for (size_t i = 0; i < HOSTING_DRAWS; i++)
        values[i] = assumption_draw(assumption, values[i]);
}

void hosting_draw(struct hosting_job *job)
{
    struct arena *arena = job->arena;
    const struct overheads *o = &job->plan->overheads;
    struct rng rng = rng_seeded((uint64_t)job->plan->request->seed);
    struct hosting_draws *d = &job->draws;
    double *shares = ARENA_NEW(arena, double, HOSTING_DRAWS);
    double *quantiles = ARENA_NEW(arena, double, HOSTING_DRAWS);
    for (size_t i = 0; i < HOSTING_DRAWS; i++) {
        shares[i] = ((double)i + 0.5) / HOSTING_DRAWS;
        quantiles[i] = stats_normal_quantile(shares[i]);
    }
    *d = (struct hosting_draws){
        .speed = slices(arena, &rng, quantiles),
        .lengths = slices(arena, &rng, quantiles),
        .startup = slices(arena, &rng, quantiles),
        .storage = slices(arena, &rng, quantiles),
        .evaluation = slices(arena, &rng, quantiles),
        .failure_rate = slices(arena, &rng, quantiles),
        .failure = slices(arena, &rng, shares),
        .lost = slices(arena, &rng, shares),
        .retry = slices(arena, &rng, shares),
        .failed = slices(arena, &rng, shares),
        .queue = slices(arena, &rng, quantiles),
        .preemption_rate = slices(arena, &rng, quantiles),
        .preemption = slices(arena, &rng, shares),
        .waiting = slices(arena, &rng, quantiles),
        .speed_elsewhere = ARENA_NEW(arena, double, HOSTING_DRAWS),
        .preemption_normal = ARENA_NEW(arena, double, HOSTING_DRAWS),
        .compile = ARENA_NEW(arena, double, HOSTING_DRAWS),
    };
    const struct efficiency *e = &job->plan->efficiency;
    for (size_t i = 0; i < HOSTING_DRAWS; i++) {
        double other = fmax(e->log_spread, job->elsewhere_log_spread);
        d->speed_elsewhere[i] = exp(e->log_mid + other * d->speed[i]);
        d->speed[i] = exp(e->log_mid + e->log_spread * d->speed[i]);
        d->compile[i] = assumption_draw(&o->compile_seconds, d->startup[i]);
        d->preemption_normal[i] = quantiles[(size_t)(d->preemption[i] * HOSTING_DRAWS)];
    }
    apply(d->startup, &o->startup_seconds);
    apply(d->evaluation, &o->eval_share);
    apply(d->failure_rate, &o->failures_per_gpu_hour);
    job->lengths = ARENA_NEW(arena, double, HOSTING_DRAWS);
    job->storage = ARENA_NEW(arena, double, HOSTING_DRAWS);
    job->rates = ARENA_NEW(arena, double, HOSTING_DRAWS);
    job->lengths_of = job->storage_of = job->rates_of = (struct range){ NAN, NAN, NAN };
}

static bool is_same(const struct range *a, const struct range *b)
{
    return a->low == b->low && a->mid == b->mid && a->high == b->high;
}

static void refresh(struct range *of, double *values, const double *normal, struct range range)
{
    if (is_same(of, &range))
        return;
    struct assumption assumption = { .value = range };
    for (size_t i = 0; i < HOSTING_DRAWS; i++)
        values[i] = assumption_draw(&assumption, normal[i]);
    *of = range;
}

// Moves the value of that rank to its place, smaller ones before it.
static double select_rank(double *values, size_t count, size_t rank)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot)
                i++;
            while (values[j] > pivot)
                j--;
            if (i >= j)
                break;
            double moved = values[i];
            values[i++] = values[j];
            values[j--] = moved;
        }
        size_t last = values[j] > pivot ? j - 1 : j; // of the lower part
        if (rank <= last)
            high = last == high ? high - 1 : last;
        else
            low = last + 1;
    }
    return values[rank];
}

struct range hosting_range(double *values, size_t count)
{
    size_t mid = count / 2, low = count / 10, high = count - 1 - count / 10;
    struct range range;
    range.mid = select_rank(values, count, mid);
    range.low = select_rank(values, mid + 1, low);
    range.high = select_rank(values + mid, count - mid, high - mid);
    return range;
}

// --- nodes -------------------------------------------------------------------

// Of a network that no catalog row tells, for each GPU: 10 Gb/s of an instance that is a part of a
// node, 100 Gb/s of a node without a fabric of its own; NAN, the network stage's guess, of others.
static double assumed_network(const struct node *usual, int64_t gpus)
{
    if (!usual || gpus < usual->gpus)
        return HOSTING_PART_NETWORK_BYTES_PER_S / (double)gpus;
    return usual->network_bytes_per_s_per_gpu > 0 ? NAN
                                                  : HOSTING_NODE_NETWORK_BYTES_PER_S / (double)gpus;
}

struct node hosting_node(const struct catalog *catalog, const struct gpu *gpu,
                         const struct offers_row *row, bool *networked)
{
    const struct offer *offer = &row->offer;
    const struct node *usual = catalog_node_of(catalog, gpu), *known = NULL;
    size_t size = strlen(offer->provider);
    for (size_t i = 0; !known && i < catalog->node_count; i++) {
        const char *name = catalog->nodes[i].name;
        if (!strncmp(name, offer->provider, size) && name[size] == '/' &&
            !strcmp(name + size + 1, offer->instance))
            known = &catalog->nodes[i];
    }
    struct node node = { 0 };
    *networked =
        (known && known->network_bytes_per_s_per_gpu > 0) || row->network_bytes_per_s_per_gpu > 0;
    if (known || usual)
        node = known ? *known : *usual;
    if (!known) { // the same links, as far as they reach; of the network nothing is known
        node.name = offer->instance;
        node.gpu = gpu->name;
        node.gpus = offer->gpus;
        if (!usual)
            node.link_domain_gpus = offer->gpus, node.link = gpu->link,
            node.link_bytes_per_s = gpu->link_bytes_per_s;
        if (node.link_domain_gpus > offer->gpus)
            node.link_domain_gpus = offer->gpus;
        node.network = NULL;
        node.network_bytes_per_s_per_gpu = assumed_network(usual, offer->gpus);
        node.network_bytes_per_s = NAN;
        node.local_disk_bytes = node.remote_storage_bytes_per_s = NAN;
    }
    if (!isnan(row->network_bytes_per_s_per_gpu))
        node.network_bytes_per_s_per_gpu = row->network_bytes_per_s_per_gpu;
    if (!isnan(row->storage_bytes_per_s))
        node.remote_storage_bytes_per_s = row->storage_bytes_per_s;
    return node;
}

static bool is_equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

// The network does not matter to a single instance.
static bool is_alike(const struct node *a, const struct node *b, bool alone)
{
    return a->gpus == b->gpus && a->link_domain_gpus == b->link_domain_gpus &&
           is_equal(a->link_bytes_per_s, b->link_bytes_per_s) &&
           (alone || is_equal(a->network_bytes_per_s_per_gpu, b->network_bytes_per_s_per_gpu)) &&
           is_equal(a->remote_storage_bytes_per_s, b->remote_storage_bytes_per_s) &&
           (a->link == b->link || (a->link && b->link && !strcmp(a->link, b->link)));
}

// --- the estimate ------------------------------------------------------------

// Groups of one count as a catalog in which each is a GPU of its own in its own node: one search
// then serves them all, and lists each step once.
static struct catalog *catalog_of(struct hosting_job *job, struct hosting_group **groups,
                                  size_t count)
{
    struct catalog *catalog = ARENA_NEW(job->arena, struct catalog, 1);
    *catalog = job->plan->data->catalog;
    catalog->gpus = ARENA_NEW(job->arena, struct gpu, count);
    catalog->nodes = ARENA_NEW(job->arena, struct node, count);
    catalog->gpu_count = catalog->node_count = count;
    for (size_t i = 0; i < count; i++) {
        catalog->gpus[i] = *groups[i]->gpu;
        catalog->nodes[i] = groups[i]->node;
        catalog->gpus[i].name = catalog->nodes[i].gpu = text_format(job->arena, "%zu", i);
    }
    return catalog;
}

// The best configuration of each group of that many GPUs, on exactly its links.
static enum err configure(struct hosting_job *job, struct hosting_group **groups, size_t count)
{
    const struct plan *plan = job->plan;
    struct catalog *catalog = catalog_of(job, groups, count);
    double rows = 0;
    TRY(plan_request_rows(&rows, plan->request));
    const char *parallel = plan->request->parallel;
    struct search_space space = {
        .catalog = catalog,
        .model = plan->model,
        .stack = plan->stack,
        .recipe = plan->request->recipe,
        .rule = plan->rule,
        .efficiency = plan->efficiency,
        .overheads = &plan->overheads,
        .parallel = parallel && strcmp(parallel, "auto") ? parallel : NULL,
        .micro_batch = rows,
        .global_batch = plan->chosen.workload.global_batch,
        .batch_tolerance = 0.25,
        .usd_per_gpu_hour = 1,
        .vendor = groups[0]->gpu->vendor,
        .gpus = groups[0]->gpus,
    };
    struct search search;
    if (search_run(&search, job->arena, &space))
        return OK; // a layout that so many GPUs cannot have: places that do not fit
    for (size_t i = 0; i < search.count; i++) {
        struct hosting_group *group = groups[search.best[i].gpu - catalog->gpus];
        group->fits = true;
        group->result = search.best[i];
        group->result.gpu = group->gpu;
        group->result.node = group->node;
        group->result.workload.processed_tokens *= job->processed_scale;
        if (job->processed_factor.mid > 0)
            group->result.workload.processed_factor = job->processed_factor;
    }
    return OK;
}

// What is carried home: the trained weights, without the optimizer's states that a save holds.
static double result_bytes(const struct setup *setup, const struct step *step)
{
    struct recipe recipe = estimate_recipe(setup);
    const struct layout *layout = &setup->layout;
    double ranks = (double)(layout->tensor * (layout->split ? 1 : layout->pipeline));
    double each = recipe.method == RECIPE_FULL ? 2 : recipe_dtype_bytes(recipe.adapter_dtype);
    return step->trained_weights * ranks * each;
}

static enum err time_group(struct hosting_group *group, struct hosting_job *job)
{
    struct arena_mark mark = arena_mark(job->arena);
    struct setup setup = search_setup(&group->result, job->plan->model, job->plan->stack);
    struct estimate estimate;
    TRY(estimate_make(&estimate, job->arena, &setup));
    group->overheads.epochs = group->result.workload.epochs;
    overhead_configure(&group->overheads, &setup, &estimate.step);
    group->result_bytes = result_bytes(&setup, &estimate.step);
    const struct timing *t = &estimate.timing;
    double exposed = t->exposed_seconds * setup.accumulation + t->reduce_seconds;
    group->network_share = exposed / t->step_seconds;
    group->tokens_per_s = estimate.tokens_per_s;
    struct forecast_input input = {
        .roofline_tokens_per_s = estimate.tokens_per_s,
        .efficiency = job->plan->efficiency,
        .processed_tokens = group->result.workload.processed_tokens,
        .processed_factor = { 1, 1, 1 },
        .overheads = group->overheads,
    };
    forecast_middle(&group->middle, &input);
    arena_rewind(job->arena, mark);
    return OK;
}

void hosting_group_draw(struct hosting_job *job, struct hosting_group *group)
{
    const struct hosting_draws *d = &job->draws;
    if (group->wall_seconds)
        return;
    const struct workload *workload = &group->result.workload;
    const double *speed = group->gpu == job->plan->chosen.gpu ? d->speed : d->speed_elsewhere;
    refresh(&job->lengths_of, job->lengths, d->lengths, workload->processed_factor);
    refresh(&job->storage_of, job->storage, d->storage, group->overheads.storage_bytes_per_s.value);
    group->wall_seconds = ARENA_NEW(job->arena, double, HOSTING_DRAWS);
    for (size_t i = 0; i < HOSTING_DRAWS; i++) {
        double tokens = workload->processed_tokens * job->lengths[i];
        struct overhead_draw draw = {
            .startup_seconds = d->startup[i],
            .compile_seconds = d->compile[i],
            .storage_bytes_per_s = job->storage[i],
            .eval_share = d->evaluation[i],
            .failures_per_gpu_hour = d->failure_rate[i],
            .failure_chance = d->failure[i],
            .lost_share = d->lost[i],
            .retry_chance = d->retry[i],
            .failed_chance = d->failed[i],
        };
        struct overhead_times times;
        overhead_run(&times, &group->overheads, &draw, tokens / (group->tokens_per_s * speed[i]),
                     tokens);
        group->wall_seconds[i] = times.wall_seconds;
    }
    struct arena_mark mark = arena_mark(job->arena);
    double *hours = ARENA_NEW(job->arena, double, HOSTING_DRAWS);
    for (size_t i = 0; i < HOSTING_DRAWS; i++)
        hours[i] = group->wall_seconds[i] / 3600;
    group->wall_hours = hosting_range(hours, HOSTING_DRAWS);
    arena_rewind(job->arena, mark);
}

// Storage as this node has it, unless the user said how fast it is.
static enum err equip(struct hosting_group *group, const struct hosting_job *job)
{
    group->overheads = job->plan->overheads;
    if (group->overheads.storage_bytes_per_s.origin == ASSUMPTION_GIVEN)
        return OK;
    struct overheads own;
    TRY(overhead_assume(&own, &job->plan->data->catalog, &group->node));
    group->overheads.storage_bytes_per_s = own.storage_bytes_per_s;
    return OK;
}

struct hosting_group *hosting_group_find(struct hosting_job *job, const struct gpu *gpu,
                                         int64_t gpus, int64_t instances, const struct node *node)
{
    for (size_t i = 0; i < job->group_count; i++) {
        struct hosting_group *known = job->groups[i];
        if (known->gpu == gpu && known->gpus == gpus && known->instances == instances &&
            is_alike(&known->node, node, instances == 1))
            return known;
    }
    if (job->group_count == job->group_room) {
        size_t room = job->group_room ? job->group_room * 2 : 64;
        job->groups = arena_grow(job->arena, job->groups, job->group_room * sizeof *job->groups,
                                 room * sizeof *job->groups);
        job->group_room = room;
    }
    struct hosting_group *group = ARENA_NEW(job->arena, struct hosting_group, 1);
    group->gpu = gpu;
    group->node = *node;
    group->gpus = gpus;
    group->instances = instances;
    job->groups[job->group_count++] = group;
    return group;
}

enum err hosting_group_estimate(struct hosting_job *job)
{
    struct hosting_group **same = ARENA_NEW(job->arena, struct hosting_group *, job->group_count);
    for (size_t i = 0; i < job->group_count; i++) {
        struct hosting_group *first = job->groups[i];
        size_t count = 0;
        if (first->estimated)
            continue;
        for (size_t k = i; k < job->group_count; k++)
            if (job->groups[k]->gpus == first->gpus) {
                same[count++] = job->groups[k];
                job->groups[k]->estimated = true;
            }
        TRY(configure(job, same, count));
    }
    for (size_t i = 0; i < job->group_count; i++) {
        TRY(equip(job->groups[i], job));
        if (job->groups[i]->fits)
            TRY(time_group(job->groups[i], job));
    }
    return OK;
}

// --- preempted ---------------------------------------------------------------

static double fact_of(const struct catalog *catalog, const char *item, double otherwise)
{
    const struct fact *fact = catalog_operation(catalog, "spot", item);
    return fact ? fact->typical : otherwise;
}

// Preemptions per hour of so many instances: those of one zone mostly go together.
struct range hosting_preemption_rate(const struct hosting_job *job, double instances,
                                     double own_rate)
{
    const struct catalog *c = &job->plan->data->catalog;
    double calm = fact_of(c, "preemptions per instance-hour, 4x V100 group", 0.2);
    double busy = fact_of(c, "preemptions per available hour, 1x V100", 0.47);
    double together = fact_of(c, "co-interruption within 3 minutes", 1);
    double apart = 1 + (instances - 1) * (1 - together);
    struct range one = { calm, sqrt(calm * busy), busy };
    double given = isnan(own_rate) ? job->request->preemptions_per_hour : own_rate;
    if (!isnan(given))
        one = (struct range){ given, given, given };
    return (struct range){ one.low * apart, one.mid * apart, one.high * apart };
}

// From the share of time that there is an instance: mean time without one.
static double wait_seconds(const struct hosting_job *job, const struct hosting_group *group,
                           double rate_per_second)
{
    const struct catalog *c = &job->plan->data->catalog;
    bool whole = group->node.gpus >= 8 || group->instances > 1;
    double there = fact_of(c, whole ? "availability 8x V100 node" : "availability 1x V100", 0.5);
    if (!isnan(job->request->spot_wait))
        return job->request->spot_wait;
    return rate_per_second > 0 ? (1 - there) / there / rate_per_second : 0;
}

// A Poisson count: inverted where its mean is small, by Cornish and Fisher where it is large.
static double count_events(double mean, double chance, double normal)
{
    if (mean > 4)
        return fmax(0, rint(mean + sqrt(mean) * normal + (normal * normal - 1) / 6));
    return overhead_count(mean, chance);
}

void hosting_spot_draw(struct hosting_job *job, struct hosting_group *group,
                       struct hosting_spot_draws *spot)
{
    if (spot->wall_seconds)
        return;
    hosting_group_draw(job, group);
    const struct hosting_draws *d = &job->draws;
    const struct hosting_preemption *p = &spot->preemption;
    double begin = p->restart_seconds, saves = group->middle.seconds[OVERHEAD_SAVES];
    spot->wall_seconds = ARENA_NEW(job->arena, double, HOSTING_DRAWS);
    struct arena_mark mark = arena_mark(job->arena);
    double *billed = ARENA_NEW(job->arena, double, HOSTING_DRAWS);
    double *wall = ARENA_NEW(job->arena, double, HOSTING_DRAWS);
    refresh(&job->rates_of, job->rates, d->preemption_rate, spot->rates);
    for (size_t i = 0; i < HOSTING_DRAWS; i++) {
        struct hosting_preemption one = *p;
        one.work_seconds = fmax(1, group->wall_seconds[i] - begin - saves);
        one.rate_per_second = job->rates[i] / 3600;
        double count = fmax(1, rint(one.work_seconds / spot->best.interval_seconds));
        double calm = begin + one.work_seconds + count * p->save_seconds;
        double expected = hosting_spot_seconds(&one, count);
        double mean = one.rate_per_second * expected;
        double events = count_events(mean, d->preemption[i], d->preemption_normal[i]);
        double each = mean > 0 ? (expected - calm) / mean : 0;
        double waited =
            events * p->wait_seconds * fmax(0, 1 + d->waiting[i] / sqrt(fmax(1, events)));
        billed[i] = (calm + events * each) / 3600;
        spot->wall_seconds[i] = billed[i] * 3600 + waited;
        wall[i] = spot->wall_seconds[i] / 3600;
    }
    spot->billed_hours = hosting_range(billed, HOSTING_DRAWS);
    spot->wall_hours = hosting_range(wall, HOSTING_DRAWS);
    arena_rewind(job->arena, mark);
}

struct hosting_spot_draws *hosting_spot_of(struct hosting_job *job, struct hosting_group *group,
                                           double own_rate)
{
    struct range rates = hosting_preemption_rate(job, (double)group->instances, own_rate);
    for (struct hosting_spot_draws *s = group->spots; s; s = s->next)
        if (is_same(&s->rates, &rates))
            return s;
    const double *t = group->middle.seconds;
    double begin = t[OVERHEAD_STARTUP] + t[OVERHEAD_COMPILATION] + t[OVERHEAD_LOADING];
    struct hosting_spot_draws *spot = ARENA_NEW(job->arena, struct hosting_spot_draws, 1);
    spot->rates = rates;
    spot->preemption = (struct hosting_preemption){
        .work_seconds = fmax(1, group->middle.wall_seconds - begin - t[OVERHEAD_SAVES]),
        .save_seconds = t[OVERHEAD_SAVES] / fmax(1, group->middle.saves),
        .restart_seconds = begin,
        .rate_per_second = rates.mid / 3600,
        .wait_seconds = wait_seconds(job, group, rates.mid / 3600),
    };
    spot->best = hosting_spot_best(&spot->preemption);
    spot->next = group->spots;
    group->spots = spot;
    return spot;
}
