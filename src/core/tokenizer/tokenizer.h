// SPDX-License-Identifier: Apache-2.0
// tokenizer: turns text into the same token ids as a model's own tokenizer.
//
// Reads tokenizer.json, tiktoken rank files and SentencePiece models. The ids equal those of
// Hugging Face tokenizers 0.23.2, also for the text of special tokens inside the input. Counting is
// much faster than encoding and is what most callers need.
//
//     struct tokenizer *tokenizer;
//     TRY(tokenizer_read(&tokenizer, arena, file.text, "tokenizer.json"));
//     struct tokenizer_cache *cache = tokenizer_cache_init(); // one for each thread
//     int64_t tokens = tokenizer_count(tokenizer, cache, text, 0);
//     tokenizer_cache_release(cache);
//
// A tokenizer is immutable after reading and shared by threads; it does not keep the file. A cache
// belongs to one thread and one tokenizer. It stores recent words in bounded memory, and scratch
// space that grows with the longest text. What is counted does not depend on what a cache holds.

#pragma once

#include "base/text.h"

struct tokenizer;
struct tokenizer_cache;

// The format is detected from the content. name is used in errors; its last part identifies rank
// files, which do not say which model they belong to.
enum err tokenizer_read(struct tokenizer **out, struct arena *arena, struct text file,
                        const char *name);

struct tokenizer_cache *tokenizer_cache_init(void);
void tokenizer_cache_release(struct tokenizer_cache *cache); // NULL is fine

// Words that the caches of several threads share in place of words of their own, so that a word is
// merged by one of them. Made before the caches and released after them; for one tokenizer, and
// before the first text is counted. NULL: nothing is shared.
struct tokenizer_words;
struct tokenizer_words *tokenizer_words_init(void);
void tokenizer_words_release(struct tokenizer_words *words); // NULL is fine
void tokenizer_cache_share(struct tokenizer_cache *cache, struct tokenizer_words *words);

// Flags of counting and encoding.
enum {
    TOKENIZER_SPECIAL = 1, // add the model's special tokens around the text (BOS, EOS, [CLS])
};

int64_t tokenizer_count(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                        struct text text, int flags);

// The same for many texts: *tokens is complete after tokenizer_count_waiting(). New words of all of
// them are counted together, which is faster.
void tokenizer_count_later(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                           struct text text, int flags, int64_t *tokens);
void tokenizer_count_waiting(const struct tokenizer *tokenizer, struct tokenizer_cache *cache);

// The same, and the number of tokens that contain a byte of one of the spans: the tokens that carry
// loss if those bytes do. Spans must be in order and must not overlap.
struct tokenizer_span {
    size_t start, end;
};
int64_t tokenizer_count_spans(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                              struct text text, int flags, const struct tokenizer_span *spans,
                              size_t count, int64_t *within);

// Tokens of one or more texts; encoding appends. starts and ends are filled if `places` is set: the
// bytes of the text that a token covers, in whole characters, as the library's offsets. Special
// tokens added around the text cover none.
struct tokens {
    struct arena *arena;
    bool places;
    int32_t *ids;
    uint32_t *starts, *ends;
    size_t count, room;
};

void tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                      struct text text, int flags, struct tokens *out);

// About the size of a text when it is normalized, which may be thirteen times its own; in little
// memory.
size_t tokenizer_normal_bytes(const struct tokenizer *tokenizer, struct tokenizer_cache *cache,
                              struct text text);

int32_t tokenizer_find(const struct tokenizer *tokenizer, struct text token); // id, or -1
struct text tokenizer_token(const struct tokenizer *tokenizer,
                            int32_t id);                       // .at NULL if there is none
int32_t tokenizer_size(const struct tokenizer *tokenizer);     // the largest id plus one
const char *tokenizer_kind(const struct tokenizer *tokenizer); // "byte-level BPE", "Unigram", …

// --- without a tokenizer file ------------------------------------------------

// The built-in vocabulary, which knows words of English and code.
enum err tokenizer_builtin(struct tokenizer **out, struct arena *arena);

enum {
    TOKENIZER_SCRIPTS = 256, // more than Unicode has
    TOKENIZER_DOUBT = 1000,  // deviations are added up in thousandths of a token
};

struct tokenizer_rate { // of a script
    double tokens;      // per character; 0: counted with the built-in vocabulary
    double spread;      // relative standard deviation over texts
};

struct tokenizer_family {
    const char *family, *matches;
    double factor; // tokens of the family per token of the built-in vocabulary, in English and code
    double spread; // relative standard deviation of the factor over texts
    const char *source, *as_of;
    struct tokenizer_rate accented;     // the same for other languages in Latin script
    const struct tokenizer_rate *rates; // by unicode_script(): of other scripts
};

// The family that matches the model's name; the row "others" if none does.
enum err tokenizer_family(struct tokenizer_family *out, struct arena *arena, const char *model);

// What a text consists of: tokens of the built-in vocabulary where it is written in Latin script,
// characters by unicode_script() elsewhere. Adds to it. A space before a word, and marks and
// punctuation right after a letter of such a script, belong to them as they do for tokenizers.
struct tokenizer_parts {
    int64_t tokens, bytes, accents; // in Latin script
    int64_t characters[TOKENIZER_SCRIPTS];
};
void tokenizer_parts_add(struct tokenizer_parts *parts, const struct tokenizer_family *family,
                         const struct tokenizer *builtin, struct tokenizer_cache *cache,
                         struct text text);

// The family's tokens of these parts. *doubt: their standard deviation, as texts of one script
// differ from its rate alike. Callers must print them as estimates.
double tokenizer_estimate(const struct tokenizer_family *family,
                          const struct tokenizer_parts *parts, double *doubt);
