// SPDX-License-Identifier: Apache-2.0
// Advice: what would change the recommendation, and why no offer was found.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <string.h>

// --- advice ------------------------------------------------------------------

static void add(struct hosting *h, const char *text)
{
    if (h->advice_count < sizeof h->advice / sizeof *h->advice)
        h->advice[h->advice_count++] = text;
}

static double utilization(const struct hosting *h, const struct hosting_row *row)
{
    double sets = hosting_sets(h->input->request->pattern, h->runs_per_month, row->run_hours.mid);
    return h->runs_per_month * row->run_hours.mid / sets / HOSTING_HOURS_PER_MONTH;
}

const char *hosting_spell_runs(double runs_per_month, struct arena *arena)
{
    return runs_per_month < 100 ? text_format(arena, "%.3g", runs_per_month)
                                : text_commas(arena, llround(runs_per_month));
}

// "20 runs a month, one after another, keep".
static const char *spell_runs(const struct hosting *h, struct arena *arena)
{
    bool one = h->runs_per_month == 1;
    bool burst = h->input->request->pattern == HOSTING_BURST;
    return text_format(arena, "%s run%s a month%s%s keep%s",
                       hosting_spell_runs(h->runs_per_month, arena), one ? "" : "s",
                       h->runs_assumed ? " (assumed)" : "",
                       one     ? ""
                       : burst ? ", at once,"
                               : ", one after another,",
                       one ? "s" : "");
}

// The commitment that costs least per run.
static const struct hosting_row *best_commitment(const struct hosting *h)
{
    const struct hosting_row *best = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        bool reserved = r->kind == OFFERS_RESERVED_1Y || r->kind == OFFERS_RESERVED_3Y;
        if (reserved && r->rent && !r->doubt && r->in_time &&
            (!best || r->cost_usd.mid < best->cost_usd.mid))
            best = r;
    }
    return best;
}

// Compares the best commitment with the best offer that is paid by the hour, in dollars per run.
static void advise_commitment(struct hosting *h, struct arena *arena)
{
    const struct hosting_row *best = best_commitment(h);
    if (!best)
        return;
    const struct hosting_row *rent = best->rent;
    bool pays = best->cost_usd.mid < rent->cost_usd.mid;
    const char *from = isnan(best->break_even_runs)
                           ? "never pays off"
                           : text_format(arena, "pays off above %s runs a month",
                                         hosting_spell_runs(best->break_even_runs, arena));
    add(h, text_format(arena,
                       "%s: %s %lld × %s busy %.0f %% of the time, so %s %s (%s) costs %s a run, "
                       "and the best offer by the hour, %s %s (%s), %s; that commitment is %s in "
                       "total and %s",
                       pays ? "Reserve" : "Pay by the hour", spell_runs(h, arena),
                       (long long)best->gpus, best->group->gpu->name, 100 * utilization(h, best),
                       best->provider, best->instance, offers_kind_names[best->kind],
                       text_usd(arena, best->cost_usd.mid), rent->provider, rent->instance,
                       offers_kind_names[rent->kind], text_usd(arena, rent->cost_usd.mid),
                       text_usd(arena, best->commitment_usd), from));
}

static void advise_ownership(struct hosting *h, struct arena *arena)
{
    const struct hosting_row *own = NULL;
    for (size_t i = 0; i < h->count && !own; i++)
        if (h->rows[i].kind == OFFERS_COLOCATION && !isnan(h->rows[i].rent_usd_per_gpu_hour))
            own = &h->rows[i];
    if (!own)
        return;
    double rent = own->rent_usd_per_gpu_hour;
    double share = hosting_ownership_break_even(&own->ownership, rent);
    add(h, isnan(share)
               ? text_format(arena,
                             "Owning %s (%s, confidence %s) never pays off against renting at "
                             "$%.2f per GPU hour",
                             own->instance, text_usd(arena, own->ownership.server_usd.mid),
                             own->ownership.confidence, rent)
               : text_format(arena,
                             "Owning %s (%s, confidence %s) pays off above %.0f %% utilization "
                             "against renting at $%.2f per GPU hour; %s it busy %.0f %%",
                             own->instance, text_usd(arena, own->ownership.server_usd.mid),
                             own->ownership.confidence, 100 * share, rent, spell_runs(h, arena),
                             100 * utilization(h, own)));
}

static void advise_spot(struct hosting *h, struct arena *arena)
{
    size_t worse = 0, all = 0;
    const struct hosting_row *first = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        all += r->kind == OFFERS_SPOT && !isnan(r->on_demand_usd);
        if (r->kind != OFFERS_SPOT || !(r->expected_usd >= 1.01 * r->on_demand_usd))
            continue;
        worse++;
        first = first ? first : r;
    }
    if (worse)
        add(h, text_format(arena,
                           "For %zu of %zu spot offers, on demand is cheaper on average, e.g. %s "
                           "%s: %s instead of %s",
                           worse, all, first->provider, first->instance,
                           text_usd(arena, first->on_demand_usd),
                           text_usd(arena, first->expected_usd)));
    const struct hosting_row *row = h->recommended;
    if (row->kind == OFFERS_SPOT)
        add(h, text_format(arena,
                           "Spot: save a checkpoint every %s; expect %.2g preemptions; one run in "
                           "ten takes %s hours or longer",
                           text_seconds(arena, row->spot.interval_seconds), row->spot.preemptions,
                           text_hours(arena, row->run_hours.high)));
}

static void advise_data(struct hosting *h, struct arena *arena)
{
    const struct hosting_row *row = h->recommended;
    double moved = row->move.in_usd + row->move.out_usd;
    size_t dear = 0;
    for (size_t i = 0; i < h->count; i++)
        dear += h->rows[i].move.in_usd + h->rows[i].move.out_usd > h->rows[i].compute_usd.mid;
    if (moved > row->compute_usd.mid)
        add(h, text_format(arena,
                           "Moving the data costs more than the compute: %s against %s; run where "
                           "the data is, or move it once for several runs",
                           text_usd(arena, moved), text_usd(arena, row->compute_usd.mid)));
    else if (dear)
        add(h, text_format(arena, "Moving the data costs more than the compute for %zu of %zu rows",
                           dear, h->count));
}

static void advise_age(struct hosting *h, struct arena *arena)
{
    size_t stale = 0;
    double oldest = 0;
    for (size_t i = 0; i < h->count; i++) {
        stale += h->rows[i].stale;
        if (h->rows[i].stale)
            oldest = fmax(oldest, h->rows[i].age_days);
    }
    if (stale)
        add(h, text_format(arena,
                           "%zu of %zu prices are older than 180 days (up to %.0f), which widens "
                           "their ranges; gpuhours show offers --import FILE reads newer ones",
                           stale, h->count, oldest));
}

// The cheapest other row that is at least as reliable as the recommended one.
static const struct hosting_row *runner_up(const struct hosting *h)
{
    const struct hosting_row *first = h->recommended, *next = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        bool same = !strcmp(r->provider, first->provider) &&
                    !strcmp(r->instance, first->instance) && r->kind == first->kind;
        if (!same && hosting_trust(r) >= hosting_trust(first) &&
            (!next || r->rank_usd < next->rank_usd))
            next = r;
    }
    return next;
}

static void advise_price(struct hosting *h, struct arena *arena)
{
    const struct hosting_row *row = h->recommended, *next = runner_up(h);
    if (!next)
        return;
    double change = (next->rank_usd - row->rank_usd) / row->compute_usd.mid;
    const char *with = h->input->request->hour_is_worth > 0 ? ", waiting included" : "";
    add(h, change < 0.1
               ? text_format(arena,
                             "A price 10 %% higher would change the choice: %s %s (%s) costs %s, "
                             "%.1f %% more%s",
                             next->provider, next->instance, offers_kind_names[next->kind],
                             text_usd(arena, next->cost_usd.mid), 100 * change, with)
               : text_format(arena,
                             "A price 10 %% higher would not change the choice: the next, %s %s "
                             "(%s), costs %.0f %% more%s",
                             next->provider, next->instance, offers_kind_names[next->kind],
                             100 * change, with));
}

// Cost with `factor` times the processed tokens: only the training part of the run time scales.
static double cost_with(const struct hosting_row *row, double factor)
{
    if (!row->group)
        return row->cost_usd.mid;
    const struct overhead_times *t = &row->group->middle;
    double share = t->seconds[OVERHEAD_TRAINING] / t->wall_seconds;
    bool by_time = offers_is_rented(row->kind);
    return row->cost_usd.mid + (by_time ? row->compute_usd.mid * share * (factor - 1) : 0);
}

// At the median, or, if `safe`, at the upper end of the 80 % range.
static bool in_time_with(const struct hosting_row *row, double factor, double deadline_hours,
                         bool safe)
{
    if (!row->group)
        return row->in_time;
    const struct overhead_times *t = &row->group->middle;
    double share = t->seconds[OVERHEAD_TRAINING] / t->wall_seconds;
    double run = safe ? row->run_hours.high : row->run_hours.mid;
    double end = safe ? row->elapsed_hours.high : row->elapsed_hours.mid;
    return !(end + run * share * (factor - 1) > deadline_hours);
}

// Says what packing would save, where it saves anything.
static void advise_packing(struct hosting *h, const struct hosting_job *job)
{
    const struct hosting_row *row = h->recommended, *best = row;
    if (!row->group || !plan_may_pack(job->plan))
        return;
    const struct workload *now = &row->group->result.workload;
    struct workload_rule rule = job->plan->rule;
    struct workload packed;
    rule.batching = BATCHING_PACKED;
    workload_make(&packed, &rule, now->micro_batch, (double)row->group->result.layout.data,
                  now->global_batch);
    double factor = packed.processed_tokens / now->processed_tokens;
    double usd = cost_with(row, factor);
    if (!(usd < 0.99 * row->cost_usd.mid))
        return;
    double deadline = h->input->request->deadline / 3600, budget = h->input->request->budget;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        if (hosting_has_room(r) && !r->doubt &&
            in_time_with(r, factor, deadline, row->chance_in_time >= 0.9) &&
            !(cost_with(r, factor) > budget) && cost_with(r, factor) < cost_with(best, factor))
            best = r;
    }
    bool same = !strcmp(best->provider, row->provider) && !strcmp(best->instance, row->instance);
    add(h,
        text_format(job->arena,
                    "Packing would process %.0f %% of the tokens: %s instead of %s here; the "
                    "recommendation %s%s%s%s",
                    100 * factor, text_usd(job->arena, usd),
                    text_usd(job->arena, row->cost_usd.mid), same ? "stays the same" : "becomes ",
                    same ? "" : best->provider, same ? "" : " ", same ? "" : best->instance));
}

// Which providers of the offers state nothing about what was asked for: nothing is claimed of them.
static void advise_compliance(struct hosting *h, struct arena *arena)
{
    const struct hosting_input *in = h->input;
    struct out silent = { .arena = arena };
    const char *last = "";
    if (!in->request->compliance)
        return;
    for (size_t i = 0; i < in->offers->count; i++) {
        const struct offers_row *row = &in->offers->rows[i];
        const struct billing *terms =
            offers_terms(in->billing, in->billing_count, row->offer.provider, row->offer.instance);
        if (row->compliance || (terms && terms->attested) || !strcmp(last, row->offer.provider))
            continue;
        last = row->offer.provider;
        out_put(&silent, "%s%s", silent.size ? ", " : "", last);
    }
    add(h, text_format(arena,
                       "Providers state %s themselves, with source and date in --json: check which "
                       "services and regions it covers, and sign what it asks for%s%s",
                       in->request->compliance, silent.size ? "; these state nothing: " : "",
                       out_string(&silent)));
}

// What a pilot measured of a machine, beside its speed, is not known of another.
static void advise_pilot(struct hosting *h, const struct hosting_job *job)
{
    const struct search_result *chosen = &job->plan->chosen;
    const char *measured = job->planned ? hosting_measured_words(job->planned, job->arena) : "";
    if (*measured)
        add(h,
            text_format(job->arena,
                        "The pilot also measured %s: taken over for %lld × %s alone, and assumed "
                        "for other offers",
                        measured, (long long)chosen->gpus, chosen->gpu->name));
}

void hosting_advise(struct hosting *h, struct hosting_job *job)
{
    if (!h->recommended)
        return;
    advise_pilot(h, job);
    advise_compliance(h, job->arena);
    advise_data(h, job->arena);
    advise_spot(h, job->arena);
    advise_commitment(h, job->arena);
    advise_ownership(h, job->arena);
    advise_price(h, job->arena);
    advise_packing(h, job);
    advise_age(h, job->arena);
}

// --- why nothing was found ---------------------------------------------------

static const struct {
    const char *found, *way_out;
} reasons[] = {
    [HOSTING_OTHER_GPU] = { "have another GPU", "relax --gpu" },
    [HOSTING_OTHER_PROVIDER] = { "are from other providers", "relax --provider" },
    [HOSTING_OTHER_REGION] = { "are in other regions", "relax --region" },
    [HOSTING_NOT_ATTESTED] = { "do not state the attestation", "relax --compliance" },
    [HOSTING_NO_PRICE] = { "have no price of this kind", "relax --kind" },
    [HOSTING_NO_PRECISION] = { "do not support the precision", "give --precision fp16" },
    [HOSTING_NO_FIT] = { "have too little memory",
                         "give more --gpus, --method qlora or a smaller --context" },
    [HOSTING_OTHER_BATCH] = { "have more GPUs than the global batch has micro-batches",
                              "relax --gpu or give --global-batch" },
    [HOSTING_NO_NETWORK] = { "have fewer GPUs and no known network", "relax --gpus" },
    [HOSTING_NO_HOST_MEMORY] = { "have too little host memory", "relax --gpu or --gpus" },
};

// What is recommended with other limits, in seconds and dollars; NULL: nothing.
static const struct hosting_row *with_limits(const struct hosting *h, struct arena *arena,
                                             double deadline, double budget)
{
    struct hosting_request *request = ARENA_NEW(arena, struct hosting_request, 1);
    struct hosting_input *input = ARENA_NEW(arena, struct hosting_input, 1);
    struct hosting *again = ARENA_NEW(arena, struct hosting, 1);
    *request = *h->input->request;
    *input = *h->input;
    request->deadline = deadline;
    request->budget = budget;
    input->request = request;
    return hosting_make(again, arena, input) ? NULL : again->recommended;
}

// A limit is named only where the comparison with it recommends something. False: it does not.
static bool put_deadline(struct out *out, const struct hosting *h, double end)
{
    double hours = ceil(end * 10) / 10;
    const struct hosting_row *row =
        with_limits(h, out->arena, hours * 3600, h->input->request->budget);
    if (row)
        out_put(out, "; with --deadline %.10gh or longer %s %s does (%s)", hours, row->provider,
                row->instance, text_usd(out->arena, row->cost_usd.mid));
    return row;
}

static bool put_budget(struct out *out, const struct hosting *h, double cost)
{
    double usd = ceil(cost);
    const struct hosting_row *row = with_limits(h, out->arena, h->input->request->deadline, usd);
    if (row)
        out_put(out, "; with --budget %.0f or more %s %s does (%s h)", usd, row->provider,
                row->instance, text_hours(out->arena, row->elapsed_hours.mid));
    return row;
}

// Which limits the fastest and the cheapest row would keep: at their medians; or at P90, where with
// the median another number of instances is compared, which misses it.
static void put_ways_out(struct out *out, const struct hosting *h)
{
    const struct hosting_request *r = h->input->request;
    const struct hosting_row *fast = NULL, *cheap = NULL, *least = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *row = &h->rows[i];
        if (row->doubt)
            continue;
        if (row->group && row->in_budget &&
            (!fast || row->elapsed_hours.mid < fast->elapsed_hours.mid))
            fast = row;
        if (row->in_time && (!cheap || row->cost_usd.mid < cheap->cost_usd.mid))
            cheap = row;
        if (row->group && (!least || row->cost_usd.mid < least->cost_usd.mid))
            least = row;
    }
    if (fast && !isnan(r->deadline) && !put_deadline(out, h, fast->elapsed_hours.mid))
        put_deadline(out, h, fast->elapsed_hours.high);
    if (cheap && !isnan(r->budget) && !put_budget(out, h, cheap->cost_usd.mid))
        put_budget(out, h, cheap->cost_usd.high);
    if (!isnan(r->deadline) && !isnan(r->budget) && !fast && !cheap && least)
        out_put(out,
                ", and none meets even one of them; the cheapest, %s %s, takes %s and costs %s",
                least->provider, least->instance,
                text_seconds(out->arena, least->elapsed_hours.mid * 3600),
                text_usd(out->arena, least->cost_usd.mid));
}

const char *hosting_explain_none(const struct hosting *h, struct arena *arena)
{
    const struct hosting_request *r = h->input->request;
    const struct hosting_row *d = h->cheapest_doubtful;
    struct out out = { .arena = arena };
    if (h->count && d)
        return text_format(arena,
                           "no offer that meets the limits can be recommended; the cheapest, %s %s "
                           "(%s, %s), cannot because %s",
                           d->provider, d->instance, offers_kind_names[d->kind],
                           text_usd(arena, d->cost_usd.mid), d->doubt);
    if (h->count) {
        out_put(&out, "no offer meets the limits");
        if (!isnan(r->deadline) && isnan(r->server_lead) && h->rows[0].kind == OFFERS_COLOCATION)
            out_put(&out, "; how long a bought server takes to arrive is not known: --server-lead");
        put_ways_out(&out, h);
        return out_string(&out);
    }
    size_t total = h->evaluated;
    for (int i = 0; i <= HOSTING_NO_PRECISION; i++)
        total += h->left_out[i];
    out_put(&out, "none of %zu offers can run the job as requested", total);
    for (int i = 0; i < HOSTING_REASONS; i++)
        if (h->left_out[i])
            out_put(&out, "; %zu %s (%s)", h->left_out[i], reasons[i].found, reasons[i].way_out);
    return out_string(&out);
}
