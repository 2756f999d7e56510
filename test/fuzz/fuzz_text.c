// SPDX-License-Identifier: Apache-2.0
// Any bytes as a number that people write: refused, or finite and within its kind; and spelled
// again without nan or inf.

#include "base/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

struct all {
    const char *text, *date;
    bool flag;
    int64_t count;
    double number, share, bytes, seconds, rate, usd;
};

static const struct field fields[] = {
    FIELD(all, text, TEXT, ""),
    FIELD(all, date, DATE, ""),
    FIELD(all, flag, FLAG, ""),
    FIELD(all, count, COUNT, ""),
    FIELD(all, number, NUMBER, ""),
    FIELD(all, share, SHARE, ""),
    FIELD(all, bytes, BYTES, ""),
    FIELD(all, seconds, SECONDS, ""),
    FIELD(all, rate, RATE, ""),
    FIELD(all, usd, USD, ""),
    { 0 },
};

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct arena arena = { 0 };
    struct text in = { (const char *)data, size };
    struct all all = { 0 };
    for (const struct field *f = fields; f->name; f++) {
        if (field_set(f, &all, &arena, in))
            continue;
        double value = field_number(f, &all);
        bool numeric = f->kind >= FIELD_COUNT;
        if (numeric && (!isfinite(value) || (f->kind != FIELD_NUMBER && value < 0)))
            abort();
        const char *spelled = field_spell(f, &all, &arena);
        if (numeric && (strstr(spelled, "nan") || strstr(spelled, "inf")))
            abort();
        if (f->kind == FIELD_SHARE && value > 1)
            abort();
    }
    const char *const names[] = { "h100-sxm", "a100", "" };
    text_nearest(in, names, 3);
    arena_release(&arena);
    return 0;
}
