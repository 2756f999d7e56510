// SPDX-License-Identifier: Apache-2.0
// planning: a plan of a request that a test writes as JSON.

#pragma once

#include "core/plan/fit.h"
#include "test/test.h"

#include <string.h>

// Opened once, in memory that outlives the tests.
static inline struct plan_data *planning_data(void)
{
    static struct arena arena;
    static struct plan_data data;
    if (!arena.block)
        CHECK(!plan_open(&data, &arena, NULL, 0));
    return &data;
}

static inline enum err planning_try(struct plan *plan, const char *json)
{
    struct plan_request *request = ARENA_NEW(&test_arena, struct plan_request, 1);
    TRY(plan_request_read(request, &test_arena, text_of(json), "request"));
    return plan_make(plan, &test_arena, planning_data(), request);
}

static inline const struct plan *planning_make(const char *json)
{
    struct plan *plan = ARENA_NEW(&test_arena, struct plan, 1);
    enum err err = planning_try(plan, json);
    test_check(!err, err ? error_text() : "", json, 0);
    return plan;
}

// The JSON of a request for that model, with more members.
static inline const char *planning_request(const char *model, const char *members)
{
    return text_format(&test_arena, "{\"model\":\"%s\",\"tokens\":1e7,%s}", model, members);
}
