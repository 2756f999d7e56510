// SPDX-License-Identifier: Apache-2.0
// comparing: asks for a comparison of places in a test, and finds rows and advice in it.

#pragma once

#include "core/hosting/hosting_internal.h"
#include "base/embedded.h"
#include "test/core/planning.h"

#include <math.h>

static const char usual[] = "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"epochs\":3,"
                            "\"gpu\":\"h100-sxm\",\"gpus\":8,\"stack\":\"hf-peft\","
                            "\"packing\":\"on\","
                            "\"search\":false}";

// A comparison of the usual plan; fields of the request are set by the test.
struct asked {
    struct hosting_request request;
    struct hosting_input input;
    struct offers offers;
    struct hosting hosting;
};

static inline struct asked *ask(const char *plan)
{
    struct asked *a = ARENA_NEW(&test_arena, struct asked, 1);
    struct billing *billing = NULL;
    a->request = hosting_request_default();
    a->request.today = "2026-11-15";
    CHECK(!offers_billing(&billing, &a->input.billing_count, &test_arena,
                          embedded_file("billing.csv"), "billing.csv"));
    offers_of_catalog(&a->offers, &test_arena, &planning_data()->catalog);
    a->input.plan = planning_make(plan);
    a->input.offers = &a->offers;
    a->input.billing = billing;
    a->input.request = &a->request;
    return a;
}

static inline const struct hosting *answer(struct asked *a)
{
    enum err err = hosting_make(&a->hosting, &test_arena, &a->input);
    test_check(!err, err ? error_text() : "", "hosting_make", 0);
    return &a->hosting;
}

static inline void add_own(struct asked *a, const char *csv)
{
    struct offers own;
    struct offers_report report;
    struct offers_source source = { .catalog = &planning_data()->catalog,
                                    .text = text_of(csv),
                                    .name = "mine.csv",
                                    .as_of = "2026-11-15" };
    enum err err = offers_read(&own, &report, &test_arena, &source);
    test_check(!err, err ? error_text() : "", "offers_read", 0);
    offers_override(&a->offers, &test_arena, &own);
}

static inline const struct hosting_row *row_of(const struct hosting *h, const char *provider,
                                               const char *instance, enum offers_kind kind)
{
    for (size_t i = 0; i < h->count; i++)
        if (!strcmp(h->rows[i].provider, provider) && h->rows[i].kind == kind &&
            (!instance || !strcmp(h->rows[i].instance, instance)))
            return &h->rows[i];
    test_check(false, "there is such a row", provider, 0);
    return NULL;
}

static inline bool advises(const struct hosting *h, const char *words)
{
    for (size_t i = 0; i < h->advice_count; i++)
        if (strstr(h->advice[i], words))
            return true;
    return false;
}
