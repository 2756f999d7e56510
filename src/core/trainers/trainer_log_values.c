// SPDX-License-Identifier: Apache-2.0
// Numbers with their names and units in a line, and in dictionaries.

#include "core/trainers/trainer_log_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE = 80 };

void trainer_log_clear(struct trainer_log_found *found)
{
    *found = (struct trainer_log_found){ .event = { .rank = -1 } };
    double *value = &found->event.step, *end = &found->event.clock_seconds + 1;
    while (value < end)
        *value++ = NAN;
    found->micro_step = found->announced = found->epochs = NAN;
    found->gathered = found->ranks = NAN;
}

// --- numbers -----------------------------------------------------------------

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

static const char *digits(const char *at)
{
    while (isdigit((unsigned char)*at))
        at++;
    return at;
}

// "1,760", "-0.5", "1e-05", "1.500000E-04", "nan". Not hexadecimal, and not a word's tail.
const char *trainer_log_number(const char *at, double *value)
{
    static const char *const nothing[] = { "nan", "None", "n/a", "null", "inf" };
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        size_t size = strlen(nothing[i]);
        if (!strncmp(at, nothing[i], size) && !is_word(at[size])) {
            *value = NAN;
            return at + size;
        }
    }
    const char *first = at + (*at == '-' || *at == '+'), *end = digits(first);
    while (end > first && *end == ',' && digits(end + 1) == end + 4) // thousands
        end += 4;
    bool known = end > first;
    if (*end == '.' && (known || isdigit((unsigned char)end[1])))
        end = digits(end + 1), known = true;
    if (!known)
        return NULL;
    const char *exponent = end + 1 + (*end && (end[1] == '-' || end[1] == '+'));
    if ((*end == 'e' || *end == 'E') && digits(exponent) > exponent)
        end = digits(exponent);
    char text[64];
    size_t size = 0;
    for (const char *c = at; c < end && size + 1 < sizeof text; c++)
        if (*c != ',')
            text[size++] = *c;
    text[size] = 0;
    *value = strtod(text, NULL);
    return isfinite(*value) ? end : NULL;
}

// "16m 51s", as ms-swift prints it.
static double spelled_duration(const char *at)
{
    static const struct {
        char letter;
        double seconds;
    } parts[] = { { 'd', 86400 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
    double sum = NAN, value;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const char *end = isdigit((unsigned char)*at) ? trainer_log_number(at, &value) : NULL;
        if (!end || *end != parts[i].letter)
            continue;
        sum = (isnan(sum) ? 0 : sum) + value * parts[i].seconds;
        at = end + 1 + strspn(end + 1, " ");
    }
    return sum;
}

double trainer_log_duration(const char *at)
{
    double sum = spelled_duration(at), part;
    if (!isnan(sum))
        return sum;
    sum = 0;
    const char *end;
    while ((end = isdigit((unsigned char)*at) ? trainer_log_number(at, &part) : NULL)) {
        sum = sum * 60 + part;
        if (*end != ':')
            return sum;
        at = end + 1;
    }
    return NAN;
}

// Days since 1970 in the Gregorian calendar, whose years are taken to begin in March.
static double days_of(int year, int month, int day)
{
    int shifted = month < 3 ? year - 1 : year, after_march = (month + 9) % 12;
    int leap_days = shifted / 4 - shifted / 100 + shifted / 400;
    return 365.0 * shifted + leap_days + (153 * after_march + 2) / 5 + day - 719469;
}

// The numbers of a text in the form of a pattern, in which 0 stands for a digit and a blank for
// itself or a T; false if it has another form.
static bool read_form(int *numbers, const char *at, const char *pattern)
{
    for (size_t i = 0, count = 0; pattern[i]; i++) {
        bool digit = pattern[i] == '0';
        if (digit ? !isdigit((unsigned char)at[i])
                  : at[i] != pattern[i] && !(pattern[i] == ' ' && at[i] == 'T'))
            return false;
        if (digit)
            numbers[count] = numbers[count] * 10 + at[i] - '0';
        count += !digit;
    }
    return true;
}

// Seconds of "+02:00" and "-0500"; 0 for "Z" and without a zone.
static double zone_of(const char *at)
{
    int zone[2] = { 0 }, joined[1] = { 0 };
    double sign = *at == '+' ? 1 : *at == '-' ? -1 : 0;
    if (sign && read_form(zone, at + 1, "00:00"))
        return sign * (3600.0 * zone[0] + 60.0 * zone[1]);
    if (sign && read_form(joined, at + 1, "0000"))
        return sign * (3600.0 * (joined[0] / 100) + 60.0 * (joined[0] % 100));
    return 0;
}

// ISO 8601, and what Python's logging prints: a blank for the T, a comma before milliseconds.
double trainer_log_time(const char *line)
{
    static const char form[] = "0000-00-00 00:00:00", slashes[] = "0000/00/00 00:00:00"; // MMEngine
    for (const char *at = line; *at; at++) {
        int n[6] = { 0 };
        if ((at > line && is_word(at[-1])) ||
            (!read_form(n, at, form) && !read_form(memset(n, 0, sizeof n), at, slashes)) ||
            n[0] < 1970 || n[1] < 1 || n[1] > 12)
            continue;
        const char *end = at + sizeof form - 1;
        double part = 0, tenth = 0.1;
        if (*end == '.' || *end == ',')
            for (end++; isdigit((unsigned char)*end); end++, tenth /= 10)
                part += tenth * (*end - '0');
        return 86400 * days_of(n[0], n[1], n[2]) + 3600.0 * n[3] + 60.0 * n[4] + n[5] + part -
               zone_of(end);
    }
    return NAN;
}

// --- units -------------------------------------------------------------------

static const struct {
    const char *text;
    double scale;
} units[] = {
    { "ms", 1e-3 },          { "s", 1 },    { "sec", 1 },         { "secs", 1 },
    { "GiB", 1073741824.0 }, { "GB", 1e9 }, { "MiB", 1048576.0 }, { "MB", 1e6 },
};

static const char *unit(const char *at, double *scale)
{
    const char *from = at + (*at == ' '), *end = from;
    while (is_word(*end))
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i].text) == (size_t)(end - from) &&
            !strncmp(units[i].text, from, (size_t)(end - from))) {
            *scale = units[i].scale;
            return end;
        }
    *scale = NAN;
    return at;
}

// --- keys --------------------------------------------------------------------

static void put(struct trainer_log_found *found, const struct trainer_log_key *key, double value,
                double scale)
{
    bool has_unit = !isnan(scale);
    if (isnan(value) || (key->rule == KEY_WITH_UNIT && !has_unit) ||
        (key->rule == KEY_CLOCK && value < 1e9) || (key->rule == KEY_INVERSE && value <= 0))
        return;
    value = key->rule == KEY_INVERSE ? 1 / value : value;
    value *= key->rule == KEY_WITH_UNIT ? scale : key->scale;
    *(double *)((char *)found + key->offset) = value;
    found->count++;
}

// The words before a number that name it, in lower case: after the last separator.
static const struct trainer_log_key *key_before(const char *from, const char *end)
{
    while (end > from && strchr(" :=\t", end[-1]))
        end--;
    for (const char *at = from; at < end; at++)
        if (strchr("|;]>}[{%", *at) || (strchr(",:", *at) && (at + 1 == end || at[1] == ' ')) ||
            ((*at == '-' || *at == ' ') && at[1] == ' ') ||
            (*at == '(' && !memchr(at, ')', (size_t)(end - at))))
            from = at + 1;
    while (from < end && (strchr(" \t'\"(*.:)=", *from) || (*from & 0x80))) // bullets, emoji
        from++;
    char name[KEY_SIZE];
    size_t size = (size_t)(end - from);
    if (!size || size >= sizeof name)
        return NULL;
    for (size_t i = 0; i < size; i++)
        name[i] = (char)tolower((unsigned char)from[i]);
    name[size] = 0;
    return trainer_log_find_key(name);
}

static bool is_step(const struct trainer_log_key *key)
{
    return key->offset == offsetof(struct trainer_log_found, event.step) ||
           key->offset == offsetof(struct trainer_log_found, micro_step);
}

const char *trainer_log_total(struct trainer_log_found *found, const char *at)
{
    double total;
    const char *number = at + strspn(at, " ");
    if (*number != '/')
        return at;
    number += 1 + strspn(number + 1, " ");
    const char *end = isdigit((unsigned char)*number) ? trainer_log_number(number, &total) : NULL;
    if (!end)
        return at;
    found->event.total = total;
    return end;
}

void trainer_log_pairs(struct trainer_log_found *found, const char *line)
{
    const char *from = line, *at = line;
    while (*at) {
        double value, scale;
        bool starts = at == line || !(is_word(at[-1]) || at[-1] == '.');
        const char *end = starts ? trainer_log_number(at, &value) : NULL;
        if (!end || (end > at && *end == '.') || (is_word(*end) && unit(end, &scale) == end)) {
            at++;
            continue;
        }
        const struct trainer_log_key *key = key_before(from, at);
        end = unit(end, &scale);
        if (key)
            put(found, key, value, scale);
        if (key && is_step(key))
            end = trainer_log_total(found, end);
        if (!key && !isnan(value) && !strncmp(end, " tok/s", 6))
            found->event.tokens_per_s = value;
        from = at = end > at ? end : at + 1;
    }
}

// --- dicts -------------------------------------------------------------------

// Position after the closing quote; NULL if there is none.
static const char *string_end(const char *at)
{
    char quote = *at++;
    while (*at && *at != quote)
        at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : NULL;
}

// {'loss': 0.5, 'epoch': '0.1'} of Python, {"loss": 0.5} of JSON, nested ones too.
bool trainer_log_dict(struct trainer_log_found *found, const char *line)
{
    const char *at = line;
    while ((at = strchr(at, '{')) && at[1 + strspn(at + 1, " ")] != '\'' &&
           at[1 + strspn(at + 1, " ")] != '"')
        at++;
    if (!at)
        return false;
    while (*at) {
        if (*at != '\'' && *at != '"') {
            at++;
            continue;
        }
        const char *end = string_end(at);
        if (!end)
            break;
        const char *colon = end + strspn(end, " ");
        const struct trainer_log_key *key = *colon == ':' ? key_before(at + 1, end - 1) : NULL;
        at = end;
        if (*colon != ':')
            continue;
        at = colon + 1 + strspn(colon + 1, " ");
        double value;
        bool quoted = *at == '\'' || *at == '"';
        const char *number = trainer_log_number(at + quoted, &value);
        if (number && key && key->rule == KEY_OF_TOTAL)
            number = trainer_log_total(found, number);
        if (number && quoted && *number != *at)
            number = NULL;
        if (key && key->rule == KEY_DURATION && quoted)
            put(found, key, trainer_log_duration(at + 1), NAN);
        else if (key && key->rule == KEY_CLOCK && quoted && !number)
            put(found, key, trainer_log_time(at), NAN);
        else if (number && key)
            put(found, key, value, NAN);
        if (number)
            at = number + quoted;
        else if (quoted)
            at = string_end(at) ? string_end(at) : at + strlen(at);
    }
    return true;
}
