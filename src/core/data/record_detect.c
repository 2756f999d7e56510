// SPDX-License-Identifier: Apache-2.0
// Detects the format of a dataset: the first signature whose columns its first rows have.

#include "core/data/record_internal.h"

#include "base/checksum.h"

#include <ctype.h>
#include <string.h>

enum { ROWS = 64, LISTED = 96 };

const char *const record_format_names[] = {
    "auto",
    "messages",
    "sharegpt",
    "alpaca",
    "prompt-completion",
    "question-answer",
    "text",
    "preference",
    "prompt",
    "tree",
    "csv",
    NULL,
};

const char *const record_field_names[RECORD_FIELDS] = {
    "messages", "tools",      "system", "instruction", "input",    "output", "history",
    "prompt",   "completion", "text",   "chosen",      "rejected", "media",
};

// --- the columns of the first rows -------------------------------------------

enum shape {
    IS_TEXT = 1,
    IS_LIST = 2,
    IS_OBJECT = 4,
    IS_NUMBER = 8,
    IS_TURNS = 16, // text that may hold turns
    IS_TRUTH = 32, // true or false, or as a number 1 or 0
    IS_NO_TEXT = IS_NUMBER | IS_TRUTH,
};

struct column {
    struct text name; // "outer.key" for a key of an object
    int shapes;       // seen; 0: only null or nothing
    bool has_from;    // a list of objects with the key "from" (ShareGPT)
    bool is_nested;
    bool is_doubled; // the header of a table has its name twice
    int64_t bytes;   // of its values
    int64_t rows;    // that have a value
};

// Rows may have any number of keys, so names are found by their hash.
struct columns {
    struct arena *arena;
    struct column *items;
    size_t count, room;
    uint32_t *slots; // index plus one of a column; 0: free
    size_t slot_count;
    int64_t bytes, rows;
};

// Whether the names are the same but for capital letters.
static bool same_name(struct text a, struct text b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++)
        if (tolower((unsigned char)a.at[i]) != tolower((unsigned char)b.at[i]))
            return false;
    return true;
}

// Where a name is, or where it would go.
static uint32_t *slot_of(const struct columns *columns, struct text name)
{
    size_t at = checksum(name, 0) & (columns->slot_count - 1);
    while (columns->slots[at] && !text_equal(columns->items[columns->slots[at] - 1].name, name))
        at = (at + 1) & (columns->slot_count - 1);
    return &columns->slots[at];
}

static void grow(struct columns *columns)
{
    columns->items =
        arena_double(columns->arena, columns->items, sizeof *columns->items, &columns->room);
    columns->slot_count = 2 * columns->room;
    columns->slots = ARENA_NEW(columns->arena, uint32_t, columns->slot_count);
    for (size_t i = 0; i < columns->count; i++)
        *slot_of(columns, columns->items[i].name) = (uint32_t)i + 1;
}

// The column of this name: as written, else with other capital letters.
static const struct column *find(const struct columns *columns, struct text name)
{
    uint32_t at = columns->count ? *slot_of(columns, name) : 0;
    if (at)
        return &columns->items[at - 1];
    for (size_t i = 0; i < columns->count; i++)
        if (same_name(columns->items[i].name, name))
            return &columns->items[i];
    return NULL;
}

// The result is valid until the next call.
static struct column *note(struct columns *columns, struct text name)
{
    if (columns->count == columns->room)
        grow(columns);
    uint32_t *slot = slot_of(columns, name);
    if (!*slot) {
        *slot = (uint32_t)++columns->count;
        columns->items[columns->count - 1] = (struct column){ .name = name };
    }
    return &columns->items[*slot - 1];
}

// Whether the first object of a list has the key "from".
static bool is_sharegpt(struct text value, struct arena *arena)
{
    struct json_reader in = json_reader(value);
    struct text key;
    if (json_peek(&in) != JSON_ARRAY)
        return false;
    json_array(&in);
    if (!json_item(&in) || json_peek(&in) != JSON_OBJECT)
        return false;
    for (json_object(&in); json_key(&in, arena, &key); json_skip(&in))
        if (text_is(key, "from"))
            return true;
    return false;
}

// Text may hold turns: a list as JSON, or a transcript.
static int shape_of_text(struct text text)
{
    text = text_trim(text);
    bool turns = text.size > 1 && (text.at[0] == '[' || text.at[0] == '{');
    return turns || record_is_transcript(text) ? IS_TEXT | IS_TURNS : IS_TEXT;
}

static bool is_bit(struct text value)
{
    return text_is(value, "0") || text_is(value, "1");
}

// A table has truth values as text.
static int shape_of_cell(struct text cell)
{
    bool truth = same_name(cell, TEXT("true")) || same_name(cell, TEXT("false")) || is_bit(cell);
    return truth ? IS_TRUTH : shape_of_text(cell);
}

static int shape_of(struct text value)
{
    struct json_reader in = json_reader(value);
    switch (json_peek(&in)) {
    case JSON_STRING: return shape_of_text((struct text){ value.at + 1, value.size - 1 });
    case JSON_ARRAY: return IS_LIST;
    case JSON_OBJECT: return IS_OBJECT;
    case JSON_NULL:
    case JSON_NONE: return 0;
    case JSON_BOOL: return IS_TRUTH;
    default: return is_bit(value) ? IS_TRUTH : IS_NUMBER;
    }
}

static void inspect_nested(struct columns *columns, struct arena *arena, struct text outer,
                           struct text value)
{
    struct json_reader in = json_reader(value);
    struct text key;
    for (json_object(&in); json_key(&in, arena, &key);) {
        struct text inner = json_skip(&in);
        const char *path = text_format(arena, "%.*s.%.*s", TEXT_ARGS(outer), TEXT_ARGS(key));
        struct column *column = note(columns, text_of(path));
        column->shapes |= shape_of(inner);
        column->has_from = column->has_from || is_sharegpt(inner, arena);
        column->is_nested = true;
    }
}

static void inspect_value(struct columns *columns, struct arena *arena, struct text name,
                          struct text value)
{
    struct column *column = note(columns, name);
    int shape = shape_of(value);
    column->shapes |= shape;
    column->has_from = column->has_from || is_sharegpt(value, arena);
    int64_t bytes = shape & IS_NO_TEXT || !shape ? 0 : (int64_t)value.size;
    column->bytes += bytes;
    column->rows += shape != 0;
    columns->bytes += bytes;
    if (shape == IS_OBJECT)
        inspect_nested(columns, arena, name, value);
}

static void inspect_row(struct columns *columns, struct arena *arena, struct text row)
{
    struct json_reader in = json_reader(row);
    struct text key;
    if (json_peek(&in) != JSON_OBJECT)
        return;
    columns->rows++;
    for (json_object(&in); json_key(&in, arena, &key);) {
        struct text value = json_skip(&in);
        if (!in.problem)
            inspect_value(columns, arena, key, value);
    }
}

// --- formats -----------------------------------------------------------------

// The parts that each format reads. The first `needed` of them are required; those after `found`
// are read only if --fields names them, because trainers do not read them by themselves.
static const struct {
    int needed, found, count;
    enum record_field parts[8];
} uses[RECORD_FORMATS] = {
    [RECORD_MESSAGES] = { 1,
                          4,
                          4,
                          { RECORD_F_MESSAGES, RECORD_F_TOOLS, RECORD_F_SYSTEM, RECORD_F_MEDIA } },
    [RECORD_SHAREGPT] = { 1,
                          4,
                          4,
                          { RECORD_F_MESSAGES, RECORD_F_TOOLS, RECORD_F_SYSTEM, RECORD_F_MEDIA } },
    [RECORD_ALPACA] = { 2,
                        7,
                        7,
                        { RECORD_F_INSTRUCTION, RECORD_F_OUTPUT, RECORD_F_INPUT, RECORD_F_SYSTEM,
                          RECORD_F_HISTORY, RECORD_F_TOOLS, RECORD_F_MEDIA } },
    [RECORD_COMPLETION] = { 2,
                            5,
                            6,
                            { RECORD_F_PROMPT, RECORD_F_COMPLETION, RECORD_F_TOOLS, RECORD_F_SYSTEM,
                              RECORD_F_MEDIA, RECORD_F_INPUT } },
    [RECORD_QUESTION] = { 2,
                          6,
                          6,
                          { RECORD_F_PROMPT, RECORD_F_COMPLETION, RECORD_F_INPUT, RECORD_F_SYSTEM,
                            RECORD_F_TOOLS, RECORD_F_MEDIA } },
    [RECORD_TEXT] = { 1, 2, 2, { RECORD_F_TEXT, RECORD_F_MEDIA } },
    [RECORD_PREFERENCE] = { 2,
                            8,
                            8,
                            { RECORD_F_CHOSEN, RECORD_F_REJECTED, RECORD_F_PROMPT, RECORD_F_INPUT,
                              RECORD_F_MESSAGES, RECORD_F_TOOLS, RECORD_F_SYSTEM,
                              RECORD_F_MEDIA } },
    [RECORD_PROMPT] = { 1,
                        4,
                        5,
                        { RECORD_F_PROMPT, RECORD_F_TOOLS, RECORD_F_SYSTEM, RECORD_F_MEDIA,
                          RECORD_F_INPUT } },
    [RECORD_TREE] = { 1, 2, 2, { RECORD_F_PROMPT, RECORD_F_SYSTEM } },
};

static bool format_reads(enum record_format format, int part)
{
    for (int i = 0; i < uses[format].count; i++)
        if ((int)uses[format].parts[i] == part)
            return true;
    return false;
}

static const char *list_parts(struct arena *arena, enum record_format format)
{
    struct out out = { .arena = arena };
    for (int i = 0; i < uses[format].count; i++)
        out_put(&out, "%s%s",
                !i                           ? ""
                : i + 1 < uses[format].count ? ", "
                                             : " and ",
                record_field_names[uses[format].parts[i]]);
    return out_string(&out);
}

// --- signatures --------------------------------------------------------------

// The column that a signature names: "name", "*.key" within any object, or "name.1", the first key
// of that object.
static const struct column *find_path(const struct columns *columns, struct text path)
{
    const char *dot = memchr(path.at, '.', path.size);
    if (!dot)
        return find(columns, path);
    struct text outer = { path.at, (size_t)(dot - path.at) };
    struct text key = { dot + 1, path.size - outer.size - 1 };
    int number = key.at[0] >= '1' && key.at[0] <= '9' ? key.at[0] - '0' : 0;
    for (size_t i = 0; i < columns->count; i++) {
        const struct column *column = &columns->items[i];
        const char *inner = memchr(column->name.at, '.', column->name.size);
        if (!column->is_nested || !inner)
            continue;
        struct text name = { column->name.at, (size_t)(inner - column->name.at) };
        struct text rest = { inner + 1, column->name.size - name.size - 1 };
        bool here = text_is(outer, "*") || same_name(name, outer);
        if (here && number ? !--number : here && same_name(rest, key))
            return column;
    }
    return NULL;
}

static enum record_field field_named(struct text name)
{
    int field = 0;
    while (field < RECORD_FIELDS && !text_is(name, record_field_names[field]))
        field++;
    return (enum record_field)field;
}

// Whether a column can be what a signature says it is. Names such as data or chat are messages only
// if they hold turns.
static bool suits(const struct column *column, enum record_field field)
{
    static const char *const certain[] = { "messages", "conversations", "conversation" };
    if (field != RECORD_F_MESSAGES)
        return true;
    for (size_t i = 0; i < sizeof certain / sizeof *certain; i++)
        if (same_name(column->name, text_of(certain[i])))
            return true;
    return column->shapes & (IS_LIST | IS_TURNS);
}

// Fills in the columns of a signature; false if one does not exist.
static bool match(struct record_schema *schema, const struct columns *columns, const char *wanted)
{
    struct text rest = text_of(wanted), word;
    while (rest.size && text_next(&rest, ' ', &word)) {
        const char *equals = memchr(word.at, '=', word.size);
        size_t size = equals ? (size_t)(equals - word.at) : word.size;
        struct text part = { word.at, size };
        struct text name = equals ? (struct text){ equals + 1, word.size - size - 1 } : word;
        const struct column *column = find_path(columns, name);
        enum record_field field = field_named(part);
        if (!column || (field < RECORD_FIELDS && !suits(column, field)))
            return false;
        if (field < RECORD_FIELDS)
            schema->columns[field] = column->name;
    }
    return true;
}

static bool is_sharegpt_column(const struct columns *columns, struct text name)
{
    const struct column *column = name.at ? find(columns, name) : NULL;
    return column && column->has_from;
}

// Whether a format reads each part that --fields names, as that part or by another signature's
// name for it: "completion=output".
static bool reads_named(const struct record_schema *found, const struct text *named)
{
    for (int part = 0; part < RECORD_FIELDS; part++) {
        bool reads = !named[part].at || format_reads(found->format, part);
        for (int i = 0; i < RECORD_FIELDS && !reads; i++)
            reads = found->columns[i].at && text_is(found->columns[i], record_field_names[part]);
        if (!reads)
            return false;
    }
    return true;
}

// Finds the first signature that matches; with a format, the first of that format.
static bool find_signature(struct record_schema *schema, const struct columns *columns,
                           const struct text *named)
{
    enum record_format format = schema->format;
    enum record_format row = format == RECORD_SHAREGPT ? RECORD_MESSAGES : format;
    for (const struct record_signature *s = record_signatures; s->columns; s++) {
        struct record_schema found = { .format = s->format };
        if ((row && s->format != row) || !match(&found, columns, s->columns) ||
            (named && !reads_named(&found, named)))
            continue;
        if (found.format == RECORD_MESSAGES &&
            is_sharegpt_column(columns, found.columns[RECORD_F_MESSAGES]))
            found.format = RECORD_SHAREGPT;
        *schema = found;
        schema->format = format ? format : found.format;
        return true;
    }
    return false;
}

static bool is_taken(const struct record_schema *schema, struct text name)
{
    for (int i = 0; i < RECORD_FIELDS; i++)
        if (schema->columns[i].at && text_equal(schema->columns[i], name))
            return true;
    return false;
}

// The object that holds a part of the schema as a key, "input" of "input.messages"; .at NULL: none.
static struct text outer_of(const struct record_schema *schema, const struct columns *columns)
{
    for (int i = 0; i < RECORD_FIELDS; i++) {
        struct text name = schema->columns[i];
        const char *dot = name.at ? memchr(name.at, '.', name.size) : NULL;
        const struct column *column = dot ? find(columns, name) : NULL;
        if (column && column->is_nested)
            return (struct text){ name.at, (size_t)(dot - name.at) };
    }
    return (struct text){ 0 };
}

// Parts that neither the signature nor --fields names have their usual names, in every row: as
// columns, or beside the parts that are keys of an object.
static void find_optional(struct record_schema *schema, const struct columns *columns)
{
    struct text outer = outer_of(schema, columns);
    for (int field = 0; field < RECORD_FIELDS; field++) {
        bool is_open = !schema->columns[field].at;
        for (int i = 0; is_open && i < 2 * RECORD_NAMES; i++) {
            const char *usual = record_optional_columns[field][i % RECORD_NAMES];
            bool within = i >= RECORD_NAMES;
            if (!usual || (within && !outer.at))
                continue;
            const char *path =
                within ? text_format(columns->arena, "%.*s.%s", TEXT_ARGS(outer), usual) : usual;
            const struct column *column = find(columns, text_of(path));
            schema->by_name[field] = true;
            if (column && !schema->columns[field].at && !is_taken(schema, column->name))
                schema->columns[field] = column->name;
        }
    }
}

int record_usual_name(enum record_field field, struct text name)
{
    for (int i = 0; i < RECORD_NAMES && record_optional_columns[field][i]; i++) {
        struct text usual = text_of(record_optional_columns[field][i]);
        if (same_name(name, usual))
            return 2 * i + !text_equal(name, usual);
    }
    return -1;
}

// --- the schema --------------------------------------------------------------

static const char *list_columns(struct arena *arena, const struct columns *columns)
{
    struct out out = { .arena = arena };
    size_t shown = 0, all = 0;
    for (size_t i = 0; i < columns->count; i++) {
        all += !columns->items[i].is_nested;
        if (columns->items[i].is_nested || shown == 12)
            continue;
        out_put(&out, "%s%.*s", shown++ ? ", " : "", TEXT_ARGS(columns->items[i].name));
    }
    if (all > shown)
        out_put(&out, " and %zu more", all - shown);
    return shown ? out_string(&out) : "none";
}

static enum err complete(struct record_schema *schema, struct arena *arena,
                         const struct columns *columns)
{
    struct out out = { .arena = arena };
    struct text named[RECORD_FIELDS];
    memcpy(named, schema->columns, sizeof named);
    bool by_name[RECORD_FIELDS];
    memcpy(by_name, schema->by_name, sizeof by_name);
    memset(schema->columns, 0, sizeof schema->columns);
    memset(schema->by_name, 0, sizeof schema->by_name);
    out_put(&out, "%s:", record_format_names[schema->format]);
    for (int i = 0; i < uses[schema->format].count; i++) {
        enum record_field part = uses[schema->format].parts[i];
        if (!named[part].at && i < uses[schema->format].needed)
            return fail(ERR_INPUT,
                        "format %s needs a column for %s, but the rows have %s; name it with "
                        "--fields %s=COLUMN",
                        record_format_names[schema->format], record_field_names[part],
                        list_columns(arena, columns), record_field_names[part]);
        schema->by_name[part] = by_name[part] && i < uses[schema->format].found;
        if (!named[part].at || (by_name[part] && i >= uses[schema->format].found))
            continue;
        schema->columns[part] = (struct text){ text_copy(arena, named[part]), named[part].size };
        schema->nested =
            schema->nested || (memchr(named[part].at, '.', named[part].size) &&
                               find(columns, named[part]) && find(columns, named[part])->is_nested);
        out_put(&out, "%s %s from \"%.*s\"", i ? "," : "", record_field_names[part],
                TEXT_ARGS(named[part]));
    }
    schema->sentence = out_string(&out);
    return OK;
}

// Whether a column says of each answer whether it is a good one. Those of text may have labels of
// another kind, and pairs say it by their columns.
static bool is_verdict(const struct record_schema *schema, const struct column *column)
{
    static const char *const names[] = { "label", "kto_tag" };
    bool answers = schema->format <= RECORD_QUESTION;
    for (size_t i = 0; answers && i < sizeof names / sizeof *names; i++)
        if (same_name(column->name, text_of(names[i])))
            return column->shapes == IS_TRUTH;
    return false;
}

// What a column is read as; NULL: nothing. A key within an object makes the object used. A further
// usual name of a part is read in rows that lack the first.
static const char *part_of(const struct record_schema *schema, const struct columns *columns,
                           struct text name)
{
    for (int i = 0; i < RECORD_FIELDS; i++) {
        struct text column = schema->columns[i];
        bool within = schema->nested && column.size > name.size && column.at[name.size] == '.' &&
                      !memcmp(column.at, name.at, name.size);
        if (column.at && (text_equal(column, name) || within))
            return record_field_names[i];
    }
    for (int i = 0; i < RECORD_FIELDS; i++) {
        const struct column *first =
            schema->by_name[i] && schema->columns[i].at ? find(columns, schema->columns[i]) : NULL;
        if (first && first->rows < columns->rows &&
            record_usual_name((enum record_field)i, name) >= 0)
            return record_field_names[i];
    }
    return NULL;
}

// Lists the columns: all that are used, and the first and the largest of the others.
static void list_all(struct record_schema *schema, struct arena *arena,
                     const struct columns *columns)
{
    static const double large = 0.01;
    schema->all = ARENA_NEW(arena, struct record_column, columns->count + 1);
    for (size_t i = 0; i < columns->count; i++) {
        const struct column *column = &columns->items[i];
        const char *part = column->is_nested            ? NULL
                           : is_verdict(schema, column) ? RECORD_VERDICT
                                                        : part_of(schema, columns, column->name);
        double share = columns->bytes ? (double)column->bytes / (double)columns->bytes : 0;
        if (column->is_nested || (!part && schema->count >= LISTED && share < large))
            continue;
        schema->all[schema->count++] = (struct record_column){
            .name = text_one_line(arena, column->name),
            .part = part,
            .share = share,
            .is_text = (column->shapes & ~IS_NO_TEXT) != 0,
        };
    }
}

static enum err read_fields(struct record_schema *schema, struct text fields)
{
    struct text pair;
    while (fields.size && text_next(&fields, ',', &pair)) {
        const char *equals = memchr(pair.at, '=', pair.size);
        struct text name =
            text_trim((struct text){ pair.at, equals ? (size_t)(equals - pair.at) : 0 });
        enum record_field field = field_named(name);
        if (text_is(name, "question") || text_is(name, "answer"))
            field = name.at[0] == 'q' ? RECORD_F_PROMPT : RECORD_F_COMPLETION;
        if (text_is(name, "conversations"))
            field = RECORD_F_MESSAGES;
        if (text_is(name, "response"))
            field = RECORD_F_OUTPUT;
        if (text_is(name, "context"))
            field = RECORD_F_INPUT;
        if (field == RECORD_FIELDS)
            return fail(ERR_USAGE,
                        "--fields has %.*s; it needs PART=COLUMN, where PART is messages, tools, "
                        "system, instruction, input, output, history, prompt, completion, text, "
                        "chosen, rejected or media",
                        TEXT_ARGS(pair));
        size_t after = (size_t)(equals + 1 - pair.at);
        schema->columns[field] = text_trim((struct text){ equals + 1, pair.size - after });
    }
    return OK;
}

static struct columns copied(const struct columns *columns)
{
    struct columns copy = { .arena = columns->arena, .bytes = columns->bytes };
    for (size_t i = 0; i < columns->count; i++)
        *note(&copy, columns->items[i].name) = columns->items[i];
    return copy;
}

// Adds the parts named with --fields as columns of their own, so that signatures find them.
static void add_named(struct columns *columns, const struct text *named)
{
    for (int i = 0; i < RECORD_FIELDS; i++) {
        if (!named[i].at)
            continue;
        const struct column *from = find(columns, named[i]);
        bool has_from = from && from->has_from;
        int shapes = from ? from->shapes : IS_TEXT;
        struct column *column = note(columns, text_of(record_field_names[i]));
        column->has_from = has_from;
        column->shapes = shapes;
    }
}

// The columns that --fields names, as the rows write them. Without rows nothing is known of them.
static enum err find_named(struct text *named, struct arena *arena, const struct columns *columns)
{
    for (int i = 0; i < RECORD_FIELDS && columns->count; i++) {
        const struct column *column = named[i].at ? find(columns, named[i]) : NULL;
        if (named[i].at && !column)
            return fail(ERR_INPUT,
                        "--fields %s=%.*s names a column that none of the first rows has; they "
                        "have %s",
                        record_field_names[i], TEXT_ARGS(named[i]), list_columns(arena, columns));
        if (column)
            named[i] = column->name;
    }
    return OK;
}

// Gives the named parts their columns. A signature may have found one under the name of its part:
// with output=reply, "completion=output" means reply.
static enum err join_named(struct record_schema *schema, struct arena *arena,
                           const struct columns *columns, struct text *named)
{
    for (int i = 0; i < RECORD_FIELDS; i++) {
        struct text name = schema->columns[i];
        enum record_field part = name.at ? field_named(name) : RECORD_FIELDS;
        if (part == RECORD_FIELDS || (int)part == i || !named[part].at || find(columns, name))
            continue;
        schema->columns[i] = named[part];
        named[part] = (struct text){ 0 };
    }
    for (int i = 0; i < RECORD_FIELDS; i++) {
        if (!named[i].at)
            continue;
        if (!format_reads(schema->format, i))
            return fail(ERR_INPUT,
                        "--fields names a column for %s, which format %s does not read; it reads "
                        "%s; --format gives another one",
                        record_field_names[i], record_format_names[schema->format],
                        list_parts(arena, schema->format));
        schema->columns[i] = named[i];
    }
    return OK;
}

static enum err refuse(const struct columns *columns, bool at_last)
{
    for (const struct record_refusal *r = record_refusals; r->columns; r++)
        if (r->at_last == at_last && match(&(struct record_schema){ 0 }, columns, r->columns))
            return fail(ERR_INPUT, "the rows are %s; %s", r->what, r->remedy);
    return OK;
}

// Of two columns of one name nobody can say which is meant. Where none is read, it does not matter.
static enum err refuse_doubled(const struct record_schema *schema, const struct columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        if (columns->items[i].is_doubled && record_needs(schema, columns->items[i].name))
            return fail(ERR_INPUT, "the header has two columns named %.*s; rename one of them",
                        TEXT_ARGS(columns->items[i].name));
    return OK;
}

static enum err decide(struct record_schema *out, struct arena *arena,
                       const struct columns *columns, enum record_format format, struct text fields)
{
    *out = (struct record_schema){ .format = format };
    TRY(read_fields(out, fields));
    struct text named[RECORD_FIELDS];
    memcpy(named, out->columns, sizeof named);
    if (!format && !fields.size)
        TRY(refuse(columns, false));
    TRY(find_named(named, arena, columns));
    struct columns all = copied(columns);
    add_named(&all, named);
    if (!find_signature(out, &all, named)) // a format that reads all that is named, else any
        find_signature(out, &all, NULL);
    if (!out->format)
        TRY(refuse(columns, true));
    if (!out->format)
        return fail(ERR_INPUT,
                    "the columns %s match no known format; give --format "
                    "messages, sharegpt, alpaca, prompt-completion, question-answer, text, "
                    "preference, prompt or tree, and --fields PART=COLUMN",
                    list_columns(arena, columns));
    TRY(join_named(out, arena, columns, named));
    find_optional(out, columns);
    TRY(complete(out, arena, columns));
    TRY(refuse_doubled(out, columns));
    list_all(out, arena, columns);
    return OK;
}

// Rows that are no objects, or empty ones.
static enum err no_columns(struct text row)
{
    struct json_reader in = json_reader(row);
    enum json_kind kind = json_peek(&in);
    json_skip(&in);
    if (in.problem)
        return fail(
            ERR_INPUT,
            "the first row is not JSON (column %td: %s); each line must be a JSON object; if "
            "objects go over several lines, name the file .json; plain text is named .txt",
            in.at - in.start + 1, in.problem);
    return fail(ERR_INPUT,
                "the first row is %s; each row must be an object with its columns, such as "
                "{\"text\": \"...\"} or {\"messages\": [...]}",
                kind == JSON_OBJECT ? "an empty object" : json_kind_name(kind));
}

static size_t count_read(const struct record_schema *schema, const struct text *rows, size_t count)
{
    struct arena scratch = { 0 };
    struct record record;
    size_t read = 0;
    for (size_t i = 0; i < count && i < ROWS; i++)
        read += !record_read(&record, schema, &scratch, rows[i]);
    arena_release(&scratch);
    return read;
}

// Rows of two formats are read as the first row is, if more of them are like it, so that the row
// that differs is the one that is named.
static void prefer_first(struct record_schema *out, struct arena *arena, const struct text *rows,
                         size_t count, struct text fields)
{
    struct columns columns = { .arena = arena };
    struct record_schema first;
    size_t read = count_read(out, rows, count), most = count < ROWS ? count : ROWS;
    inspect_row(&columns, arena, rows[0]);
    if (read < most && columns.count && !decide(&first, arena, &columns, RECORD_AUTO, fields) &&
        count_read(&first, rows, count) > read)
        *out = first;
}

enum err record_detect(struct record_schema *out, struct arena *arena, const struct text *rows,
                       size_t count, enum record_format format, struct text fields)
{
    struct columns columns = { .arena = arena };
    for (size_t i = 0; i < count && i < ROWS; i++)
        inspect_row(&columns, arena, rows[i]);
    if (count && !columns.count)
        return no_columns(rows[0]);
    enum err err = decide(out, arena, &columns, format, fields);
    if (!err && !format && count > 1)
        prefer_first(out, arena, rows, count, fields);
    if (count == 1 && !format && !fields.size)
        TRY(record_refuse_table(arena, rows[0], err ? RECORD_AUTO : out->format));
    return err;
}

enum err record_detect_columns(struct record_schema *out, struct arena *arena,
                               const struct text *names, size_t count, const struct text *cells,
                               size_t rows, enum record_format format, struct text fields)
{
    struct columns columns = { .arena = arena, .rows = (int64_t)rows };
    for (size_t i = 0; i < count; i++) {
        size_t known = columns.count;
        struct column *column = note(&columns, names[i]);
        column->is_doubled = column->is_doubled || known == columns.count;
        for (size_t row = 0; row < rows; row++) {
            struct text cell = cells[row * count + i];
            column->shapes |= cell.at ? shape_of_cell(cell) : 0;
            column->bytes += (int64_t)cell.size;
            column->rows += cell.at != NULL;
            columns.bytes += (int64_t)cell.size;
        }
        if (column->shapes != IS_TRUTH) // of the text of a table anything may be read
            column->shapes |= IS_TEXT;
    }
    return decide(out, arena, &columns, format, fields);
}
