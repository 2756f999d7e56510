// SPDX-License-Identifier: Apache-2.0
// Assumptions: how a given value replaces one, how one is sampled and written.

#include "core/forecast/assumption.h"

#include <math.h>

const char *const assumption_origins[] = { "assumed", "catalog", "measured",
                                           "given",   "ledger",  "estimated" };
_Static_assert(sizeof assumption_origins / sizeof *assumption_origins == ASSUMPTION_ORIGINS,
               "every origin has a name");

struct assumption assumption_given(struct assumption assumed, double value)
{
    if (isnan(value))
        return assumed;
    assumed.value = (struct range){ value, value, value };
    assumed.origin = ASSUMPTION_GIVEN;
    assumed.source = assumed.as_of = NULL;
    return assumed;
}

struct assumption assumption_measured(struct assumption assumed, double value, const char *source,
                                      const char *as_of)
{
    return (struct assumption){ assumed.name,        assumed.unit, { value, value, value },
                                ASSUMPTION_MEASURED, source,       as_of };
}

struct assumption_spread assumption_spread(const struct assumption *assumption)
{
    struct assumption_spread spread = { .value = assumption->value };
    const struct range *value = &spread.value;
    spread.is_certain = value->low == value->mid && value->high == value->mid;
    if (value->low > 0 && value->low != value->mid)
        spread.log_low = log(value->low / value->mid);
    if (value->low > 0 && value->high != value->mid)
        spread.log_high = log(value->high / value->mid);
    return spread;
}

void assumption_write(const struct assumption *assumption, struct json_writer *w)
{
    json_open(w, NULL, '{');
    json_put_string(w, "name", assumption->name);
    json_put_number(w, "value", assumption->value.mid);
    if (assumption->value.low != assumption->value.high) {
        json_put_number(w, "low", assumption->value.low);
        json_put_number(w, "high", assumption->value.high);
    }
    json_put_string(w, "unit", assumption->unit);
    json_put_string(w, "origin", assumption_origins[assumption->origin]);
    json_put_string(w, "source", assumption->source);
    json_put_string(w, "as_of", assumption->as_of);
    json_close(w, '}');
}
