// SPDX-License-Identifier: Apache-2.0
// The learning rate of each step.

#include "train/schedule.h"

#include <math.h>
#include <stddef.h>

const char *const schedule_names[] = { "cosine", "linear", "constant", NULL };

double schedule_rate(const struct schedule *s, int64_t step)
{
    if (step < s->warmup_steps)
        return s->rate * (double)step / (double)s->warmup_steps;
    if (s->kind == SCHEDULE_CONSTANT)
        return s->rate;
    int64_t left = s->steps - s->warmup_steps;
    double done = left > 0 ? (double)(step - s->warmup_steps) / (double)left : 1;
    double share = s->kind == SCHEDULE_LINEAR ? 1 - done : (1 + cos(3.141592653589793 * done)) / 2;
    return s->rate * (s->lowest + (1 - s->lowest) * (share > 0 ? share : 0));
}
