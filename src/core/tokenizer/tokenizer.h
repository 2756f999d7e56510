// tokenizer: turns text into the token ids that a model's own tokenizer would give.
//
// Reads tokenizer.json, tiktoken rank files and SentencePiece models; the ids are those of Hugging
// Face tokenizers 0.23.2, special-token text inside the input included. Counting is much cheaper
// than encoding and is what most callers want.
//
//     struct tokenizer *tokenizer;
//     TRY(tokenizer_read(&tokenizer, arena, file.text, "tokenizer.json"));
//     struct tokenizer_cache *cache = tokenizer_cache_init(tokenizer); // one for each thread
//     int64_t tokens = tokenizer_count(tokenizer, cache, text, 0);
//     tokenizer_cache_release(cache);
//
// A tokenizer never changes once it is read, and is shared by threads; it does not keep the file.
// A cache belongs to one thread and one tokenizer. It remembers words, in bounded memory, and holds
// scratch space that grows with the longest text.

#pragma once

#include "base/text.h"

struct tokenizer;
struct tokenizer_cache;

// The file may be of any of the three kinds; it is told by its content. name is for messages, and
// its last part tells rank files apart, which do not say what they are for.
enum err tokenizer_read(struct tokenizer **out, struct arena *arena, struct text file,
                        const char *name);

struct tokenizer_cache *tokenizer_cache_init(const struct tokenizer *tokenizer);
void tokenizer_cache_release(struct tokenizer_cache *cache); // NULL is fine

// Flags of counting and encoding.
enum {
    TOKENIZER_SPECIAL = 1, // add what the model wants around a text (BOS, EOS, [CLS])
};

int64_t tokenizer_count(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                        struct text text, int flags);

// The same, and how many of the tokens stand for a byte inside one of the spans, which are apart
// and by rising place: the tokens that a trainer labels when it is told the characters.
struct tokenizer_span {
    size_t start, end;
};
int64_t tokenizer_count_spans(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                              struct text text, int flags, const struct tokenizer_span *spans,
                              size_t count, int64_t *within);

// Tokens of one or more texts; encoding appends. starts and ends are filled if `places` is set:
// the bytes of the text that a token stands for, whole characters, as the library's offsets.
// Tokens that were added around the text stand for none.
struct tokens {
    struct arena *arena;
    bool places;
    int32_t *ids;
    uint32_t *starts, *ends;
    size_t count, room;
};

void tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                      struct text text, int flags, struct tokens *out);

int32_t tokenizer_find(const struct tokenizer *tokenizer, struct text token); // id, or -1
struct text tokenizer_token(const struct tokenizer *tokenizer, int32_t id);   // .at NULL if none
int32_t tokenizer_size(const struct tokenizer *tokenizer);     // the largest id plus one
const char *tokenizer_kind(const struct tokenizer *tokenizer); // "byte-level BPE", "Unigram", …

// --- without a tokenizer file ------------------------------------------------

// The vocabulary that is compiled in. Its counts, times a family's factor, estimate those of a
// model whose tokenizer is not at hand; whoever prints them says "estimated".
enum err tokenizer_builtin(struct tokenizer **out, struct arena *arena);

struct tokenizer_family {
    const char *family, *matches;
    double factor; // tokens of the family for one of the built-in vocabulary
    double spread; // relative standard deviation of that over texts
    const char *source, *as_of;
};

// The family whose name is in the model's; a row for all others where none is.
enum err tokenizer_family(struct tokenizer_family *out, struct arena *arena, const char *model);
