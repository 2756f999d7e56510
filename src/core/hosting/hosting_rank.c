// The order of the rows, and which of them to recommend.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <stdio.h>
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

bool hosting_has_room(const struct hosting_row *row)
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

// How reliable a row is, 0 to 8: meets the limits, has room in memory, is in time in 90 % of the
// samples, has a recent price.
int hosting_trust(const struct hosting_row *row)
{
    bool safe = isnan(row->chance_in_time) || row->chance_in_time >= 0.9;
    return meets(row) ? 1 + hosting_has_room(row) * 4 + safe * 2 + !row->stale : 0;
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
    out_put(&out, "the cheapest%s", row->stale ? "" : " with a price from the last 180 days");
    if (!isnan(r->deadline))
        out_put(&out, " that meets the deadline of %g h %s", r->deadline / 3600,
                row->chance_in_time >= 0.9 ? "with at least 90 % probability"
                                           : "more likely than not");
    if (!isnan(r->budget))
        out_put(&out, "%s within the budget of $%.0f", isnan(r->deadline) ? "" : " and", r->budget);
    if (h->cheapest_in_time && h->cheapest_in_time != row &&
        h->cheapest_in_time->cost_usd.mid < 0.98 * row->cost_usd.mid) {
        const struct hosting_row *c = h->cheapest_in_time;
        out_put(&out, "; %s %s costs %s, but %s", c->provider, c->instance,
                text_usd(arena, c->cost_usd.mid),
                c->stale ? text_format(arena, "its price is %.0f days old", c->age_days)
                : !hosting_has_room(c) ? "it may run out of memory"
                : !c->in_budget        ? "it is over the budget"
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
