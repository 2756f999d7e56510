// SPDX-License-Identifier: Apache-2.0
// The options of the comparison, their checks, and the offer that --price adds.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <string.h>

const char *const hosting_patterns[] = { "steady", "burst", NULL };
const char *const hosting_managed_billings[] = { "tokens", "max-length", NULL };

const struct field hosting_fields[] = {
    FIELD(hosting_request, gpu, TEXT, "GPU name, e.g. h100 or 4090", .value = "GPU",
          .fallback = "all"),
    FIELD(hosting_request, gpus, COUNT, "exact number of GPUs", .fallback = "any number"),
    FIELD(hosting_request, deadline, SECONDS, "longest time from now to the result, e.g. 48h",
          .fallback = ""),
    FIELD(hosting_request, budget, USD, "highest acceptable cost of a run", .fallback = ""),
    FIELD(hosting_request, provider, TEXT, "providers to consider, e.g. aws,lambda",
          .value = "LIST", .fallback = "all"),
    FIELD(hosting_request, region, TEXT, "us-east, us-west, or a provider's own name",
          .value = "REGION", .fallback = "all"),
    FIELD(hosting_request, kind, TEXT,
          "on-demand, spot, flex-start, reserved, colocation, own, managed", .value = "LIST",
          .fallback = "all"),
    FIELD(hosting_request, compliance, TEXT,
          "what the provider must state: hipaa, soc2, fedramp, iso27001", .value = "LIST",
          .fallback = ""),
    FIELD(hosting_request, price, TEXT, "your price for the plan's GPU, e.g. 2.49/gpu-h or 20/h",
          .value = "PRICE", .fallback = ""),
    FIELD(hosting_request, discount, SHARE, "your discount on on-demand list prices",
          .fallback = "0"),
    FIELD(hosting_request, queue, TEXT, "time until the job starts: typical, or low,typical,high",
          .value = "DURATIONS", .fallback = "that of the offer, else 0"),
    FIELD_OF(hosting_request, pattern, hosting_patterns, "when the runs of a month take place",
             .value = "PATTERN"),
    FIELD(hosting_request, runs_per_month, NUMBER, "runs of this job per month", .fallback = "1"),
    FIELD(hosting_request, gpu_hours_per_month, NUMBER,
          "GPU hours per month of all your jobs on such GPUs", .fallback = "those of this job"),
    FIELD(hosting_request, data_at, TEXT, "provider or provider:region that holds the data",
          .value = "PLACE", .fallback = "outside all providers"),
    FIELD(hosting_request, data_bytes, BYTES, "size of the data set",
          .fallback = "4 bytes per token"),
    FIELD(hosting_request, link, RATE, "throughput of moving the data", .fallback = "1 Gb/s"),
    FIELD(hosting_request, managed_price, USD, "price of a tuning service per million tokens",
          .fallback = ""),
    FIELD_OF(hosting_request, managed_billing, hosting_managed_billings, "what that service counts",
             .value = "UNIT"),
    FIELD(hosting_request, preemptions_per_hour, NUMBER, "preemptions of a spot instance per hour",
          .fallback = "operations catalog"),
    FIELD(hosting_request, spot_wait, SECONDS, "wait for a new spot instance",
          .fallback = "operations catalog"),
    FIELD(hosting_request, server_price, USD, "price of a server of 8 GPUs",
          .fallback = "colocation catalog"),
    FIELD(hosting_request, amortisation_years, NUMBER, "years in which a server is written off",
          .fallback = "colocation catalog"),
    FIELD(hosting_request, resale_share, SHARE, "share of its price that an old server sells for",
          .fallback = "0"),
    FIELD(hosting_request, electricity, USD, "price of electricity per kWh",
          .fallback = "colocation catalog"),
    FIELD(hosting_request, pue, NUMBER, "power of the building over that of the server",
          .fallback = "colocation catalog"),
    FIELD(hosting_request, rack_price, USD, "colocation price per kW and month",
          .fallback = "colocation catalog"),
    FIELD(hosting_request, network_per_month, USD, "network of an owned server, per month",
          .fallback = "usual cross-connects"),
    FIELD(hosting_request, staff_per_month, USD, "staff for owned servers, per month",
          .fallback = "0"),
    FIELD(hosting_request, server_lead, SECONDS, "time until a bought server runs; 0: you have it",
          .fallback = "not known: no deadline is met"),
    FIELD(hosting_request, hour_is_worth, USD, "value of having the result an hour earlier",
          .fallback = "0"),
    FIELD(hosting_request, rows, COUNT, "rows of the table"),
    FIELD(hosting_request, today, DATE, "date from which the age of prices is counted",
          .fallback = "today"),
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
        if (text_alike(piece, text_of(word)))
            return true;
    return false;
}

bool hosting_has_kind(const struct hosting_maker *m, enum offers_kind kind)
{
    const char *list = m->request->kind;
    bool reserved = kind == OFFERS_RESERVED_1Y || kind == OFFERS_RESERVED_3Y;
    return hosting_lists(list, offers_kind_names[kind]) ||
           (reserved && hosting_lists(list, "reserved"));
}

static enum err read_price(double *usd, bool *per_gpu, const char *text)
{
    if (text_read_price(usd, per_gpu, text_of(text)) || !(*usd > 0))
        return fail(
            ERR_USAGE,
            "--price is \"%s\", must be dollars per GPU hour (2.49/gpu-h) or per hour of an "
            "instance (20/h), above 0",
            text);
    return OK;
}

// The user's own price as one more offer: the plan's GPU in its usual node.
enum err hosting_own_offer(struct hosting_maker *m, struct offers *offers)
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
    struct catalog catalog = { .offers = &offer, .offer_count = 1 };
    struct offers own;
    offers_of_catalog(&own, m->job.arena, &catalog);
    own.rows[0].granularity_seconds = 1;
    own.rows[0].minimum_seconds = 0;
    if (node) // the usual node, with its network
        own.rows[0].network_bytes_per_s_per_gpu = node->network_bytes_per_s_per_gpu;
    offers_override(offers, m->job.arena, &own);
    return OK;
}

// "10min,1h,6h" is P10, median and P90; a single value is certain.
static enum err read_queue(struct range *out, const char *text)
{
    double seconds[3];
    size_t count = 0;
    struct text rest = text_of(text), piece;
    while (text_next(&rest, ',', &piece)) {
        if (count == 3 || text_read_seconds(&seconds[count], text_trim(piece)) ||
            (count && seconds[count] < seconds[count - 1]))
            return fail(ERR_USAGE,
                        "--queue is \"%s\", must be one time, or three in rising order: "
                        "10min,1h,6h",
                        text);
        count++;
    }
    if (count != 1 && count != 3)
        return fail(ERR_USAGE,
                    "--queue is \"%s\", must be one time, or three in rising order: "
                    "10min,1h,6h",
                    text);
    *out = (struct range){ seconds[0] / 3600, seconds[count == 3 ? 1 : 0] / 3600,
                           seconds[count - 1] / 3600 };
    return OK;
}

static enum err check_kinds(const struct hosting_maker *m)
{
    struct text rest = text_of(m->request->kind ? m->request->kind : ""), piece;
    while (rest.size && text_next(&rest, ',', &piece)) {
        bool known = text_alike(piece, TEXT("reserved"));
        for (int i = 0; i < OFFERS_KINDS; i++)
            known = known || text_alike(piece, text_of(offers_kind_names[i]));
        if (!known)
            return fail(ERR_USAGE,
                        "--kind is \"%.*s\", must be on-demand, spot, flex-start, own, reserved, "
                        "reserved-1y, reserved-3y, colocation or managed",
                        TEXT_ARGS(piece));
    }
    return OK;
}

// Whether offers have this provider, as hosting_lists() compares it.
static bool has_provider(const struct hosting_maker *m, const struct offers *offers,
                         struct text name)
{
    for (size_t i = 0; i < offers->count; i++)
        if (text_alike(name, text_of(offers->rows[i].offer.provider)))
            return true;
    for (size_t i = 0; i < m->input->managed_count; i++)
        if (text_alike(name, text_of(m->input->managed[i].provider)))
            return true;
    return text_alike(name, TEXT("own")) || text_alike(name, TEXT("managed"));
}

static enum err check_provider(const struct hosting_maker *m, const struct offers *offers,
                               struct text name, const char *option)
{
    const char **names = ARENA_NEW(m->job.arena, const char *, offers->count + 1);
    for (size_t i = 0; i < offers->count; i++) {
        names[i] = offers->rows[i].offer.provider;
        if (text_is(name, names[i]))
            return OK;
    }
    if (text_is(name, "own") || text_is(name, "managed"))
        return OK;
    for (size_t i = 0; i < m->input->managed_count; i++)
        if (text_is(name, m->input->managed[i].provider))
            return OK;
    const char *near = text_nearest(name, names, offers->count);
    return fail(
        ERR_USAGE, "--%s: no offer has provider \"%.*s\"%s%s%s; gpuhours show offers lists them",
        option, TEXT_ARGS(name), near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

// The region of --data-at PROVIDER:REGION must be one that the provider has offers in.
static enum err check_place(const struct hosting_maker *m, const struct offers *offers,
                            struct text provider, struct text region)
{
    const char **names = ARENA_NEW(m->job.arena, const char *, offers->count + 1);
    size_t count = 0;
    for (size_t i = 0; i < offers->count; i++) {
        const struct offer *o = &offers->rows[i].offer;
        if (!o->region || !text_is(provider, o->provider))
            continue;
        if (text_is(region, o->region))
            return OK;
        names[count++] = o->region;
    }
    const char *near = text_nearest(region, names, count);
    return fail(ERR_USAGE, "--data-at: no offer of %.*s is in region \"%.*s\"%s%s%s",
                TEXT_ARGS(provider), TEXT_ARGS(region), near ? " (did you mean " : "",
                near ? near : "", near ? "?)" : "; leave the region out");
}

static enum err check_region(const struct hosting_maker *m, const struct offers *offers)
{
    const char *region = m->request->region;
    const char **names = ARENA_NEW(m->job.arena, const char *, 2 * offers->count + 1);
    size_t count = 0;
    bool found = !region || !strcmp(region, "us");
    for (size_t i = 0; !found && i < offers->count; i++) {
        const struct offer *o = &offers->rows[i].offer;
        const char *area = offers_area(o->region);
        found = area && strcmp(area, "us") && offers_in_region(o, region);
        names[count++] = o->region ? o->region : "US";
        names[count++] = area ? area : "us";
    }
    if (found)
        return OK;
    const char *near = text_nearest(text_of(region), names, count);
    return fail(ERR_USAGE,
                "--region: no offer is in region \"%s\"%s%s%s; use us-east, us-central, us-south, "
                "us-west or a provider's own name",
                region, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

// Every word of --compliance must be stated by some provider or offer: a misspelt one finds
// nothing.
static enum err check_compliance(const struct hosting_maker *m, const struct offers *offers)
{
    static const char *const usual[] = { "hipaa", "soc2", "fedramp", "iso27001" };
    enum { USUAL = sizeof usual / sizeof *usual };
    struct text rest = text_of(m->request->compliance ? m->request->compliance : ""), word;
    while (rest.size && text_next(&rest, ',', &word)) {
        word = text_trim(word);
        bool found = false;
        for (size_t i = 0; !found && i < USUAL; i++)
            found = text_is(word, usual[i]);
        for (size_t i = 0; !found && i < offers->count; i++)
            found = offers_tagged(offers->rows[i].compliance, word);
        const char *near = found ? NULL : text_nearest(word, usual, USUAL);
        if (!found)
            return fail(ERR_USAGE,
                        "--compliance: no provider states \"%.*s\"%s%s%s; there are hipaa, soc2, "
                        "fedramp, iso27001 and the tags of --offers",
                        TEXT_ARGS(word), near ? " (did you mean " : "", near ? near : "",
                        near ? "?)" : "");
    }
    return OK;
}

enum err hosting_check_words(const struct hosting_maker *m, const struct offers *offers)
{
    const struct hosting_request *r = m->request;
    TRY(check_kinds(m));
    struct text rest = text_of(r->provider ? r->provider : ""), piece;
    while (rest.size && text_next(&rest, ',', &piece))
        if (!has_provider(m, offers, piece))
            TRY(check_provider(m, offers, text_trim(piece), "provider"));
    rest = text_of(r->data_at ? r->data_at : "");
    if (rest.size && text_next(&rest, ':', &piece)) {
        TRY(check_provider(m, offers, piece, "data-at"));
        if (rest.size)
            TRY(check_place(m, offers, piece, rest));
    }
    TRY(check_compliance(m, offers));
    return check_region(m, offers);
}

enum err hosting_check(struct hosting_maker *m)
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
