// Which of the rows to take, and what would change that.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// --- order -------------------------------------------------------------------

static bool is_before(const struct hosting_row *a, const struct hosting_row *b)
{
    bool a_meets = a->in_time && a->in_budget, b_meets = b->in_time && b->in_budget;
    return a_meets != b_meets ? a_meets : a->cost_usd.mid < b->cost_usd.mid;
}

static int by_rank(const void *a, const void *b)
{
    const struct hosting_row *x = *(const struct hosting_row *const *)a,
                             *y = *(const struct hosting_row *const *)b;
    return is_before(x, y) ? -1 : is_before(y, x) ? 1 : (x > y) - (x < y);
}

static bool meets(const struct hosting_row *row)
{
    return row->in_time && row->in_budget;
}

static bool is_stable(const struct hosting_row *row)
{
    return !row->group || row->group->result.stable;
}

static double cheapest_rent(const struct hosting *h, const struct gpu *gpu)
{
    double usd = NAN;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        if (r->kind == OFFERS_ON_DEMAND && !r->stale && r->group->gpu == gpu)
            usd = fmin(isnan(usd) ? INFINITY : usd, r->usd_per_hour / (double)r->instance_gpus);
    }
    return usd;
}

static bool is_pareto(const struct hosting *h, const struct hosting_row *row)
{
    double hours = row->elapsed_hours.mid, usd = row->cost_usd.mid;
    for (size_t i = 0; i < h->count; i++) {
        double other_hours = h->rows[i].elapsed_hours.mid, other_usd = h->rows[i].cost_usd.mid;
        if (other_hours <= hours && other_usd <= usd && (other_hours < hours || other_usd < usd))
            return false;
    }
    return row->group != NULL;
}

// --- picks -------------------------------------------------------------------

// How far a row may be recommended: in time nine times in ten, of a fresh price, stable.
static int trust(const struct hosting_row *row)
{
    bool safe = isnan(row->chance_in_time) || row->chance_in_time >= 0.9;
    return meets(row) ? 1 + is_stable(row) * 4 + safe * 2 + !row->stale : 0;
}

static void pick(struct hosting *h)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *row = &h->rows[i];
        if (row->in_time &&
            (!h->cheapest_in_time || row->cost_usd.mid < h->cheapest_in_time->cost_usd.mid))
            h->cheapest_in_time = row;
        if (row->group && row->in_budget &&
            (!h->fastest_in_budget ||
             row->elapsed_hours.mid < h->fastest_in_budget->elapsed_hours.mid))
            h->fastest_in_budget = row;
        if (row->group && meets(row) && is_stable(row) &&
            (!h->smallest || row->gpus < h->smallest->gpus ||
             (row->gpus == h->smallest->gpus && row->cost_usd.mid < h->smallest->cost_usd.mid)))
            h->smallest = row;
        if (trust(row) > (h->recommended ? trust(h->recommended) : 0))
            h->recommended = row;
    }
}

static const char *reason(const struct hosting *h, struct arena *arena)
{
    const struct hosting_request *r = h->input->request;
    const struct hosting_row *row = h->recommended;
    struct out out = { .arena = arena };
    out_put(&out, "the cheapest%s", row->stale ? "" : " with a price of the last half year");
    if (!isnan(r->deadline))
        out_put(&out, " that ends within %g h %s", r->deadline / 3600,
                row->chance_in_time >= 0.9 ? "nine times in ten" : "more often than not");
    if (!isnan(r->budget))
        out_put(&out, "%s within $%.0f", isnan(r->deadline) ? "" : " and", r->budget);
    if (h->cheapest_in_time && h->cheapest_in_time != row &&
        h->cheapest_in_time->cost_usd.mid < 0.98 * row->cost_usd.mid) {
        const struct hosting_row *c = h->cheapest_in_time;
        out_put(&out, "; %s %s would be %s, but %s", c->provider, c->instance,
                text_usd(arena, c->cost_usd.mid),
                c->stale        ? text_format(arena, "its price is %.0f days old", c->age_days)
                : !is_stable(c) ? "its memory is too tight to rely on"
                : !c->in_budget ? "it is over the budget"
                                : "it may miss the deadline");
    }
    return out_string(&out);
}

void hosting_rank(struct hosting *h, struct arena *arena)
{
    const struct hosting_row **order = ARENA_NEW(arena, const struct hosting_row *, h->count + 1);
    struct hosting_row *rows = ARENA_NEW(arena, struct hosting_row, h->count + 1);
    for (size_t i = 0; i < h->count; i++)
        order[i] = &h->rows[i];
    qsort(order, h->count, sizeof *order, by_rank);
    for (size_t i = 0; i < h->count; i++)
        rows[i] = *order[i];
    h->rows = rows;
    for (size_t i = 0; i < h->count; i++) {
        rows[i].pareto = is_pareto(h, &rows[i]);
        if (rows[i].kind == OFFERS_COLOCATION)
            rows[i].rent_usd_per_gpu_hour = cheapest_rent(h, rows[i].ownership.gpu);
    }
    pick(h);
    if (h->recommended)
        h->reason = reason(h, arena);
}

const struct hosting_row *hosting_find(const struct hosting *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *row = &h->rows[i];
        size_t size = strlen(row->provider);
        bool whole = !strncmp(name, row->provider, size) && name[size] == '/' &&
                     !strncmp(name + size + 1, row->instance, strlen(row->instance));
        const char *rest = whole ? name + size + 1 + strlen(row->instance) : "";
        if (!strcmp(name, row->instance) ||
            (whole && (!*rest || !strcmp(rest + 1, offers_kind_names[row->kind]))))
            return row;
    }
    return NULL;
}

// --- advice ------------------------------------------------------------------

static void say(struct hosting *h, const char *text)
{
    if (h->advice_count < sizeof h->advice / sizeof *h->advice)
        h->advice[h->advice_count++] = text;
}

static double use_of(const struct hosting *h, const struct hosting_row *row)
{
    double sets = hosting_sets(h->input->request->pattern, h->runs_per_month, row->run_hours.mid);
    return h->runs_per_month * row->run_hours.mid / sets / HOSTING_HOURS_PER_MONTH;
}

// "20 runs a month one after another keep".
static const char *runs_spelled(const struct hosting *h, struct arena *arena)
{
    bool one = h->runs_per_month == 1;
    bool burst = h->input->request->pattern == HOSTING_BURST;
    return text_format(arena, "%.3g run%s a month%s%s keep%s", h->runs_per_month, one ? "" : "s",
                       h->runs_assumed ? " (assumed)" : "",
                       one     ? ""
                       : burst ? " at once"
                               : " one after another",
                       one ? "s" : "");
}

// The commitment that pays soonest, of the recommended GPU where there is one.
static const struct hosting_row *best_commitment(const struct hosting *h)
{
    const struct gpu *gpu = h->recommended->group ? h->recommended->group->gpu : NULL;
    const struct hosting_row *best = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        bool reserved = r->kind == OFFERS_RESERVED_1Y || r->kind == OFFERS_RESERVED_3Y;
        if (!reserved || !(r->break_even > 0))
            continue;
        bool same = r->group->gpu == gpu, best_same = best && best->group->gpu == gpu;
        if (!best || (same && !best_same) ||
            (same == best_same && r->break_even < best->break_even))
            best = r;
    }
    return best;
}

// Elastic or reserved: the share of a month in use against where a commitment begins to pay.
static void advise_commitment(struct hosting *h, struct arena *arena)
{
    const struct hosting_row *best = best_commitment(h);
    if (!best)
        return;
    double used = use_of(h, best), hours = best->break_even * HOSTING_HOURS_PER_MONTH;
    bool pays = used > best->break_even;
    say(h, text_format(arena,
                       "%s: %s %lld × %s busy %.2g %% of the time; a commitment (%s %s, %s) "
                       "pays above %.0f %%, %.0f hours a month, and binds %s",
                       pays ? "Reserve" : "Stay elastic", runs_spelled(h, arena),
                       (long long)best->gpus, best->group->gpu->name, 100 * used, best->provider,
                       best->instance, offers_kind_names[best->kind], 100 * best->break_even, hours,
                       text_usd(arena, best->commitment_usd)));
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
    say(h, isnan(share)
               ? text_format(arena,
                             "Owning %s (%s, confidence %s) never pays against renting at "
                             "$%.2f per GPU hour",
                             own->instance, text_usd(arena, own->ownership.server_usd.mid),
                             own->ownership.confidence, rent)
               : text_format(arena,
                             "Owning %s (%s, confidence %s) pays above %.0f %% use against renting "
                             "at $%.2f per GPU hour; %s it busy %.2g %%",
                             own->instance, text_usd(arena, own->ownership.server_usd.mid),
                             own->ownership.confidence, 100 * share, rent, runs_spelled(h, arena),
                             100 * use_of(h, own)));
}

static void advise_spot(struct hosting *h, struct arena *arena)
{
    size_t worse = 0, all = 0;
    const struct hosting_row *first = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        all += r->kind == OFFERS_SPOT && !isnan(r->on_demand_usd);
        if (r->kind != OFFERS_SPOT || !(r->expected_usd >= r->on_demand_usd))
            continue;
        worse++;
        first = first ? first : r;
    }
    if (worse)
        say(h, text_format(arena,
                           "On demand is cheaper in expectation than spot for %zu of %zu spot "
                           "offers: %s %s %s instead of %s",
                           worse, all, first->provider, first->instance,
                           text_usd(arena, first->on_demand_usd),
                           text_usd(arena, first->expected_usd)));
    const struct hosting_row *row = h->recommended;
    if (row->kind == OFFERS_SPOT)
        say(h, text_format(arena,
                           "Spot: save every %s; %.2g preemptions are expected, and one run in "
                           "ten takes %s hours or more",
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
        say(h, text_format(arena,
                           "The data move costs more than the compute: %s against %s; run where "
                           "the data is, or move it once for several runs",
                           text_usd(arena, moved), text_usd(arena, row->compute_usd.mid)));
    else if (dear)
        say(h, text_format(arena, "For %zu of %zu rows the data move costs more than the compute",
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
        say(h, text_format(arena,
                           "%zu of %zu prices are older than 180 days (up to %.0f); their ranges "
                           "are wider. gpuhours show offers --import brings newer ones",
                           stale, h->count, oldest));
}

// The first row that is not the recommended one with the same reliability.
static const struct hosting_row *runner_up(const struct hosting *h)
{
    const struct hosting_row *first = h->recommended, *next = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        bool same = !strcmp(r->provider, first->provider) &&
                    !strcmp(r->instance, first->instance) && r->kind == first->kind;
        if (!same && trust(r) >= trust(first) && (!next || r->cost_usd.mid < next->cost_usd.mid))
            next = r;
    }
    return next;
}

static void advise_price(struct hosting *h, struct arena *arena)
{
    const struct hosting_row *row = h->recommended, *next = runner_up(h);
    if (!next)
        return;
    double dearer = row->cost_usd.mid + 0.1 * row->compute_usd.mid;
    double change = (next->cost_usd.mid - row->cost_usd.mid) / row->compute_usd.mid;
    say(h, next->cost_usd.mid < dearer
               ? text_format(arena,
                             "A price 10 %% higher would change the choice: %s %s (%s) costs %s, "
                             "%.1f %% more",
                             next->provider, next->instance, offers_kind_names[next->kind],
                             text_usd(arena, next->cost_usd.mid), 100 * change)
               : text_format(arena,
                             "A price 10 %% higher would not change the choice: the next, %s %s "
                             "(%s), costs %.0f %% more",
                             next->provider, next->instance, offers_kind_names[next->kind],
                             100 * change));
}

// Cost with another number of processed tokens: only the training's share of the time follows.
static double cost_with(const struct hosting_row *row, double factor)
{
    if (!row->group)
        return row->cost_usd.mid;
    const struct overhead_times *t = &row->group->middle;
    double share = t->seconds[OVERHEAD_TRAINING] / t->wall_seconds;
    bool by_time = row->kind == OFFERS_ON_DEMAND || row->kind == OFFERS_SPOT;
    return row->cost_usd.mid + (by_time ? row->compute_usd.mid * share * (factor - 1) : 0);
}

// At its middle, or, where it is to be safe, at the late end of its range.
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

static void advise_packing(struct hosting *h, const struct hosting_job *job)
{
    const struct hosting_row *row = h->recommended, *other = NULL;
    if (!row->group)
        return;
    const struct workload *now = &row->group->result.workload;
    struct workload_rule rule = job->plan->rule;
    bool packed = rule.batching == BATCHING_PACKED;
    struct workload then;
    rule.batching = packed ? BATCHING_LONGEST : BATCHING_PACKED;
    workload_make(&then, &rule, now->micro_batch, (double)row->group->result.layout.data,
                  now->global_batch);
    double factor = then.processed_tokens / now->processed_tokens;
    double deadline = h->input->request->deadline / 3600, budget = h->input->request->budget;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        double usd = cost_with(r, factor);
        if (is_stable(r) && !r->stale >= !row->stale &&
            in_time_with(r, factor, deadline, row->chance_in_time >= 0.9) && !(usd > budget) &&
            (!other || usd < cost_with(other, factor)))
            other = r;
    }
    const char *what = packed ? "Without packing" : "With packing";
    if (!other) {
        say(h, text_format(job->arena,
                           "%s %.2g times the tokens are processed, and no offer keeps the limits",
                           what, factor));
        return;
    }
    bool same = !strcmp(other->provider, row->provider) && !strcmp(other->instance, row->instance);
    say(h, text_format(job->arena,
                       "%s %.2g times the tokens are processed: %s instead of %s here, and the "
                       "choice %s%s%s%s",
                       what, factor, text_usd(job->arena, cost_with(row, factor)),
                       text_usd(job->arena, row->cost_usd.mid), same ? "stays" : "becomes ",
                       same ? "" : other->provider, same ? "" : " ", same ? "" : other->instance));
}

void hosting_advise(struct hosting *h, struct hosting_job *job)
{
    if (!h->recommended)
        return;
    advise_data(h, job->arena);
    advise_spot(h, job->arena);
    advise_commitment(h, job->arena);
    advise_ownership(h, job->arena);
    advise_price(h, job->arena);
    advise_packing(h, job);
    advise_age(h, job->arena);
}

// --- nothing found -----------------------------------------------------------

static const struct {
    const char *found, *relax;
} reasons[] = {
    [HOSTING_OTHER_GPU] = { "have another GPU", "--gpu" },
    [HOSTING_OTHER_PROVIDER] = { "are of other providers", "--provider" },
    [HOSTING_OTHER_REGION] = { "are in other regions", "--region" },
    [HOSTING_NO_TAG] = { "lack the tag", "--compliance" },
    [HOSTING_NO_PRICE] = { "are not offered so", "--kind" },
    [HOSTING_NO_PRECISION] = { "lack the precision", "--precision fp16" },
    [HOSTING_NO_FIT] = { "have too little memory",
                         "--gpus, --method qlora or a smaller --context" },
    [HOSTING_NO_NETWORK] = { "are too small for so many GPUs", "--gpus" },
    [HOSTING_NO_HOST_MEMORY] = { "have too little host memory", "a larger instance" },
};

const char *hosting_nothing(const struct hosting *h, struct arena *arena)
{
    const struct hosting_request *r = h->input->request;
    struct out out = { .arena = arena };
    if (h->count) {
        const struct hosting_row *fast = NULL, *cheap = NULL;
        for (size_t i = 0; i < h->count; i++) {
            const struct hosting_row *row = &h->rows[i];
            if (row->group && (!fast || row->elapsed_hours.mid < fast->elapsed_hours.mid))
                fast = row;
            if (!cheap || row->cost_usd.mid < cheap->cost_usd.mid)
                cheap = row;
        }
        out_put(&out, "no offer keeps the limits");
        if (!isnan(r->deadline) && fast)
            out_put(&out, "; with --deadline %.3gh or more %s %s would (%s)",
                    ceil(fast->elapsed_hours.mid * 10) / 10, fast->provider, fast->instance,
                    text_usd(arena, fast->cost_usd.mid));
        if (!isnan(r->budget) && cheap)
            out_put(&out, "; with --budget %.0f or more %s %s would (%s h)",
                    ceil(cheap->cost_usd.mid), cheap->provider, cheap->instance,
                    text_hours(arena, cheap->elapsed_hours.mid));
        return out_string(&out);
    }
    size_t total = h->evaluated;
    for (int i = 0; i <= HOSTING_NO_PRECISION; i++)
        total += h->left_out[i];
    out_put(&out, "no offer is left of %zu", total);
    for (int i = 0; i < HOSTING_REASONS; i++)
        if (h->left_out[i])
            out_put(&out, "; %zu %s (relax %s)", h->left_out[i], reasons[i].found,
                    reasons[i].relax);
    return out_string(&out);
}
