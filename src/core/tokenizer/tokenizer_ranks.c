// SPDX-License-Identifier: Apache-2.0
// Reads tiktoken rank files: each line is a token in base64 and its rank.
//
// The file has neither the pattern that cuts text into words nor the special tokens. The number of
// ranks identifies the published files. A pair merges if its concatenation is a token; the token's
// rank is the rank of the merge.

#include "core/tokenizer/tokenizer_internal.h"

#include <string.h>

struct special {
    const char *text;
    int32_t id;
};

struct rank_family {
    int32_t ranks; // number of lines of the published file
    const char *pattern;
    bool composes; // normalizes text to NFC
    struct special specials[18];
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define CL100K_TAIL "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define O200K                                                                                  \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER \
    "+" LOWER "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|"  \
    "\\s+(?!\\S)|\\s+"
#define NOT_HAN(set) "[" set "&&[^\\p{Han}]]"
#define KIMI                                                          \
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) "*" NOT_HAN(  \
        LOWER) "+" CONTRACTIONS                                       \
               "?|[^\\r\\n\\p{L}\\p{N}]?" NOT_HAN(UPPER) "+" NOT_HAN( \
                   LOWER) "*" CONTRACTIONS "?|\\p{N}{1,3}" CL100K_TAIL
#define CL100K CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" CL100K_TAIL

static const struct rank_family families[] = {
    { 50256, NULL, false, { { "<|endoftext|>", 50256 } } }, // r50k: GPT-2's pattern
    { 50280, NULL, false, { { "<|endoftext|>", 50256 } } }, // p50k
    { 100256,
      CL100K,
      false,
      { { "<|endoftext|>", 100257 },
        { "<|fim_prefix|>", 100258 },
        { "<|fim_middle|>", 100259 },
        { "<|fim_suffix|>", 100260 },
        { "<|endofprompt|>", 100276 } } },
    { 199998, O200K, false, { { "<|endoftext|>", 199999 }, { "<|endofprompt|>", 200018 } } },
    { 128000, // Llama 3
      CL100K,
      false,
      { { "<|begin_of_text|>", 128000 },
        { "<|end_of_text|>", 128001 },
        { "<|finetune_right_pad_id|>", 128004 },
        { "<|start_header_id|>", 128006 },
        { "<|end_header_id|>", 128007 },
        { "<|eom_id|>", 128008 },
        { "<|eot_id|>", 128009 },
        { "<|python_tag|>", 128010 } } },
    { 151643, // Qwen
      CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" CL100K_TAIL,
      true,
      { { "<|endoftext|>", 151643 }, { "<|im_start|>", 151644 }, { "<|im_end|>", 151645 } } },
    { 200000, // Llama 4
      O200K,
      false,
      { { "<|begin_of_text|>", 200000 },
        { "<|end_of_text|>", 200001 },
        { "<|fim_prefix|>", 200002 },
        { "<|fim_middle|>", 200003 },
        { "<|fim_suffix|>", 200004 },
        { "<|header_start|>", 200005 },
        { "<|header_end|>", 200006 },
        { "<|eom|>", 200007 },
        { "<|eot|>", 200008 },
        { "<|step|>", 200009 },
        { "<|python_start|>", 200016 },
        { "<|python_end|>", 200017 },
        { "<|finetune_right_pad|>", 200018 },
        { "<|image_start|>", 200080 },
        { "<|image_end|>", 200081 },
        { "<|image|>", 200090 },
        { "<|patch|>", 200092 } } },
    { 163584, // Kimi K2
      KIMI,
      false,
      { { "[BOS]", 163584 },
        { "[EOS]", 163585 },
        { "<|im_end|>", 163586 },
        { "<|im_user|>", 163587 },
        { "<|im_assistant|>", 163588 },
        { "<|start_header_id|>", 163590 },
        { "<|end_header_id|>", 163591 },
        { "[EOT]", 163593 },
        { "<|im_system|>", 163594 },
        { "<|tool_calls_section_begin|>", 163595 },
        { "<|tool_calls_section_end|>", 163596 },
        { "<|tool_call_begin|>", 163597 },
        { "<|tool_call_argument_begin|>", 163598 },
        { "<|tool_call_end|>", 163599 },
        { "<|im_middle|>", 163601 },
        { "[UNK]", 163838 },
        { "[PAD]", 163839 } } },
    // Whisper, GPT-2's pattern. Its other special tokens depend on the number of languages.
    { 50257, NULL, false, { { "<|endoftext|>", 50257 }, { "<|startoftranscript|>", 50258 } } },
};

static enum err read_line(struct tokenizer *t, struct arena *arena, struct text line, int number,
                          const char *name)
{
    const char *space = memchr(line.at, ' ', line.size);
    struct text base64 = { line.at, space ? (size_t)(space - line.at) : 0 };
    int64_t rank = -1;
    if (space)
        rank = 0;
    for (const char *c = space ? space + 1 : line.at; c < line.at + line.size && rank >= 0; c++)
        rank = *c >= '0' && *c <= '9' && rank < TOKENIZER_IDS ? rank * 10 + (*c - '0') : -1;
    struct text token = { arena_alloc(arena, base64.size + 1), 0 };
    if (rank < 0 || rank >= TOKENIZER_IDS || !base64.size ||
        !tokenizer_base64(base64, (char *)token.at, &token.size) || !token.size)
        return fail(ERR_INPUT, "%s:%d: expected a token in base64, a space and its rank", name,
                    number);
    if (!tokenizer_vocabulary_add(&t->vocabulary, arena, token, (int32_t)rank))
        return fail(ERR_INPUT, "%s:%d: the token or its rank %d occurs twice", name, number,
                    (int)rank);
    return OK;
}

void tokenizer_derive_merges(struct tokenizer *t, struct arena *arena, const uint32_t *ranks)
{
    const struct vocabulary *v = &t->vocabulary;
    tokenizer_merges_init(&t->merges, arena, (size_t)v->count * 3);
    for (int32_t id = 0; id < v->size; id++) {
        struct text token = v->tokens[id];
        uint32_t rank = ranks ? ranks[id] : (uint32_t)id;
        for (size_t i = 1; rank != TOKENIZER_NO_RANK && i < token.size; i++) {
            if (!t->byte_level && (token.at[i] & 0xC0) == 0x80)
                continue;
            int32_t left = tokenizer_vocabulary_find(v, (struct text){ token.at, i });
            int32_t right =
                left < 0
                    ? -1
                    : tokenizer_vocabulary_find(v, (struct text){ token.at + i, token.size - i });
            if (right < 0)
                continue;
            tokenizer_merges_add(&t->merges, arena, (struct merge){ left, right, rank, id });
        }
    }
}

static enum err use_family(struct tokenizer *t, struct arena *arena,
                           const struct rank_family *family, const char *name)
{
    if (family->composes)
        t->normal_steps[t->normal_count++] =
            (struct normal_step){ .kind = NORMAL_FORM, .form = UNICODE_NFC };
    struct split_step *step = &t->split_steps[t->split_count++];
    if (family->pattern) {
        *step = (struct split_step){ .kind = SPLIT_PATTERN,
                                     .behavior = SPLIT_ISOLATED,
                                     .literal = text_of(family->pattern) };
        TRY(pattern_read(&step->pattern, arena, step->literal, name));
        step = &t->split_steps[t->split_count++];
    }
    *step = (struct split_step){ .kind = SPLIT_BYTE_LEVEL, .splits = !family->pattern };
    size_t count = sizeof family->specials / sizeof *family->specials;
    tokenizer_vocabulary_init(&t->special, arena, count);
    t->raw.tokens = ARENA_NEW(arena, struct added_token, count);
    for (const struct special *s = family->specials; s < family->specials + count && s->text; s++) {
        t->raw.tokens[t->raw.count++] =
            (struct added_token){ .text = text_of(s->text), .id = s->id, .special = true };
        tokenizer_vocabulary_add(&t->special, arena, text_of(s->text), s->id);
        t->size = s->id >= t->size ? s->id + 1 : t->size;
    }
    return OK;
}

enum err tokenizer_read_ranks(struct tokenizer *t, struct arena *arena, struct text file,
                              const char *name)
{
    struct text line;
    tokenizer_vocabulary_init(&t->vocabulary, arena, 1 << 17);
    for (int number = 1; text_next(&file, '\n', &line); number++) {
        line = text_trim(line);
        if (line.size)
            TRY(read_line(t, arena, line, number, name));
    }
    t->byte_level = t->ignores_merges = true;
    t->size = t->vocabulary.size;
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        t->byte_ids[byte] = tokenizer_vocabulary_find(&t->vocabulary, (struct text){ &c, 1 });
    }
    tokenizer_derive_merges(t, arena, NULL);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].ranks == t->vocabulary.count) {
            TRY(use_family(t, arena, &families[i], name));
            return tokenizer_finish(t, arena);
        }
    return fail(ERR_INPUT,
                "%s: %d ranks match no published rank file (GPT-2, cl100k, o200k, Llama 3, "
                "Llama 4, Qwen, Kimi K2, Whisper); give the model's tokenizer.json instead",
                name, t->vocabulary.count);
}
