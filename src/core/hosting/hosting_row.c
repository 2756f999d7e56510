// SPDX-License-Identifier: Apache-2.0
// The arithmetic of a row: run time, billing, preemption, commitments, ownership, data transfer.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <string.h>

int64_t hosting_instances(int64_t gpus, int64_t instance_gpus)
{
    return (gpus + instance_gpus - 1) / instance_gpus;
}

double hosting_billed_seconds(double seconds, double granularity_seconds, double minimum_seconds)
{
    double units = ceil(seconds / granularity_seconds - 1e-9);
    return fmax(units * granularity_seconds, minimum_seconds);
}

double hosting_sets(int pattern, double runs_per_month, double hours_per_run)
{
    double parallel = pattern == HOSTING_BURST ? runs_per_month : 0;
    return fmax(fmax(1, parallel),
                ceil(runs_per_month * hours_per_run / HOSTING_HOURS_PER_MONTH - 1e-9));
}

double hosting_price_spread(double age_days)
{
    // Assumed: 0.25 after a year, growing with the square root of time; none within a month.
    return age_days > 30 ? 0.25 * sqrt(age_days / 365) : 0;
}

// --- data transfer -----------------------------------------------------------

void hosting_move_cost(struct hosting_move *m)
{
    m->in_usd = m->dataset_bytes / 1e9 * m->in_usd_per_gb;
    m->out_usd = m->result_bytes / 1e9 * m->out_usd_per_gb;
    m->in_hours = (m->dataset_bytes + m->model_bytes) / m->link_bytes_per_s / 3600;
    m->out_hours = m->result_bytes / m->link_bytes_per_s / 3600;
}

static const struct billing *terms_of(const struct hosting_maker *m, const char *provider,
                                      const char *instance)
{
    return offers_terms(m->input->billing, m->input->billing_count, provider, instance);
}

// Whether the data is stored at that provider; same_region: and in that region.
static bool is_at(const char *data_at, const char *provider, const char *region, bool *same_region)
{
    const char *colon = strchr(data_at, ':');
    size_t size = colon ? (size_t)(colon - data_at) : strlen(data_at);
    bool same = strlen(provider) == size && !strncmp(data_at, provider, size);
    *same_region = same && (!colon || !strcmp(colon + 1, region));
    return same;
}

double hosting_model_bytes(const struct plan *plan)
{
    return 2 * (double)model_parameters(plan->model);
}

double hosting_link(const struct hosting_request *request)
{
    return isnan(request->link) ? HOSTING_LINK_BYTES_PER_S : request->link;
}

static void plan_move(struct hosting_row *row, const struct hosting_maker *m)
{
    const struct workload *workload = &m->job.plan->chosen.workload;
    const struct hosting_request *r = m->request;
    struct hosting_move *move = &row->move;
    *move = (struct hosting_move){
        .dataset_bytes =
            isnan(r->data_bytes) ? HOSTING_TOKEN_BYTES * workload->tokens : r->data_bytes,
        .model_bytes = hosting_model_bytes(m->job.plan),
        .result_bytes = row->group ? row->group->result_bytes : 0,
        .link_bytes_per_s = hosting_link(r),
    };
    bool same_region = false, same = false;
    if (r->data_at) {
        same = is_at(r->data_at, row->provider, row->region, &same_region);
        const char *colon = strchr(r->data_at, ':');
        struct text holder = text_of(r->data_at);
        if (colon)
            holder.size = (size_t)(colon - r->data_at);
        const struct billing *from = terms_of(m, text_copy(m->job.arena, holder), "");
        move->in_usd_per_gb = same_region ? 0
                              : same      ? HOSTING_REGION_USD_PER_GB
                                          : from->egress_usd_per_gb;
    }
    const struct billing *here = terms_of(m, row->provider, row->instance);
    double leaving = row->offer && !isnan(row->offer->egress_usd_per_gb)
                         ? row->offer->egress_usd_per_gb
                         : here->egress_usd_per_gb;
    if (row->kind == OFFERS_COLOCATION)
        leaving = 0;
    move->out_usd_per_gb = same_region ? 0 : same ? HOSTING_REGION_USD_PER_GB : leaving;
    if (same_region)
        move->dataset_bytes = 0;
    hosting_move_cost(move);
}

// --- storage -----------------------------------------------------------------

static double storage_usd(const struct hosting_storage *s, double hours)
{
    return s->bytes / 1e9 * s->usd_per_gb_month * hours / HOSTING_HOURS_PER_MONTH;
}

// An owned server has disks of its own. Data that is in the region already is paid for anyway.
static void plan_storage(struct hosting_row *row, const struct hosting_maker *m)
{
    struct hosting_storage *s = &row->storage;
    *s = (struct hosting_storage){ .bytes = row->move.dataset_bytes +
                                            2 * row->group->overheads.save_bytes };
    if (row->kind == OFFERS_COLOCATION)
        return;
    const struct billing *here = terms_of(m, row->provider, row->instance);
    s->usd_per_gb_month = row->offer->storage_usd_per_gb_month;
    if (!isnan(s->usd_per_gb_month))
        return;
    s->terms = offers_storage(m->input->billing, m->input->billing_count, here);
    s->usd_per_gb_month = s->terms->storage_usd_per_gb_month;
}

// --- rows --------------------------------------------------------------------

static double at(const struct range *range, int which)
{
    return which == 0 ? range->low : which == 1 ? range->mid : range->high;
}

static void set(struct range *range, int which, double value)
{
    *(which == 0 ? &range->low : which == 1 ? &range->mid : &range->high) = value;
}

// Adds the uncertainty of the price to that of the hours, as independent lognormal factors.
static struct range widen(struct range usd, double spread)
{
    double below = hypot(log(usd.mid / usd.low), STATS_P90 * spread);
    double above = hypot(log(usd.high / usd.mid), STATS_P90 * spread);
    return (struct range){ usd.mid * exp(-below), usd.mid, usd.mid * exp(above) };
}

static double billed_hours(const struct hosting_row *row, double hours)
{
    return hosting_billed_seconds(hours * 3600, row->granularity_seconds, row->minimum_seconds) /
           3600;
}

static void bill_by_time(struct hosting_row *row, const struct range *hours)
{
    struct range usd;
    for (int i = 0; i < 3; i++) {
        double billed = billed_hours(row, at(hours, i));
        set(&row->billed_hours, i, billed);
        set(&usd, i, billed * (double)row->instances * row->usd_per_hour);
    }
    row->compute_usd = widen(usd, row->price_spread);
}

// A block is bought before the run, in whole days, and not given back: it has to hold the slow end
// of the range. What it costs is then certain. Beyond two weeks it is sold by the week.
static void bill_block(struct hosting_row *row, const struct range *hours)
{
    enum { DAY = 24, MOST_SINGLE_DAYS = 14 };
    double days = fmax(1, ceil(hours->high / DAY - 1e-9));
    if (days > MOST_SINGLE_DAYS)
        days = 7 * ceil(days / 7);
    double usd = days * DAY * (double)row->instances * row->usd_per_hour;
    row->billed_hours = (struct range){ days * DAY, days * DAY, days * DAY };
    row->compute_usd = widen((struct range){ usd, usd, usd }, row->price_spread);
}

// Hours that the instances are busy: data in, run, data out. They are paid for while data moves.
static struct range busy_hours(const struct hosting_row *row, const struct range *run)
{
    double moved = row->move.in_hours + row->move.out_hours;
    return (struct range){ run->low + moved, run->mid + moved, run->high + moved };
}

// A commitment is paid for whether it is used or not; the runs of a month share its cost.
static void bill_by_month(struct hosting_row *row, const struct hosting_maker *m,
                          struct range month_usd)
{
    struct range usd, busy = busy_hours(row, &row->run_hours);
    for (int i = 0; i < 3; i++) {
        double hours = at(&busy, i);
        double sets = hosting_sets(m->request->pattern, m->runs_per_month, hours);
        set(&row->billed_hours, i, sets * HOSTING_HOURS_PER_MONTH / m->runs_per_month);
        set(&usd, i, sets * at(&month_usd, i) * (double)row->instances / m->runs_per_month);
        if (i == 1)
            row->sets = sets;
    }
    row->compute_usd = widen(usd, row->price_spread);
}

static void bill_reserved(struct hosting_row *row, const struct hosting_maker *m)
{
    double month = row->usd_per_hour * HOSTING_HOURS_PER_MONTH;
    double years = row->kind == OFFERS_RESERVED_3Y ? 3 : 1;
    bill_by_month(row, m, (struct range){ month, month, month });
    row->commitment_usd = row->usd_per_hour * 8760 * years * (double)row->instances * row->sets;
}

static void bill_spot(struct hosting_row *row, struct hosting_maker *m, struct hosting_group *group)
{
    struct hosting_spot_samples *spot =
        hosting_spot_of(&m->job, group, row->offer->preemptions_per_hour);
    hosting_spot_sample(&m->job, group, spot);
    const struct offer *offer = &row->offer->offer;
    row->preemption = spot->preemption;
    row->spot = spot->best;
    row->run_hours = spot->wall_hours;
    double high = fmax(offer->spot_usd_per_hour, offer->spot_high_usd_per_hour);
    double zones = log(high / offer->spot_usd_per_hour) / (2 * STATS_P90);
    row->price_spread = hypot(row->price_spread, isnan(zones) ? 0 : zones);
    struct range busy = busy_hours(row, &spot->billed_hours);
    double moved = row->move.in_hours + row->move.out_hours;
    bill_by_time(row, &busy);
    row->expected_usd = billed_hours(row, spot->best.billed_seconds / 3600 + moved) *
                        row->usd_per_hour * (double)row->instances;
    double on_demand = offers_price(offer, OFFERS_ON_DEMAND);
    if (!isnan(m->request->discount))
        on_demand *= 1 - m->request->discount;
    row->on_demand_usd = billed_hours(row, group->middle.wall_seconds / 3600 + moved) * on_demand *
                         (double)row->instances;
}

static const char *limit_of(const struct hosting_row *row, const struct hosting_group *group)
{
    const double *t = group->middle.seconds;
    double wall = group->middle.wall_seconds;
    double storage = t[OVERHEAD_LOADING] + t[OVERHEAD_STALLS] + t[OVERHEAD_SAVES];
    double startup = t[OVERHEAD_STARTUP] + t[OVERHEAD_COMPILATION];
    if (row->queue_hours.mid > row->run_hours.mid)
        return "queue";
    if (row->move.in_hours > row->run_hours.mid)
        return "data move";
    if (row->disk_needed_bytes > row->local_disk_bytes)
        return "local disk";
    if (!group->result.stable)
        return "memory";
    if (group->network_share > 0.15)
        return "interconnect";
    if (storage > 0.15 * wall)
        return "storage";
    if (startup > 0.25 * wall)
        return "start-up";
    // Activations are recomputed only where memory is short.
    return group->result.recipe.checkpointing == RECIPE_RECOMPUTE ? "memory" : "compute";
}

struct hosting_row *hosting_new_row(struct hosting_maker *m)
{
    struct hosting *out = m->out;
    out->rows = arena_room(m->job.arena, out->rows, sizeof *out->rows, out->count, &m->room);
    struct hosting_row *row = &out->rows[out->count++];
    *row = (struct hosting_row){ .on_demand_usd = NAN,
                                 .break_even_runs = NAN,
                                 .expected_usd = NAN,
                                 .break_even = NAN,
                                 .commitment_usd = NAN,
                                 .rent_usd_per_gpu_hour = NAN,
                                 .disk_needed_bytes = NAN,
                                 .local_disk_bytes = NAN,
                                 .chance_in_time = NAN };
    return row;
}

static struct range queue_of(const struct hosting_maker *m, const struct offers_row *offer)
{
    if (!offer || isnan(offer->queue_seconds))
        return m->queue_hours;
    double mid = offer->queue_seconds / 3600;
    return (
        struct range){ isnan(offer->queue_low_seconds) ? mid : offer->queue_low_seconds / 3600, mid,
                       isnan(offer->queue_high_seconds) ? mid : offer->queue_high_seconds / 3600 };
}

// The share of outcomes that end in time where nothing is waited for.
static double chance_of(struct hosting_maker *m, enum offers_kind kind, const double *wall_seconds,
                        double moved)
{
    struct hosting_chance *last = &m->chances[kind];
    if (last->wall_seconds == wall_seconds && last->moved_hours == moved)
        return last->chance;
    double most = m->request->deadline - moved * 3600;
    size_t in_time = 0;
    for (size_t i = 0; i < HOSTING_SAMPLES; i++)
        in_time += wall_seconds[i] <= most;
    *last = (struct hosting_chance){ wall_seconds, moved, (double)in_time / HOSTING_SAMPLES };
    return last->chance;
}

// From now to the result: queue, data in, run, data out. Queue and run are sampled together.
static void elapse(struct hosting_row *row, struct hosting_maker *m, const double *wall_seconds)
{
    double moved = row->move.in_hours + row->move.out_hours;
    double deadline = m->request->deadline / 3600;
    bool queued = row->queue_hours.high > 0;
    row->elapsed_hours = (struct range){ row->run_hours.low + moved, row->run_hours.mid + moved,
                                         row->run_hours.high + moved };
    if (wall_seconds && !queued && !isnan(deadline))
        row->chance_in_time = chance_of(m, row->kind, wall_seconds, moved);
    if (wall_seconds && queued) {
        struct arena_mark mark = arena_mark(m->job.arena);
        double *hours = ARENA_NEW(m->job.arena, double, HOSTING_SAMPLES);
        struct assumption_spread queue =
            assumption_spread(&(struct assumption){ .value = row->queue_hours });
        size_t in_time = 0;
        for (size_t i = 0; i < HOSTING_SAMPLES; i++) {
            hours[i] =
                wall_seconds[i] / 3600 + moved + assumption_at(&queue, m->job.samples.queue[i]);
            in_time += hours[i] <= deadline;
        }
        row->elapsed_hours = hosting_range(hours, HOSTING_SAMPLES, m->job.arena);
        if (!isnan(deadline))
            row->chance_in_time = (double)in_time / HOSTING_SAMPLES;
        arena_rewind(m->job.arena, mark);
    }
    row->in_time = !(row->elapsed_hours.mid > deadline);
    row->in_budget = !(row->cost_usd.mid > m->request->budget);
    row->surely_in_budget = !(row->cost_usd.high > m->request->budget);
}

// The sum of the terms of its cost.
static void add_up(struct hosting_row *row, const struct hosting_maker *m)
{
    double moved = row->move.in_usd + row->move.out_usd;
    struct range kept = busy_hours(row, &row->run_hours);
    plan_storage(row, m);
    for (int i = 0; i < 3; i++) {
        set(&row->storage.usd, i, storage_usd(&row->storage, at(&kept, i)));
        set(&row->cost_usd, i, at(&row->compute_usd, i) + moved + at(&row->storage.usd, i));
    }
}

static void finish(struct hosting_row *row, struct hosting_maker *m, const double *wall_seconds)
{
    row->wall_seconds = wall_seconds;
    elapse(row, m, wall_seconds);
    // The mean of a lognormal price is above its median; an hour of waiting may have a value too.
    double risk = expm1(row->price_spread * row->price_spread / 2);
    double worth = isnan(m->request->hour_is_worth) ? 0 : m->request->hour_is_worth;
    row->rank_usd =
        row->cost_usd.mid + row->compute_usd.mid * risk + row->elapsed_hours.mid * worth;
    hosting_doubt(row, m);
}

static void price(struct hosting_row *row, const struct hosting_maker *m)
{
    const struct offers_row *offer = row->offer;
    const struct billing *terms = terms_of(m, row->provider, row->instance);
    row->list_usd_per_hour = offers_price(&offer->offer, row->kind);
    row->usd_per_hour = row->list_usd_per_hour;
    if (row->kind == OFFERS_ON_DEMAND && !isnan(m->request->discount))
        row->usd_per_hour *= 1 - m->request->discount;
    if (row->kind == OFFERS_SPOT && offer->offer.spot_high_usd_per_hour > row->usd_per_hour)
        row->usd_per_hour = sqrt(row->usd_per_hour * offer->offer.spot_high_usd_per_hour);
    row->as_of = offers_as_of(&offer->offer, row->kind);
    row->age_days = offers_days(row->as_of, m->request->today); // NAN: no date; below 0: future
    row->price_spread = isnan(row->age_days) ? 0 : hosting_price_spread(row->age_days);
    row->price_kind = offer->offer.price_kind;
    row->terms = isnan(offer->granularity_seconds) ? terms : NULL;
    row->granularity_seconds =
        isnan(offer->granularity_seconds) ? terms->granularity_seconds : offer->granularity_seconds;
    row->minimum_seconds =
        isnan(offer->minimum_seconds) ? terms->minimum_seconds : offer->minimum_seconds;
}

void hosting_bill(struct hosting_row *row, struct hosting_maker *m, const struct offers_row *offer,
                  enum offers_kind kind, struct hosting_group *group)
{
    hosting_group_sample(&m->job, group);
    row->offer = offer;
    row->kind = kind;
    row->provider = offer->offer.provider;
    row->instance = offer->offer.instance;
    row->region = offer->offer.region ? offer->offer.region : OFFERS_NO_REGION;
    row->group = group;
    row->instances = group->instances;
    row->instance_gpus = offer->offer.gpus;
    row->gpus = group->gpus;
    row->run_hours = group->wall_hours;
    row->queue_hours = queue_of(m, offer);
    price(row, m);
    plan_move(row, m);
    if (kind == OFFERS_SPOT) {
        bill_spot(row, m, group);
    } else if (kind != OFFERS_RESERVED_1Y && kind != OFFERS_RESERVED_3Y) {
        struct range busy = busy_hours(row, &group->wall_hours);
        (row->price_kind == OFFER_BLOCK ? bill_block : bill_by_time)(row, &busy);
    } else {
        bill_reserved(row, m);
    }
    add_up(row, m);
}

void hosting_add_offer(struct hosting_maker *m, const struct offers_row *offer,
                       enum offers_kind kind, struct hosting_group *group)
{
    struct hosting_row *row = hosting_new_row(m);
    hosting_bill(row, m, offer, kind, group);
    row->disk_needed_bytes =
        row->move.model_bytes + row->move.dataset_bytes + 2 * group->overheads.save_bytes;
    row->local_disk_bytes =
        isnan(offer->local_disk_bytes) ? group->node.local_disk_bytes : offer->local_disk_bytes;
    if (row->local_disk_bytes == 0) // network disks, of any size
        row->local_disk_bytes = NAN;
    row->limit = limit_of(row, group);
    finish(row, m,
           kind == OFFERS_SPOT
               ? hosting_spot_of(&m->job, group, offer->preemptions_per_hour)->wall_seconds
               : group->wall_seconds);
}

// --- ownership ---------------------------------------------------------------

struct hosting_group *hosting_find_server(struct hosting_maker *m, const struct gpu *gpu,
                                          struct hosting_ownership *owned)
{
    const struct catalog *catalog = &m->job.plan->data->catalog;
    const struct gpu *planned = m->job.plan->chosen.gpu;
    const struct hosting_request *r = m->request;
    const struct node *usual = catalog_node_of(catalog, gpu);
    bool other = m->gpu ? gpu != m->gpu : strcmp(gpu->vendor, planned->vendor) != 0;
    if (!hosting_has_kind(m, OFFERS_COLOCATION) || !hosting_lists(r->provider, "own") ||
        r->compliance || other || !usual ||
        (r->gpus > usual->gpus && !(usual->network_bytes_per_s_per_gpu > 0)) ||
        (!isnan(r->server_price) && gpu != planned) ||
        !hosting_ownership_of(owned, catalog, gpu, r))
        return NULL;
    int64_t gpus = r->gpus ? r->gpus : usual->gpus;
    return hosting_group_find(&m->job, gpu, gpus, hosting_instances(gpus, usual->gpus), usual);
}

void hosting_add_server(struct hosting_maker *m, const struct gpu *gpu)
{
    struct hosting_ownership owned;
    struct hosting_group *group = hosting_find_server(m, gpu, &owned);
    if (!group || !group->fits)
        return;
    struct hosting_row *row = hosting_new_row(m);
    hosting_group_sample(&m->job, group);
    row->kind = OFFERS_COLOCATION;
    row->provider = "own";
    row->instance = text_format(m->job.arena, "8x-%s-server", gpu->name);
    row->region = "colocation";
    row->group = group;
    row->instances = group->instances;
    row->instance_gpus = group->node.gpus;
    row->gpus = group->gpus;
    row->run_hours = group->wall_hours;
    double lead = isnan(m->request->server_lead) ? 0 : m->request->server_lead / 3600;
    row->queue_hours = (struct range){ lead, lead, lead };
    row->price_kind = isnan(m->request->server_price) ? OFFER_MEDIAN : OFFER_FIRM;
    row->as_of = isnan(m->request->server_price) ? owned.as_of : m->request->today;
    row->age_days = offers_days(row->as_of, m->request->today);
    row->ownership = owned;
    plan_move(row, m);
    double busy = busy_hours(row, &row->run_hours).mid;
    row->sets = hosting_sets(m->request->pattern, m->runs_per_month, busy);
    double used = m->runs_per_month * row->run_hours.mid / row->sets / HOSTING_HOURS_PER_MONTH;
    struct range month = hosting_ownership_month(&owned, used, NULL);
    row->usd_per_hour = row->list_usd_per_hour = month.mid / HOSTING_HOURS_PER_MONTH;
    row->commitment_usd = owned.server_usd.mid * row->sets * (double)row->instances;
    bill_by_month(row, m, month);
    row->limit = limit_of(row, group);
    add_up(row, m);
    finish(row, m, group->wall_seconds);
    if (isnan(m->request->server_lead) && !isnan(m->request->deadline)) {
        row->in_time = false;
        row->chance_in_time = 0;
    }
}
