// SPDX-License-Identifier: Apache-2.0
// Reads SentencePiece models: a protocol buffer with pieces, training settings and normalization.
//
// In a BPE model, two pieces merge if their concatenation is a piece, best score first; in a CHAR
// model none do. A Unigram model is used directly. Control pieces are cut out of the text as
// transformers does; user-defined symbols keep their place in it as in SentencePiece: no new ▁ is
// put after them.

#include "core/tokenizer/tokenizer_internal.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum piece_type { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM_MODEL = 1, BPE_MODEL = 2, CHAR_MODEL = 4 };

struct piece {
    struct text text;
    float score;
    int64_t type;
};

struct model {
    struct piece *pieces;
    size_t count, room;
    int64_t kind; // of model
    bool adds_prefix, collapses_spaces, byte_fallback;
    struct text charsmap;
};

// --- protocol buffers --------------------------------------------------------

struct wire {
    const char *at, *end;
    bool bad;
};

struct wire_field {
    uint64_t number, value; // value: a varint or four bytes
    struct text bytes;
};

static uint64_t read_varint(struct wire *in)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (in->at == in->end)
            break;
        unsigned char byte = (unsigned char)*in->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    in->bad = true;
    return 0;
}

static bool read_field(struct wire *in, struct wire_field *field)
{
    if (in->at == in->end || in->bad)
        return false;
    uint64_t tag = read_varint(in), size = 0;
    *field = (struct wire_field){ .number = tag >> 3 };
    switch (tag & 7) {
    case 0: field->value = read_varint(in); return !in->bad;
    case 1: size = 8; break;
    case 2: size = read_varint(in); break;
    case 5: size = 4; break;
    default: in->bad = true; return false;
    }
    if (in->bad || size > (uint64_t)(in->end - in->at)) {
        in->bad = true;
        return false;
    }
    field->bytes = (struct text){ in->at, (size_t)size };
    in->at += size;
    return true;
}

static float float_of(struct text bytes)
{
    float value = 0;
    if (bytes.size == sizeof value)
        memcpy(&value, bytes.at, sizeof value);
    return value;
}

static struct wire wire_of(struct text bytes)
{
    const char *at = bytes.size ? bytes.at : ""; // an absent field has no address
    return (struct wire){ at, at + bytes.size, false };
}

// --- model -------------------------------------------------------------------

static bool read_piece(struct model *model, struct arena *arena, struct text bytes)
{
    struct wire in = wire_of(bytes);
    struct wire_field field;
    struct piece piece = { .text = { "", 0 }, .type = NORMAL };
    while (read_field(&in, &field)) {
        if (field.number == 1)
            piece.text = field.bytes;
        else if (field.number == 2)
            piece.score = float_of(field.bytes);
        else if (field.number == 3)
            piece.type = (int64_t)field.value;
    }
    model->pieces =
        arena_room(arena, model->pieces, sizeof *model->pieces, model->count, &model->room);
    model->pieces[model->count++] = piece;
    return !in.bad && piece.score == piece.score;
}

static bool read_trainer(struct model *model, struct text bytes)
{
    struct wire in = wire_of(bytes);
    struct wire_field field;
    while (read_field(&in, &field)) {
        if (field.number == 3)
            model->kind = (int64_t)field.value;
        else if (field.number == 35)
            model->byte_fallback = field.value;
    }
    return !in.bad;
}

static bool read_normalizer(struct model *model, struct text bytes)
{
    struct wire in = wire_of(bytes);
    struct wire_field field;
    while (read_field(&in, &field)) {
        if (field.number == 2)
            model->charsmap = field.bytes;
        else if (field.number == 3)
            model->adds_prefix = field.value;
        else if (field.number == 4)
            model->collapses_spaces = field.value;
    }
    return !in.bad;
}

static enum err read_model(struct model *model, struct arena *arena, struct text file,
                           const char *name)
{
    struct wire in = wire_of(file);
    struct wire_field field;
    bool good = true;
    while (good && read_field(&in, &field)) {
        if (field.number == 1)
            good = read_piece(model, arena, field.bytes);
        else if (field.number == 2)
            good = read_trainer(model, field.bytes);
        else if (field.number == 3)
            good = read_normalizer(model, field.bytes);
        if (model->count >= TOKENIZER_IDS)
            good = false;
    }
    if (!good || in.bad || !model->count)
        return fail(ERR_INPUT,
                    "%s: not a SentencePiece model, a tokenizer.json or a tiktoken rank file",
                    name);
    if (model->kind != UNIGRAM_MODEL && model->kind != BPE_MODEL && model->kind != CHAR_MODEL)
        return fail(ERR_INPUT,
                    "%s: the SentencePiece model is of kind %lld; BPE, Unigram and CHAR are "
                    "supported",
                    name, (long long)model->kind);
    return OK;
}

// --- vocabulary --------------------------------------------------------------

struct scored {
    float score;
    int32_t id;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *left = a, *right = b;
    if (left->score != right->score)
        return left->score > right->score ? -1 : 1;
    return left->id - right->id;
}

static enum err add_pieces(struct tokenizer *t, struct arena *arena, const struct model *model,
                           const char *name)
{
    uint32_t *ranks = ARENA_NEW(arena, uint32_t, model->count);
    struct scored *order = ARENA_NEW(arena, struct scored, model->count);
    tokenizer_vocabulary_init(&t->vocabulary, arena, model->count);
    for (size_t i = 0; i < model->count; i++) {
        struct text text = model->pieces[i].text;
        text.at = arena_copy(arena, text.at, text.size);
        if (!tokenizer_vocabulary_add(&t->vocabulary, arena, text, (int32_t)i))
            return fail(ERR_INPUT, "%s: piece %zu occurs twice in the model", name, i);
        order[i] = (struct scored){ model->pieces[i].score, (int32_t)i };
    }
    qsort(order, model->count, sizeof *order, by_score);
    for (size_t i = 0; i < model->count; i++) {
        int32_t id = order[i].id;
        bool merges = model->pieces[id].type == NORMAL || model->pieces[id].type == USER_DEFINED;
        merges = merges && model->kind == BPE_MODEL; // of CHAR, every character is a piece
        ranks[id] = merges ? (uint32_t)i : TOKENIZER_NO_RANK;
    }
    tokenizer_derive_merges(t, arena, ranks);
    return OK;
}

static float best_score(const struct model *model)
{
    float best = FLT_MIN; // as in SentencePiece: about 0 where all scores are below it, as most are
    for (size_t i = 0; i < model->count; i++)
        if (model->pieces[i].type == NORMAL && model->pieces[i].score > best)
            best = model->pieces[i].score;
    return best;
}

// A user-defined symbol scores as many of the best piece as it has bytes, less a little.
static double symbol_score(struct text text, float best)
{
    const double little = 0.1;
    return (double)((float)text.size * best) - little;
}

static enum err add_unigram(struct tokenizer *t, struct arena *arena, const struct model *model,
                            const char *name)
{
    double unknown = -1;
    float best = best_score(model);
    tokenizer_vocabulary_init(&t->vocabulary, arena, model->count);
    t->unigram = tokenizer_new_unigram(arena);
    tokenizer_single_unigram(t->unigram);
    t->model = MODEL_UNIGRAM;
    for (size_t i = 0; i < model->count; i++) {
        const struct piece *piece = &model->pieces[i];
        bool symbol = piece->type == USER_DEFINED, occurs = symbol || piece->type == NORMAL;
        double score = symbol ? symbol_score(piece->text, best) : piece->score;
        TRY(tokenizer_add_unigram(t, arena, piece->text, score, occurs, name));
        if (piece->type == UNKNOWN)
            unknown = (double)i;
    }
    return tokenizer_finish_unigram(t, arena, unknown, name);
}

static void add_specials(struct tokenizer *t, struct arena *arena, const struct model *model)
{
    static const char digits[] = "0123456789ABCDEF";
    tokenizer_vocabulary_init(&t->special, arena, 64);
    t->raw.tokens = ARENA_NEW(arena, struct added_token, model->count);
    t->normal.tokens = ARENA_NEW(arena, struct added_token, model->count);
    for (int byte = 0; byte < 256; byte++) {
        char spelled[6] = { '<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>' };
        t->byte_ids[byte] = tokenizer_vocabulary_find(&t->vocabulary, (struct text){ spelled, 6 });
    }
    for (size_t i = 0; i < model->count; i++) {
        int64_t type = model->pieces[i].type;
        if (type == UNKNOWN)
            t->unknown = (int32_t)i;
        bool symbol = type == USER_DEFINED && t->model == MODEL_BPE; // Unigram has it as a piece
        if (type != UNKNOWN && type != CONTROL && !symbol)
            continue;
        struct text text = model->pieces[i].text;
        text.at = arena_copy(arena, text.at, text.size);
        struct added_set *set = symbol ? &t->normal : &t->raw;
        set->tokens[set->count++] =
            (struct added_token){ .text = text, .id = (int32_t)i, .special = !symbol };
        tokenizer_vocabulary_add(&t->special, arena, text, (int32_t)i);
    }
}

// --- normalization ----------------------------------------------------------

static enum err add_steps(struct tokenizer *t, struct arena *arena, const struct model *model,
                          const char *name)
{
    const struct text mark = TEXT(TOKENIZER_MARK);
    struct normal_step *step = t->normal_steps;
    if (model->charsmap.size) {
        char *map = arena_copy(arena, model->charsmap.at, model->charsmap.size);
        TRY(tokenizer_set_charsmap(step, (struct text){ map, model->charsmap.size }, name));
        step->longest = true;
        step++->kind = NORMAL_CHARSMAP;
    }
    if (model->collapses_spaces) {
        *step = (struct normal_step){ .kind = NORMAL_REPLACE, .to = TEXT(" ") };
        TRY(pattern_read(&step->pattern, arena, TEXT(" {2,}"), name));
        step++;
        *step = (struct normal_step){ .kind = NORMAL_REPLACE, .to = TEXT("") };
        TRY(pattern_read(&step->pattern, arena, TEXT("\\A +| +\\z"), name));
        step++;
    }
    if (model->adds_prefix)
        *step++ = (struct normal_step){ .kind = NORMAL_PREPEND, .to = mark };
    *step++ = (struct normal_step){ .kind = NORMAL_REPLACE, .from = TEXT(" "), .to = mark };
    t->normal_count = (int)(step - t->normal_steps);
    return OK;
}

enum err tokenizer_read_pieces(struct tokenizer *t, struct arena *arena, struct text file,
                               const char *name)
{
    struct arena scratch = { 0 };
    struct model model = { .kind = UNIGRAM_MODEL, .adds_prefix = true, .collapses_spaces = true };
    enum err err = read_model(&model, &scratch, file, name);
    if (!err)
        err = model.kind == UNIGRAM_MODEL ? add_unigram(t, arena, &model, name)
                                          : add_pieces(t, arena, &model, name);
    if (!err) {
        t->size = (int32_t)model.count;
        t->byte_fallback = model.byte_fallback;
        t->fuses_unknown = true;
        add_specials(t, arena, &model);
        err = add_steps(t, arena, &model, name);
    }
    arena_release(&scratch);
    return err ? err : tokenizer_finish(t, arena);
}
