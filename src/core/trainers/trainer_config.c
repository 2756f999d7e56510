// SPDX-License-Identifier: Apache-2.0
// Reads trees and command lines by the tables of the trainers into facts.

#include "core/trainers/trainer_facts.h"

#include "base/secret.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

const char *const trainer_config_effects[] = { "understood", "harmless", "matters", "unknown" };

enum { KEY_ROOM = 256, DEEPEST = 8, LONGEST_VALUE = 200, MOST = 1 << 24 };

// --- notes -------------------------------------------------------------------

void trainer_config_note(struct trainer_config *config, struct trainer_config_item item)
{
    config->items = arena_room(config->arena, config->items, sizeof *config->items,
                               config->item_count, &config->item_room);
    item.value = secret_hide(item.key, item.value);
    config->items[config->item_count++] = item;
}

void trainer_config_contradict(struct trainer_config *config, const char *format, ...)
{
    struct out out = { .arena = config->arena };
    va_list args;
    va_start(args, format);
    out_put_args(&out, format, args);
    va_end(args);
    const char *sentence = out_string(&out);
    for (size_t i = 0; i < config->contradiction_count; i++)
        if (!strcmp(config->contradictions[i], sentence))
            return;
    if (config->contradiction_count < TRAINER_CONFIG_CONTRADICTIONS)
        config->contradictions[config->contradiction_count++] = sentence;
}

void trainer_config_say(struct trainer_config *config, enum trainer_config_fact_name fact,
                        const char *value, const char *file, const char *key)
{
    struct trainer_config_fact *known = &config->facts[fact];
    if (known->value && strcmp(known->value, value))
        trainer_config_contradict(config, "%s in %s is %s, %s in %s is %s; %s is used", known->key,
                                  known->file, known->value, key, file, value, value);
    *known = (struct trainer_config_fact){ value, file, key };
}

// A value as text: "16", "true", "q_proj,v_proj".
static const char *spell(struct arena *arena, const struct json *value)
{
    struct out out = { .arena = arena };
    switch (value->kind) {
    case JSON_BOOL: return value->flag ? "true" : "false";
    case JSON_NUMBER: return text_format(arena, "%.10g", value->number);
    case JSON_STRING:
        return text_format(arena, "%.*s", text_precision(value->string.size, LONGEST_VALUE),
                           value->string.at);
    case JSON_ARRAY:
        for (size_t i = 0; i < value->count && out.size < LONGEST_VALUE; i++)
            out_put(&out, "%s%s", i ? "," : "", spell(arena, &value->items[i]));
        return out_string(&out);
    case JSON_OBJECT: return "{...}";
    case JSON_NULL: return "null";
    default: return "";
    }
}

// --- rows --------------------------------------------------------------------

static bool key_is(const struct trainer_config_row *row, const char *key, bool exactly)
{
    size_t size = strlen(row->key);
    bool open = row->key[size - 1] == '*';
    if (exactly)
        return !open && !strcmp(row->key, key);
    return open && !strncmp(row->key, key, size - 1);
}

// The first row of that key, exact keys before prefixes; NULL if there is none.
static const struct trainer_config_row *find_row(const struct trainer_config_table *table,
                                                 const char *key)
{
    const struct trainer_config_row *lists[] = { table->rows, table->more, trainer_config_common };
    for (int exactly = 1; exactly >= 0; exactly--)
        for (int i = 0; i < 3; i++)
            for (const struct trainer_config_row *r = lists[i]; r && r->key; r++)
                if (key_is(r, key, exactly))
                    return r;
    return NULL;
}

// Whether a row describes something nested in this key.
static bool is_parent(const struct trainer_config_table *table, const char *key)
{
    const struct trainer_config_row *lists[] = { table->rows, table->more, trainer_config_common };
    size_t size = strlen(key);
    for (int i = 0; i < 3; i++)
        for (const struct trainer_config_row *r = lists[i]; r && r->key; r++)
            if (!strncmp(r->key, key, size) && r->key[size] == '.')
                return true;
    return false;
}

// --- values ------------------------------------------------------------------

// One value while it is turned from a key into a fact.
struct reading {
    struct trainer_config *config;
    const struct trainer_config_row *row;
    const struct json *value;
    const char *file, *key, *spelled;
    struct trainer_config_item item;
};

static void say(struct reading *in, const char *value)
{
    trainer_config_say(in->config, in->row->fact, value, in->file, in->key);
}

static void lose(struct reading *in, const char *why)
{
    in->item.effect = TRAINER_CONFIG_MATTERS;
    in->item.option = NULL;
    in->item.remark = why;
}

static enum err wrong(const struct reading *in, const char *wanted)
{
    return fail(ERR_INPUT, "%s: %s is \"%.60s\", must be %s", in->file, in->key,
                secret_hide(in->key, in->spelled), wanted);
}

static bool read_truth(const struct reading *in, bool *truth)
{
    static const char *const words[] = { "false", "no", "off", "true", "yes", "on", "full" };
    double number;
    if (!text_read_number(&number, text_of(in->spelled))) {
        *truth = number != 0;
        return true;
    }
    char lower[8] = "";
    for (size_t i = 0; in->spelled[i] && i < sizeof lower - 1; i++)
        lower[i] = (char)tolower((unsigned char)in->spelled[i]);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(lower, words[i])) {
            *truth = i >= 3;
            return true;
        }
    return false;
}

static enum err read_number(struct reading *in)
{
    double number;
    bool plain = in->value->kind == JSON_NUMBER || in->value->kind == JSON_STRING;
    bool count = in->row->reads == READ_COUNT, share = in->row->reads == READ_SHARE;
    if (!plain || text_read_number(&number, text_trim(text_of(in->spelled))))
        return wrong(in, count ? "a whole number" : "a number");
    enum trainer_config_fact_name fact = in->row->fact;
    bool unset = number < 0 || (number == 0 && (fact == FACT_STEPS || fact == FACT_RANK));
    if (unset && (count || fact == FACT_EPOCHS || fact == FACT_STEPS || fact == FACT_SEED ||
                  fact == FACT_EVAL_EVERY || fact == FACT_SAVE_EVERY)) {
        in->item.effect = TRAINER_CONFIG_HARMLESS;
        in->item.option = NULL;
        in->item.remark = number < 0 ? "below 0: not set" : "0: not set";
        return OK;
    }
    double most = fact == FACT_MOST_ROWS ? 1e15 : MOST; // some recipes limit rows by 100 million
    if (count && (number < 1 || number != floor(number) || number > most))
        return wrong(in, "a whole number from 1 to 16,777,216");
    if (number < 0)
        return wrong(in, "0 or more");
    if (fact == FACT_EVAL_SHARE && number >= 1)
        in->item.remark = "rows that are held out of the data";
    else if (share && number > 1)
        return wrong(in, "from 0 to 1");
    say(in, text_format(in->config->arena, count ? "%.0f" : "%.10g", number));
    return OK;
}

// "torch.optim.AdamW" and "adamw" are the same word, and so are "FULL_SHARD" and "full-shard".
static const char *fold(struct arena *arena, struct text word)
{
    char *out = arena_alloc(arena, word.size + 1);
    size_t size = 0;
    const char *start = word.at;
    for (size_t i = 0; i < word.size; i++)
        if (word.at[i] == '.' && i && isalpha((unsigned char)word.at[i - 1]) &&
            !(i >= 3 && !memcmp(word.at + i - 3, "bnb", 3)))
            start = word.at + i + 1;
    for (const char *c = start; c < word.at + word.size; c++)
        if (isalnum((unsigned char)*c))
            out[size++] = (char)tolower((unsigned char)*c);
    return out;
}

// The first word of the value that the row's table has.
static enum err read_word(struct reading *in)
{
    char *words = arena_copy(in->config->arena, in->spelled, strlen(in->spelled));
    for (char *c = words; *c; c++)
        *c = *c == ' ' ? ',' : *c;
    struct text rest = text_of(words), piece;
    while (text_next(&rest, ',', &piece)) {
        const char *word = fold(in->config->arena, piece);
        for (const struct trainer_config_word *w = in->row->words; w->from; w++)
            if (!strcmp(w->from, word)) {
                if (w->to)
                    say(in, w->to);
                else
                    in->item.remark = "not given here";
                return OK;
            }
    }
    lose(in, text_format(in->config->arena, "--%s has no such value",
                         trainer_config_fact_options[in->row->fact]));
    return OK;
}

// --- names of modules and models ---------------------------------------------

static const char *target_of(struct arena *arena, struct text word)
{
    static const struct trainer_config_word names[] = {
        { "all", "all-linear" },
        { "alllinear", "all-linear" },
        { "querykeyvalue", "q,k,v" },
        { "cattn", "q,k,v" },
        { "wpack", "q,k,v" },
        { "wqkv", "q,k,v" },
        { "qkvproj", "q,k,v" },
        { "outputproj", "o" },
        { "outproj", "o" },
        { "dense", "o" },
        { "wo", "o" },
        { "gateupproj", "gate,up" },
        { "densehto4h", "up" },
        { "dense4htoh", "down" },
        { "fc1", "up" },
        { "fc2", "down" },
        { "w1", "gate" },
        { "w2", "down" },
        { "w3", "up" },
        { "lmhead", "head" },
        { "attentionqkv", "q,k,v" }, // NeMo's, whose first linear of the network holds two
        { "linearqkv", "q,k,v" },
        { "attentiondense", "o" },
        { "linearproj", "o" },
        { "mlpfc1", "gate,up" },
        { "linearfc1", "gate,up" },
        { "mlpfc2", "down" },
        { "linearfc2", "down" },
        { "output", "head" },
        { 0 },
    };
    const char *folded = fold(arena, word);
    for (const struct trainer_config_word *n = names; n->from; n++)
        if (!strcmp(n->from, folded))
            return n->to;
    if (word.size > 5 && !memcmp(word.at + word.size - 5, "_proj", 5))
        word.size -= 5;
    return text_copy(arena, word);
}

static void add_target(struct reading *in, const char *target)
{
    struct trainer_config_fact *known = &in->config->facts[FACT_TARGETS];
    *known = (struct trainer_config_fact){
        known->value ? text_format(in->config->arena, "%s,%s", known->value, target) : target,
        in->file, in->key
    };
}

static enum err read_targets(struct reading *in)
{
    if (strpbrk(in->spelled, "*|()\\^$+")) {
        lose(in, "a pattern; --targets takes names");
        return OK;
    }
    struct out out = { .arena = in->config->arena };
    struct text rest = text_of(in->spelled), piece;
    while (text_next(&rest, ',', &piece)) {
        piece = text_trim(piece);
        if (piece.size)
            out_put(&out, "%s%s", out.size ? "," : "", target_of(in->config->arena, piece));
    }
    if (out.size)
        say(in, out_string(&out));
    return OK;
}

static enum err read_saved(struct reading *in)
{
    if (strstr(in->spelled, "embed") || strstr(in->spelled, "head") || strstr(in->spelled, "wte"))
        say(in, "yes");
    else
        lose(in, "these modules are trained whole beside the adapters");
    return OK;
}

// "llama3_1_8b" is llama-3.1-8b; sizes with a point cannot be told from versions with one.
static const char *model_of(struct arena *arena, struct text name)
{
    static const struct trainer_config_word pointed[] = {
        { "qwen205b", "qwen2-0.5b" },    { "qwen215b", "qwen2-1.5b" },
        { "qwen2505b", "qwen2.5-0.5b" }, { "qwen2515b", "qwen2.5-1.5b" },
        { "qwen306b", "qwen3-0.6b" },    { "qwen317b", "qwen3-1.7b" },
        { "phi3mini", "phi-3-mini" },    { 0 },
    };
    struct out out = { .arena = arena };
    struct text rest = name, piece;
    bool size_seen = false;
    while (!size_seen && text_next(&rest, '_', &piece)) {
        if (!piece.size)
            continue;
        bool digits = isdigit((unsigned char)piece.at[0]);
        size_seen = digits && tolower((unsigned char)piece.at[piece.size - 1]) == 'b';
        out_put(&out, "%s%.*s",
                !out.size              ? ""
                : digits && !size_seen ? "."
                                       : "-",
                TEXT_ARGS(piece));
    }
    const char *folded =
        fold(arena, (struct text){ name.at, (size_t)(size_seen ? piece.at + piece.size - name.at
                                                               : (ptrdiff_t)name.size) });
    for (const struct trainer_config_word *p = pointed; p->from; p++)
        if (!strcmp(p->from, folded))
            return p->to;
    return size_seen ? out_string(&out) : NULL;
}

// "torchtune.models.llama3_1.qlora_llama3_1_8b" names the model and the method.
static enum err read_component(struct reading *in)
{
    static const char *const methods[] = { "qlora_", "lora_" };
    const char *dot = strrchr(in->spelled, '.');
    struct text name = text_of(dot ? dot + 1 : in->spelled);
    const char *method = "full";
    for (int i = 0; i < 2; i++) {
        size_t size = strlen(methods[i]);
        if (name.size > size && !memcmp(name.at, methods[i], size)) {
            name.at += size, name.size -= size;
            method = i ? "lora" : "qlora";
            break;
        }
    }
    trainer_config_say(in->config, FACT_ADAPTER, method, in->file, in->key);
    const char *model = model_of(in->config->arena, name);
    if (model)
        say(in, model);
    else
        lose(in, "names no size; --model says which it is");
    return OK;
}

static enum err read_text(struct reading *in)
{
    if (in->value->kind != JSON_STRING)
        return wrong(in, "a text");
    struct text value = text_of(in->spelled);
    if (in->row->fact == FACT_MODEL && text_ends(value, ".nemo")) // an archive of that name
        value.size -= strlen(".nemo");
    if (in->row->fact != FACT_FILE)
        say(in, text_copy(in->config->arena, value));
    else if (in->config->reference_count < TRAINER_CONFIG_FILES)
        in->config->references[in->config->reference_count++] = in->spelled;
    if (in->row->fact == FACT_FILE)
        in->item.remark = "a file of its own";
    return OK;
}

static enum err read_dataset(struct reading *in)
{
    const struct json *value = in->value;
    if (value->kind == JSON_ARRAY && value->count)
        value = &value->items[0];
    if (value->kind == JSON_OBJECT)
        value = json_get(value, "path");
    if (value && value->kind == JSON_STRING && value->string.size)
        say(in, text_copy(in->config->arena, value->string));
    in->item.effect = TRAINER_CONFIG_HARMLESS;
    in->item.remark = "data is given on the command line";
    return OK;
}

static enum err read_truths(struct reading *in)
{
    bool truth;
    const struct trainer_config_row *row = in->row;
    if (!strcmp(in->spelled, "auto") && row->reads == READ_IF_AUTO)
        truth = true;
    else if (!read_truth(in, &truth))
        return wrong(in, "true or false");
    if (row->reads == READ_FLAG)
        say(in, truth ? "yes" : "no");
    else if (row->reads == READ_ADD && truth)
        add_target(in, row->word);
    else if (row->reads != READ_ADD && truth == (row->reads != READ_IF_NOT))
        say(in, row->word);
    else
        in->item.off = true, in->item.remark = "off";
    return OK;
}

static enum err read_value(struct reading *in)
{
    bool automatic = (!strcmp(in->spelled, "auto") || !strcmp(in->spelled, "gpu") ||
                      !strncmp(in->spelled, "${", 2)) && // OmegaConf's
                     in->row->reads != READ_IF_AUTO;
    if (!strcmp(in->spelled, "???"))
        return lose(in, "is to be filled in"), OK;
    if (in->row->fact > FACT_LOST && (automatic || !*in->spelled)) {
        in->item.effect = TRAINER_CONFIG_HARMLESS;
        in->item.remark = automatic ? "decided elsewhere" : "empty";
        return OK;
    }
    in->item.option = trainer_config_fact_options[in->row->fact];
    switch (in->row->reads) {
    case READ_SKIP:
        in->item.effect =
            in->row->fact == FACT_LOST ? TRAINER_CONFIG_MATTERS : TRAINER_CONFIG_HARMLESS;
        in->item.remark = in->row->word;
        return OK;
    case READ_COUNT:
    case READ_NUMBER:
    case READ_SHARE: return read_number(in);
    case READ_TEXT: return read_text(in);
    case READ_DATASET: return read_dataset(in);
    case READ_LIST: return read_targets(in);
    case READ_SAVED: return read_saved(in);
    case READ_WORD: return read_word(in);
    case READ_COMPONENT: return read_component(in);
    case READ_PRESENT: return say(in, in->row->word), OK;
    default: return read_truths(in);
    }
}

// Whether a setting that matters only when it is on is off.
static bool is_off(const struct json *value)
{
    return (value->kind == JSON_BOOL && !value->flag) ||
           (value->kind == JSON_NUMBER && value->number <= 0) ||
           (value->kind == JSON_STRING && (!value->string.size || text_is(value->string, "sft") ||
                                           text_is(value->string, "pt"))) ||
           ((value->kind == JSON_ARRAY || value->kind == JSON_OBJECT) && !value->count);
}

// Whether the row gives nothing a meaning.
static bool means_null(const struct trainer_config_row *row)
{
    for (const struct trainer_config_word *w = row ? row->words : NULL; w && w->from; w++)
        if (!strcmp(w->from, "null"))
            return true;
    return false;
}

// --- trees -------------------------------------------------------------------

static enum err read_key(struct trainer_config *config, const struct trainer_config_table *table,
                         const struct json *value, const char *file, const char *key)
{
    struct reading in = { .config = config,
                          .value = value,
                          .file = file,
                          .key = key,
                          .spelled = spell(config->arena, value) };
    const struct trainer_config_row *row = find_row(table, key);
    struct trainer_config_item plain = { .file = file, .key = key, .value = in.spelled };
    if (!row) {
        plain.effect = TRAINER_CONFIG_UNKNOWN;
        trainer_config_note(config, plain);
        return OK;
    }
    if (row->fact == FACT_LOST && is_off(value)) {
        plain.effect = TRAINER_CONFIG_HARMLESS;
        trainer_config_note(config, plain);
        return OK;
    }
    bool open = row->key[strlen(row->key) - 1] == '*', noted = false;
    for (int nth = 0; row->key && (!nth || (!open && !strcmp(row->key, key))); row++, nth++) {
        in.row = row;
        in.item = plain;
        TRY(read_value(&in));
        if (!in.item.off)
            trainer_config_note(config, in.item);
        noted |= !in.item.off;
    }
    if (!noted)
        trainer_config_note(config, in.item);
    return OK;
}

static enum err read_object(struct trainer_config *config, const struct trainer_config_table *table,
                            const struct json *object, const char *file, const char *prefix,
                            int depth)
{
    for (size_t i = 0; i < object->count; i++) {
        struct text name = object->items[2 * i].string;
        const struct json *value = &object->items[2 * i + 1];
        if (name.size > KEY_ROOM)
            continue;
        const char *key =
            text_format(config->arena, "%s%s%.*s", prefix, *prefix ? "." : "", TEXT_ARGS(name));
        if (value->kind == JSON_NULL && !means_null(find_row(table, key)))
            continue;
        if (value->kind == JSON_OBJECT && !strcmp(key, "deepspeed")) {
            config->trainers |= 1u << TRAINER_DEEPSPEED;
            TRY(read_object(config, &trainer_config_tables[TRAINER_DEEPSPEED], value, file, "",
                            depth + 1));
        } else if (value->kind == JSON_OBJECT && depth < DEEPEST && is_parent(table, key)) {
            TRY(read_object(config, table, value, file, key, depth + 1));
        } else {
            TRY(read_key(config, table, value, file, key));
        }
    }
    return OK;
}

// The value at "train.epochs"; NULL if there is none.
static const struct json *find_path(const struct json *tree, const char *path)
{
    struct text rest = text_of(path), piece;
    const struct json *at = tree;
    while (at && at->kind == JSON_OBJECT && text_next(&rest, '.', &piece)) {
        const struct json *found = NULL;
        for (size_t i = 0; i < at->count; i++)
            if (text_equal(at->items[2 * i].string, piece))
                found = &at->items[2 * i + 1];
        at = found;
        if (!rest.size)
            return at;
    }
    return NULL;
}

static int recognise(const struct json *tree)
{
    for (int t = 0; t < TRAINERS; t++)
        for (int i = 0; i < TRAINER_CONFIG_TELLS && trainer_config_tables[t].tells[i]; i++)
            if (find_path(tree, trainer_config_tables[t].tells[i]))
                return t;
    return -1;
}

static enum err add_file(struct trainer_config *config, const char *name, int trainer)
{
    if (config->file_count == TRAINER_CONFIG_FILES)
        return fail(ERR_USAGE, "%s: one configuration too many; at most %d are read", name,
                    TRAINER_CONFIG_FILES);
    config->trainers |= 1u << trainer;
    config->files[config->file_count++] =
        (struct trainer_config_file){ name, trainer_config_tables[trainer].trainer };
    return OK;
}

#define KNOWN_TRAINERS                                                                     \
    "axolotl, LLaMA-Factory, ms-swift, torchtune, litgpt, NeMo, transformers, TRL, PEFT, " \
    "DeepSpeed, accelerate, verl, OpenRLHF and NeMo-RL"

enum err trainer_config_check_look(struct text text, const char *name)
{
    static const struct {
        const char *ending, *start; // of its name, of its text
        const char *what, *way_out;
    } looks[] = {
        { ".sh", "#!", "a shell script",
          "put the command that it runs after --: gpuhours plan DATA --gpu h100 -- trl sft …" },
        { ".py", "import ", "a Python program",
          "print(training_args.to_json_string()) writes its arguments as JSON; or give the options "
          "of gpuhours plan" },
        { ".py", "from ", "a Python program",
          "print(training_args.to_json_string()) writes its arguments as JSON; or give the options "
          "of gpuhours plan" },
        { ".ipynb", NULL, "a notebook",
          "print(training_args.to_json_string()) writes its arguments as JSON; or give the options "
          "of gpuhours plan" },
    };
    text = text_trim(text);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        size_t size = looks[i].start ? strlen(looks[i].start) : 0;
        bool starts = size && text.size >= size && !memcmp(text.at, looks[i].start, size);
        if (starts || text_ends(text_of(name), looks[i].ending))
            return fail(
                ERR_INPUT,
                "%s: is %s, and --from reads configurations (YAML or JSON) of " KNOWN_TRAINERS
                "; %s",
                name, looks[i].what, looks[i].way_out);
    }
    return OK;
}

enum err trainer_config_add(struct trainer_config *config, const struct json *tree,
                            const char *name)
{
    if (tree->kind == JSON_NULL)
        return fail(ERR_INPUT, "%s: is empty; a trainer's configuration has keys and values", name);
    if (tree->kind != JSON_OBJECT)
        return fail(ERR_INPUT,
                    "%s: is %s; a trainer's configuration has keys and values, and those "
                    "of " KNOWN_TRAINERS " are known",
                    name, json_kind_name(tree->kind));
    int trainer = recognise(tree);
    if (trainer < 0 && find_path(tree, "architectures"))
        return fail(ERR_INPUT, "%s: is the config.json of a model; pass it with --model", name);
    if (trainer < 0)
        return fail(ERR_INPUT,
                    "%s: no key tells which trainer this belongs to; " KNOWN_TRAINERS " are known",
                    name);
    TRY(add_file(config, name, trainer));
    return read_object(config, &trainer_config_tables[trainer], tree, name, "", 0);
}

// --- command lines -----------------------------------------------------------

// The trainer that a word names: "trl", "python -m trl", "llamafactory-cli".
static int trainer_of(const char *word)
{
    static const struct {
        const char *word;
        int trainer;
    } names[] = {
        { "trl", TRAINER_TRL },        { "sft.py", TRAINER_TRL },
        { "litgpt", TRAINER_LITGPT },  { "llamafactory-cli", TRAINER_LLAMA_FACTORY },
        { "swift", TRAINER_MS_SWIFT },
    };
    const char *slash = strrchr(word, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(slash ? slash + 1 : word, names[i].word))
            return names[i].trainer;
    return !strncmp(word, "openrlhf.cli.", 13)   ? (int)TRAINER_OPENRLHF
           : !strncmp(word, "verl.trainer.", 13) ? (int)TRAINER_VERL
                                                 : -1;
}

// Whether a word names the program that trains: "dpo.py", "dpo" after "trl", a module of OpenRLHF
// or verl, or verl's own setting.
static bool names_program(const char *word, const char *before)
{
    static const char *const starts[] = { "openrlhf.cli.", "verl.trainer." };
    size_t size = strlen(word);
    const char *slash = before ? strrchr(before, '/') : NULL;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (!strncmp(word, starts[i], strlen(starts[i])))
            return true;
    return (size > 3 && !strcmp(word + size - 3, ".py")) ||
           (before && !strcmp(slash ? slash + 1 : before, "trl"));
}

// What a program trains by its name, as a trainer spells objectives; NULL: it does not say.
static const char *objective_of(const char *word)
{
    static const struct {
        const char *part, *objective;
    } names[] = {
        { "dpo", "dpo" }, { "kto", "kto" }, { "orpo", "orpo" },     { "grpo", "grpo" },
        { "ppo", "ppo" }, { "gae", "ppo" }, { "rloo", "rloo" },     { "cpo", "cpo" },
        { "gkd", "gkd" }, { "rm", "rm" },   { "reward", "reward" }, { "rlhf", "rlhf" },
    };
    const char *slash = strrchr(word, '/'), *base = slash ? slash + 1 : word;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *at = strstr(base, names[i].part);
        if (at && (at == base || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[strlen(names[i].part)]))
            return names[i].objective;
    }
    return NULL;
}

static void read_program(struct trainer_config *config, char **words)
{
    const char *objective = NULL, *key = NULL;
    for (char **w = words; *w; w++)
        if (names_program(*w, w > words ? w[-1] : NULL) && objective_of(*w))
            objective = objective_of(*w), key = *w;
    if (objective)
        trainer_config_say(config, FACT_PROGRAM, objective, "the command line", key);
}

// The values after an option: one, or all up to the next option if the row takes a list.
static struct text values_of(struct arena *arena, char **words, bool list, int *took)
{
    struct out out = { .arena = arena };
    while (words[*took] && strncmp(words[*took], "--", 2) != 0 && (list || !*took)) {
        out_put(&out, "%s%s", out.size ? "," : "", words[*took]);
        ++*took;
    }
    return *took ? text_of(out_string(&out)) : TEXT("true");
}

// Reads the option at words[0]; took is how many words after it are its values.
static void read_option(struct trainer_config *config, const struct trainer_config_table *own,
                        char **words, int *took)
{
    static const char *const place = "the command line";
    struct text name = text_of(words[0] + 2);
    const char *equals = memchr(name.at, '=', name.size);
    if (equals)
        name.size = (size_t)(equals - name.at);
    char *key = arena_copy(config->arena, name.at, name.size);
    for (char *c = key; *c; c++)
        *c = *c == '-' ? '_' : *c;
    const struct trainer_config_table *table = &trainer_config_tables[TRAINER_COMMAND];
    if (own && find_row(own, key))
        table = own;
    const struct trainer_config_row *row = find_row(table, key);
    bool list = row && (row->reads == READ_LIST || row->reads == READ_SAVED);
    struct text text =
        equals ? text_of(equals + 1) : values_of(config->arena, words + 1, list, took);
    struct json value = { .kind = JSON_STRING, .string = text };
    // The trainer knows its command line better than this table, so an odd value is not an error.
    if (row && read_key(config, table, &value, place, key))
        trainer_config_note(config,
                            (struct trainer_config_item){
                                .file = place,
                                .key = key,
                                .value = spell(config->arena, &value),
                                .effect = TRAINER_CONFIG_MATTERS,
                                .remark = text_copy(config->arena, text_of(error_text())) });
}

enum err trainer_config_words(struct trainer_config *config, char **words)
{
    int trainer = -1;
    for (char **w = words; *w && trainer < 0; w++)
        trainer = trainer_of(*w);
    TRY(add_file(config, "the command line", trainer < 0 ? (int)TRAINER_COMMAND : trainer));
    read_program(config, words);
    for (char **w = words; *w; w++) {
        int took = 0;
        if (trainer == TRAINER_VERL && strchr(*w, '=') && **w != '-') { // key=value
            const char *dashed = text_format(config->arena, "--%s", *w);
            char *option[] = { arena_copy(config->arena, dashed, strlen(dashed)), NULL };
            read_option(config, &trainer_config_tables[trainer], option, &took);
        }
        if ((*w)[0] == '-' && (*w)[1] == '-' && (*w)[2])
            read_option(config, trainer < 0 ? NULL : &trainer_config_tables[trainer], w, &took);
        w += took;
    }
    return OK;
}

void trainer_config_missing(struct trainer_config *config, const char *path)
{
    static const char *const marks[] = { "zero", "z", "stage" };
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    for (const char *c = base; *c; c++)
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            size_t size = strlen(marks[i]);
            if (strncmp(c, marks[i], size) || (c > base && isalpha((unsigned char)c[-1])))
                continue;
            const char *digit = c + size;
            digit += *digit == '_' || *digit == '-';
            if (*digit < '0' || *digit > '3')
                continue;
            trainer_config_say(config, FACT_ZERO, text_format(config->arena, "%c", *digit), path,
                               "the name");
            trainer_config_note(config,
                                (struct trainer_config_item){
                                    .file = path,
                                    .key = "the name",
                                    .value = base,
                                    .effect = TRAINER_CONFIG_UNDERSTOOD,
                                    .option = "parallel",
                                    .remark = "the file was not found; pass it with --from" });
            return;
        }
    trainer_config_unreadable(config, path, "was not found; pass it with --from");
}

void trainer_config_unreadable(struct trainer_config *config, const char *path, const char *why)
{
    trainer_config_note(
        config, (struct trainer_config_item){ .file = path,
                                              .key = "the file",
                                              .value = path,
                                              .effect = TRAINER_CONFIG_MATTERS,
                                              .remark = text_copy(config->arena, text_of(why)) });
}

const char *trainer_config_option(const struct trainer_config *config, const char *option)
{
    for (size_t i = 0; i < config->option_count; i++)
        if (!strcmp(config->options[i].option, option))
            return config->options[i].value;
    return NULL;
}
