// SPDX-License-Identifier: Apache-2.0
// Tuning services that are paid by the token, beside offers of GPUs.
//
// A service tells a price per million tokens and no duration: it is compared by cost alone, and one
// of the catalog is never recommended. The price of --managed-price is the user's own.

#include "core/hosting/hosting_internal.h"

#include <math.h>
#include <string.h>

static const char *const methods[] = { "full", "lora", "any", NULL };
enum { METHOD_FULL, METHOD_LORA, METHOD_ANY };

enum { TUNING_SFT, TUNING_PREFERENCE };
static const char *const tunings[] = { "sft", "preference", NULL };

const struct field managed_fields[] = {
    FIELD_NEEDED(managed, provider, TEXT, "provider"),
    FIELD_NEEDED(managed, service, TEXT, "its service, or the size of models that it is for"),
    FIELD(managed, model, TEXT, "model of the catalog that the price is for"),
    FIELD_OF(managed, method, methods, "method that the price is for"),
    FIELD_NEEDED(managed, least_parameters, NUMBER, "parameters of the smallest model"),
    FIELD_NEEDED(managed, most_parameters, NUMBER, "parameters of the largest model"),
    FIELD_NEEDED(managed, usd_per_million_tokens, USD, "price of a million training tokens"),
    FIELD_NEEDED(managed, confidence, TEXT, "confidence: low, medium or high"),
    FIELD_NEEDED(managed, source, TEXT, "where the price comes from"),
    FIELD_NEEDED(managed, as_of, DATE, "date of the price"),
    FIELD(managed, note, TEXT, "remark"),
    FIELD_OF(managed, objective, tunings, "what the price is for"),
    { 0 },
};

enum err hosting_read_managed(struct managed **out, size_t *count, struct arena *arena,
                              struct text csv, const char *name)
{
    void *rows = NULL;
    TRY(field_read_csv(managed_fields, sizeof **out, &rows, count, arena, csv, name));
    *out = rows;
    return OK;
}

static bool is_for(const struct managed *service, const struct plan *plan)
{
    double parameters = (double)model_parameters(plan->model);
    int method = plan->request->recipe.method == RECIPE_FULL ? METHOD_FULL : METHOD_LORA;
    enum objective_kind objective = plan->objective.kind;
    int tuning = objective == OBJECTIVE_SFT ? TUNING_SFT : TUNING_PREFERENCE;
    if (objective_samples(objective) || service->objective != tuning)
        return false; // nobody sells reinforcement learning by the token
    return (!service->model || !strcmp(service->model, plan->model->name)) &&
           (service->method == METHOD_ANY || service->method == method) &&
           parameters > service->least_parameters && parameters <= service->most_parameters;
}

// Tokens that a service counts: those of the data, or the rows at their maximum length.
static double count_tokens(const struct hosting_maker *m)
{
    const struct workload *w = &m->job.plan->chosen.workload;
    bool longest = m->request->managed_billing == HOSTING_BY_MAXIMUM_LENGTH;
    return w->epochs * (longest ? w->examples * m->job.plan->rule.context : w->tokens);
}

static struct hosting_row *add_service(struct hosting_maker *m, const char *provider,
                                       const char *service, double usd_per_million)
{
    struct hosting_row *row = hosting_new_row(m);
    row->kind = OFFERS_MANAGED;
    row->provider = provider;
    row->instance = service;
    row->region = "-";
    row->limit = "the service";
    row->managed_tokens = count_tokens(m);
    row->usd_per_million_tokens = usd_per_million;
    double usd = row->managed_tokens / 1e6 * usd_per_million;
    row->compute_usd = row->cost_usd = (struct range){ usd, usd, usd };
    row->run_hours = row->billed_hours = row->elapsed_hours = (struct range){ NAN, NAN, NAN };
    row->in_time = isnan(m->request->deadline); // the service gives no duration
    row->in_budget = row->surely_in_budget = !(usd > m->request->budget);
    row->usd_per_hour = row->list_usd_per_hour = NAN;
    row->rank_usd = usd;
    row->age_days = NAN;
    return row;
}

void hosting_add_managed(struct hosting_maker *m)
{
    const struct hosting_request *r = m->request;
    if (!hosting_has_kind(m, OFFERS_MANAGED) || r->compliance)
        return;
    if (!isnan(r->managed_price) && hosting_lists(r->provider, "managed"))
        add_service(m, "managed",
                    r->managed_billing == HOSTING_BY_MAXIMUM_LENGTH ? "rows × maximum length"
                                                                    : "tokens",
                    r->managed_price);
    for (size_t i = 0; i < m->input->managed_count; i++) {
        const struct managed *service = &m->input->managed[i];
        if (!is_for(service, m->job.plan) || r->gpu || r->gpus || r->region ||
            !hosting_lists(r->provider, service->provider))
            continue;
        struct hosting_row *row =
            add_service(m, service->provider, service->service, service->usd_per_million_tokens);
        row->managed = service;
        row->as_of = service->as_of;
        row->age_days = offers_days(service->as_of, r->today);
        row->stale = row->age_days > 180;
        row->doubt_word = "service";
        row->doubt = "it is a service: it states no duration, and its recipe is its own";
    }
}
