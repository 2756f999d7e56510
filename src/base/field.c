// SPDX-License-Identifier: Apache-2.0
// Tables that describe structs: reading, writing and spelling their members.

#include "base/field.h"

#include <math.h>
#include <string.h>

const struct field_words field_kinds[] = {
    [FIELD_END] = { "end", "", "" },
    [FIELD_TEXT] = { "text", "TEXT", "string" },
    [FIELD_DATE] = { "date", "DATE", "string" },
    [FIELD_FLAG] = { "flag", NULL, "boolean" },
    [FIELD_CHOICE] = { "choice", "WORD", "string" },
    [FIELD_COUNT] = { "count", "N", "integer" },
    [FIELD_NUMBER] = { "number", "NUMBER", "number" },
    [FIELD_SHARE] = { "share", "SHARE", "number, 0 to 1" },
    [FIELD_BYTES] = { "bytes", "BYTES", "number, bytes" },
    [FIELD_SECONDS] = { "seconds", "DURATION", "number, seconds" },
    [FIELD_RATE] = { "rate", "RATE", "number, per second" },
    [FIELD_USD] = { "usd", "USD", "number, USD" },
    [FIELD_PRICE] = { "price", "USD", "number, USD" },
};

static void *member(const struct field *field, void *object)
{
    return (char *)object + field->offset;
}

static const void *member_const(const struct field *field, const void *object)
{
    return (const char *)object + field->offset;
}

static bool is_double(enum field_kind kind)
{
    return kind >= FIELD_NUMBER;
}

const struct field *field_find(const struct field *fields, struct text name)
{
    for (const struct field *f = fields; f->name; f++) {
        size_t size = strlen(f->name), i = 0;
        if (size != name.size)
            continue;
        while (i < size && (f->name[i] == name.at[i] || (f->name[i] == '_' && name.at[i] == '-')))
            i++;
        if (i == size)
            return f;
    }
    return NULL;
}

static enum err set_flag(bool *out, struct text value)
{
    static const char *const yes[] = { "yes", "on", "true", "1" };
    static const char *const no[] = { "no", "off", "false", "0" };
    for (int i = 0; i < 4; i++) {
        if (text_is(value, yes[i]))
            return *out = true, OK;
        if (text_is(value, no[i]))
            return *out = false, OK;
    }
    return fail(ERR_INPUT, "\"%.*s\" is neither on nor off", TEXT_BRIEF(value));
}

// What trainers call the same.
static const struct {
    const char *theirs, *ours;
} long_names[] = {
    { "bfloat16", "bf16" },
    { "float16", "fp16" },
    { "half", "fp16" },
    { "float32", "fp32" },
    { "float8", "fp8" },
    { "float4", "fp4" },
    { "adamw_torch", "adamw" },
    { "adamw_torch_fused", "adamw" },
    { "adamw_hf", "adamw" },
    { "adamw_bnb_8bit", "adamw-8bit" },
    { "paged_adamw", "adamw-paged" },
    { "paged_adamw_32bit", "adamw-paged" },
    { "paged_adamw_8bit", "adamw-paged-8bit" },
    { "kubernetes", "k8s" },
    { "skypilot", "sky" },
};

static struct text in_our_words(struct text value)
{
    for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++)
        if (text_alike(value, text_of(long_names[i].theirs)))
            return text_of(long_names[i].ours);
    return value;
}

static enum err set_choice(int *out, const char *const *choices, struct text value)
{
    size_t count = 0;
    struct text ours = in_our_words(value);
    for (; choices[count]; count++)
        if (*choices[count] && text_is(value, choices[count]))
            return *out = (int)count, OK;
    for (size_t i = 0; i < count; i++)
        if (text_alike(ours, text_of(choices[i])))
            return *out = (int)i, OK;
    char list[256] = "";
    for (size_t i = 0, used = 0; i < count && used < sizeof list - 32; i++) {
        size_t size = strlen(choices[i]);
        if (used + size + 3 > sizeof list)
            break;
        if (!size)
            continue;
        if (used)
            memcpy(list + used, ", ", 2), used += 2;
        memcpy(list + used, choices[i], size);
        used += size;
        list[used] = 0;
    }
    const char *near = text_nearest(value, choices, count);
    return fail(ERR_INPUT, "\"%.*s\" is not one of %s%s%s%s", TEXT_BRIEF(value), list,
                near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

void field_put_choices(const struct field *field, struct out *out, const char *last)
{
    const char *const *choices = field->choices;
    int left = 0;
    for (int i = 0; choices && choices[i]; i++)
        left += *choices[i] != 0;
    const char *before = ": ";
    for (int i = 0; left; i++) {
        if (!*choices[i])
            continue;
        out_put(out, "%s%s", before, choices[i]);
        before = --left > 1 ? ", " : last;
    }
}

// The number that so many digits spell, or -1.
static int spelled(const char *at, int count)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (at[i] < '0' || at[i] > '9')
            return -1;
        value = value * 10 + at[i] - '0';
    }
    return value;
}

static bool is_date(struct text value) // a year, a month or a day
{
    if ((value.size != 4 && value.size != 7 && value.size != 10) || spelled(value.at, 4) < 0)
        return false;
    int month = value.size >= 7 && value.at[4] == '-' ? spelled(value.at + 5, 2) : -1;
    int day = value.size == 10 && value.at[7] == '-' ? spelled(value.at + 8, 2) : -1;
    return (value.size < 7 || (month >= 1 && month <= 12)) &&
           (value.size < 10 || (day >= 1 && day <= 31));
}

static enum err set_price(double *usd, struct text value)
{
    bool per_gpu;
    TRY(text_read_price(usd, &per_gpu, value));
    if (!per_gpu)
        return fail(
            ERR_INPUT,
            "\"%.*s\" could be per GPU or per machine; give dollars per GPU hour, e.g. 2.49 "
            "or 2.49/gpu-h",
            TEXT_BRIEF(value));
    return OK;
}

// Whether a number stands alone: only then does the column's scale say what it means.
static bool has_no_unit(struct text value)
{
    char last = value.size ? value.at[value.size - 1] : 0;
    return last == '.' || (last >= '0' && last <= '9');
}

// A number without unit that is not whole: what "21.4" is that should have been "21.4M".
static bool is_fraction(struct text value)
{
    double number;
    return has_no_unit(value) && !text_read_number(&number, value) && number != nearbyint(number);
}

static enum err set(const struct field *field, void *object, struct arena *arena, struct text value)
{
    void *at = member(field, object);
    double number = NAN;
    int64_t count = 0;
    if (value.size && memchr(value.at, 0, value.size))
        return fail(ERR_INPUT, "holds a NUL byte");
    switch (field->kind) {
    case FIELD_DATE:
        if (!is_date(value))
            return fail(ERR_INPUT, "\"%.*s\" is not a date like 2026-08-22", TEXT_BRIEF(value));
        // fall through
    case FIELD_TEXT: *(const char **)at = text_copy(arena, value); return OK;
    case FIELD_FLAG: return set_flag(at, value);
    case FIELD_CHOICE: return set_choice(at, field->choices, value);
    case FIELD_COUNT:
        if (field->value && !strcmp(field->value, "TOKENS") && is_fraction(value))
            return fail(ERR_INPUT, "\"%.*s\" is not a whole number; write %.*sM for millions",
                        TEXT_BRIEF(value), TEXT_BRIEF(value));
        TRY(text_read_count(&count, value));
        if (count < 0)
            return fail(ERR_INPUT, "\"%.*s\" is negative", TEXT_BRIEF(value));
        *(int64_t *)at = count;
        return OK;
    case FIELD_NUMBER: TRY(text_read_number(&number, value)); break;
    case FIELD_SHARE: TRY(text_read_share(&number, value)); break;
    case FIELD_BYTES: TRY(text_read_bytes(&number, value)); break;
    case FIELD_SECONDS: TRY(text_read_seconds(&number, value)); break;
    case FIELD_RATE: TRY(text_read_rate(&number, value)); break;
    case FIELD_USD: TRY(text_read_usd(&number, value)); break;
    case FIELD_PRICE: TRY(set_price(&number, value)); break;
    case FIELD_END:
    case FIELD_KINDS: return fail(ERR_BUG, "has no kind");
    }
    if (field->scale && has_no_unit(value))
        number *= field->scale;
    if (!isfinite(number))
        return fail(ERR_INPUT, "\"%.*s\" is too large", TEXT_BRIEF(value));
    if (field->kind != FIELD_NUMBER && number < 0)
        return fail(ERR_INPUT, "\"%.*s\" is negative", TEXT_BRIEF(value));
    if (field->kind == FIELD_SHARE && number > 1)
        return fail(ERR_INPUT, "\"%.*s\" is above 1", TEXT_BRIEF(value));
    *(double *)at = number + 0.0; // of minus zero: zero
    return OK;
}

enum err field_set(const struct field *field, void *object, struct arena *arena, struct text value)
{
    enum err err = set(field, object, arena, text_trim(value));
    return err ? error_prefix(err, "%s: ", field->name) : OK;
}

void field_clear(const struct field *fields, void *object)
{
    for (const struct field *f = fields; f->name; f++) {
        void *at = member(f, object);
        if (is_double(f->kind))
            *(double *)at = NAN;
        else if (f->kind == FIELD_COUNT)
            *(int64_t *)at = 0;
        else if (f->kind == FIELD_FLAG)
            *(bool *)at = false;
        else if (f->kind == FIELD_CHOICE)
            *(int *)at = 0;
        else
            *(const char **)at = NULL;
    }
}

bool field_known(const struct field *field, const void *object)
{
    if (is_double(field->kind))
        return !isnan(*(const double *)member_const(field, object));
    if (field->kind == FIELD_TEXT || field->kind == FIELD_DATE)
        return *(const char *const *)member_const(field, object) != NULL;
    return true;
}

double field_number(const struct field *field, const void *object)
{
    const void *at = member_const(field, object);
    if (is_double(field->kind))
        return *(const double *)at;
    if (field->kind == FIELD_COUNT)
        return (double)*(const int64_t *)at;
    return NAN;
}

const char *field_spell(const struct field *field, const void *object, struct arena *arena)
{
    const void *at = member_const(field, object);
    if (!field_known(field, object))
        return "";
    switch (field->kind) {
    case FIELD_TEXT:
    case FIELD_DATE: return *(const char *const *)at;
    case FIELD_FLAG: return *(const bool *)at ? "on" : "off";
    case FIELD_CHOICE: return field->choices[*(const int *)at];
    case FIELD_COUNT: return text_format(arena, "%lld", (long long)*(const int64_t *)at);
    case FIELD_BYTES: return text_bytes(arena, *(const double *)at);
    case FIELD_SECONDS: return text_seconds(arena, *(const double *)at);
    case FIELD_USD:
    case FIELD_PRICE: return text_usd(arena, *(const double *)at);
    case FIELD_RATE: {
        double rate = *(const double *)at;
        const char *unit = strstr(field->name, "flops") ? "FLOP/s" : "B/s";
        return rate >= 1e12 ? text_format(arena, "%.4g T%s", rate / 1e12, unit)
                            : text_format(arena, "%.4g G%s", rate / 1e9, unit);
    }
    default: return text_format(arena, "%.6g", *(const double *)at);
    }
}

const char *field_value(const struct field *field)
{
    return field->kind == FIELD_FLAG ? NULL
           : field->value            ? field->value
                                     : field_kinds[field->kind].value;
}

static bool is_unset(const struct field *field, const void *object)
{
    const void *at = member_const(field, object);
    return field->kind == FIELD_FLAG     ? !*(const bool *)at
           : field->kind == FIELD_CHOICE ? *(const int *)at < 0
           : field->kind == FIELD_COUNT  ? *(const int64_t *)at < 0
                                         : false;
}

const char *field_default(const struct field *field, const void *object, struct arena *arena)
{
    const char *words = field->fallback, *gap = words ? strstr(words, "%s") : NULL;
    if (words && !gap)
        return *words ? words : NULL;
    if (!object || !field_known(field, object) || is_unset(field, object))
        return NULL;
    const char *spelled = field_spell(field, object, arena);
    return gap ? text_format(arena, "%.*s%s%s", (int)(gap - words), words, spelled, gap + 2)
               : spelled;
}

void field_write(const struct field *fields, const void *object, struct json_writer *w)
{
    for (const struct field *f = fields; f->name; f++) {
        const void *at = member_const(f, object);
        if (is_double(f->kind))
            json_put_number(w, f->name, *(const double *)at);
        else if (f->kind == FIELD_COUNT)
            json_put_count(w, f->name, *(const int64_t *)at);
        else if (f->kind == FIELD_FLAG)
            json_put_bool(w, f->name, *(const bool *)at);
        else if (f->kind == FIELD_CHOICE)
            json_put_string(w, f->name, f->choices[*(const int *)at]);
        else
            json_put_string(w, f->name, *(const char *const *)at);
    }
}

// What a file says is one line: a name from elsewhere adds no line to what is printed.
static enum err set_from_file(const struct field *f, void *object, struct arena *arena,
                              struct text value)
{
    TRY(field_set(f, object, arena, value));
    if (f->kind == FIELD_TEXT) {
        const char **at = member(f, object);
        *at = text_one_line(arena, text_of(*at));
    }
    return OK;
}

static enum err set_json(const struct field *f, void *object, struct arena *arena,
                         const struct json *value)
{
    if (value->kind == JSON_STRING)
        return set_from_file(f, object, arena, value->string);
    if (value->kind == JSON_NULL) {
        field_clear((const struct field[]){ *f, { 0 } }, object);
        return OK;
    }
    if (value->kind == JSON_BOOL && f->kind == FIELD_FLAG) {
        *(bool *)member(f, object) = value->flag;
        return OK;
    }
    if (value->kind == JSON_NUMBER && f->kind >= FIELD_COUNT) {
        struct field in_base_units = *f; // as field_write() writes them
        in_base_units.scale = 0;
        return field_set(&in_base_units, object, arena,
                         text_of(text_format(arena, "%.17g", value->number)));
    }
    return fail(ERR_INPUT, "%s: is %s", f->name, json_kind_name(value->kind));
}

enum err field_read(const struct field *fields, void *object, struct arena *arena,
                    const struct json *in, const char *name, bool strict)
{
    if (in->kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is %s, must be an object", name, json_kind_name(in->kind));
    for (size_t i = 0; i < in->count; i++) {
        struct text key = in->items[2 * i].string;
        const struct field *f = field_find(fields, key);
        if (!f && strict)
            return fail(ERR_INPUT, "%s: has an unknown key \"%.*s\"", name, TEXT_BRIEF(key));
        if (!f)
            continue;
        enum err err = set_json(f, object, arena, &in->items[2 * i + 1]);
        if (err)
            return error_prefix(err, "%s: ", name);
    }
    return OK;
}

enum err field_read_csv(const struct field *fields, size_t struct_size, void **rows, size_t *count,
                        struct arena *arena, struct text in, const char *name)
{
    struct csv csv;
    TRY(csv_read(&csv, arena, in, name, ','));
    const struct field **of_column = ARENA_NEW(arena, const struct field *, csv.columns);
    for (size_t c = 0; c < csv.columns; c++) {
        of_column[c] = field_find(fields, csv.header[c]);
        if (!of_column[c])
            return fail(ERR_INPUT, "%s: has an unknown column \"%.*s\"", name,
                        TEXT_BRIEF(csv.header[c]));
        for (size_t before = 0; before < c; before++)
            if (of_column[before] == of_column[c])
                return fail(ERR_INPUT, "%s: has the column \"%s\" twice", name, of_column[c]->name);
    }
    for (const struct field *f = fields; f->name; f++)
        if (f->required && csv_column(&csv, f->name) < 0)
            return fail(ERR_INPUT, "%s: has no column \"%s\" (%s)", name, f->name, f->help);
    char *objects = arena_alloc(arena, csv.rows * struct_size);
    for (size_t r = 0; r < csv.rows; r++) {
        void *object = objects + r * struct_size;
        field_clear(fields, object);
        for (size_t c = 0; c < csv.columns; c++) {
            struct text cell = text_trim(csv_cell(&csv, r, (int)c));
            if (!cell.size && of_column[c]->required)
                return fail(ERR_INPUT, "%s:%d: has no %s", name, csv.lines[r], of_column[c]->name);
            if (!cell.size)
                continue;
            enum err err = set_from_file(of_column[c], object, arena, cell);
            if (err)
                return error_prefix(err, "%s:%d: ", name, csv.lines[r]);
        }
    }
    *rows = objects;
    *count = csv.rows;
    return OK;
}
