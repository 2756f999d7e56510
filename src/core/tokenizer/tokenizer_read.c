// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.json: the model's vocabulary and merges, and the added tokens.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

// --- byte-level alphabet -----------------------------------------------------

// A byte-level vocabulary writes each byte as a visible character: visible Latin-1 characters stand
// for themselves, the other bytes are mapped to U+0100 and up.
static bool is_visible(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

void tokenizer_alphabet(uint16_t codes[256])
{
    for (int byte = 0, next = 0x100; byte < 256; byte++)
        codes[byte] = (uint16_t)(is_visible(byte) ? byte : next++);
}

static void fill_alphabet(int16_t bytes[0x180])
{
    uint16_t codes[256];
    tokenizer_alphabet(codes);
    memset(bytes, 0xFF, 0x180 * sizeof *bytes);
    for (int byte = 0; byte < 256; byte++)
        bytes[codes[byte]] = (int16_t)byte;
}

// Decodes a token into its bytes; false if it has other characters.
static bool decode_token(const int16_t *alphabet, struct text token, char *out, size_t *size)
{
    *size = 0;
    for (const char *at = token.at, *end = at + token.size; at < end;) {
        uint32_t code = (unsigned char)*at < 0x80 ? (unsigned char)*at++ : unicode_next(&at, end);
        if (code >= 0x180 || alphabet[code] < 0)
            return false;
        out[(*size)++] = (char)alphabet[code];
    }
    return true;
}

// --- vocabulary and merges ---------------------------------------------------

struct reading {
    struct tokenizer *t;
    struct arena *arena;
    struct arena *scratch;
    const char *name;
    int16_t alphabet[0x180];
    char *pool; // storage for the bytes of tokens, in blocks
    size_t pool_left;
};

static char *pool_room(struct reading *r, size_t size)
{
    if (r->pool_left < size) {
        r->pool_left = size > 65536 ? size : 65536;
        r->pool = arena_alloc(r->arena, r->pool_left);
    }
    return r->pool;
}

// The token's bytes, copied. A token of a byte-level vocabulary that has characters outside the
// alphabet can never occur; .at is NULL then.
static struct text own_token(struct reading *r, struct text token)
{
    char *to = pool_room(r, token.size + 1);
    size_t size = token.size;
    if (!r->t->byte_level)
        memcpy(to, token.at, size);
    else if (!decode_token(r->alphabet, token, to, &size))
        return (struct text){ 0 };
    r->pool += size + 1;
    r->pool_left -= size + 1;
    return (struct text){ to, size };
}

static enum err check_id(const struct reading *r, double id, struct text token)
{
    if (id >= 0 && id < TOKENIZER_IDS && id == (double)(int32_t)id)
        return OK;
    return fail(ERR_INPUT, "%s: token \"%.*s\" has the id %.17g; it must be an integer below %d",
                r->name, token.size > 60 ? 60 : (int)token.size, token.at, id, TOKENIZER_IDS);
}

// Tokens and merges are added in batches, so that memory is prefetched while the next is parsed.
enum { TOKEN_BATCH = 32 };

struct token_batch {
    struct {
        struct text key, token; // as in the file, and its bytes
        int32_t id;
    } items[TOKEN_BATCH];
    int count;
};

static enum err add_tokens(struct reading *r, struct token_batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        if (!tokenizer_vocabulary_add(&r->t->vocabulary, r->arena, batch->items[i].token,
                                      batch->items[i].id))
            return fail(ERR_INPUT, "%s: token \"%.*s\" or its id %d occurs twice in the vocabulary",
                        r->name, TEXT_ARGS(batch->items[i].key), (int)batch->items[i].id);
    batch->count = 0;
    return OK;
}

static enum err read_vocabulary(struct reading *r, struct json_reader *in, size_t expected)
{
    struct tokenizer *t = r->t;
    struct token_batch batch = { .count = 0 };
    tokenizer_vocabulary_init(&t->vocabulary, r->arena, expected);
    struct text key;
    json_object(in);
    while (json_key(in, r->scratch, &key)) {
        double id = json_number(in);
        if (in->problem)
            break;
        TRY(check_id(r, id, key));
        if ((int32_t)id >= t->size)
            t->size = (int32_t)id + 1;
        struct text token = own_token(r, key);
        if (!token.at)
            continue;
        tokenizer_vocabulary_fetch(&t->vocabulary, token);
        batch.items[batch.count].key = key;
        batch.items[batch.count].token = token;
        batch.items[batch.count++].id = (int32_t)id;
        if (batch.count == TOKEN_BATCH)
            TRY(add_tokens(r, &batch));
    }
    return add_tokens(r, &batch);
}

enum { MERGE_BATCH = 64, MERGE_BYTES = 4096 }; // bytes of one merge; a batch has twice that

struct merge_batch {
    struct {
        struct text parts[3]; // left, right, both
        struct merge merge;
    } items[MERGE_BATCH];
    int count;
    char bytes[2 * MERGE_BYTES];
    size_t used;       // bytes
    int32_t expected;  // likely result of the next merge
    struct merge *all; // including earlier batches
    size_t all_count, all_room;
};

static void keep_merge(struct reading *r, struct merge_batch *batch, struct merge merge)
{
    batch->all =
        arena_room(r->scratch, batch->all, sizeof *batch->all, batch->all_count, &batch->all_room);
    batch->all[batch->all_count++] = merge;
    tokenizer_merges_whole(&r->t->merges, r->arena, merge);
}

static enum err add_merges(struct reading *r, struct merge_batch *batch)
{
    const struct vocabulary *v = &r->t->vocabulary;
    for (int i = 0; i < batch->count; i++) {
        struct merge *merge = &batch->items[i].merge;
        merge->left = tokenizer_vocabulary_find(v, batch->items[i].parts[0]);
        merge->right = tokenizer_vocabulary_find(v, batch->items[i].parts[1]);
        if (merge->whole < 0)
            merge->whole = tokenizer_vocabulary_find(v, batch->items[i].parts[2]);
        if (merge->left < 0 || merge->right < 0 || merge->whole < 0)
            return fail(ERR_INPUT,
                        "%s: merge %u, \"%.*s\" + \"%.*s\", names a token that is not in the "
                        "vocabulary",
                        r->name, merge->rank, TEXT_ARGS(batch->items[i].parts[0]),
                        TEXT_ARGS(batch->items[i].parts[1]));
    }
    if (batch->count)
        batch->expected = batch->items[batch->count - 1].merge.whole + 1;
    for (int i = 0; i < batch->count; i++)
        keep_merge(r, batch, batch->items[i].merge);
    batch->count = 0;
    batch->used = 0;
    return OK;
}

// In most files merges are in the order of the tokens that they make, so the result of the next
// merge is near the last one and found without a lookup.
static int32_t guess_whole(const struct vocabulary *v, struct merge_batch *batch, struct text whole)
{
    for (int32_t id = batch->expected - 1; id <= batch->expected && id < v->size; id++)
        if (id >= 0 && v->tokens[id].at && text_equal(v->tokens[id], whole)) {
            batch->expected = id + 1;
            return id;
        }
    return TOKENIZER_NONE;
}

static enum err add_merge(struct reading *r, struct merge_batch *batch, struct text left,
                          struct text right, uint32_t rank)
{
    char *bytes = batch->bytes + batch->used;
    size_t left_size = left.size, right_size = right.size;
    if (left.size + right.size > MERGE_BYTES)
        return fail(ERR_INPUT, "%s: merge %u makes a token of %zu bytes; at most %d are supported",
                    r->name, rank, left.size + right.size, MERGE_BYTES);
    if (!r->t->byte_level) {
        memcpy(bytes, left.at, left.size);
        memcpy(bytes + left.size, right.at, right.size);
    } else if (!decode_token(r->alphabet, left, bytes, &left_size) ||
               !decode_token(r->alphabet, right, bytes + left_size, &right_size)) {
        return OK; // can never occur
    }
    const struct vocabulary *v = &r->t->vocabulary;
    struct text *item = batch->items[batch->count].parts;
    item[0] = (struct text){ bytes, left_size };
    item[1] = (struct text){ bytes + left_size, right_size };
    item[2] = (struct text){ bytes, left_size + right_size };
    int32_t whole = guess_whole(v, batch, item[2]);
    for (int i = 0; i < (whole < 0 ? 3 : 2); i++)
        tokenizer_vocabulary_fetch(v, item[i]);
    batch->used += item[2].size;
    batch->items[batch->count++].merge = (struct merge){ .rank = rank, .whole = whole };
    bool full = batch->count == MERGE_BATCH || batch->used > MERGE_BYTES;
    return full ? add_merges(r, batch) : OK;
}

static bool split_merge(struct text line, struct text *left, struct text *right)
{
    const char *space = memchr(line.at, ' ', line.size);
    if (!space)
        return false;
    *left = (struct text){ line.at, (size_t)(space - line.at) };
    *right = (struct text){ space + 1, line.size - left->size - 1 };
    return true;
}

static enum err read_merge(struct reading *r, struct json_reader *in, struct text *left,
                           struct text *right)
{
    if (json_peek(in) != JSON_ARRAY) {
        if (!split_merge(json_string(in, r->scratch), left, right))
            return json_failed(in, "expected two tokens separated by a space");
        return OK;
    }
    json_array(in);
    bool good = json_item(in);
    *left = json_string(in, r->scratch);
    good = good && json_item(in);
    *right = json_string(in, r->scratch);
    if (!good || json_item(in))
        return json_failed(in, "expected a list of two tokens");
    return OK;
}

static enum err read_merges(struct reading *r, struct json_reader *in)
{
    r->t->merges = (struct merges){ 0 };
    struct merge_batch *batch = ARENA_NEW(r->scratch, struct merge_batch, 1);
    json_array(in);
    for (uint32_t rank = 0; json_item(in); rank++) {
        struct text left = { 0 }, right = { 0 };
        if (rank >= TOKENIZER_IDS)
            json_failed(in, "has more merges than a tokenizer can use");
        if (read_merge(r, in, &left, &right) || in->problem)
            break;
        TRY(add_merge(r, batch, left, right, rank));
    }
    TRY(add_merges(r, batch));
    struct merges made = r->t->merges; // results of merges, by rank
    tokenizer_merges_init(&r->t->merges, r->arena, batch->all_count);
    r->t->merges.wholes = made.wholes;
    r->t->merges.room = made.room;
    r->t->merges.count = made.count;
    tokenizer_merges_fill(&r->t->merges, r->scratch, batch->all, batch->all_count);
    return OK;
}

// --- model -------------------------------------------------------------------

static int32_t find_plain(const struct reading *r, struct text token)
{
    char bytes[256];
    size_t size = token.size;
    if (!token.at || size > sizeof bytes)
        return TOKENIZER_NONE;
    if (r->t->byte_level) {
        if (!decode_token(r->alphabet, token, bytes, &size))
            return TOKENIZER_NONE;
        token = (struct text){ bytes, size };
    }
    return tokenizer_vocabulary_find(&r->t->vocabulary, token);
}

static void find_byte_tokens(struct reading *r)
{
    struct tokenizer *t = r->t;
    for (int byte = 0; byte < 256; byte++) {
        char spelled[8], c = (char)byte;
        static const char digits[] = "0123456789ABCDEF";
        memcpy(spelled, "<0x00>", 6);
        spelled[3] = digits[byte >> 4];
        spelled[4] = digits[byte & 15];
        t->byte_ids[byte] = tokenizer_vocabulary_find(
            &t->vocabulary, t->byte_level ? (struct text){ &c, 1 } : (struct text){ spelled, 6 });
    }
}

struct model_options {
    struct text type, unknown, continuing, suffix;
    double unknown_id, longest_word, dropout;
    struct text late_merges; // merges that precede the vocabulary in the file
    bool has_vocabulary;
};

static enum err read_model_value(struct reading *r, struct json_reader *in, struct text key,
                                 struct model_options *options)
{
    struct tokenizer *t = r->t;
    enum json_kind kind = json_peek(in);
    if (text_is(key, "vocab") && options->has_vocabulary) { // merges may name tokens of the first
        json_failed(in, "has a second vocabulary");
        return OK;
    }
    if (text_is(key, "vocab")) {
        options->has_vocabulary = true;
        return kind == JSON_ARRAY ? tokenizer_read_unigram(t, r->arena, in, r->name)
                                  : read_vocabulary(r, in, 1 << 17);
    }
    if (text_is(key, "merges")) {
        if (options->has_vocabulary)
            return read_merges(r, in);
        options->late_merges = json_skip(in);
        return OK;
    }
    if (kind == JSON_STRING) {
        struct text value = json_string(in, r->scratch);
        if (text_is(key, "type"))
            options->type = value;
        else if (text_is(key, "unk_token"))
            options->unknown = value;
        else if (text_is(key, "continuing_subword_prefix"))
            options->continuing = value;
        else if (text_is(key, "end_of_word_suffix"))
            options->suffix = value;
    } else if (kind == JSON_BOOL) {
        bool value = json_bool(in);
        if (text_is(key, "byte_fallback"))
            t->byte_fallback = value;
        else if (text_is(key, "fuse_unk"))
            t->fuses_unknown = value;
        else if (text_is(key, "ignore_merges"))
            t->ignores_merges = value;
    } else if (kind == JSON_NUMBER) {
        double value = json_number(in);
        if (text_is(key, "unk_id"))
            options->unknown_id = value;
        else if (text_is(key, "max_input_chars_per_word"))
            options->longest_word = value;
        else if (text_is(key, "dropout"))
            options->dropout = value;
    } else {
        json_skip(in);
    }
    return OK;
}

static enum err finish_model(struct reading *r, const struct model_options *options)
{
    static const char *const types[] = { "BPE", "Unigram", "WordPiece", "WordLevel" };
    struct tokenizer *t = r->t;
    int type = t->unigram               ? MODEL_UNIGRAM // as the library does for old files
               : t->merges.slots        ? MODEL_BPE
               : options->continuing.at ? MODEL_WORDPIECE
               : options->unknown.at    ? MODEL_WORDLEVEL
                                        : -1;
    for (int i = 0; options->type.at && i < 4; i++)
        if (text_is(options->type, types[i]))
            type = i;
    if (type < 0)
        return fail(ERR_INPUT,
                    "%s: the model is a \"%.*s\"; BPE, Unigram, WordPiece and WordLevel "
                    "are known",
                    r->name, TEXT_ARGS(options->type));
    t->model = (enum model_kind)type;
    if ((t->model == MODEL_UNIGRAM) != (t->unigram != NULL) || !options->has_vocabulary)
        return fail(ERR_INPUT, "%s: the %s model has no vocabulary of its type", r->name,
                    types[type]);
    if (t->model == MODEL_BPE && options->continuing.size && t->merges.count)
        return fail(ERR_INPUT, "%s: continuing_subword_prefix is not supported for BPE", r->name);
    if (options->suffix.size > SUFFIX_BYTES || (options->suffix.size && t->byte_fallback))
        return fail(ERR_INPUT,
                    "%s: end_of_word_suffix is not supported with more than %d bytes or "
                    "byte_fallback",
                    r->name, (int)SUFFIX_BYTES);
    if (options->dropout > 0)
        return fail(ERR_INPUT, "%s: dropout is not supported: it gives different tokens each time",
                    r->name);
    t->unknown = find_plain(r, options->unknown);
    find_byte_tokens(r);
    if (t->model == MODEL_UNIGRAM)
        return tokenizer_finish_unigram(t, r->arena, options->unknown_id, r->name);
    t->continuing =
        (struct text){ text_copy(r->arena, options->continuing), options->continuing.size };
    t->suffix = (struct text){ text_copy(r->arena, options->suffix), options->suffix.size };
    double longest = options->longest_word >= 1 ? options->longest_word : 100;
    t->longest_word = longest < UINT32_MAX ? (size_t)longest : UINT32_MAX;
    return OK;
}

static enum err read_model(struct reading *r, struct json_reader *in)
{
    struct model_options options = { .unknown_id = -1 };
    struct text key;
    json_object(in);
    while (json_key(in, r->scratch, &key))
        TRY(read_model_value(r, in, key, &options));
    if (in->problem)
        return json_end(in, r->name);
    if (options.late_merges.at && options.has_vocabulary) {
        struct json_reader late = json_reader(options.late_merges);
        TRY(read_merges(r, &late));
        TRY(json_end(&late, r->name));
    }
    return finish_model(r, &options);
}

// --- added tokens ------------------------------------------------------------

static enum err read_added(struct reading *r, const struct json *list)
{
    struct tokenizer *t = r->t;
    tokenizer_vocabulary_init(&t->special, r->arena, list ? list->count : 0);
    if (list && list->kind != JSON_ARRAY)
        return fail(ERR_INPUT, "%s: added_tokens is %s; it must be a list", r->name,
                    json_kind_name(list->kind));
    size_t count = list ? list->count : 0;
    t->raw.tokens = ARENA_NEW(r->arena, struct added_token, count);
    t->normal.tokens = ARENA_NEW(r->arena, struct added_token, count);
    for (size_t i = 0; i < count; i++) {
        const struct json *item = &list->items[i];
        struct text text = json_get_text(item, "content");
        double id = json_get_number(item, "id", -1);
        if (!text.at)
            return fail(ERR_INPUT, "%s: added token %zu has no content", r->name, i);
        TRY(check_id(r, id, text));
        int32_t known = find_plain(r, text); // a token of the vocabulary keeps its id
        struct added_token token = {
            .text = { arena_copy(r->arena, text.at, text.size), text.size },
            .id = known >= 0 ? known : (int32_t)id,
            .single_word = json_get_bool(item, "single_word", false),
            .strips_left = json_get_bool(item, "lstrip", false),
            .strips_right = json_get_bool(item, "rstrip", false),
            .special = json_get_bool(item, "special", false),
            .normalized = json_get_bool(item, "normalized", false),
        };
        if (token.id >= t->size)
            t->size = token.id + 1;
        tokenizer_vocabulary_add(&t->special, r->arena, token.text, token.id);
        struct added_set *set = token.normalized ? &t->normal : &t->raw;
        set->tokens[set->count++] = token;
    }
    return OK;
}

// Tokens that are matched in normalized text have their own text normalized too.
static void normalize_added(struct tokenizer *t, struct arena *arena)
{
    if (!t->normal_count)
        return;
    struct tokenizer_cache *cache = tokenizer_cache_init();
    for (size_t i = 0; i < t->normal.count; i++) {
        struct stretch stretch = { .text = t->normal.tokens[i].text };
        stretch = tokenizer_normalize(t, cache, stretch, false);
        t->normal.tokens[i].text =
            (struct text){ arena_copy(arena, stretch.text.at, stretch.text.size),
                           stretch.text.size };
    }
    tokenizer_cache_release(cache);
}

// --- file --------------------------------------------------------------------

static enum err read_file(struct reading *r, struct json_reader *in)
{
    struct json normal = { 0 }, split = { 0 }, post = { 0 }, added = { 0 };
    struct json_reader late_model = { 0 };
    bool has_split = false, has_model = false;
    struct text key;
    json_object(in);
    while (json_key(in, r->scratch, &key)) {
        if ((has_model && text_is(key, "model")) || (has_split && text_is(key, "pre_tokenizer"))) {
            json_failed(in, "has a second model or pre-tokenizer");
        } else if (text_is(key, "model") && has_split) {
            TRY(read_model(r, in));
            has_model = true;
        } else if (text_is(key, "model")) {
            late_model = *in;
            json_skip(in);
        } else if (text_is(key, "pre_tokenizer")) {
            split = json_tree(in, r->scratch);
            has_split = true;
            TRY(tokenizer_read_split(r->t, r->arena, &split, r->name));
        } else if (text_is(key, "normalizer")) {
            normal = json_tree(in, r->scratch);
        } else if (text_is(key, "post_processor")) {
            post = json_tree(in, r->scratch);
        } else if (text_is(key, "added_tokens")) {
            added = json_tree(in, r->scratch);
        } else {
            json_skip(in);
        }
    }
    TRY(json_end(in, r->name));
    if (late_model.at && !has_model)
        TRY(read_model(r, &late_model));
    else if (!has_model)
        return fail(ERR_INPUT, "%s: has no \"model\"; expected a tokenizer.json", r->name);
    TRY(tokenizer_read_normal(r->t, r->arena, &normal, r->name));
    TRY(read_added(r, added.kind == JSON_NULL || !added.kind ? NULL : &added));
    TRY(tokenizer_read_post(r->t, r->arena, &post, r->name));
    normalize_added(r->t, r->arena);
    return tokenizer_finish(r->t, r->arena);
}

static enum err read_json(struct tokenizer *t, struct arena *arena, struct text file,
                          const char *name)
{
    struct arena scratch = { 0 };
    struct reading reading = { .t = t, .arena = arena, .scratch = &scratch, .name = name };
    struct json_reader in = json_reader(file);
    if (file.size >= 3 && !memcmp(file.at, "\xEF\xBB\xBF", 3))
        in.at += 3;
    fill_alphabet(reading.alphabet);
    enum err err = read_file(&reading, &in);
    arena_release(&scratch);
    return err;
}

enum err tokenizer_finish(struct tokenizer *t, struct arena *arena)
{
    TRY(tokenizer_added_build(&t->raw, arena));
    TRY(tokenizer_added_build(&t->normal, arena));
    tokenizer_choose_normal(t);
    for (int i = 0; i < t->split_count; i++)
        t->needs_places |= t->split_steps[i].prepend == 1 && (i || t->normal_count);
    tokenizer_choose_scan(t, arena);
    tokenizer_choose_cuts(t, arena);
    if (t->ignores_merges)
        tokenizer_vocabulary_mark(&t->vocabulary, arena);
    tokenizer_choose_first(t, arena);
    return OK;
}

// A rank file begins with a line of base64, a space and a number.
static bool is_rank_file(struct text file)
{
    size_t i = 0;
    while (i < file.size && i < 4096 && file.at[i] > ' ' && file.at[i] < 127)
        i++;
    if (!i || i + 1 >= file.size || file.at[i++] != ' ')
        return false;
    while (i < file.size && file.at[i] >= '0' && file.at[i] <= '9')
        i++;
    return i == file.size || file.at[i] == '\n' || file.at[i] == '\r';
}

enum err tokenizer_read(struct tokenizer **out, struct arena *arena, struct text file,
                        const char *name)
{
    struct tokenizer *t = ARENA_NEW(arena, struct tokenizer, 1);
    t->unknown = TOKENIZER_NONE;
    size_t start = file.size >= 3 && !memcmp(file.at, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (start < file.size && strchr(" \t\r\n", file.at[start]) && file.at[start])
        start++;
    bool is_object = start < file.size && file.at[start] == '{';
    // A SentencePiece model begins with the tag of its first piece, which is a line feed.
    bool is_model = file.size && file.at[0] == '\n' && !is_object && !is_rank_file(file);
    *out = t;
    if (is_model)
        return tokenizer_read_pieces(t, arena, file, name);
    if (is_rank_file(file))
        return tokenizer_read_ranks(t, arena, file, name);
    return read_json(t, arena, file, name);
}
