// SPDX-License-Identifier: Apache-2.0
// The order of the rows, and which of them to recommend.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- order -------------------------------------------------------------------

static bool meets(const struct hosting_row *row)
{
    return row->in_time && row->in_budget;
}

bool hosting_surely_in_time(const struct hosting_row *row)
{
    return isnan(row->chance_in_time) || row->chance_in_time >= 0.9;
}

// Rows that meet the limits come first, of these the ones that can be recommended, and of these the
// ones that meet them at P90 too.
static int class_of(const struct hosting_row *row)
{
    bool surely = hosting_surely_in_time(row) && row->surely_in_budget;
    return !meets(row) ? 0 : row->doubt ? 1 : 2 + surely;
}

static bool is_before(const struct hosting_row *a, const struct hosting_row *b)
{
    int a_class = class_of(a), b_class = class_of(b);
    return a_class != b_class ? a_class > b_class : a->rank_usd < b->rank_usd;
}

static int by_rank(const void *a, const void *b)
{
    const struct hosting_row *x = *(const struct hosting_row *const *)a,
                             *y = *(const struct hosting_row *const *)b;
    return is_before(x, y) ? -1 : is_before(y, x) ? 1 : (x > y) - (x < y);
}

bool hosting_has_room(const struct hosting_row *row)
{
    return !row->group || row->group->result.stable;
}

static double cheapest_rent(const struct hosting *h, const struct gpu *gpu)
{
    double usd = NAN;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        if (r->kind == OFFERS_ON_DEMAND && !r->doubt && r->group->gpu == gpu)
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

// How reliable a row is, 0 to 8: 0 if it cannot be recommended or misses a limit; else higher with
// room in memory, then if it is in time in 90 % of the samples, then if P90 is in the budget.
int hosting_trust(const struct hosting_row *row)
{
    return meets(row) && !row->doubt ? 1 + hosting_has_room(row) * 4 +
                                           hosting_surely_in_time(row) * 2 + row->surely_in_budget
                                     : 0;
}

static void pick(struct hosting *h)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *row = &h->rows[i];
        if (row->doubt) {
            if (meets(row) &&
                (!h->cheapest_doubtful || row->cost_usd.mid < h->cheapest_doubtful->cost_usd.mid))
                h->cheapest_doubtful = row;
            continue;
        }
        if (row->in_time &&
            (!h->cheapest_in_time || row->cost_usd.mid < h->cheapest_in_time->cost_usd.mid))
            h->cheapest_in_time = row;
        if (row->group && row->in_budget && !isnan(h->input->request->budget) &&
            (!h->fastest_in_budget ||
             row->elapsed_hours.mid < h->fastest_in_budget->elapsed_hours.mid))
            h->fastest_in_budget = row;
        if (row->group && row->kind != OFFERS_SPOT && meets(row) && hosting_has_room(row) &&
            (!h->smallest || row->gpus < h->smallest->gpus ||
             (row->gpus == h->smallest->gpus && row->cost_usd.mid < h->smallest->cost_usd.mid)))
            h->smallest = row;
        if (hosting_trust(row) > (h->recommended ? hosting_trust(h->recommended) : 0))
            h->recommended = row;
    }
}

static const char *reason(const struct hosting *h, struct arena *arena)
{
    const struct hosting_request *r = h->input->request;
    const struct hosting_row *row = h->recommended;
    struct out out = { .arena = arena };
    out_put(&out, row->kind == OFFERS_OWN
                      ? "your own machine costs least, by what you say of it"
                      : "the cheapest with a firm price from the last 180 days");
    if (r->hour_is_worth > 0)
        out_put(&out, " (an hour counts as $%.4g)", r->hour_is_worth);
    if (!isnan(r->deadline))
        out_put(&out, " that meets the deadline of %s %s", text_seconds(arena, r->deadline),
                row->chance_in_time >= 0.9 ? "with at least 90 % probability"
                                           : "more likely than not");
    if (!isnan(r->budget))
        out_put(&out, "%s within the budget of %s%s", isnan(r->deadline) ? "" : " and",
                text_usd(arena, r->budget),
                row->cost_usd.high > r->budget
                    ? text_format(arena, " at the median, but not at P90 (%s)",
                                  text_usd(arena, row->cost_usd.high))
                    : "");
    if (h->cheapest_in_time && h->cheapest_in_time != row &&
        h->cheapest_in_time->cost_usd.mid < 0.98 * row->cost_usd.mid) {
        const struct hosting_row *c = h->cheapest_in_time;
        out_put(&out, "; %s %s costs %s, but %s", c->provider, c->instance,
                text_usd(arena, c->cost_usd.mid),
                !hosting_has_room(c) ? "it may run out of memory"
                : !c->in_budget      ? "it is over the budget"
                : c->chance_in_time < 0.9 && row->chance_in_time >= 0.9
                    ? text_format(arena, "it meets the deadline with %.0f %% probability",
                                  floor(100 * c->chance_in_time))
                : !c->surely_in_budget ? text_format(arena, "it is over the budget at P90 (%s)",
                                                     text_usd(arena, c->cost_usd.high))
                                       : "it takes longer");
    }
    const struct hosting_row *d = h->cheapest_doubtful;
    if (d && d->cost_usd.mid < 0.98 * row->cost_usd.mid)
        out_put(&out, "; %s %s (%s) would cost %s, but %s", d->provider, d->instance,
                offers_kind_names[d->kind], text_usd(arena, d->cost_usd.mid), d->doubt);
    return out_string(&out);
}

// The cheapest row that is paid by the hour and can be recommended; NULL: none.
static const struct hosting_row *best_rent(const struct hosting *h)
{
    const struct hosting_row *best = NULL;
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *r = &h->rows[i];
        if (offers_is_rented(r->kind) && meets(r) && !r->doubt &&
            (!best || r->cost_usd.mid < best->cost_usd.mid))
            best = r;
    }
    return best;
}

// A month of a commitment costs the same however many runs share it; each run that it takes saves
// the cost of the best rent. More runs than its hours hold need a second one, which pays no sooner.
static void break_even(struct hosting_row *row, const struct hosting_row *rent, int pattern)
{
    double hours = row->run_hours.mid + row->move.in_hours + row->move.out_hours;
    double month = row->usd_per_hour * HOSTING_HOURS_PER_MONTH * (double)row->instances;
    double saved = rent->cost_usd.mid - row->move.in_usd - row->move.out_usd - row->storage.usd.mid;
    double most = pattern == HOSTING_BURST ? 1 : fmax(1, floor(HOSTING_HOURS_PER_MONTH / hours));
    double runs = saved > 0 ? fmax(1e-6, month / saved) : NAN;
    row->rent = rent;
    row->break_even_runs = runs <= most ? runs : NAN;
    row->break_even = row->break_even_runs * hours / HOSTING_HOURS_PER_MONTH;
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
    const struct hosting_row *rent = best_rent(h);
    for (size_t i = 0; rent && i < h->count; i++)
        if (rows[i].kind == OFFERS_RESERVED_1Y || rows[i].kind == OFFERS_RESERVED_3Y)
            break_even(&rows[i], rent, h->input->request->pattern);
    pick(h);
    if (h->recommended)
        h->reason = reason(h, arena);
}

// The bytes of the mark that a table puts where it cuts a name: "…", "~" in ASCII; or as typed.
static size_t cut_mark(const char *at)
{
    static const char *const marks[] = { "…", "~", "..." };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (!strncmp(at, marks[i], strlen(marks[i])))
            return strlen(marks[i]);
    return 0;
}

// Whether a name is the whole one, up to the letters that a cut has left out: "lambda/gpu_8x_h1…".
static bool is_cut_of(const char *name, const char *whole)
{
    while (*name) {
        size_t mark = cut_mark(name);
        if (!mark && *name++ != *whole++)
            return false;
        for (name += mark; mark && *whole && *whole != *name;)
            whole++;
    }
    return !*whole;
}

static const struct hosting_row *find_cut(const struct hosting *h, const char *name)
{
    for (size_t i = 0; i < h->count; i++) {
        const struct hosting_row *row = &h->rows[i];
        char whole[512];
        snprintf(whole, sizeof whole, "%s/%s/%s", row->provider, row->instance,
                 offers_kind_names[row->kind]);
        char *kind = strrchr(whole, '/');
        bool found = is_cut_of(name, whole);
        *kind = 0;
        if (found || is_cut_of(name, whole) || is_cut_of(name, row->instance))
            return row;
    }
    return NULL;
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
    return find_cut(h, name);
}
