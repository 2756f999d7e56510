// SPDX-License-Identifier: Apache-2.0
// Progress bars as tqdm, rich and Keras draw them; tqdm's also without a total:
//
//     Epoch 0:  12%|█▏        | 12/100 [00:12<01:23,  1.05it/s, loss=0.5]
//     Epoch 0/9 ━━━━━━╸━━━━━ 12/100 0:00:12 • 0:01:23 1.05it/s loss: 0.5
//     12/100 ━━━━━━━━━━━━━━━━━━━━ 1:23 952ms/step - loss: 0.5
//     12it [00:12,  1.05it/s, loss=0.5]
//     Epoch 0: |          | 12/? [00:12<00:00,  1.05it/s, v_num=0]

#include "core/trainers/trainer_log_internal.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static const char *const step_units[] = { "it", "step", "steps", "batch", "batches", "iter", "ba" };

static bool is_step_unit(const char *at, size_t size)
{
    for (size_t i = 0; i < sizeof step_units / sizeof *step_units; i++)
        if (strlen(step_units[i]) == size && !strncmp(step_units[i], at, size))
            return true;
    return false;
}

static const char *letters(const char *at)
{
    while (isalpha((unsigned char)*at))
        at++;
    return at;
}

// "1.05it/s", "2.3s/it", "?it/s". False if it does not count steps.
static bool read_rate(const char *at, double *step_seconds)
{
    double value = NAN;
    const char *end = *at == '?' ? at + 1 : trainer_log_number(at, &value);
    *step_seconds = NAN;
    if (!end)
        return true; // a custom format
    end += strspn(end, " ");
    const char *slash = letters(end);
    if (*slash != '/')
        return true;
    const char *last = letters(slash + 1);
    bool per_second = last - slash == 2 && slash[1] == 's';
    if (per_second ? !is_step_unit(end, (size_t)(slash - end))
                   : !is_step_unit(slash + 1, (size_t)(last - slash - 1)))
        return false;
    if (value > 0)
        *step_seconds = per_second ? 1 / value : value;
    return true;
}

static const char *read_count(const char *at, double *value)
{
    at += strspn(at, " ");
    return isdigit((unsigned char)*at) ? trainer_log_number(at, value) : NULL;
}

// "12/100": numbers with "k" or "M" count bytes or rows, never steps.
static const char *read_counts(struct trainer_log_bar *bar, const char *at)
{
    at = read_count(at, &bar->at);
    at = at && *at == '/' ? read_count(at + 1, &bar->total) : NULL;
    return at && !isalpha((unsigned char)*at) && bar->total > 0 && bar->at <= bar->total ? at
                                                                                         : NULL;
}

static void name_bar(struct trainer_log_bar *bar, const char *from, const char *end)
{
    for (const char *at = from; at < end; at++) // other text before it in the line
        if (*at == ']' || *at == '}')
            from = at + 1;
    struct text name = text_trim((struct text){ from, (size_t)(end - from) });
    while (name.size && (name.at[name.size - 1] == ':' || name.at[name.size - 1] == ' '))
        name.size--;
    bar->name = name;
    bar->kind = trainer_log_find_bar_kind(name, &bar->epoch, &bar->step);
}

// From the bracket on: ", 1.05it/s, loss=0.5]". Bars of bytes and files have no steps.
static void read_inside(struct trainer_log_bar *bar, const char *open)
{
    const char *rate = strchr(open, ',');
    rate = rate && rate < bar->end ? rate + 1 + strspn(rate + 1, " ") : bar->end;
    if (!read_rate(rate, &bar->step_seconds))
        bar->kind = BAR_OTHER;
    bar->postfix = rate;
    bar->end++;
}

static bool read_tqdm(struct trainer_log_bar *bar, const char *from, const char *percent)
{
    const char *name_end = percent;
    while (name_end > from && isdigit((unsigned char)name_end[-1]))
        name_end--;
    const char *close = strchr(percent + 2, '|');
    const char *at = close ? read_counts(bar, close + 1) : NULL;
    if (!at || strncmp(at, " [", 2) || !(bar->end = strchr(at, ']')))
        return false;
    name_bar(bar, from, name_end);
    bar->elapsed_seconds = trainer_log_duration(at + 2);
    read_inside(bar, at);
    return true;
}

static bool is_line_drawing(const char *at) // ━ ╸ ╺
{
    return !strncmp(at, "\xe2\x94\x81", 3) || !strncmp(at, "\xe2\x95\xb8", 3) ||
           !strncmp(at, "\xe2\x95\xba", 3);
}

static bool read_rich(struct trainer_log_bar *bar, const char *from, const char *line)
{
    const char *at = line;
    while (is_line_drawing(at))
        at += 3;
    if (at - line < 9 || !(at = read_counts(bar, at)))
        return false;
    name_bar(bar, from, line);
    bar->elapsed_seconds = trainer_log_duration(at + strspn(at, " "));
    const char *bullet = strstr(at, "\xe2\x80\xa2"); // between the time used and the time left
    const char *rate = bullet ? bullet + 3 + strspn(bullet + 3, " 0123456789:-") : at;
    while (rate > at && !strchr(" \xa2", rate[-1]))
        rate--;
    if (!read_rate(rate, &bar->step_seconds))
        bar->kind = BAR_OTHER;
    bar->postfix = rate;
    bar->end = rate + strlen(rate);
    return true;
}

// Keras counts before the bar, and has the time left, or at the end of an epoch the time used, and
// the mean of the epoch's steps so far. A mean in whole seconds is too rough to be one.
static bool read_keras(struct trainer_log_bar *bar, const char *from, const char *line)
{
    const char *at = line, *begin = line;
    while (is_line_drawing(at))
        at += 3;
    while (begin > from && strchr(" /0123456789", begin[-1]))
        begin--;
    const char *after = at - line >= 9 ? read_counts(bar, begin) : NULL;
    if (!after || after + strspn(after, " ") != line)
        return false;
    name_bar(bar, from, begin);
    at += strspn(at, " ");
    at += strcspn(at, " ");
    const char *unit = trainer_log_number(at + strspn(at, " "), &bar->step_seconds);
    if (!unit)
        unit = "";
    bar->step_seconds *= !strncmp(unit, "ms/step", 7)   ? 1e-3
                         : !strncmp(unit, "us/step", 7) ? 1e-6
                                                        : NAN;
    bar->elapsed_seconds = NAN;
    bar->keras = true;
    bar->postfix = at;
    bar->end = at + strlen(at);
    return true;
}

// Before " [": "123it", or "| 123/?".
static bool read_open(struct trainer_log_bar *bar, const char *from, const char *open)
{
    const char *end = open;
    if (end == from || *--end != ' ' || !(bar->end = strchr(open, ']')))
        return false;
    const char *unit = end;
    while (unit > from && isalpha((unsigned char)unit[-1]))
        unit--;
    bool asked = unit == end && end - from > 2 && !strncmp(end - 2, "/?", 2);
    if (!asked && !is_step_unit(unit, (size_t)(end - unit)))
        return false;
    const char *begin = asked ? end - 2 : unit;
    while (begin > from && isdigit((unsigned char)begin[-1]))
        begin--;
    bar->elapsed_seconds = trainer_log_duration(open + 1);
    if ((begin > from && begin[-1] != ' ') || !read_count(begin, &bar->at) ||
        isnan(bar->elapsed_seconds))
        return false;
    name_bar(bar, from, begin);
    bar->total = INFINITY;
    read_inside(bar, open);
    return true;
}

bool trainer_log_read_bar(struct trainer_log_bar *bar, const char *from)
{
    for (const char *at = from; *(at += strcspn(at, "%[\xe2")); at++) {
        *bar = (struct trainer_log_bar){ .epoch = NAN, .step = NAN };
        if (at[0] == '%' && at[1] == '|' && read_tqdm(bar, from, at))
            return true;
        if (at[0] == '[' && read_open(bar, from, at))
            return true;
        if (is_line_drawing(at) && (at < from + 3 || !is_line_drawing(at - 3)) &&
            (read_rich(bar, from, at) || read_keras(bar, from, at)))
            return true;
    }
    return false;
}
