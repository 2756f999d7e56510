// SPDX-License-Identifier: Apache-2.0
// The JSON document of a comparison: every term of every row.

#include "core/hosting/hosting_internal.h"

#include <math.h>

static void put_bounds(struct json_writer *w, const char *key, const struct range *range)
{
    json_open(w, key, '{');
    json_put_number(w, "low", range->low);
    json_put_number(w, "typical", range->mid);
    json_put_number(w, "high", range->high);
    json_close(w, '}');
}

static void put_time(struct json_writer *w, const struct hosting_group *g, struct arena *arena)
{
    const struct workload *work = &g->result.workload;
    json_open(w, "time", '{');
    json_put_string(w, "parallel", layout_spell(&g->result.layout, arena));
    json_put_number(w, "micro_batch", work->micro_batch);
    const struct field *field = field_find(recipe_fields, TEXT("checkpointing"));
    json_put_string(w, "checkpointing", field_spell(field, &g->result.recipe, arena));
    json_put_number(w, "memory_bytes", g->result.memory.total_bytes);
    json_put_bool(w, "stable", g->result.stable);
    json_put_number(w, "processed_tokens", work->processed_tokens);
    json_put_number(w, "roofline_tokens_per_second", g->tokens_per_s);
    json_put_number(w, "tokens_per_second",
                    work->processed_tokens / g->middle.seconds[OVERHEAD_TRAINING]);
    json_put_number(w, "exposed_communication_share", g->network_share);
    json_open(w, "seconds", '[');
    for (int i = 0; i < OVERHEAD_KINDS; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", overhead_names[i]);
        json_put_number(w, "seconds", g->middle.seconds[i]);
        json_close(w, '}');
    }
    json_close(w, ']');
    json_put_number(w, "run_seconds", g->middle.wall_seconds);
    json_close(w, '}');
}

static void put_price(struct json_writer *w, const struct hosting_row *row, double discount)
{
    json_open(w, "price", '{');
    json_put_number(w, "list_usd_per_instance_hour", row->list_usd_per_hour);
    json_put_number(w, "discount",
                    row->kind == OFFERS_ON_DEMAND && !isnan(discount) ? discount : 0);
    json_put_number(w, "usd_per_instance_hour", row->usd_per_hour);
    if (row->kind == OFFERS_SPOT)
        json_put_number(w, "spot_high_usd_per_instance_hour",
                        row->offer->offer.spot_high_usd_per_hour);
    json_put_string(w, "as_of", row->as_of);
    json_put_number(w, "age_days", row->age_days);
    json_put_bool(w, "stale", row->stale);
    json_put_number(w, "log_spread", row->price_spread);
    json_put_number(w, "granularity_seconds", row->granularity_seconds);
    json_put_number(w, "minimum_seconds", row->minimum_seconds);
    json_put_string(w, "terms_confidence", row->terms ? row->terms->confidence : NULL);
    json_put_string(w, "terms_source", row->terms ? row->terms->source : NULL);
    json_put_string(w, "source",
                    row->offer     ? row->offer->offer.source
                    : row->managed ? row->managed->source
                                   : NULL);
    json_close(w, '}');
}

static void put_move(struct json_writer *w, const struct hosting_move *m)
{
    json_open(w, "move", '{');
    json_put_number(w, "dataset_bytes", m->dataset_bytes);
    json_put_number(w, "model_bytes", m->model_bytes);
    json_put_number(w, "result_bytes", m->result_bytes);
    json_put_number(w, "link_bytes_per_second", m->link_bytes_per_s);
    json_put_number(w, "in_usd_per_gb", m->in_usd_per_gb);
    json_put_number(w, "out_usd_per_gb", m->out_usd_per_gb);
    json_put_number(w, "in_usd", m->in_usd);
    json_put_number(w, "out_usd", m->out_usd);
    json_put_number(w, "in_hours", m->in_hours);
    json_put_number(w, "out_hours", m->out_hours);
    json_close(w, '}');
}

static void put_storage(struct json_writer *w, const struct hosting_storage *s)
{
    json_open(w, "storage", '{');
    json_put_number(w, "bytes", s->bytes);
    json_put_number(w, "usd_per_gb_month", s->usd_per_gb_month);
    json_put_range(w, "usd", &s->usd);
    json_put_string(w, "source", s->terms ? s->terms->storage_source : NULL);
    json_put_string(w, "as_of", s->terms ? s->terms->storage_as_of : NULL);
    json_close(w, '}');
}

// What the provider states, wherever it is; not what this program knows.
static void put_attested(struct json_writer *w, const struct hosting *h,
                         const struct hosting_row *row)
{
    const struct billing *terms =
        offers_terms(h->input->billing, h->input->billing_count, row->provider, row->instance);
    bool stated = row->offer && terms && terms->attested;
    json_open(w, "attested", '{');
    json_put_string(w, "list", stated ? terms->attested : NULL);
    json_put_string(w, "source", stated ? terms->attested_source : NULL);
    json_put_string(w, "as_of", stated ? terms->attested_as_of : NULL);
    json_close(w, '}');
}

static void put_spot(struct json_writer *w, const struct hosting_row *row)
{
    json_open(w, "spot", '{');
    json_put_number(w, "work_seconds", row->preemption.work_seconds);
    json_put_number(w, "save_seconds", row->preemption.save_seconds);
    json_put_number(w, "restart_seconds", row->preemption.restart_seconds);
    json_put_number(w, "fetch_seconds", row->preemption.fetch_seconds);
    json_put_number(w, "preemptions_per_second", row->preemption.rate_per_second);
    json_put_number(w, "wait_seconds", row->preemption.wait_seconds);
    json_put_number(w, "saves", row->spot.saves);
    json_put_number(w, "interval_seconds", row->spot.interval_seconds);
    json_put_number(w, "young_daly_seconds", row->spot.young_daly_seconds);
    json_put_number(w, "expected_billed_seconds", row->spot.billed_seconds);
    json_put_number(w, "expected_wall_seconds", row->spot.wall_seconds);
    json_put_number(w, "expected_preemptions", row->spot.preemptions);
    json_put_number(w, "expected_usd", row->expected_usd);
    json_put_number(w, "on_demand_usd", row->on_demand_usd);
    json_close(w, '}');
}

static void put_ownership(struct json_writer *w, const struct hosting *h,
                          const struct hosting_row *row)
{
    const struct hosting_ownership *o = &row->ownership;
    struct hosting_term terms[HOSTING_TERMS];
    double used = h->runs_per_month * row->run_hours.mid / row->sets / HOSTING_HOURS_PER_MONTH;
    struct range month = hosting_ownership_month(o, used, terms);
    json_open(w, "ownership", '{');
    put_bounds(w, "server_usd", &o->server_usd);
    put_bounds(w, "years", &o->years);
    put_bounds(w, "kilowatts", &o->kilowatts);
    put_bounds(w, "pue", &o->pue);
    put_bounds(w, "usd_per_kwh", &o->usd_per_kwh);
    put_bounds(w, "usd_per_kw_month", &o->usd_per_kw_month);
    json_put_number(w, "resale_share", o->resale_share);
    json_put_number(w, "capital_per_year", o->capital_per_year);
    json_put_number(w, "operations_per_year", o->operations_per_year);
    json_put_number(w, "idle_share", o->idle_share);
    json_put_number(w, "draw_share", o->draw_share);
    json_put_number(w, "utilization", used);
    json_put_string(w, "confidence", o->confidence);
    json_open(w, "terms", '[');
    for (int i = 0; i < HOSTING_TERMS; i++) {
        json_open(w, NULL, '{');
        json_put_string(w, "name", terms[i].name);
        put_bounds(w, "usd_per_month", &terms[i].usd_per_month);
        json_put_string(w, "confidence", terms[i].confidence);
        json_put_string(w, "source", terms[i].source);
        json_close(w, '}');
    }
    json_close(w, ']');
    put_bounds(w, "usd_per_month", &month);
    json_open(w, "usd_per_gpu_hour_by_use", '[');
    for (int percent = 10; percent <= 100; percent += 10) {
        struct range m = hosting_ownership_month(o, percent / 100.0, NULL);
        double hours = o->gpus * HOSTING_HOURS_PER_MONTH * percent / 100.0;
        struct range each = { m.low / hours, m.mid / hours, m.high / hours };
        json_open(w, NULL, '{');
        json_put_number(w, "use", percent / 100.0);
        put_bounds(w, "usd", &each);
        json_close(w, '}');
    }
    json_close(w, ']');
    double rent = row->rent_usd_per_gpu_hour;
    json_put_number(w, "rent_usd_per_gpu_hour", rent);
    json_put_number(w, "break_even_use", hosting_ownership_break_even(o, rent));
    json_put_number(w, "months_to_pay_back_at_full_use", hosting_ownership_months(o, 1, rent));
    json_close(w, '}');
}

// Null where the row came with a price of its own.
static void put_machine(struct json_writer *w, const struct offers_machine *m)
{
    json_open(w, "machine", '{');
    json_put_number(w, "usd", m->machine_usd);
    json_put_number(w, "years", m->machine_years);
    json_put_number(w, "use", m->machine_use);
    json_put_number(w, "watts", m->machine_watts);
    json_put_number(w, "usd_per_kwh", m->machine_usd_per_kwh);
    json_put_number(w, "wear_usd_per_hour", offers_machine_wear(m));
    json_put_number(w, "electricity_usd_per_hour", offers_machine_electricity(m));
    json_close(w, '}');
}

static void put_needs(struct json_writer *w, const struct hosting_row *row)
{
    json_open(w, "needs", '{');
    json_put_number(w, "host_bytes", row->group->result.memory.host_bytes);
    json_put_number(w, "host_has_bytes", row->offer->offer.host_memory_bytes);
    json_put_number(w, "disk_bytes", row->disk_needed_bytes);
    json_put_number(w, "disk_has_bytes", row->local_disk_bytes);
    json_close(w, '}');
}

static void put_commitment(struct json_writer *w, const struct hosting_row *row)
{
    json_open(w, "commitment", '{');
    json_put_number(w, "sets", row->sets);
    json_put_number(w, "usd", row->commitment_usd);
    json_put_number(w, "break_even_runs_per_month", row->break_even_runs);
    json_put_number(w, "rent_usd_per_run", row->rent ? row->rent->cost_usd.mid : NAN);
    json_put_number(w, "break_even_use", row->break_even);
    json_put_number(w, "break_even_hours_per_month", row->break_even * HOSTING_HOURS_PER_MONTH);
    json_close(w, '}');
}

static void put_row(struct json_writer *w, const struct hosting *h, const struct hosting_row *row,
                    struct arena *arena)
{
    json_open(w, NULL, '{');
    json_put_string(w, "provider", row->provider);
    json_put_string(w, "instance", row->instance);
    json_put_string(w, "region", row->region);
    json_put_string(w, "kind", offers_kind_names[row->kind]);
    json_put_string(w, "gpu", row->group ? row->group->gpu->name : NULL);
    json_put_count(w, "gpus", row->gpus);
    json_put_count(w, "instance_gpus", row->instance_gpus);
    json_put_count(w, "instances", row->instances);
    json_put_string(w, "price_kind", offer_price_kinds[row->price_kind]);
    json_put_string(w, "notes",
                    row->offer     ? row->offer->offer.note
                    : row->managed ? row->managed->note
                                   : NULL);
    json_put_string(w, "not_recommended", row->doubt);
    json_put_number(w, "rank_usd", row->rank_usd);
    json_put_string(w, "limit", row->limit);
    json_put_bool(w, "in_time", row->in_time);
    json_put_bool(w, "in_budget", row->in_budget);
    json_put_bool(w, "pareto", row->pareto);
    json_put_number(w, "chance_in_time", row->chance_in_time);
    json_put_range(w, "run_hours", &row->run_hours);
    // A run on spot instances waits for new ones, and holds no GPU meanwhile.
    const struct range *held = row->kind == OFFERS_SPOT ? &row->billed_hours : &row->run_hours;
    double gpus = (double)row->gpus;
    struct range gpu_hours = { held->low * gpus, held->mid * gpus, held->high * gpus };
    json_put_range(w, "gpu_hours", &gpu_hours);
    json_put_range(w, "billed_hours", &row->billed_hours);
    json_put_range(w, "queue_hours", &row->queue_hours);
    json_put_range(w, "elapsed_hours", &row->elapsed_hours);
    json_put_range(w, "compute_usd", &row->compute_usd);
    json_put_range(w, "cost_usd", &row->cost_usd);
    if (row->group)
        put_time(w, row->group, arena);
    if (row->offer)
        put_needs(w, row);
    put_price(w, row, h->input->request->discount);
    put_move(w, &row->move);
    put_storage(w, &row->storage);
    put_attested(w, h, row);
    if (row->kind == OFFERS_SPOT)
        put_spot(w, row);
    if (row->kind == OFFERS_RESERVED_1Y || row->kind == OFFERS_RESERVED_3Y)
        put_commitment(w, row);
    if (row->kind == OFFERS_COLOCATION)
        put_ownership(w, h, row);
    if (row->kind == OFFERS_OWN)
        put_machine(w, &row->offer->machine);
    if (row->kind == OFFERS_MANAGED) {
        json_put_number(w, "managed_tokens", row->managed_tokens);
        json_put_number(w, "usd_per_million_tokens", row->usd_per_million_tokens);
    }
    json_close(w, '}');
}

static void put_pick(struct json_writer *w, const struct hosting *h, const char *key,
                     const struct hosting_row *row)
{
    if (row)
        json_put_count(w, key, row - h->rows);
    else
        json_put_string(w, key, NULL);
}

// How the numbers of a row are computed from each other.
static const char *const formulas[] = {
    "run_seconds = sum of time.seconds; training = processed_tokens / tokens_per_second",
    "instances = ceil(gpus / instance_gpus)",
    "billed_hours.pXX = max(minimum_seconds, ceil(hours.pXX * 3600 / granularity_seconds) * "
    "granularity_seconds) / 3600; hours are move.in_hours + run_hours + move.out_hours, for spot "
    "with the billed part of run_hours",
    "a prepaid block has billed_hours = 24 * ceil(hours.p90 / 24), from 15 days on whole weeks",
    "compute_usd.p50 = instances * usd_per_instance_hour * billed_hours.p50",
    "compute_usd.p90 = p50 * exp(sqrt(ln(billed_hours.p90 / billed_hours.p50)^2 + "
    "(1.2816 * log_spread)^2)); p10 likewise with a minus sign",
    "storage.usd.pXX = storage.bytes / 1e9 * storage.usd_per_gb_month * (move.in_hours + "
    "run_hours.pXX + move.out_hours) / 730",
    "cost_usd.pXX = compute_usd.pXX + move.in_usd + move.out_usd + storage.usd.pXX",
    "elapsed_hours = queue + move.in_hours + run_hours + move.out_hours; with an uncertain queue "
    "the sum is sampled",
    "rank_usd = cost_usd.p50 + compute_usd.p50 * (exp(log_spread^2 / 2) - 1) + elapsed_hours.p50 * "
    "hour_is_worth_usd; rows that meet the limits and can be recommended come first",
    "spot usd_per_instance_hour = sqrt(lowest zone * highest zone)",
    "reserved and colocation: billed_hours = sets * 730 / runs_per_month",
    "colocation usd_per_instance_hour = ownership.usd_per_month.typical / 730",
    "own usd_per_instance_hour = machine.wear_usd_per_hour + machine.electricity_usd_per_hour",
    "managed cost_usd = managed_tokens / 1e6 * usd_per_million_tokens",
};

void hosting_write(const struct hosting *h, struct arena *arena, struct out *out)
{
    struct json_writer w = { .out = out };
    const struct hosting_request *r = h->input->request;
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "hosts");
    json_put_count(&w, "version", 1);
    json_put_string(&w, "today", r->today);
    json_put_number(&w, "deadline_hours", r->deadline / 3600);
    json_put_number(&w, "budget_usd", r->budget);
    json_put_number(&w, "hour_is_worth_usd", isnan(r->hour_is_worth) ? 0 : r->hour_is_worth);
    json_put_number(&w, "runs_per_month", h->runs_per_month);
    json_put_bool(&w, "runs_assumed", h->runs_assumed);
    json_put_count(&w, "draws", HOSTING_SAMPLES);
    json_put_count(&w, "offers_held_against_the_job", (int64_t)h->evaluated);
    json_put_count(&w, "estimates", (int64_t)h->groups);
    json_open(&w, "formulas", '[');
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        json_put_string(&w, NULL, formulas[i]);
    json_close(&w, ']');
    json_open(&w, "picks", '{'); // indexes into rows
    put_pick(&w, h, "recommended", h->recommended);
    put_pick(&w, h, "cheapest_in_time", h->cheapest_in_time);
    put_pick(&w, h, "fastest_in_budget", h->fastest_in_budget);
    put_pick(&w, h, "smallest", h->smallest);
    json_put_string(&w, "reason", h->reason);
    json_close(&w, '}');
    json_open(&w, "advice", '[');
    for (size_t i = 0; i < h->advice_count; i++)
        json_put_string(&w, NULL, h->advice[i]);
    json_close(&w, ']');
    json_open(&w, "assumptions", '[');
    for (size_t i = 0; i < h->assumption_count; i++)
        assumption_write(&h->assumptions[i], &w);
    json_close(&w, ']');
    json_open(&w, "rows", '[');
    for (size_t i = 0; i < h->count; i++)
        put_row(&w, h, &h->rows[i], arena);
    json_close(&w, ']');
    json_close(&w, '}');
    out_char(out, '\n');
}
