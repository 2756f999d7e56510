// SPDX-License-Identifier: Apache-2.0
// The table of offers and the arithmetic of one row, as text.

#include "core/hosting/hosting_internal.h"

#include "base/columns.h"

#include <math.h>
#include <string.h>

static void put_wrapped(struct out *out, const char *text, int indent)
{
    out_repeat(out, ' ', indent);
    out_wrapped(out, indent, indent, text);
}

static const char *hours(struct arena *arena, const struct range *range)
{
    if (isnan(range->mid))
        return "?";
    return text_format(arena, "%s–%s", text_hours(arena, range->low),
                       text_hours(arena, range->high));
}

// Dollars in at most six characters: "12.30", "1,240", "36.8k".
static const char *dollars(struct arena *arena, double usd)
{
    if (usd < 99.95)
        return text_format(arena, "%.2f", usd);
    if (usd < 9999.5)
        return text_commas(arena, (int64_t)llrint(usd));
    return usd < 999950 ? text_format(arena, "%.1fk", usd / 1e3)
                        : text_format(arena, "%.2fM", usd / 1e6);
}

static const char *cost(struct arena *arena, const struct range *range)
{
    return text_format(arena, "$%s–%s", dollars(arena, range->low), dollars(arena, range->high));
}

static const char *age(struct arena *arena, const struct hosting_row *row)
{
    if (row->kind == OFFERS_MANAGED && !row->managed)
        return "-";
    if (isnan(row->age_days))
        return "?";
    if (row->age_days < 0)
        return "future";
    return text_format(arena, "%.0f d%s", row->age_days, row->stale ? "!" : "");
}

static const char *machines(struct arena *arena, const struct hosting_row *row)
{
    if (!row->group)
        return "-";
    return text_format(arena, "%lld×%s", (long long)row->gpus, row->group->gpu->name);
}

// The limit that it misses, or why it cannot be recommended, or the limit that P90 misses, or the
// bottleneck.
static const char *verdict(const struct hosting_row *row)
{
    if (!row->in_time || !row->in_budget)
        return row->in_time ? "over budget" : row->in_budget ? "too late" : "late, costly";
    return row->doubt                     ? row->doubt_word
           : !hosting_surely_in_time(row) ? "late at P90"
           : !row->surely_in_budget       ? "dear at P90"
                                          : row->limit;
}

static void add_row(struct columns *columns, const struct out *out, const struct hosting_row *row)
{
    struct arena *arena = columns->arena;
    columns_add(columns, row->provider);
    columns_add(columns, row->instances > 1 ? text_format(arena, "%lld× %s",
                                                          (long long)row->instances, row->instance)
                                            : row->instance);
    columns_add(columns, machines(arena, row));
    columns_add(columns, offers_kind_names[row->kind]);
    columns_add(columns, hours(arena, &row->elapsed_hours));
    columns_add(columns, cost(arena, &row->cost_usd));
    columns_add(columns, age(arena, row));
    columns_add(columns, row->in_time && row->in_budget ? verdict(row)
                                                        : out_styled(out, OUT_BAD, verdict(row)));
}

// Whether an earlier row is the same instance in another region.
static bool is_repeated(const struct hosting *h, size_t at)
{
    const struct hosting_row *row = &h->rows[at];
    for (size_t i = 0; i < at; i++)
        if (h->rows[i].kind == row->kind && !strcmp(h->rows[i].provider, row->provider) &&
            !strcmp(h->rows[i].instance, row->instance))
            return true;
    return false;
}

static void put_pick(struct out *out, struct arena *arena, const char *title,
                     const struct hosting_row *row)
{
    if (!row)
        return;
    bool placed = row->kind != OFFERS_MANAGED && row->kind != OFFERS_OWN;
    out_put(out, "  %-18s %s%s %s%s%s, %s: %s h, %s\n", title,
            row->instances > 1 ? text_format(arena, "%lld × ", (long long)row->instances) : "",
            row->provider, text_cut(arena, row->instance, 26), placed ? " in " : "",
            placed ? text_cut(arena, row->region, 16) : "", offers_kind_names[row->kind],
            text_hours(arena, row->elapsed_hours.mid), text_usd(arena, row->cost_usd.mid));
}

// A pick that is the best choice says nothing new.
static void put_other_pick(struct out *out, struct arena *arena, const char *title,
                           const struct hosting *h, const struct hosting_row *row)
{
    if (row != h->recommended)
        put_pick(out, arena, title, row);
}

// The pick with the fewest GPUs, which is never a spot offer; NULL where the best choice has as
// few.
static const struct hosting_row *fewest_gpus(const struct hosting *h)
{
    const struct hosting_row *best = h->recommended;
    bool as_few = h->smallest && best->group && best->gpus <= h->smallest->gpus;
    return as_few ? NULL : h->smallest;
}

void hosting_text(const struct hosting *h, struct arena *arena, struct out *out)
{
    static const char *const titles[] = { "provider", "instance", "GPUs",       "kind", "hours",
                                          "cost",     "age",      "limited by", NULL };
    // What a row is limited by may be spared, why it is never recommended only in a narrow table,
    // but not that it misses the deadline or the budget.
    bool is_failing = false, is_doubtful = false;
    for (size_t i = 0; i < h->count; i++) {
        is_failing = is_failing || !h->rows[i].in_time || !h->rows[i].in_budget;
        is_doubtful = is_doubtful || h->rows[i].doubt;
    }
    struct columns columns = { .arena = arena,
                               .align = "LLLlrrrl",
                               .spare = is_failing    ? "00200010"
                                        : is_doubtful ? "00200013"
                                                      : "00300012",
                               .least = 12 };
    columns_add_row(&columns, titles);
    size_t shown = 0, hidden = 0;
    for (size_t i = 0; i < h->count; i++) {
        if (is_repeated(h, i))
            continue;
        if ((int64_t)shown >= h->input->request->rows) {
            hidden++;
            continue;
        }
        add_row(&columns, out, &h->rows[i]);
        shown++;
    }
    columns_write(&columns, out);
    put_wrapped(
        out,
        text_format(
            arena,
            "hours: from now to the result; hours and cost are 80 %% ranges; age: of the price, in "
            "days, ! above 180. Offers with auction, median, reservation, block, service, start?, "
            "7 days, no date, future date, country?, abroad, network? or old price in the last "
            "column are never recommended (--explain says why). Each instance is shown in its "
            "cheapest region%s",
            hidden ? text_format(arena, "; %zu more rows (--rows)", hidden) : ""),
        0);
    if (h->recommended) {
        out_char(out, '\n');
        out_heading(out, "Recommended");
        put_pick(out, arena, "best choice", h->recommended);
        put_wrapped(out, h->reason, 4);
        put_other_pick(out, arena,
                       isnan(h->input->request->deadline) ? "cheapest" : "cheapest in time", h,
                       h->cheapest_in_time);
        put_other_pick(out, arena, "fastest in budget", h, h->fastest_in_budget);
        put_other_pick(out, arena, "fewest GPUs", h, fewest_gpus(h));
    }
    if (h->advice_count) {
        out_char(out, '\n');
        out_heading(out, "Advice");
    }
    for (size_t i = 0; i < h->advice_count; i++)
        put_wrapped(out, h->advice[i], 2);
    out_put(
        out,
        "\n--explain PROVIDER/INSTANCE shows the arithmetic of a row; --json has every term.\n");
}

// --- one row -----------------------------------------------------------------

static void explain_time(const struct hosting_row *row, struct arena *arena, struct out *out)
{
    const struct hosting_group *g = row->group;
    const struct workload *w = &g->result.workload;
    double rate = w->processed_tokens / g->middle.seconds[OVERHEAD_TRAINING];
    out_put(out, "\nTime, every unknown at its median\n");
    out_put(out, "  %-16s %12.0f s  = %.0f tokens / %.1f tokens/s\n", "training",
            g->middle.seconds[OVERHEAD_TRAINING], w->processed_tokens, rate);
    for (int i = OVERHEAD_STARTUP; i < OVERHEAD_KINDS; i++)
        if (g->middle.seconds[i] > 0)
            out_put(out, "  %-16s %12.1f s\n", overhead_names[i], g->middle.seconds[i]);
    out_put(out, "  %-16s %12.0f s  = %s h; %d samples: P10 %s, P50 %s, P90 %s h\n", "run",
            g->middle.wall_seconds, text_hours(arena, g->middle.wall_seconds / 3600),
            HOSTING_SAMPLES, text_hours(arena, g->wall_hours.low),
            text_hours(arena, g->wall_hours.mid), text_hours(arena, g->wall_hours.high));
    out_put(out, "  exposed communication: %s of a step\n", text_share(arena, g->network_share));
}

static void explain_spot(const struct hosting_row *row, struct arena *arena, struct out *out)
{
    const struct hosting_preemption *p = &row->preemption;
    const struct hosting_spot *s = &row->spot;
    out_put(out, "\nSpot\n");
    out_put(out, "  preemptions      %.3f an hour while it runs; then %s without an instance\n",
            p->rate_per_second * 3600, text_seconds(arena, p->wait_seconds));
    out_put(out, "  checkpoints      every %s (%.0f, each %s); Young–Daly √(2·save/rate) = %s\n",
            text_seconds(arena, s->interval_seconds), s->saves,
            text_seconds(arena, p->save_seconds), text_seconds(arena, s->young_daly_seconds));
    out_put(out,
            "  billed           e^λQ/λ·(1 − e^−λR + n·(e^λs − 1)) = %.0f s, λ %.4g/s, R %.0f s, Q "
            "%.0f s, "
            "s %.0f s, n %.0f\n",
            s->billed_seconds, p->rate_per_second, p->restart_seconds,
            p->restart_seconds + p->fetch_seconds, s->interval_seconds + p->save_seconds, s->saves);
    out_put(out, "  expected         λ · billed = %.2f preemptions; %s h with waiting\n",
            s->preemptions, text_hours(arena, s->wall_seconds / 3600));
    if (!isnan(row->on_demand_usd))
        out_put(out, "  expected cost    %s; on demand %s: %s\n",
                text_usd(arena, row->expected_usd), text_usd(arena, row->on_demand_usd),
                row->expected_usd == row->on_demand_usd  ? "the same"
                : row->expected_usd < row->on_demand_usd ? "spot is cheaper"
                                                         : "on demand is cheaper");
}

static void explain_ownership(const struct hosting *h, const struct hosting_row *row,
                              struct arena *arena, struct out *out)
{
    struct hosting_term terms[HOSTING_TERMS];
    const struct hosting_ownership *o = &row->ownership;
    double used = h->runs_per_month * row->run_hours.mid / row->sets / HOSTING_HOURS_PER_MONTH;
    struct range month = hosting_ownership_month(o, used, terms);
    out_put(out, "\nOwnership, USD per month (low, typical, high; confidence)\n");
    for (int i = 0; i < HOSTING_TERMS; i++)
        out_put(out, "  %-12s %9.0f %9.0f %9.0f  %s\n", terms[i].name, terms[i].usd_per_month.low,
                terms[i].usd_per_month.mid, terms[i].usd_per_month.high, terms[i].confidence);
    out_put(out, "  %-12s %9.0f %9.0f %9.0f  at %s utilization\n", "total", month.low, month.mid,
            month.high, text_share(arena, used));
    out_put(out, "  per GPU hour by utilization:");
    for (int percent = 10; percent <= 90; percent += 20) {
        struct range m = hosting_ownership_month(o, percent / 100.0, NULL);
        out_put(out, "  %d %% $%.2f", percent,
                m.mid / (o->gpus * HOSTING_HOURS_PER_MONTH * percent / 100.0));
    }
    out_put(out, "\n");
    if (isnan(row->rent_usd_per_gpu_hour))
        return;
    double share = hosting_ownership_break_even(o, row->rent_usd_per_gpu_hour);
    out_put(out, "  against renting at $%.2f per GPU hour: ", row->rent_usd_per_gpu_hour);
    if (isnan(share))
        out_put(out, "never pays off");
    else
        out_put(out, "pays off above %s utilization", text_share(arena, share));
    for (int percent = 50; percent <= 90; percent += 20) {
        double months = hosting_ownership_months(o, percent / 100.0, row->rent_usd_per_gpu_hour);
        out_put(out, isinf(months) ? "; at %d %% never" : "; at %d %% after %.0f months", percent,
                months);
    }
    out_put(out, "\n");
}

static void explain_machine(const struct offers_machine *m, struct arena *arena, struct out *out)
{
    if (isnan(m->machine_watts)) // the row came with a price
        return;
    if (m->machine_usd > 0)
        out_put(out, "  wear             %s / (%g years × 8760 h × %s in use) = $%.4f an hour\n",
                text_usd(arena, m->machine_usd), m->machine_years,
                text_share(arena, m->machine_use), offers_machine_wear(m));
    else
        out_put(out, "  wear             not counted: --machine-usd says what it cost\n");
    out_put(out, "  electricity      %.0f W × $%.4f per kWh = $%.4f an hour\n", m->machine_watts,
            m->machine_usd_per_kwh, offers_machine_electricity(m));
}

static void explain_money(const struct hosting *h, const struct hosting_row *row,
                          struct arena *arena, struct out *out)
{
    out_put(out, "\nMoney\n");
    if (row->kind == OFFERS_MANAGED) {
        out_put(out, "  %.0f tokens × $%.4g per million = %s\n", row->managed_tokens,
                row->usd_per_million_tokens, text_usd(arena, row->cost_usd.mid));
        if (row->managed && row->managed->note)
            put_wrapped(out, text_format(arena, "note: %s", row->managed->note), 2);
        return;
    }
    if (row->kind == OFFERS_OWN)
        explain_machine(&row->offer->machine, arena, out);
    if (!offers_is_rented(row->kind) && row->kind != OFFERS_OWN)
        out_put(out, "  %.0f commitment%s for a month, shared by %s run%s: %.1f h billed each\n",
                row->sets, text_plural(row->sets), hosting_spell_runs(h->runs_per_month, arena),
                text_plural(h->runs_per_month), row->billed_hours.mid);
    else
        out_put(out, "  billed           %.4f h: in steps of %.0f s, at least %.0f s%s\n",
                row->billed_hours.mid, row->granularity_seconds, row->minimum_seconds,
                row->terms && !strcmp(row->terms->provider, "*") ? " (assumed: terms not known)"
                                                                 : "");
    out_put(out, "  compute          %lld × $%.4f × %.4f h = %s", (long long)row->instances,
            row->usd_per_hour, row->billed_hours.mid, text_usd(arena, row->compute_usd.mid));
    if (row->kind != OFFERS_OWN)
        out_put(out, " (list $%.4f of %s, %s)", row->list_usd_per_hour,
                row->as_of ? row->as_of : "an unknown date",
                row->age_days >= 0  ? text_format(arena, "%.0f day%s old", row->age_days,
                                                  text_plural(rint(row->age_days)))
                : row->age_days < 0 ? "in the future"
                                    : "age unknown");
    out_char(out, '\n');
    out_put(out, "  data in          %.3f GB × $%.4f = %s, %s h with the model's %.1f GB\n",
            row->move.dataset_bytes / 1e9, row->move.in_usd_per_gb,
            text_usd(arena, row->move.in_usd), text_hours(arena, row->move.in_hours),
            row->move.model_bytes / 1e9);
    out_put(out, "  results out      %.3f GB × $%.4f = %s\n", row->move.result_bytes / 1e9,
            row->move.out_usd_per_gb, text_usd(arena, row->move.out_usd));
    out_put(out, "  storage          %.3f GB × $%.4f a month × %.4f h / 730 h = %s%s\n",
            row->storage.bytes / 1e9, row->storage.usd_per_gb_month,
            row->run_hours.mid + row->move.in_hours + row->move.out_hours,
            text_usd(arena, row->storage.usd.mid),
            row->storage.terms && !strcmp(row->storage.terms->provider, "*")
                ? " (assumed: price not known)"
                : "");
    out_put(out, "  cost             P10 %s, P50 %s, P90 %s\n", text_usd(arena, row->cost_usd.low),
            text_usd(arena, row->cost_usd.mid), text_usd(arena, row->cost_usd.high));
    if (!isnan(row->break_even))
        out_put(out,
                "  commitment       %s in total; pays off above %s runs a month, %s utilization, "
                "against %s %s at %s a run\n",
                text_usd(arena, row->commitment_usd),
                hosting_spell_runs(row->break_even_runs, arena), text_share(arena, row->break_even),
                row->rent->provider, row->rent->instance, text_usd(arena, row->rent->cost_usd.mid));
    else if (row->rent)
        out_put(out, "  commitment       %s in total; never pays off against %s %s at %s a run\n",
                text_usd(arena, row->commitment_usd), row->rent->provider, row->rent->instance,
                text_usd(arena, row->rent->cost_usd.mid));
}

void hosting_explain(const struct hosting *h, const struct hosting_row *row, struct arena *arena,
                     struct out *out)
{
    bool placed = row->kind != OFFERS_MANAGED && row->kind != OFFERS_OWN;
    out_put(out, "%s %s%s%s, %s\n", row->provider, row->instance, placed ? " in " : "",
            placed ? row->region : "", offers_kind_names[row->kind]);
    if (row->group) {
        out_put(out, "  %lld GPU%s on %lld whole instance%s of %lld GPU%s: %s\n",
                (long long)row->gpus, text_plural(row->gpus), (long long)row->instances,
                text_plural(row->instances), (long long)row->instance_gpus,
                text_plural((double)row->instance_gpus), plan_spell(&row->group->result, arena));
        explain_time(row, arena, out);
    }
    if (row->kind == OFFERS_SPOT)
        explain_spot(row, arena, out);
    if (row->kind == OFFERS_COLOCATION)
        explain_ownership(h, row, arena, out);
    explain_money(h, row, arena, out);
    if (row->price_kind != OFFER_FIRM)
        out_put(out, "  price            %s\n", offer_price_kinds[row->price_kind]);
    if (row->offer && row->offer->offer.note)
        put_wrapped(out, text_format(arena, "note: %s", row->offer->offer.note), 2);
    if (row->doubt)
        put_wrapped(out, text_format(arena, "not recommended: %s", row->doubt), 2);
    out_put(out, "\nAssumptions\n");
    for (size_t i = 0; i < h->assumption_count; i++) {
        const struct assumption *a = &h->assumptions[i];
        put_wrapped(out,
                    text_format(arena, "%s: %.4g %s (%s%s%s)", a->name, a->value.mid, a->unit,
                                assumption_origins[a->origin], a->source ? "; " : "",
                                a->source ? a->source : ""),
                    2);
    }
}
