#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <string.h>

// --- offers ------------------------------------------------------------------

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
static enum hosting_reason refuse(const struct hosting_maker *m, const struct offers_row *row,
                                  const struct gpu *gpu)
{
    const struct hosting_request *r = m->request;
    int precision = m->job.plan->request->recipe.precision;
    bool priced = false;
    for (int kind = OFFERS_ON_DEMAND; kind <= OFFERS_RESERVED_3Y; kind++)
        priced = priced || (hosting_wants(m, (enum offers_kind)kind) &&
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

static struct hosting_candidate consider(struct hosting_maker *m, const struct offers_row *offer,
                                         enum offers_kind kind, struct hosting_group *group)
{
    const struct hosting_request *r = m->request;
    // In time even where the stack is slow: the number of instances is to be safe.
    double slow = exp(STATS_P90 * m->job.plan->efficiency.log_spread);
    double price = offers_price(&offer->offer, kind) * (double)group->instances;
    struct hosting_candidate c = { offer, kind, group, group->middle.wall_seconds / 3600,
                                   0,     true, true };
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

static bool is_better(const struct hosting_candidate *a, const struct hosting_candidate *b)
{
    bool a_meets = a->in_time && a->in_budget, b_meets = b->in_time && b->in_budget;
    if (!b->group || a_meets != b_meets)
        return !b->group || a_meets;
    return a->in_time != b->in_time ? a->in_time : a->usd < b->usd;
}

// Takes note of one number of instances, for every kind that is wanted.
static void compare(struct hosting_maker *m, struct hosting_candidate *best,
                    const struct offers_row *offer, struct hosting_group *group)
{
    for (int kind = OFFERS_ON_DEMAND; kind <= OFFERS_RESERVED_3Y; kind++) {
        if (!hosting_wants(m, (enum offers_kind)kind) ||
            isnan(offers_price(&offer->offer, (enum offers_kind)kind)))
            continue;
        struct hosting_candidate c = consider(m, offer, (enum offers_kind)kind, group);
        if (is_better(&c, &best[kind]))
            best[kind] = c;
        if (c.in_budget && (!m->fastest.group || c.hours < m->fastest.hours))
            m->fastest = c;
    }
}

enum { MOST_COUNTS = 4, MOST_GPUS = 64 };

// The groups of an offer: so many GPUs as are asked for, else one, two, four and eight instances.
// Several only where there is a network to train over: of instances that are most of a node, or
// whose network is known.
static size_t list_groups(struct hosting_group **out, struct hosting_maker *m,
                          const struct offers_row *offer, const struct gpu *gpu)
{
    int64_t size = offer->offer.gpus, wanted = m->request->gpus;
    bool networked;
    struct node node = hosting_node(&m->job.plan->data->catalog, gpu, offer, &networked);
    networked = networked || size >= 4;
    if (wanted > size && !networked)
        return 0;
    if (wanted) {
        out[0] = hosting_group_find(&m->job, gpu, wanted, hosting_instances(wanted, size), &node);
        return 1;
    }
    size_t count = 0;
    for (int64_t n = 1; count < MOST_COUNTS; n *= 2) {
        if (n > 1 && (!networked || n * size > MOST_GPUS))
            break;
        out[count++] = hosting_group_find(&m->job, gpu, n * size, n, &node);
    }
    return count;
}

static void try_offer(struct hosting_maker *m, const struct offers_row *offer,
                      const struct gpu *gpu)
{
    struct hosting_group *groups[MOST_COUNTS];
    struct hosting_candidate best[OFFERS_KINDS] = { 0 };
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
            hosting_add_offer(m, offer, (enum offers_kind)kind, best[kind].group);
    if (!held)
        m->out->left_out[!count ? HOSTING_NO_NETWORK
                         : fits ? HOSTING_NO_HOST_MEMORY
                                : HOSTING_NO_FIT]++;
}

// The fastest within the budget may be a number of instances that is not its offer's cheapest.
static void add_fastest(struct hosting_maker *m)
{
    const struct hosting_candidate *f = &m->fastest;
    for (size_t i = 0; f->group && i < m->out->count; i++)
        if (m->out->rows[i].offer == f->offer && m->out->rows[i].kind == f->kind &&
            m->out->rows[i].group == f->group)
            return;
    if (f->group)
        hosting_add_offer(m, f->offer, f->kind, f->group);
}

// --- making ------------------------------------------------------------------

// Twice over the offers: which groups there are, then, once those are estimated, the rows.
static enum err walk(struct hosting_maker *m, const struct offers *offers)
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
        hosting_find_server(m, &catalog->gpus[i], &owned);
    TRY(hosting_group_estimate(&m->job));
    for (size_t i = 0; i < offers->count; i++)
        if (gpus[i])
            try_offer(m, &offers->rows[i], gpus[i]);
    add_fastest(m);
    for (size_t i = 0; i < catalog->gpu_count; i++)
        hosting_add_server(m, &catalog->gpus[i]);
    if (hosting_lists(m->request->provider, "managed"))
        hosting_add_managed(m);
    return OK;
}

enum err hosting_make(struct hosting *out, struct arena *arena, const struct hosting_input *input)
{
    *out = (struct hosting){ .input = input };
    struct hosting_maker m = {
        .job = { .arena = arena,
                 .plan = input->plan,
                 .request = input->request,
                 .processed_scale = input->processed_scale > 0 ? input->processed_scale : 1,
                 .processed_factor = input->processed_factor,
                 .elsewhere_log_spread = input->elsewhere_log_spread },
        .out = out,
        .input = input,
        .request = input->request,
    };
    struct offers offers = *input->offers;
    TRY(hosting_check(&m));
    TRY(hosting_own_offer(&m, &offers));
    TRY(hosting_check_words(&m, &offers));
    hosting_draw(&m.job);
    out->runs_assumed = isnan(m.request->runs_per_month) && isnan(m.request->gpu_hours_per_month);
    m.runs_per_month = isnan(m.request->runs_per_month) ? 1 : m.request->runs_per_month;
    if (isnan(m.request->runs_per_month) && !isnan(m.request->gpu_hours_per_month))
        m.runs_per_month =
            m.request->gpu_hours_per_month / fmax(1e-6, input->plan->forecast.gpu_hours.mid);
    out->runs_per_month = m.runs_per_month;
    TRY(walk(&m, &offers));
    out->groups = m.job.group_count;
    hosting_assume(out, &m.job);
    hosting_rank(out, arena);
    hosting_advise(out, &m.job);
    return OK;
}
