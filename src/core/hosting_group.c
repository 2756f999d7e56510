// The job on one kind of machine: estimated once, drawn once, shared by all offers of that kind.

#include "core/hosting_internal.h"

#include <math.h>
#include <string.h>

// --- draws -------------------------------------------------------------------

static double *normals(struct arena *arena, struct rng *rng)
{
    double *values = ARENA_NEW(arena, double, HOSTING_DRAWS);
    for (size_t i = 0; i < HOSTING_DRAWS; i++)
        values[i] = rng_normal(rng);
    return values;
}

static double *chances(struct arena *arena, struct rng *rng)
{
    double *values = ARENA_NEW(arena, double, HOSTING_DRAWS);
    for (size_t i = 0; i < HOSTING_DRAWS; i++)
        values[i] = rng_uniform(rng);
    return values;
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
    *d = (struct hosting_draws){
        .speed = normals(arena, &rng),
        .lengths = normals(arena, &rng),
        .startup = normals(arena, &rng),
        .storage = normals(arena, &rng),
        .evaluation = normals(arena, &rng),
        .failure_rate = normals(arena, &rng),
        .failure = chances(arena, &rng),
        .lost = chances(arena, &rng),
        .retry = chances(arena, &rng),
        .failed = chances(arena, &rng),
        .queue = normals(arena, &rng),
        .preemption_rate = normals(arena, &rng),
        .preemption = chances(arena, &rng),
        .waiting = normals(arena, &rng),
        .compile = ARENA_NEW(arena, double, HOSTING_DRAWS),
    };
    const struct efficiency *e = &job->plan->efficiency;
    for (size_t i = 0; i < HOSTING_DRAWS; i++) {
        d->speed[i] = exp(e->log_mid + e->log_spread * d->speed[i]);
        d->compile[i] = assumption_draw(&o->compile_seconds, d->startup[i]);
    }
    apply(d->startup, &o->startup_seconds);
    apply(d->evaluation, &o->eval_share);
    apply(d->failure_rate, &o->failures_per_gpu_hour);
    job->lengths = ARENA_NEW(arena, double, HOSTING_DRAWS);
    job->storage = ARENA_NEW(arena, double, HOSTING_DRAWS);
    job->lengths_of = job->storage_of = (struct range){ NAN, NAN, NAN };
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

struct node hosting_node(const struct catalog *catalog, const struct gpu *gpu,
                         const struct offers_row *row)
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
        node.network_bytes_per_s_per_gpu = node.network_bytes_per_s = NAN;
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

// The best configuration on exactly these links: the search sees a catalog of one GPU in one node.
static enum err configure(struct hosting_group *group, struct hosting_job *job)
{
    const struct plan *plan = job->plan;
    struct catalog *catalog = ARENA_NEW(job->arena, struct catalog, 1);
    *catalog = plan->data->catalog;
    catalog->nodes = &group->node;
    catalog->gpus = ARENA_NEW(job->arena, struct gpu, 1);
    *catalog->gpus = *group->gpu;
    catalog->node_count = catalog->gpu_count = 1;
    struct recipe recipe = plan->request->recipe;
    double rows = 0;
    TRY(plan_request_rows(&rows, plan->request));
    const char *parallel = plan->request->parallel;
    struct search_space space = {
        .catalog = catalog,
        .model = plan->model,
        .stack = plan->stack,
        .recipe = recipe,
        .rule = plan->rule,
        .efficiency = plan->efficiency,
        .overheads = &group->overheads,
        .parallel = parallel && strcmp(parallel, "auto") ? parallel : NULL,
        .micro_batch = rows,
        .global_batch = plan->chosen.workload.global_batch,
        .usd_per_gpu_hour = 1,
        .gpu = catalog->gpus,
        .vendor = group->gpu->vendor,
        .gpus = group->gpus,
    };
    struct search search;
    enum err err = search_run(&search, job->arena, &space);
    group->fits = !err && search.count > 0;
    if (group->fits)
        group->result = search.best[0];
    return OK; // a layout that these GPUs cannot have is a place that does not fit
}

static enum err time_group(struct hosting_group *group, struct hosting_job *job)
{
    struct arena_mark mark = arena_mark(job->arena);
    struct setup setup = search_setup(&group->result, job->plan->model, job->plan->stack);
    struct estimate estimate;
    TRY(estimate_make(&estimate, job->arena, &setup));
    group->overheads.epochs = group->result.workload.epochs;
    overhead_configure(&group->overheads, &setup, &estimate.step);
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

static void draw_group(struct hosting_group *group, struct hosting_job *job)
{
    const struct hosting_draws *d = &job->draws;
    const struct workload *workload = &group->result.workload;
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
        overhead_run(&times, &group->overheads, &draw, tokens / (group->tokens_per_s * d->speed[i]),
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

enum err hosting_group_find(struct hosting_group **out, struct hosting_job *job,
                            const struct gpu *gpu, int64_t gpus, int64_t instances,
                            const struct node *node)
{
    for (size_t i = 0; i < job->group_count; i++) {
        struct hosting_group *known = job->groups[i];
        if (known->gpu == gpu && known->gpus == gpus && known->instances == instances &&
            is_alike(&known->node, node, instances == 1)) {
            *out = known;
            return OK;
        }
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
    job->groups[job->group_count++] = *out = group;
    TRY(equip(group, job));
    TRY(configure(group, job));
    if (!group->fits)
        return OK;
    TRY(time_group(group, job));
    draw_group(group, job);
    return OK;
}

// --- preempted ---------------------------------------------------------------

static double fact_of(const struct catalog *catalog, const char *item, double otherwise)
{
    const struct fact *fact = catalog_operation(catalog, "spot", item);
    return fact ? fact->typical : otherwise;
}

// Preemptions per hour of so many instances: those of one zone mostly go together.
static struct range preemption_rate(const struct hosting_job *job, double instances,
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

static void draw_spot(struct hosting_spot_draws *spot, struct hosting_job *job,
                      const struct hosting_group *group, struct range rates)
{
    const struct hosting_draws *d = &job->draws;
    const struct hosting_preemption *p = &spot->preemption;
    struct assumption rate = { .value = rates };
    double begin = p->restart_seconds, saves = group->middle.seconds[OVERHEAD_SAVES];
    double *billed = ARENA_NEW(job->arena, double, HOSTING_DRAWS);
    double *wall = ARENA_NEW(job->arena, double, HOSTING_DRAWS);
    spot->wall_seconds = ARENA_NEW(job->arena, double, HOSTING_DRAWS);
    for (size_t i = 0; i < HOSTING_DRAWS; i++) {
        struct hosting_preemption one = *p;
        one.work_seconds = fmax(1, group->wall_seconds[i] - begin - saves);
        one.rate_per_second = assumption_draw(&rate, d->preemption_rate[i]) / 3600;
        double count = fmax(1, rint(one.work_seconds / spot->best.interval_seconds));
        double calm = begin + one.work_seconds + count * p->save_seconds;
        double expected = hosting_spot_seconds(&one, count);
        double mean = one.rate_per_second * expected;
        double events = overhead_count(mean, d->preemption[i]);
        double each = mean > 0 ? (expected - calm) / mean : 0;
        double waited =
            events * p->wait_seconds * fmax(0, 1 + d->waiting[i] / sqrt(fmax(1, events)));
        billed[i] = (calm + events * each) / 3600;
        spot->wall_seconds[i] = billed[i] * 3600 + waited;
        wall[i] = spot->wall_seconds[i] / 3600;
    }
    spot->billed_hours = hosting_range(billed, HOSTING_DRAWS);
    spot->wall_hours = hosting_range(wall, HOSTING_DRAWS);
}

const struct hosting_spot_draws *hosting_spot_of(struct hosting_job *job,
                                                 struct hosting_group *group, double own_rate)
{
    struct range rates = preemption_rate(job, (double)group->instances, own_rate);
    for (struct hosting_spot_draws *s = group->spots; s; s = s->next)
        if (s->preemption.rate_per_second == rates.mid / 3600)
            return s;
    const double *t = group->middle.seconds;
    double begin = t[OVERHEAD_STARTUP] + t[OVERHEAD_COMPILATION] + t[OVERHEAD_LOADING];
    struct hosting_spot_draws *spot = ARENA_NEW(job->arena, struct hosting_spot_draws, 1);
    spot->preemption = (struct hosting_preemption){
        .work_seconds = fmax(1, group->middle.wall_seconds - begin - t[OVERHEAD_SAVES]),
        .save_seconds = t[OVERHEAD_SAVES] / fmax(1, group->middle.saves),
        .restart_seconds = begin,
        .rate_per_second = rates.mid / 3600,
        .wait_seconds = wait_seconds(job, group, rates.mid / 3600),
    };
    spot->best = hosting_spot_best(&spot->preemption);
    draw_spot(spot, job, group, rates);
    spot->next = group->spots;
    group->spots = spot;
    return spot;
}
