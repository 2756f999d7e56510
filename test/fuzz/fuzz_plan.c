// SPDX-License-Identifier: Apache-2.0
// Whatever the request, it becomes a plan whose ranges are in order, or is refused.

#include "core/plan/plan.h"
#include "test/fuzz/mutate.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(json)

static bool is_ordered(const struct range *range)
{
    return isnan(range->mid) || (range->low <= range->mid && range->mid <= range->high);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct arena lasting;
    static struct plan_data catalogs;
    if (!lasting.block && plan_open(&catalogs, &lasting, NULL, 0))
        abort();
    struct arena arena = { 0 };
    struct plan_request request;
    struct text text = { (const char *)data, size };
    if (!plan_request_read(&request, &arena, text, "fuzz")) {
        struct plan *plan = ARENA_NEW(&arena, struct plan, 1);
        if (!plan_make(plan, &arena, &catalogs, &request)) {
            const struct forecast *f = &plan->forecast;
            if (!is_ordered(&f->tokens_per_s) || !is_ordered(&f->gpu_hours) ||
                !is_ordered(&f->cost_usd) || !(f->gpu_hours.mid > 0))
                abort();
            struct out out = { .arena = &arena };
            plan_write(plan, &arena, &out);
            plan_text(plan, &arena, &out);
            plan_explain(plan, &arena, &out);
        }
    }
    arena_release(&arena);
    return 0;
}
