// SPDX-License-Identifier: Apache-2.0
// Evaluates every offer for the job: which ones are compared, with how many instances.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <string.h>

// --- offers ------------------------------------------------------------------

// Whether provider or offer state all of --compliance.
static bool is_attested(const struct hosting_maker *m, const struct offers_row *offer)
{
    const struct billing *terms = offers_terms(m->input->billing, m->input->billing_count,
                                               offer->offer.provider, offer->offer.instance);
    struct text rest = text_of(m->request->compliance), word;
    while (text_next(&rest, ',', &word)) {
        word = text_trim(word);
        if (!offers_tagged(offer->compliance, word) &&
            !(terms && offers_tagged(terms->attested, word)))
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

// Why the offer is not evaluated, or HOSTING_REASONS if it is.
static enum hosting_reason refuse(const struct hosting_maker *m, const struct offers_row *row,
                                  const struct gpu *gpu)
{
    const struct hosting_request *r = m->request;
    int precision = m->job.plan->request->recipe.precision;
    bool priced = false;
    for (int kind = OFFERS_ON_DEMAND; kind <= OFFERS_RESERVED_3Y; kind++)
        priced = priced || (hosting_has_kind(m, (enum offers_kind)kind) &&
                            !isnan(offers_price(&row->offer, (enum offers_kind)kind)));
    if (!gpu || (m->gpu && gpu != m->gpu) ||
        (!m->gpu && strcmp(gpu->vendor, m->job.plan->chosen.gpu->vendor)))
        return HOSTING_OTHER_GPU;
    if (!hosting_lists(r->provider, row->offer.provider))
        return HOSTING_OTHER_PROVIDER;
    if (r->region && row->offer.price_kind != OFFER_OWN &&
        !offers_in_region(&row->offer, r->region))
        return HOSTING_OTHER_REGION;
    if (r->compliance && !is_attested(m, row))
        return HOSTING_NOT_ATTESTED;
    if (!priced)
        return HOSTING_NO_PRICE;
    if ((precision == RECIPE_BF16 && !gpu->supports_bf16) ||
        (precision == RECIPE_FP8 && !gpu->supports_fp8) ||
        (precision == RECIPE_FP4 && !gpu->supports_fp4))
        return HOSTING_NO_PRECISION;
    return HOSTING_REASONS;
}

static struct hosting_candidate consider(struct hosting_maker *m, const struct offers_row *offer,
                                         enum offers_kind kind, struct hosting_group *group)
{
    const struct hosting_request *r = m->request;
    struct hosting_row row = { 0 };
    hosting_bill(&row, m, offer, kind, group);
    struct hosting_candidate c = { .offer = offer,
                                   .kind = kind,
                                   .group = group,
                                   .usd = row.cost_usd.mid,
                                   .late_usd = row.cost_usd.high };
    // The slow end of the 80 % range. Deviations of the run and the queue are independent: they add
    // up as the root of their squares, and a tenth more where there is a queue, since rare long
    // waits are not normal.
    const struct range *queue = &row.queue_hours, *run = &row.run_hours;
    c.hours = queue->mid + row.move.in_hours + row.move.out_hours + run->mid;
    double slow = run->high - run->mid, queued = queue->high - queue->mid;
    c.late_hours = c.hours + (queued > 0 ? 1.1 : 1) * hypot(slow, queued);
    if (!isnan(r->hour_is_worth))
        c.worth_usd = c.hours * r->hour_is_worth;
    c.in_budget = !(c.usd > r->budget);
    c.keeps = c.hours > r->deadline / 3600 ? HOSTING_KEEPS_NONE
              : c.in_budget                ? HOSTING_KEEPS_BOTH
                                           : HOSTING_KEEPS_DEADLINE;
    return c;
}

static bool is_better(const struct hosting_candidate *a, const struct hosting_candidate *b)
{
    if (!b->group || a->keeps != b->keeps)
        return !b->group || a->keeps > b->keeps;
    return a->usd + a->worth_usd < b->usd + b->worth_usd;
}

// The same GPUs take the same time at every provider: of those the cheaper.
static bool is_faster(const struct hosting_candidate *a, const struct hosting_candidate *b)
{
    if (!b->group || fabs(a->hours - b->hours) > 1e-9 * b->hours)
        return !b->group || a->hours < b->hours;
    return a->usd < b->usd;
}

// Whether the row of a candidate could not be recommended.
static bool is_doubtful(struct hosting_maker *m, const struct hosting_candidate *c)
{
    struct hosting_row row = { 0 };
    hosting_bill(&row, m, c->offer, c->kind, c->group);
    row.run_hours.high = c->late_hours;
    hosting_doubt(&row, m);
    return row.doubt;
}

// Keeps the better candidate of each kind, for one number of instances.
static void compare(struct hosting_maker *m, struct hosting_candidate *best,
                    const struct offers_row *offer, struct hosting_group *group)
{
    for (int kind = OFFERS_ON_DEMAND; kind <= OFFERS_RESERVED_3Y; kind++) {
        if (!hosting_has_kind(m, (enum offers_kind)kind) ||
            isnan(offers_price(&offer->offer, (enum offers_kind)kind)))
            continue;
        struct hosting_candidate c = consider(m, offer, (enum offers_kind)kind, group);
        if (is_better(&c, &best[kind]))
            best[kind] = c;
        bool limited = !isnan(m->request->budget) || !isnan(m->request->deadline);
        bool in_time = !(c.late_hours > m->request->deadline / 3600);
        bool sure = in_time && !(c.late_usd > m->request->budget);
        bool faster = is_faster(&c, &m->fastest);
        bool sooner = in_time && is_better(&c, &m->surely_in_time);
        bool surer = sure && is_better(&c, &m->surest);
        if (!limited || !c.in_budget || !(faster || sooner || surer) || is_doubtful(m, &c))
            continue;
        if (faster)
            m->fastest = c;
        if (sooner)
            m->surely_in_time = c;
        if (surer)
            m->surest = c;
    }
}

enum { MOST_COUNTS = 4, MOST_GPUS = 64 };

// The groups of an offer: --gpus GPUs, else one, two, four and eight instances. Several instances
// need a network to train over that is known. Where --gpus needs several of at least four GPUs, the
// row is shown with an assumed network, but never recommended.
static size_t list_groups(struct hosting_group **out, struct hosting_maker *m,
                          const struct offers_row *offer, const struct gpu *gpu)
{
    int64_t size = offer->offer.gpus, wanted = m->request->gpus;
    bool networked;
    struct node node = hosting_node(&m->job.plan->data->catalog, gpu, offer, &networked);
    if (wanted > size && !networked && size < 4)
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
    bool fits = false, other_batch = false, has_host_memory = false;
    for (size_t i = 0; i < count; i++) {
        struct hosting_group *group = groups[i];
        fits = fits || group->fits;
        other_batch = other_batch || group->other_batch;
        if (!group->fits || group->result.memory.host_bytes > offer->offer.host_memory_bytes)
            continue;
        has_host_memory = true;
        compare(m, best, offer, group);
    }
    for (int kind = 0; kind < OFFERS_KINDS; kind++)
        if (best[kind].group)
            hosting_add_offer(m, offer, (enum offers_kind)kind, best[kind].group);
    if (!has_host_memory)
        m->out->left_out[!count        ? HOSTING_NO_NETWORK
                         : fits        ? HOSTING_NO_HOST_MEMORY
                         : other_batch ? HOSTING_OTHER_BATCH
                                       : HOSTING_NO_FIT]++;
}

// Adds a candidate that may not be the count of its offer that is shown.
static void add_candidate(struct hosting_maker *m, const struct hosting_candidate *c)
{
    for (size_t i = 0; c->group && i < m->out->count; i++)
        if (m->out->rows[i].offer == c->offer && m->out->rows[i].kind == c->kind &&
            m->out->rows[i].group == c->group)
            return;
    if (c->group)
        hosting_add_offer(m, c->offer, c->kind, c->group);
}

// --- the comparison ----------------------------------------------------------

// Goes over the offers twice: to collect the groups, and, once those are estimated, to make rows.
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
    add_candidate(m, &m->fastest);
    add_candidate(m, &m->surely_in_time);
    add_candidate(m, &m->surest);
    for (size_t i = 0; i < catalog->gpu_count; i++)
        hosting_add_server(m, &catalog->gpus[i]);
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
                 .planned = input->planned,
                 .processed_scale = input->processed_scale > 0 ? input->processed_scale : 1,
                 .lengths_factor =
                     lengths_are_assumed(&input->plan->rule) || input->plan->prompts[0].length > 0
                         ? input->plan->lengths_factor
                         : input->lengths_factor },
        .out = out,
        .input = input,
        .request = input->request,
    };
    struct offers offers = *input->offers;
    TRY(hosting_check(&m));
    TRY(hosting_own_offer(&m, &offers));
    TRY(hosting_check_words(&m, &offers));
    hosting_sample(&m.job);
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
