#include "core/hosting_internal.h"

#include <math.h>
#include <string.h>

const char *const hosting_patterns[] = { "steady", "burst", NULL };
const char *const hosting_managed_billings[] = { "tokens", "max-length", NULL };

const struct field hosting_fields[] = {
    FIELD(hosting_request, gpu, TEXT, "only this GPU"),
    FIELD(hosting_request, gpus, COUNT, "exactly so many in all; any number unless given"),
    FIELD(hosting_request, deadline, SECONDS, "from now to the result: 48h"),
    FIELD(hosting_request, budget, USD, "money allowed"),
    FIELD(hosting_request, provider, TEXT, "only these: aws,lambda"),
    FIELD(hosting_request, region, TEXT, "us-east, us-west, or as the provider calls it"),
    FIELD(hosting_request, kind, TEXT, "on-demand,spot,reserved,colocation; all unless given"),
    FIELD(hosting_request, compliance, TEXT, "only offers of --offers with these tags"),
    FIELD(hosting_request, price, TEXT, "your own for the plan's GPU: 2.49/gpu-h or 20/h"),
    FIELD(hosting_request, discount, SHARE, "yours on list prices on demand"),
    FIELD(hosting_request, queue, TEXT, "until it starts: 10min,1h,6h (low, usual, high)"),
    FIELD_OF(hosting_request, pattern, hosting_patterns, "runs one after another, or at once"),
    FIELD(hosting_request, runs_per_month, NUMBER, "of this job; 1 is assumed"),
    FIELD(hosting_request, gpu_hours_per_month, NUMBER, "of all your jobs on such GPUs"),
    FIELD(hosting_request, data_at, TEXT, "provider, or provider:region, that holds the data"),
    FIELD(hosting_request, data_bytes, BYTES, "of the data set; 4 a token are assumed"),
    FIELD(hosting_request, link, RATE, "of moving data; 1 Gb/s is assumed"),
    FIELD(hosting_request, managed_price, USD, "of tuning as a service, per million tokens"),
    FIELD_OF(hosting_request, managed_billing, hosting_managed_billings, "what it counts"),
    FIELD(hosting_request, preemptions_per_hour, NUMBER, "of a spot instance"),
    FIELD(hosting_request, spot_wait, SECONDS, "until a spot instance is there again"),
    FIELD(hosting_request, server_price, USD, "of a server of 8 GPUs"),
    FIELD(hosting_request, amortisation_years, NUMBER, "in which it is written off"),
    FIELD(hosting_request, resale_share, SHARE, "of its price that it brings in the end"),
    FIELD(hosting_request, electricity, USD, "per kWh"),
    FIELD(hosting_request, pue, NUMBER, "power of the building over that of the server"),
    FIELD(hosting_request, rack_price, USD, "per kW and month"),
    FIELD(hosting_request, network_per_month, USD, "cross-connects of an owned server"),
    FIELD(hosting_request, staff_per_month, USD, "beside the usual operations"),
    FIELD(hosting_request, rows, COUNT, "of the table"),
    FIELD(hosting_request, today, DATE, "that ages of prices are counted to"),
    { 0 },
};

struct hosting_request hosting_request_default(void)
{
    struct hosting_request request;
    memset(&request, 0, sizeof request);
    field_clear(hosting_fields, &request);
    request.rows = 20;
    return request;
}

bool hosting_lists(const char *list, const char *word)
{
    struct text rest = text_of(list ? list : ""), piece;
    if (!rest.size)
        return true;
    while (text_next(&rest, ',', &piece))
        if (text_is(text_trim(piece), word))
            return true;
    return false;
}

int64_t hosting_instances(int64_t gpus, int64_t instance_gpus)
{
    return (gpus + instance_gpus - 1) / instance_gpus;
}

double hosting_billed_seconds(double seconds, double granularity_seconds, double minimum_seconds)
{
    double units = ceil(seconds / granularity_seconds - 1e-9);
    return fmax(units * granularity_seconds, minimum_seconds);
}

double hosting_break_even(double committed_usd_per_hour, double on_demand_usd_per_hour)
{
    return committed_usd_per_hour / on_demand_usd_per_hour;
}

double hosting_sets(int pattern, double runs_per_month, double hours_per_run)
{
    double side_by_side = pattern == HOSTING_BURST ? runs_per_month : 0;
    return fmax(fmax(1, side_by_side),
                ceil(runs_per_month * hours_per_run / HOSTING_HOURS_PER_MONTH - 1e-9));
}

double hosting_price_spread(double age_days)
{
    // Assumed: a quarter in a year, growing with the root of time; a month is as good as today.
    return age_days > 30 ? 0.25 * sqrt(age_days / 365) : 0;
}

// --- moving data -------------------------------------------------------------

void hosting_move_cost(struct hosting_move *m)
{
    m->in_usd = m->dataset_bytes / 1e9 * m->in_usd_per_gb;
    m->out_usd = m->result_bytes / 1e9 * m->out_usd_per_gb;
    m->in_hours = (m->dataset_bytes + m->model_bytes) / m->link_bytes_per_s / 3600;
    m->out_hours = m->result_bytes / m->link_bytes_per_s / 3600;
}

// A number of instances of one offer, with every unknown at its middle: what is compared before
// anything is drawn.
struct candidate {
    const struct offers_row *offer;
    enum offers_kind kind;
    struct hosting_group *group;
    double hours, usd;
    bool in_time, in_budget;
};

struct maker {
    struct hosting_job job;
    struct hosting *out;
    const struct hosting_input *input;
    const struct hosting_request *request;
    size_t room;
    double runs_per_month;
    struct range queue_hours;
    const struct gpu *gpu;    // asked for, or NULL
    struct candidate fastest; // within the budget
};

static const struct billing *terms_of(const struct maker *m, const char *provider,
                                      const char *instance)
{
    return offers_terms(m->input->billing, m->input->billing_count, provider, instance);
}

// Whether the data lies with that provider, and in that region of it.
static bool is_at(const char *data_at, const char *provider, const char *region, bool *same_region)
{
    const char *colon = strchr(data_at, ':');
    size_t size = colon ? (size_t)(colon - data_at) : strlen(data_at);
    bool same = strlen(provider) == size && !strncmp(data_at, provider, size);
    *same_region = same && (!colon || !strcmp(colon + 1, region));
    return same;
}

static void plan_move(struct hosting_row *row, const struct maker *m)
{
    const double between_regions = 0.02; // dollars per GB inside one cloud, as commonly listed
    const struct workload *workload = &m->job.plan->chosen.workload;
    const struct hosting_request *r = m->request;
    struct hosting_move *move = &row->move;
    *move = (struct hosting_move){
        .dataset_bytes = isnan(r->data_bytes) ? 4 * workload->tokens : r->data_bytes,
        .model_bytes = 2 * (double)model_parameters(m->job.plan->model),
        .result_bytes = row->group ? row->group->overheads.save_bytes : 0,
        .link_bytes_per_s = isnan(r->link) ? 125e6 : r->link,
    };
    bool same_region = false, same = false;
    if (r->data_at) {
        same = is_at(r->data_at, row->provider, row->region, &same_region);
        const char *colon = strchr(r->data_at, ':');
        struct text holder = text_of(r->data_at);
        if (colon)
            holder.size = (size_t)(colon - r->data_at);
        const struct billing *from = terms_of(m, text_copy(m->job.arena, holder), "");
        move->in_usd_per_gb = same_region ? 0 : same ? between_regions : from->egress_usd_per_gb;
    }
    const struct billing *here = terms_of(m, row->provider, row->instance);
    double leaving = row->offer && !isnan(row->offer->egress_usd_per_gb)
                         ? row->offer->egress_usd_per_gb
                         : here->egress_usd_per_gb;
    if (row->kind == OFFERS_COLOCATION)
        leaving = 0;
    move->out_usd_per_gb = same_region ? 0 : same ? between_regions : leaving;
    if (same_region)
        move->dataset_bytes = 0;
    hosting_move_cost(move);
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

// Widens what the hours give by what is not known of the price, as independent factors.
static struct range widen(struct range usd, double spread)
{
    const double tenth = 1.2815515655446004; // of the normal distribution
    double below = hypot(log(usd.mid / usd.low), tenth * spread);
    double above = hypot(log(usd.high / usd.mid), tenth * spread);
    return (struct range){ usd.mid * exp(-below), usd.mid, usd.mid * exp(above) };
}

static void bill_by_time(struct hosting_row *row, const struct range *hours)
{
    struct range usd;
    for (int i = 0; i < 3; i++) {
        double billed = hosting_billed_seconds(at(hours, i) * 3600, row->granularity_seconds,
                                               row->minimum_seconds);
        set(&row->billed_hours, i, billed / 3600);
        set(&usd, i, billed / 3600 * (double)row->instances * row->usd_per_hour);
    }
    row->compute_usd = widen(usd, row->price_spread);
}

// A commitment is paid whether it is used or not; the runs of a month share it.
static void bill_by_month(struct hosting_row *row, const struct maker *m, struct range month_usd)
{
    struct range usd;
    for (int i = 0; i < 3; i++) {
        double hours = at(&row->run_hours, i);
        double sets = hosting_sets(m->request->pattern, m->runs_per_month, hours);
        set(&row->billed_hours, i, sets * HOSTING_HOURS_PER_MONTH / m->runs_per_month);
        set(&usd, i, sets * at(&month_usd, i) * (double)row->instances / m->runs_per_month);
        if (i == 1)
            row->sets = sets;
    }
    row->compute_usd = widen(usd, row->price_spread);
}

static void bill_reserved(struct hosting_row *row, const struct maker *m)
{
    double month = row->usd_per_hour * HOSTING_HOURS_PER_MONTH;
    double years = row->kind == OFFERS_RESERVED_3Y ? 3 : 1;
    double on_demand = offers_price(&row->offer->offer, OFFERS_ON_DEMAND);
    bill_by_month(row, m, (struct range){ month, month, month });
    row->commitment_usd = row->usd_per_hour * 8760 * years * (double)row->instances * row->sets;
    if (!isnan(m->request->discount))
        on_demand *= 1 - m->request->discount;
    row->break_even = hosting_break_even(row->usd_per_hour, on_demand);
}

static void bill_spot(struct hosting_row *row, struct maker *m, struct hosting_group *group)
{
    struct hosting_spot_draws *spot =
        hosting_spot_of(&m->job, group, row->offer->preemptions_per_hour);
    hosting_spot_draw(&m->job, group, spot);
    const struct offer *offer = &row->offer->offer;
    row->preemption = spot->preemption;
    row->spot = spot->best;
    row->run_hours = spot->wall_hours;
    double high = fmax(offer->spot_usd_per_hour, offer->spot_high_usd_per_hour);
    double zones = log(high / offer->spot_usd_per_hour) / (2 * 1.2815515655446004);
    row->price_spread = hypot(row->price_spread, isnan(zones) ? 0 : zones);
    bill_by_time(row, &spot->billed_hours);
    row->expected_usd =
        spot->best.billed_seconds / 3600 * row->usd_per_hour * (double)row->instances;
    double on_demand = offers_price(offer, OFFERS_ON_DEMAND);
    if (!isnan(m->request->discount))
        on_demand *= 1 - m->request->discount;
    row->on_demand_usd = group->middle.wall_seconds / 3600 * on_demand * (double)row->instances;
}

static const char *limit_of(const struct hosting_row *row, const struct hosting_group *group)
{
    const double *t = group->middle.seconds;
    double wall = group->middle.wall_seconds;
    double storage = t[OVERHEAD_LOADING] + t[OVERHEAD_STALLS] + t[OVERHEAD_SAVES];
    double begin = t[OVERHEAD_STARTUP] + t[OVERHEAD_COMPILATION];
    if (row->queue_hours.mid > row->run_hours.mid)
        return "queue";
    if (row->move.in_hours > row->run_hours.mid)
        return "data move";
    if (!group->result.stable || group->result.recipe.checkpointing == RECIPE_RECOMPUTE)
        return "memory";
    if (group->network_share > 0.15)
        return "interconnect";
    if (storage > 0.15 * wall)
        return "storage";
    if (begin > 0.25 * wall)
        return "start-up";
    return "compute";
}

static struct hosting_row *new_row(struct maker *m)
{
    struct hosting *out = m->out;
    if (out->count == m->room) {
        size_t room = m->room ? 2 * m->room : 1024;
        out->rows = arena_grow(m->job.arena, out->rows, m->room * sizeof *out->rows,
                               room * sizeof *out->rows);
        m->room = room;
    }
    struct hosting_row *row = &out->rows[out->count++];
    *row = (struct hosting_row){ .on_demand_usd = NAN,
                                 .expected_usd = NAN,
                                 .break_even = NAN,
                                 .commitment_usd = NAN,
                                 .chance_in_time = NAN };
    return row;
}

static struct range queue_of(const struct maker *m, const struct offers_row *offer)
{
    if (!offer || isnan(offer->queue_seconds))
        return m->queue_hours;
    double mid = offer->queue_seconds / 3600;
    return (
        struct range){ isnan(offer->queue_low_seconds) ? mid : offer->queue_low_seconds / 3600, mid,
                       isnan(offer->queue_high_seconds) ? mid : offer->queue_high_seconds / 3600 };
}

// From now to the result: queue, data in, run, data out. Queue and run are drawn together.
static void elapse(struct hosting_row *row, struct maker *m, const double *wall_seconds)
{
    double moved = row->move.in_hours + row->move.out_hours;
    double deadline = m->request->deadline / 3600;
    bool queued = row->queue_hours.high > 0;
    row->elapsed_hours = (struct range){ row->run_hours.low + moved, row->run_hours.mid + moved,
                                         row->run_hours.high + moved };
    if (wall_seconds && (queued || !isnan(deadline))) {
        struct arena_mark mark = arena_mark(m->job.arena);
        double *hours = ARENA_NEW(m->job.arena, double, HOSTING_DRAWS);
        struct assumption queue = { .value = row->queue_hours };
        size_t in_time = 0;
        for (size_t i = 0; i < HOSTING_DRAWS; i++) {
            hours[i] = wall_seconds[i] / 3600 + moved;
            if (queued)
                hours[i] += assumption_draw(&queue, m->job.draws.queue[i]);
            in_time += hours[i] <= deadline;
        }
        if (queued)
            row->elapsed_hours = hosting_range(hours, HOSTING_DRAWS);
        if (!isnan(deadline))
            row->chance_in_time = (double)in_time / HOSTING_DRAWS;
        arena_rewind(m->job.arena, mark);
    }
    row->in_time = !(row->elapsed_hours.mid > deadline);
    row->in_budget = !(row->cost_usd.mid > m->request->budget);
}

static void finish(struct hosting_row *row, struct maker *m, const double *wall_seconds)
{
    double moved = row->move.in_usd + row->move.out_usd;
    row->cost_usd = (struct range){ row->compute_usd.low + moved, row->compute_usd.mid + moved,
                                    row->compute_usd.high + moved };
    row->stale = row->age_days > 180;
    elapse(row, m, wall_seconds);
}

static void price_row(struct hosting_row *row, const struct maker *m)
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
    row->age_days = fmax(0, offers_days(row->as_of, m->request->today));
    row->price_spread = isnan(row->age_days) ? 0 : hosting_price_spread(row->age_days);
    row->granularity_seconds =
        isnan(offer->granularity_seconds) ? terms->granularity_seconds : offer->granularity_seconds;
    row->minimum_seconds =
        isnan(offer->minimum_seconds) ? terms->minimum_seconds : offer->minimum_seconds;
}

static void add_row(struct maker *m, const struct offers_row *offer, enum offers_kind kind,
                    struct hosting_group *group)
{
    struct hosting_row *row = new_row(m);
    hosting_group_draw(&m->job, group);
    row->offer = offer;
    row->kind = kind;
    row->provider = offer->offer.provider;
    row->instance = offer->offer.instance;
    row->region = offer->offer.region ? offer->offer.region : "US";
    row->group = group;
    row->instances = group->instances;
    row->instance_gpus = offer->offer.gpus;
    row->gpus = group->gpus;
    row->run_hours = group->wall_hours;
    row->queue_hours = queue_of(m, offer);
    price_row(row, m);
    const double *wall = group->wall_seconds;
    if (kind == OFFERS_SPOT) {
        bill_spot(row, m, group);
        wall = hosting_spot_of(&m->job, group, offer->preemptions_per_hour)->wall_seconds;
    } else if (kind == OFFERS_ON_DEMAND) {
        bill_by_time(row, &group->wall_hours);
    } else {
        bill_reserved(row, m);
    }
    plan_move(row, m);
    row->limit = limit_of(row, group);
    finish(row, m, wall);
}

// --- offers ------------------------------------------------------------------

static bool wants(const struct maker *m, enum offers_kind kind)
{
    const char *list = m->request->kind;
    bool reserved = kind == OFFERS_RESERVED_1Y || kind == OFFERS_RESERVED_3Y;
    return hosting_lists(list, offers_kind_names[kind]) ||
           (reserved && hosting_lists(list, "reserved"));
}

static bool has_tags(const char *tags, const char *wanted)
{
    struct text rest = text_of(wanted), tag, all, have;
    while (text_next(&rest, ',', &tag)) {
        bool found = false;
        all = text_of(tags ? tags : "");
        while (text_next(&all, '|', &have))
            found = found || text_equal(text_trim(have), text_trim(tag));
        if (!found)
            return false;
    }
    return true;
}

static const struct gpu *gpu_named(const struct catalog *catalog, const char *name)
{
    for (size_t i = 0; i < catalog->gpu_count; i++)
        if (!strcmp(catalog->gpus[i].name, name))
            return &catalog->gpus[i];
    return NULL;
}

// Why the offer is not looked at, or HOSTING_REASONS.
static enum hosting_reason refuse(const struct maker *m, const struct offers_row *row,
                                  const struct gpu *gpu)
{
    const struct hosting_request *r = m->request;
    int precision = m->job.plan->request->recipe.precision;
    bool priced = false;
    for (int kind = OFFERS_ON_DEMAND; kind <= OFFERS_RESERVED_3Y; kind++)
        priced = priced || (wants(m, (enum offers_kind)kind) &&
                            !isnan(offers_price(&row->offer, (enum offers_kind)kind)));
    if (!gpu || (m->gpu && gpu != m->gpu) ||
        (!m->gpu && strcmp(gpu->vendor, m->job.plan->chosen.gpu->vendor)))
        return HOSTING_OTHER_GPU;
    if (!hosting_lists(r->provider, row->offer.provider))
        return HOSTING_OTHER_PROVIDER;
    if (r->region && !offers_in_region(&row->offer, r->region))
        return HOSTING_OTHER_REGION;
    if (r->compliance && !has_tags(row->compliance, r->compliance))
        return HOSTING_NO_TAG;
    if (!priced)
        return HOSTING_NO_PRICE;
    if ((precision == RECIPE_BF16 && !gpu->supports_bf16) ||
        (precision == RECIPE_FP8 && !gpu->supports_fp8))
        return HOSTING_NO_PRECISION;
    return HOSTING_REASONS;
}

static struct candidate consider(struct maker *m, const struct offers_row *offer,
                                 enum offers_kind kind, struct hosting_group *group)
{
    const struct hosting_request *r = m->request;
    // In time even where the stack is slow: the number of instances is to be safe.
    double slow = exp(1.28 * m->job.plan->efficiency.log_spread);
    double price = offers_price(&offer->offer, kind) * (double)group->instances;
    struct candidate c = { offer, kind, group, group->middle.wall_seconds / 3600, 0, true, true };
    double billed = c.hours;
    if (kind == OFFERS_SPOT) {
        const struct hosting_spot *best =
            &hosting_spot_of(&m->job, group, offer->preemptions_per_hour)->best;
        c.hours = best->wall_seconds / 3600;
        billed = best->billed_seconds / 3600;
    } else if (kind != OFFERS_ON_DEMAND) {
        billed = hosting_sets(r->pattern, m->runs_per_month, c.hours) * HOSTING_HOURS_PER_MONTH /
                 m->runs_per_month;
    }
    c.usd = price * billed;
    c.in_time = !(c.hours * slow > r->deadline / 3600);
    c.in_budget = !(c.usd > r->budget);
    return c;
}

static bool is_better(const struct candidate *a, const struct candidate *b)
{
    bool a_meets = a->in_time && a->in_budget, b_meets = b->in_time && b->in_budget;
    if (!b->group || a_meets != b_meets)
        return !b->group || a_meets;
    return a->in_time != b->in_time ? a->in_time : a->usd < b->usd;
}

// Takes note of one number of instances, for every kind that is wanted.
static void compare(struct maker *m, struct candidate *best, const struct offers_row *offer,
                    struct hosting_group *group)
{
    for (int kind = OFFERS_ON_DEMAND; kind <= OFFERS_RESERVED_3Y; kind++) {
        if (!wants(m, (enum offers_kind)kind) ||
            isnan(offers_price(&offer->offer, (enum offers_kind)kind)))
            continue;
        struct candidate c = consider(m, offer, (enum offers_kind)kind, group);
        if (is_better(&c, &best[kind]))
            best[kind] = c;
        if (c.in_budget && (!m->fastest.group || c.hours < m->fastest.hours))
            m->fastest = c;
    }
}

enum { MOST_COUNTS = 4, MOST_GPUS = 64 };

// The groups of an offer: so many GPUs as are asked for, else one, two, four and eight instances.
// Several only of whole nodes: small ones have no network to train over.
static size_t list_groups(struct hosting_group **out, struct maker *m,
                          const struct offers_row *offer, const struct gpu *gpu)
{
    int64_t size = offer->offer.gpus, wanted = m->request->gpus;
    struct node node = hosting_node(&m->job.plan->data->catalog, gpu, offer);
    if (wanted) {
        out[0] = hosting_group_find(&m->job, gpu, wanted, hosting_instances(wanted, size), &node);
        return 1;
    }
    size_t count = 0;
    for (int64_t n = 1; count < MOST_COUNTS; n *= 2) {
        if (n > 1 && (size < 4 || n * size > MOST_GPUS))
            break;
        out[count++] = hosting_group_find(&m->job, gpu, n * size, n, &node);
    }
    return count;
}

static void try_offer(struct maker *m, const struct offers_row *offer, const struct gpu *gpu)
{
    struct hosting_group *groups[MOST_COUNTS];
    struct candidate best[OFFERS_KINDS] = { 0 };
    size_t count = list_groups(groups, m, offer, gpu);
    bool fits = false, held = false;
    for (size_t i = 0; i < count; i++) {
        struct hosting_group *group = groups[i];
        fits = fits || group->fits;
        if (!group->fits || group->result.memory.host_bytes > offer->offer.host_memory_bytes)
            continue;
        held = true;
        compare(m, best, offer, group);
    }
    for (int kind = 0; kind < OFFERS_KINDS; kind++)
        if (best[kind].group)
            add_row(m, offer, (enum offers_kind)kind, best[kind].group);
    if (!held)
        m->out->left_out[fits ? HOSTING_NO_HOST_MEMORY : HOSTING_NO_FIT]++;
}

// The fastest within the budget may be a number of instances that is not its offer's cheapest.
static void add_fastest(struct maker *m)
{
    const struct candidate *f = &m->fastest;
    for (size_t i = 0; f->group && i < m->out->count; i++)
        if (m->out->rows[i].offer == f->offer && m->out->rows[i].kind == f->kind &&
            m->out->rows[i].group == f->group)
            return;
    if (f->group)
        add_row(m, f->offer, f->kind, f->group);
}

// --- ownership and managed services ------------------------------------------

// The group of an owned server, or NULL where none of that GPU is compared.
static struct hosting_group *find_own(struct maker *m, const struct gpu *gpu,
                                      struct hosting_ownership *owned)
{
    const struct catalog *catalog = &m->job.plan->data->catalog;
    const struct gpu *planned = m->job.plan->chosen.gpu;
    const struct hosting_request *r = m->request;
    const struct node *usual = catalog_node_of(catalog, gpu);
    bool other = m->gpu ? gpu != m->gpu : strcmp(gpu->vendor, planned->vendor) != 0;
    if (!wants(m, OFFERS_COLOCATION) || !hosting_lists(r->provider, "own") || r->compliance ||
        r->region || other || !usual || r->gpus > usual->gpus ||
        (!isnan(r->server_price) && gpu != planned) ||
        !hosting_ownership_of(owned, catalog, gpu, r))
        return NULL;
    return hosting_group_find(&m->job, gpu, r->gpus ? r->gpus : usual->gpus, 1, usual);
}

static void own_server(struct maker *m, const struct gpu *gpu)
{
    struct hosting_ownership owned;
    struct hosting_group *group = find_own(m, gpu, &owned);
    if (!group || !group->fits)
        return;
    struct hosting_row *row = new_row(m);
    hosting_group_draw(&m->job, group);
    row->kind = OFFERS_COLOCATION;
    row->provider = "own";
    row->instance = text_format(m->job.arena, "8x-%s-server", gpu->name);
    row->region = "colocation";
    row->group = group;
    row->instances = 1;
    row->instance_gpus = 8;
    row->gpus = group->gpus;
    row->run_hours = group->wall_hours;
    row->queue_hours = (struct range){ 0 };
    row->as_of = owned.as_of;
    row->age_days = offers_days(owned.as_of, m->request->today);
    row->ownership = owned;
    row->sets = hosting_sets(m->request->pattern, m->runs_per_month, row->run_hours.mid);
    double used = m->runs_per_month * row->run_hours.mid / row->sets / HOSTING_HOURS_PER_MONTH;
    struct range month = hosting_ownership_month(&owned, used, NULL);
    row->usd_per_hour = row->list_usd_per_hour = month.mid / HOSTING_HOURS_PER_MONTH;
    row->commitment_usd = owned.server_usd.mid * row->sets;
    bill_by_month(row, m, month);
    plan_move(row, m);
    row->limit = limit_of(row, group);
    finish(row, m, group->wall_seconds);
}

static void add_managed(struct maker *m)
{
    const struct workload *w = &m->job.plan->chosen.workload;
    if (isnan(m->request->managed_price) || !wants(m, OFFERS_MANAGED))
        return;
    struct hosting_row *row = new_row(m);
    bool longest = m->request->managed_billing == HOSTING_BY_MAXIMUM_LENGTH;
    row->kind = OFFERS_MANAGED;
    row->provider = "managed";
    row->instance = longest ? "rows × maximum length" : "tokens";
    row->region = "-";
    row->limit = "the service";
    row->managed_tokens =
        w->epochs * (longest ? w->examples * m->job.plan->rule.context : w->tokens);
    double usd = row->managed_tokens / 1e6 * m->request->managed_price;
    row->compute_usd = row->cost_usd = (struct range){ usd, usd, usd };
    row->run_hours = row->billed_hours = row->elapsed_hours = (struct range){ NAN, NAN, NAN };
    row->in_time = isnan(m->request->deadline); // how long it takes is not said
    row->in_budget = !(usd > m->request->budget);
    row->usd_per_hour = row->list_usd_per_hour = NAN;
}

// --- making ------------------------------------------------------------------

// "2.49/gpu-h", "19.92/h" or "2.49": dollars per GPU hour, or per hour of the instance.
static enum err read_price(double *usd, bool *per_gpu, const char *text)
{
    struct text number = text_of(text);
    const char *slash = strchr(text, '/');
    *per_gpu = true;
    if (slash) {
        number.size = (size_t)(slash - text);
        const char *unit = slash + 1;
        *per_gpu = !strcmp(unit, "gpu-h") || !strcmp(unit, "gpu-hour") || !strcmp(unit, "gpuh");
        if (!*per_gpu && strcmp(unit, "h") && strcmp(unit, "hour") && strcmp(unit, "hr"))
            return fail(ERR_USAGE,
                        "--price is \"%s\"; wanted is dollars per GPU hour (2.49/gpu-h) or per "
                        "hour of an instance (20/h)",
                        text);
    }
    if (number.size && number.at[0] == '$')
        number.at++, number.size--;
    if (text_read_number(usd, text_trim(number)) || !(*usd > 0))
        return fail(ERR_USAGE,
                    "--price is \"%s\", must be above 0: a price of nothing or less is no offer",
                    text);
    return OK;
}

// The user's own price as one more offer, of the plan's GPU in its usual node.
static enum err own_offer(struct maker *m, struct offers *offers)
{
    double usd;
    bool per_gpu;
    if (!m->request->price)
        return OK;
    TRY(read_price(&usd, &per_gpu, m->request->price));
    const struct gpu *gpu = m->gpu ? m->gpu : m->job.plan->chosen.gpu;
    const struct node *node = catalog_node_of(&m->job.plan->data->catalog, gpu);
    int64_t gpus = node ? node->gpus : 8;
    int64_t planned = m->request->gpus ? m->request->gpus : m->job.plan->chosen.gpus;
    if (planned < gpus)
        gpus = planned;
    struct offer offer = {
        .provider = "yours",
        .instance = text_format(m->job.arena, "%lldx-%s", (long long)gpus, gpu->name),
        .gpu = gpu->name,
        .gpus = gpus,
        .region = "US",
        .region_scope = "us-any",
        .host_memory_bytes = NAN,
        .on_demand_usd_per_hour = per_gpu ? usd * (double)gpus : usd,
        .spot_usd_per_hour = NAN,
        .spot_high_usd_per_hour = NAN,
        .reserved_1y_usd_per_hour = NAN,
        .reserved_3y_usd_per_hour = NAN,
        .source = "--price",
        .as_of = m->request->today,
    };
    struct catalog one = { .offers = &offer, .offer_count = 1 };
    struct offers own;
    offers_of_catalog(&own, m->job.arena, &one);
    own.rows[0].granularity_seconds = 1;
    own.rows[0].minimum_seconds = 0;
    offers_append(offers, m->job.arena, &own);
    return OK;
}

// "10min,1h,6h" is low, usual and high; one value is certain.
static enum err read_queue(struct range *out, const char *text)
{
    double seconds[3];
    size_t count = 0;
    struct text rest = text_of(text), piece;
    while (text_next(&rest, ',', &piece)) {
        if (count == 3 || text_read_seconds(&seconds[count], text_trim(piece)) ||
            (count && seconds[count] < seconds[count - 1]))
            return fail(ERR_USAGE,
                        "--queue is \"%s\"; wanted is one time or three that rise: "
                        "10min,1h,6h",
                        text);
        count++;
    }
    if (count != 1 && count != 3)
        return fail(ERR_USAGE,
                    "--queue is \"%s\"; wanted is one time or three that rise: "
                    "10min,1h,6h",
                    text);
    *out = (struct range){ seconds[0] / 3600, seconds[count == 3 ? 1 : 0] / 3600,
                           seconds[count - 1] / 3600 };
    return OK;
}

static enum err check_words(const struct maker *m, const struct offers *offers)
{
    const struct hosting_request *r = m->request;
    struct text rest = text_of(r->kind ? r->kind : ""), piece;
    while (r->kind && text_next(&rest, ',', &piece)) {
        bool known = text_is(text_trim(piece), "reserved");
        for (int i = 0; i < OFFERS_KINDS; i++)
            known = known || text_is(text_trim(piece), offers_kind_names[i]);
        if (!known)
            return fail(ERR_USAGE,
                        "--kind has \"%.*s\"; there are on-demand, spot, reserved, reserved-1y, "
                        "reserved-3y, colocation and managed",
                        TEXT_ARGS(piece));
    }
    const char **names = ARENA_NEW(m->job.arena, const char *, 2 * offers->count + 8);
    size_t count = 0;
    for (size_t i = 0; i < offers->count; i++)
        names[count++] = offers->rows[i].offer.provider;
    rest = text_of(r->provider ? r->provider : "");
    while (r->provider && text_next(&rest, ',', &piece)) {
        bool known = false;
        for (size_t i = 0; i < count; i++)
            known = known || text_is(text_trim(piece), names[i]);
        if (known)
            continue;
        const char *near = text_nearest(text_trim(piece), names, count);
        return fail(ERR_USAGE,
                    "no offer is of provider \"%.*s\"%s%s; gpuhours show offers lists "
                    "them",
                    TEXT_ARGS(piece), near ? "; the nearest is " : "", near ? near : "");
    }
    bool found = !r->region;
    count = 0;
    for (size_t i = 0; i < offers->count; i++) {
        const struct offer *o = &offers->rows[i].offer;
        const char *area = offers_area(o->region);
        found = found || (area && strcmp(area, "us") && offers_in_region(o, r->region)) ||
                !strcmp(r->region, "us");
        names[count++] = o->region ? o->region : "US";
        names[count++] = area ? area : "us";
    }
    if (found)
        return OK;
    const char *near = text_nearest(text_of(r->region), names, count);
    return fail(ERR_USAGE,
                "no offer is in region \"%s\"%s%s; there are us-east, us-central, us-south, "
                "us-west and the providers' own names",
                r->region, near ? "; the nearest is " : "", near ? near : "");
}

static enum err check_request(struct maker *m)
{
    const struct hosting_request *r = m->request;
    const struct {
        const char *option;
        double value, least, most;
    } bounds[] = {
        { "runs-per-month", r->runs_per_month, 1e-6, 1e6 },
        { "gpu-hours-per-month", r->gpu_hours_per_month, 1e-6, 1e9 },
        { "discount", r->discount, 0, 0.999 },
        { "link", r->link, 1, 1e15 },
        { "amortisation-years", r->amortisation_years, 0.1, 100 },
        { "pue", r->pue, 1, 10 },
        { "preemptions-per-hour", r->preemptions_per_hour, 0, 1000 },
        { "managed-price", r->managed_price, 1e-9, 1e9 },
    };
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].value < bounds[i].least || bounds[i].value > bounds[i].most)
            return fail(ERR_USAGE, "--%s is %g, must be from %g to %g", bounds[i].option,
                        bounds[i].value, bounds[i].least, bounds[i].most);
    if (r->gpus > PLAN_MOST_GPUS)
        return fail(ERR_USAGE, "--gpus is %lld, must be from 1 to %d", (long long)r->gpus,
                    PLAN_MOST_GPUS);
    if (r->gpu)
        TRY(catalog_gpu(&m->gpu, &m->job.plan->data->catalog, r->gpu));
    if (isnan(offers_days(r->today, r->today)))
        return fail(ERR_USAGE, "--today is \"%s\", must be a date like 2026-11-15",
                    r->today ? r->today : "");
    return r->queue ? read_queue(&m->queue_hours, r->queue) : OK;
}

// Twice over the offers: which groups there are, then, once those are estimated, the rows.
static enum err walk(struct maker *m, const struct offers *offers)
{
    const struct catalog *catalog = &m->job.plan->data->catalog;
    const struct gpu **gpus = ARENA_NEW(m->job.arena, const struct gpu *, offers->count + 1);
    struct hosting_group *groups[MOST_COUNTS];
    struct hosting_ownership owned;
    for (size_t i = 0; i < offers->count; i++) {
        const struct gpu *gpu = gpu_named(catalog, offers->rows[i].offer.gpu);
        enum hosting_reason reason = refuse(m, &offers->rows[i], gpu);
        if (reason != HOSTING_REASONS) {
            m->out->left_out[reason]++;
            continue;
        }
        m->out->evaluated++;
        gpus[i] = gpu;
        list_groups(groups, m, &offers->rows[i], gpu);
    }
    for (size_t i = 0; i < catalog->gpu_count; i++)
        find_own(m, &catalog->gpus[i], &owned);
    TRY(hosting_group_estimate(&m->job));
    for (size_t i = 0; i < offers->count; i++)
        if (gpus[i])
            try_offer(m, &offers->rows[i], gpus[i]);
    add_fastest(m);
    for (size_t i = 0; i < catalog->gpu_count; i++)
        own_server(m, &catalog->gpus[i]);
    if (hosting_lists(m->request->provider, "managed"))
        add_managed(m);
    return OK;
}

enum err hosting_make(struct hosting *out, struct arena *arena, const struct hosting_input *input)
{
    *out = (struct hosting){ .input = input };
    struct maker m = {
        .job = { .arena = arena,
                 .plan = input->plan,
                 .request = input->request,
                 .processed_scale = input->processed_scale > 0 ? input->processed_scale : 1 },
        .out = out,
        .input = input,
        .request = input->request,
    };
    struct offers offers = *input->offers;
    TRY(check_request(&m));
    TRY(own_offer(&m, &offers));
    TRY(check_words(&m, &offers));
    hosting_draw(&m.job);
    out->runs_assumed = isnan(m.request->runs_per_month) && isnan(m.request->gpu_hours_per_month);
    m.runs_per_month = isnan(m.request->runs_per_month) ? 1 : m.request->runs_per_month;
    if (isnan(m.request->runs_per_month) && !isnan(m.request->gpu_hours_per_month))
        m.runs_per_month =
            m.request->gpu_hours_per_month / fmax(1e-6, input->plan->forecast.gpu_hours.mid);
    out->runs_per_month = m.runs_per_month;
    TRY(walk(&m, &offers));
    out->groups = m.job.group_count;
    hosting_rank(out, arena);
    hosting_advise(out, &m.job);
    return OK;
}
