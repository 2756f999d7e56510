// SPDX-License-Identifier: Apache-2.0
// Entries of the ledger: read from documents, linked to plans, exported, and counted.

#include "core/measured/history.h"

#include <math.h>
#include <string.h>

const char *const history_kinds[] = { "profile", "plan", "pilot", "run", NULL };

#define RANGE(member, what)                                                             \
    FIELD_AS(#member "_p10", history_entry, member.low, NUMBER, what ", forecast"),     \
        FIELD_AS(#member "_p50", history_entry, member.mid, NUMBER, what ", forecast"), \
        FIELD_AS(#member "_p90", history_entry, member.high, NUMBER, what ", forecast")

const struct field history_fields[] = {
    FIELD(history_entry, id, COUNT, "in this ledger"),
    FIELD(history_entry, uid, TEXT, "hash of the content, the same in every ledger"),
    FIELD_OF(history_entry, kind, history_kinds, "kind of document"),
    FIELD(history_entry, at, TEXT, "time, UTC"),
    FIELD(history_entry, program, TEXT, "version of gpuhours"),
    FIELD(history_entry, name, TEXT, "name given by the user; without one the files of a profile"),
    FIELD(history_entry, plan, TEXT, "uid of the plan that it measured"),
    FIELD(history_entry, key, TEXT, "the same for one configuration"),
    FIELD(history_entry, model, TEXT, "model; of a profile the tokenizer"),
    FIELD(history_entry, method, TEXT, "full, lora or qlora"),
    FIELD(history_entry, stack, TEXT, "training stack"),
    FIELD(history_entry, gpu, TEXT, "GPU"),
    FIELD(history_entry, gpus, COUNT, "number of GPUs"),
    FIELD(history_entry, context, COUNT, "most tokens of a row"),
    FIELD(history_entry, tokens, NUMBER, "processed in the whole run"),
    RANGE(tokens_per_second, "tokens/s over all GPUs"),
    RANGE(wall_hours, "wall hours"),
    RANGE(gpu_hours, "GPU hours"),
    FIELD(history_entry, actual_tokens_per_second, NUMBER, "tokens/s over all GPUs, measured"),
    FIELD(history_entry, actual_wall_hours, NUMBER, "wall hours, measured"),
    FIELD(history_entry, actual_gpu_hours, NUMBER, "GPU hours, measured"),
    FIELD(history_entry, roofline_tokens_per_second, NUMBER, "tokens/s by the roofline"),
    FIELD(history_entry, configuration, TEXT, "as JSON"),
    FIELD(history_entry, document, TEXT, "as JSON"),
    { 0 },
};

void history_clear(struct history_entry *entry)
{
    *entry = (struct history_entry){ 0 };
    field_clear(history_fields, entry);
}

// --- one document ------------------------------------------------------------

static const char *text_or(struct arena *arena, const struct json *object, const char *key,
                           const char *otherwise)
{
    struct text value = json_get_text(object, key);
    return value.at ? text_copy(arena, value) : otherwise;
}

static int64_t whole_or(const struct json *object, const char *key, int64_t otherwise)
{
    double value = json_get_number(object, key, NAN);
    return value >= 0 && value <= 9e15 ? (int64_t)value : otherwise;
}

static void read_range(struct range *out, const struct json *in)
{
    if (!in || in->kind != JSON_OBJECT)
        return;
    *out = (struct range){ json_get_number(in, "p10", NAN), json_get_number(in, "p50", NAN),
                           json_get_number(in, "p90", NAN) };
}

// A measured number, or an object with its "mean".
static double read_actual(const struct json *in)
{
    if (in && in->kind == JSON_NUMBER)
        return in->number;
    return in && in->kind == JSON_OBJECT ? json_get_number(in, "mean", NAN) : NAN;
}

static void read_configuration(struct history_entry *out, struct arena *arena,
                               const struct json *in)
{
    out->model = text_or(arena, in, "model", out->model);
    out->method = text_or(arena, in, "method", out->method);
    out->stack = text_or(arena, in, "stack", out->stack);
    out->gpu = text_or(arena, in, "gpu", out->gpu);
    out->gpus = whole_or(in, "gpus", out->gpus);
    out->context = whole_or(in, "context", out->context);
}

static bool is_measured(const struct history_entry *entry)
{
    return entry->kind == HISTORY_PILOT || entry->kind == HISTORY_RUN;
}

// What a profile counted: "train.jsonl", "a.jsonl and 2 more"; NULL: its document does not say.
static const char *counted_files(struct arena *arena, const struct json *files)
{
    const struct json *first =
        files && files->kind == JSON_ARRAY && files->count ? &files->items[0] : NULL;
    const char *path = text_or(arena, first, "name", NULL);
    const char *slash = path ? strrchr(path, '/') : NULL, *name = slash ? slash + 1 : path;
    return path && files->count > 1 ? text_format(arena, "%s and %zu more", name, files->count - 1)
                                    : name;
}

// A profile goes by its data, unless the user names it; its tokenizer stands in place of a model.
static void read_profile(struct history_entry *out, struct arena *arena, const struct json *in)
{
    const struct json *tokenizer = json_get(in, "tokenizer");
    if (tokenizer && tokenizer->kind == JSON_OBJECT)
        out->model = text_or(arena, tokenizer, "name", out->model);
    out->name = counted_files(arena, json_get(in, "files"));
}

static void read_numbers(struct history_entry *out, const struct json *in)
{
    const struct json *workload = json_get(in, "workload");
    const struct json *rate = json_get(in, "tokens_per_second");
    out->tokens =
        json_get_number(workload ? workload : in,
                        out->kind == HISTORY_PROFILE ? "tokens" : "processed_tokens", NAN);
    out->roofline_tokens_per_second = json_get_number(in, "roofline_tokens_per_second", NAN);
    if (is_measured(out)) {
        out->actual_tokens_per_second = read_actual(rate);
        out->actual_wall_hours = read_actual(json_get(in, "wall_hours"));
        out->actual_gpu_hours = read_actual(json_get(in, "gpu_hours"));
    } else {
        read_range(&out->tokens_per_second, rate);
        read_range(&out->wall_hours, json_get(in, "wall_hours"));
        read_range(&out->gpu_hours, json_get(in, "gpu_hours"));
    }
    bool resumed = json_get_number(in, "resumed_from_step", 0) > 0;
    if (out->kind == HISTORY_PILOT || resumed) // not the hours of a whole run
        out->actual_wall_hours = out->actual_gpu_hours = NAN;
}

static enum err read_kind(int *out, const struct json *tree, const char *name)
{
    struct text kind = json_get_text(tree, "kind");
    for (*out = 0; history_kinds[*out]; ++*out)
        if (kind.at && text_is(kind, history_kinds[*out]))
            return OK;
    return fail(ERR_INPUT,
                "%s: \"kind\" is \"%.*s\", must be profile, plan, pilot or run, as gpuhours --json "
                "writes them",
                name, TEXT_BRIEF(kind.at ? kind : TEXT("missing")));
}

// JSON without white space between tokens.
static const char *compact(struct arena *arena, struct text json)
{
    char *out = arena_alloc(arena, json.size + 1);
    size_t size = 0;
    bool inside = false;
    for (size_t i = 0; i < json.size; i++) {
        char c = json.at[i];
        if (!inside && (c == ' ' || c == '\n' || c == '\r' || c == '\t'))
            continue;
        out[size++] = c;
        if (c == '"')
            inside = !inside;
        else if (c == '\\' && i + 1 < json.size)
            out[size++] = json.at[++i];
    }
    out[size] = 0;
    return out;
}

// The JSON text of a member.
static const char *raw_member(struct arena *arena, struct text document, const char *wanted)
{
    struct json_reader in = json_reader(document);
    struct text key;
    json_object(&in);
    while (json_key(&in, arena, &key)) {
        struct text value = json_skip(&in);
        if (text_is(key, wanted) && !in.problem)
            return compact(arena, value);
    }
    return NULL;
}

// Entries are C strings, which a zero byte would end.
static enum err check_bytes(struct text document, const char *name)
{
    if (document.size && memchr(document.at, 0, document.size))
        return fail(ERR_INPUT, "%s: contains a zero byte; it is not a document of gpuhours", name);
    return OK;
}

enum err history_read(struct history_entry *out, struct arena *arena, struct text document,
                      const char *name)
{
    struct json tree;
    history_clear(out);
    TRY(check_bytes(document, name));
    TRY(json_read(&tree, arena, document, name));
    document = text_after_mark(document); // as json_read() did
    if (tree.kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is %s, must be an object", name, json_kind_name(tree.kind));
    TRY(read_kind(&out->kind, &tree, name));
    const struct json *configuration = json_get(&tree, "configuration");
    if (configuration && configuration->kind == JSON_OBJECT) {
        read_configuration(out, arena, configuration);
        out->configuration = raw_member(arena, document, "configuration");
    }
    if (!out->stack)
        out->stack = text_or(arena, &tree, "stack", NULL);
    read_numbers(out, &tree);
    if (out->kind == HISTORY_PROFILE)
        read_profile(out, arena, &tree);
    out->document = compact(arena, document);
    history_seal(out, arena);
    return OK;
}

// --- identity, and links between entries -------------------------------------

// FNV-1a of 64 bits; a zero byte separates the texts.
static uint64_t digest(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001B3u;
    return hash * 0x100000001B3u;
}

void history_seal(struct history_entry *entry, struct arena *arena)
{
    const struct history_entry *e = entry;
    if (e->kind != HISTORY_PROFILE && e->model)
        entry->key = text_format(arena, "%s/%s/%s/%s×%lld/%lld", e->model,
                                 e->method ? e->method : "?", e->stack ? e->stack : "?",
                                 e->gpu ? e->gpu : "?", (long long)e->gpus, (long long)e->context);
    uint64_t hash = digest(0xCBF29CE484222325u, history_kinds[e->kind]);
    hash = digest(digest(hash, e->plan), e->document);
    entry->uid = text_format(arena, "%016llx", (unsigned long long)hash);
}

void history_seal_named(struct history_entry *entry, struct arena *arena)
{
    uint64_t hash = digest(digest(0xCBF29CE484222325u, entry->uid), entry->name);
    entry->uid = text_format(arena, "%016llx", (unsigned long long)hash);
}

void history_answer(struct history_entry *entry, const struct history_entry *plan, bool same_job)
{
    bool elsewhere = entry->gpu && plan->gpu && strcmp(entry->gpu, plan->gpu);
    entry->plan = plan->uid;
    const char **texts[] = { &entry->model, &entry->method, &entry->stack, &entry->gpu };
    const char *const others[] = { plan->model, plan->method, plan->stack, plan->gpu };
    for (int i = 0; i < 4; i++)
        if (!*texts[i])
            *texts[i] = others[i];
    if (!entry->gpus)
        entry->gpus = plan->gpus;
    if (!entry->context)
        entry->context = plan->context;
    if (!entry->configuration)
        entry->configuration = plan->configuration;
    if (elsewhere) // the forecast is of another GPU
        return;
    if (isnan(entry->roofline_tokens_per_second))
        entry->roofline_tokens_per_second = plan->roofline_tokens_per_second;
    entry->tokens_per_second = plan->tokens_per_second;
    if (!same_job || entry->kind != HISTORY_RUN)
        return;
    entry->wall_hours = plan->wall_hours;
    entry->gpu_hours = plan->gpu_hours;
    if (isnan(entry->tokens))
        entry->tokens = plan->tokens;
    if (!entry->name)
        entry->name = plan->name;
}

// --- many entries ------------------------------------------------------------

static bool is_json_field(const struct field *f)
{
    return !strcmp(f->name, "configuration") || !strcmp(f->name, "document");
}

static void write_entry(const struct history_entry *entry, struct json_writer *w)
{
    json_open(w, NULL, '{');
    for (const struct field *f = history_fields; f->name; f++) {
        const char *text =
            is_json_field(f) ? *(const char *const *)((const char *)entry + f->offset) : NULL;
        if (text)
            json_put_raw(w, f->name, text_of(text));
        else if (is_json_field(f))
            json_put_string(w, f->name, NULL);
        else
            field_write((const struct field[]){ *f, { 0 } }, entry, w);
    }
    json_close(w, '}');
}

void history_write(const struct history_entry *entries, size_t count, struct out *out)
{
    struct json_writer w = { .out = out };
    json_open(&w, NULL, '{');
    json_put_string(&w, "kind", "runs");
    json_put_count(&w, "version", 1);
    json_open(&w, "runs", '[');
    for (size_t i = 0; i < count; i++)
        write_entry(&entries[i], &w);
    json_close(&w, ']');
    json_close(&w, '}');
    out_char(out, '\n');
}

// Quotes a cell if needed; a cell that a spreadsheet would run as a formula becomes text.
static void put_cell(struct out *out, const char *cell, bool is_text)
{
    bool formula = is_text && *cell && strchr("=+-@", *cell);
    if (!formula && !strpbrk(cell, ",\"\r\n")) {
        out_put(out, "%s", cell);
        return;
    }
    out_put(out, formula ? "\"'" : "\"");
    for (; *cell; cell++)
        out_put(out, *cell == '"' ? "\"\"" : "%c", *cell);
    out_char(out, '"');
}

void history_write_csv(const struct history_entry *entries, size_t count, struct arena *arena,
                       struct out *out)
{
    for (const struct field *f = history_fields; f->name; f++)
        if (!is_json_field(f))
            out_put(out, "%s%s", f == history_fields ? "" : ",", f->name);
    out_char(out, '\n');
    for (size_t i = 0; i < count; i++) {
        for (const struct field *f = history_fields; f->name; f++) {
            if (is_json_field(f))
                continue;
            if (f != history_fields)
                out_char(out, ',');
            if (!field_known(f, &entries[i]))
                continue;
            bool is_number = f->kind == FIELD_NUMBER;
            put_cell(out,
                     is_number ? text_format(arena, "%.10g", field_number(f, &entries[i]))
                               : field_spell(f, &entries[i], arena),
                     f->kind == FIELD_TEXT);
        }
        out_char(out, '\n');
    }
}

static enum err read_entry(struct history_entry *out, struct arena *arena, struct text raw,
                           const char *name)
{
    struct json tree;
    history_clear(out);
    TRY(json_read(&tree, arena, raw, name));
    if (tree.kind != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: a run is %s, must be an object", name,
                    json_kind_name(tree.kind));
    for (const struct field *f = history_fields; f->name; f++)
        if (is_json_field(f) && json_get(&tree, f->name))
            *(const char **)((char *)out + f->offset) = raw_member(arena, raw, f->name);
    for (size_t i = 0; i < tree.count; i++) // already read above, as raw JSON
        if (text_is(tree.items[2 * i].string, "configuration") ||
            text_is(tree.items[2 * i].string, "document"))
            tree.items[2 * i + 1] = (struct json){ .kind = JSON_STRING };
    struct history_entry plain = *out;
    TRY(field_read(history_fields, &plain, arena, &tree, name, false));
    plain.configuration = out->configuration;
    plain.document = out->document;
    *out = plain;
    if (!out->uid || strlen(out->uid) != 16 || !out->at || strlen(out->at) != 20)
        return fail(ERR_INPUT,
                    "%s: a run lacks a uid of 16 digits or a time such as 2026-11-15T11:20:05Z",
                    name);
    return OK;
}

enum err history_read_all(struct history_entry **out, size_t *count, struct arena *arena,
                          struct text in, const char *name)
{
    struct json_reader reader = json_reader(in);
    struct text key;
    size_t room = 0;
    bool found = false;
    *out = NULL;
    *count = 0;
    TRY(check_bytes(in, name));
    if (json_peek(&reader) != JSON_OBJECT)
        return fail(ERR_INPUT, "%s: is neither an export of gpuhours runs nor a ledger", name);
    json_object(&reader);
    while (json_key(&reader, arena, &key)) {
        if (!text_is(key, "runs") || json_peek(&reader) != JSON_ARRAY) {
            json_skip(&reader);
            continue;
        }
        found = true;
        json_array(&reader);
        while (json_item(&reader)) {
            struct text raw = json_skip(&reader);
            if (reader.problem)
                break;
            *out = arena_room(arena, *out, sizeof **out, *count, &room);
            TRY(read_entry(&(*out)[(*count)++], arena, raw, name));
        }
    }
    TRY(json_end(&reader, name));
    return found
               ? OK
               : fail(ERR_INPUT, "%s: has no list \"runs\"; gpuhours runs export writes one", name);
}

// --- how often forecasts held ------------------------------------------------

static bool is_of(const char *value, const char *wanted)
{
    return !wanted || (value && !strcmp(value, wanted));
}

static void hold(struct history_held *held, double *errors, const struct range *forecast,
                 double actual)
{
    if (!(actual > 0) || !(forecast->low > 0) || !(forecast->mid > 0) || !(forecast->high > 0))
        return;
    errors[held->n++] = fmax(actual / forecast->mid, forecast->mid / actual);
    held->inside += actual >= forecast->low && actual <= forecast->high;
}

struct history_coverage history_coverage(struct arena *arena, const struct history_entry *entries,
                                         size_t count, const char *stack, const char *gpu)
{
    struct history_coverage out = { 0 };
    struct arena_mark mark = arena_mark(arena);
    double *rates = ARENA_NEW(arena, double, count + 1);
    double *walls = ARENA_NEW(arena, double, count + 1);
    double *hours = ARENA_NEW(arena, double, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct history_entry *e = &entries[i];
        if (!is_measured(e) || !is_of(e->stack, stack) || !is_of(e->gpu, gpu))
            continue;
        hold(&out.tokens_per_second, rates, &e->tokens_per_second, e->actual_tokens_per_second);
        hold(&out.wall_hours, walls, &e->wall_hours, e->actual_wall_hours);
        hold(&out.gpu_hours, hours, &e->gpu_hours, e->actual_gpu_hours);
    }
    out.tokens_per_second.median_error = stats_median(rates, (size_t)out.tokens_per_second.n);
    out.wall_hours.median_error = stats_median(walls, (size_t)out.wall_hours.n);
    out.gpu_hours.median_error = stats_median(hours, (size_t)out.gpu_hours.n);
    arena_rewind(arena, mark);
    return out;
}

const char *history_lacks(const struct history_entry *e)
{
    return !is_measured(e)                        ? "it measured nothing"
           : e->gpu && !strcmp(e->gpu, "cpu")     ? "it ran on a CPU"
           : !(e->actual_tokens_per_second > 0)   ? "its tokens/s are unknown; --log tells them"
           : !(e->roofline_tokens_per_second > 0) ? "it is linked to no plan of its GPU"
                                                  : NULL;
}
