// SPDX-License-Identifier: Apache-2.0
// tokenizer_internal: shared by the files of the tokenizer.
//
// A text passes these stages; tokenizer.c runs them:
//
//     "<s>Hello world"
//     tokenizer_added.c       [<s>] "Hello world"      cuts the text at added tokens
//     tokenizer_normal.c      "Hello world"            normalizes each stretch between them
//     tokenizer_scan.c        "Hello" " world"         cuts a stretch into words; scanners for the
//                                                      patterns that most models use, which
//                                                      tokenizer_choose.c finds in the file
//     tokenizer_split.c                                the same for all other pre-tokenizers
//     tokenizer_cache.c       " world": 1 token        looks up words seen before
//     tokenizer_cut.c                                  cuts long words where no token can cross
//     tokenizer_bpe.c         " w" + "orld"            makes tokens of a new word; which of these
//     tokenizer_unigram.c                              three files does it depends on the model
//     tokenizer_wordpiece.c
//
// tokenizer_read.c and tokenizer_steps.c fill the structs below from tokenizer.json,
// tokenizer_ranks.c from rank files, tokenizer_pieces.c from SentencePiece models,
// tokenizer_builtin.c from the embedded vocabulary.

#pragma once

#include "base/json.h"
#include "base/pattern.h"
#include "core/tokenizer/tokenizer.h"
#include "base/unicode.h"

enum {
    TOKENIZER_IDS = (1 << 21) - 1, // ids and ranks are below this
    TOKENIZER_BATCH = 256,         // words looked up together
    TOKENIZER_STEPS = 16,          // of a normalizer or a pre-tokenizer
    TOKENIZER_NONE = -1,           // no token
};

struct span {
    uint32_t start, end;
};

// --- vocabulary --------------------------------------------------------------

// A slot holds all of a token of up to VOCABULARY_INLINE bytes, and the hash of a longer one.
struct vocabulary_slot {
    uint64_t low;
    uint32_t high;
    uint32_t tag; // id << VOCABULARY_SIZE_BITS | size; 0 if the slot is empty
};
enum { VOCABULARY_INLINE = 12, VOCABULARY_SIZE_BITS = 10 };

// Tokens by id and by bytes.
struct vocabulary {
    struct text *tokens; // .at is NULL for ids without a token
    int32_t size;        // largest id plus one
    int32_t count;
    struct vocabulary_slot *slots;
    size_t mask;
    uint64_t *marks; // bits, by hash, of all tokens; NULL: not made
};

void tokenizer_vocabulary_init(struct vocabulary *v, struct arena *arena, size_t expected);
// False if another token already has the bytes or the id.
bool tokenizer_vocabulary_add(struct vocabulary *v, struct arena *arena, struct text token,
                              int32_t id);
int32_t tokenizer_vocabulary_find(const struct vocabulary *v, struct text token);
// Prefetches the memory of a find that follows soon.
void tokenizer_vocabulary_fetch(const struct vocabulary *v, struct text token);
// Makes the marks, by which most words that are no tokens are told at once.
void tokenizer_vocabulary_mark(struct vocabulary *v, struct arena *arena);
// False: no token has the bytes. Otherwise fetches as above. Needs the marks.
bool tokenizer_vocabulary_may_have(const struct vocabulary *v, struct text token);

// --- merges ------------------------------------------------------------------

// A pair of adjacent tokens that merges into `whole`; lower ranks merge first.
struct merge {
    int32_t left, right;
    uint32_t rank;
    int32_t whole;
};

struct merges {
    uint64_t *slots; // left, right and rank, 21 bits each; all bits set if empty
    size_t mask, used;
    int32_t *wholes; // result of a merge, by rank
    size_t room;
    uint32_t count; // largest rank plus one
};
#define TOKENIZER_NO_RANK UINT32_MAX
#define TOKENIZER_MARK "\xE2\x96\x81" // ▁, which SentencePiece writes for a space
enum { SUFFIX_BYTES = 16 };

void tokenizer_merges_init(struct merges *m, struct arena *arena, size_t expected);
// A pair added again replaces the first.
void tokenizer_merges_add(struct merges *m, struct arena *arena, struct merge merge);
// Adds many merges to a table with room for them, in the order of their slots, so that each part of
// the table is filled while it is in the processor's cache. The caller fills wholes.
void tokenizer_merges_fill(struct merges *m, struct arena *scratch, const struct merge *list,
                           size_t count);
void tokenizer_merges_whole(struct merges *m, struct arena *arena, struct merge merge);

// A pair is in the first free slot from its bucket on. A bucket is part of a cache line.
enum { MERGE_BITS = 21, MERGE_BUCKET = 4 };
#define MERGE_EMPTY UINT64_MAX

static inline uint64_t tokenizer_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << MERGE_BITS | (uint32_t)right;
}

static inline uint64_t tokenizer_hash_pair(uint64_t pair)
{
    pair *= UINT64_C(0x9E3779B97F4A7C15);
    return pair ^ pair >> 32;
}

static inline size_t tokenizer_merge_slot(const struct merges *m, uint64_t hash)
{
    return (size_t)(hash >> 8) & m->mask & ~(size_t)(MERGE_BUCKET - 1);
}

static inline const uint64_t *tokenizer_merges_bucket(const struct merges *m, uint64_t pair)
{
    return &m->slots[tokenizer_merge_slot(m, tokenizer_hash_pair(pair))];
}

// TOKENIZER_NO_RANK if the pair does not merge. A bucket is compared at once, without a branch that
// depends on what it holds.
static inline uint32_t tokenizer_merges_rank(const struct merges *m, const uint64_t *bucket,
                                             uint64_t pair)
{
    for (;; bucket = &m->slots[(size_t)(bucket + MERGE_BUCKET - m->slots) & m->mask]) {
        uint64_t rank = UINT64_MAX; // what is left of an equal slot without the pair
        for (int i = 0; i < MERGE_BUCKET; i++) {
            uint64_t rest = bucket[i] ^ pair << MERGE_BITS;
            rank = rest < rank ? rest : rank;
        }
        bool found = rank <= TOKENIZER_IDS, last = bucket[MERGE_BUCKET - 1] == MERGE_EMPTY;
        if (__builtin_expect(found | last, 1))
            return found ? (uint32_t)rank : TOKENIZER_NO_RANK;
    }
}

static inline uint32_t tokenizer_rank(const struct merges *m, int32_t left, int32_t right)
{
    uint64_t pair = tokenizer_pair(left, right);
    return tokenizer_merges_rank(m, tokenizer_merges_bucket(m, pair), pair);
}

// --- stages as read from the file --------------------------------------------

struct added_token {
    struct text text;
    int32_t id;
    bool single_word, strips_left, strips_right, normalized, special;
};

// A trie over the texts of added tokens. Children of a node are a list of siblings.
struct added_node {
    uint32_t child, sibling; // 0: none
    int32_t token;           // index of the added token that ends here, or -1
    uint8_t byte;
};

struct added_set {
    struct added_token *tokens;
    size_t count;
    struct added_node *nodes;
    size_t node_count, room;
    uint32_t roots[256]; // node of each first byte, or 0
    int first_bytes;     // number of roots
    uint8_t only;        // the first byte, if first_bytes is 1
};

enum normal_kind {
    NORMAL_FORM, // NFC, NFD, NFKC, NFKD
    NORMAL_LOWER,
    NORMAL_STRIP, // white space at the ends
    NORMAL_ACCENTS,
    NORMAL_BERT,
    NORMAL_REPLACE,
    NORMAL_PREPEND,
    NORMAL_CHARSMAP, // SentencePiece's compiled map
    NORMAL_NMT,
};

struct normal_step {
    enum normal_kind kind;
    enum unicode_form form;
    bool left, right;                      // of STRIP
    bool cleans, chinese, accents, lowers; // of BERT
    struct text from, to;                  // of REPLACE and PREPEND (to)
    struct pattern *pattern;               // of REPLACE; NULL if from is a plain string
    struct text charsmap;                  // units of the trie
    struct text charsmap_pool;             // replacements
    bool longest; // of CHARSMAP: replaces the longest key, not clusters of characters
};

enum split_kind {
    SPLIT_PATTERN,
    SPLIT_DIGITS,
    SPLIT_PUNCTUATION,
    SPLIT_WHITESPACE, // \w+|[^\w\s]+
    SPLIT_ON_WHITESPACE,
    SPLIT_BERT,
    SPLIT_METASPACE,
    SPLIT_BYTE_LEVEL,
    SPLIT_DELIMITER,
    SPLIT_SCRIPTS, // where the script changes
    SPLIT_LENGTH,  // every so many characters
};

enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS,
};

struct split_step {
    enum split_kind kind;
    enum split_behavior behavior;
    bool inverted;
    bool each;           // of DIGITS: every digit is a word
    bool prefix_space;   // of BYTE_LEVEL
    bool splits;         // of METASPACE; of BYTE_LEVEL: use GPT-2's pattern
    bool mapped;         // it comes after BYTE_LEVEL: it sees bytes as visible characters
    int prepend;         // of METASPACE: 0 never, 1 to the first stretch, 2 to each
    struct text literal; // of PATTERN, if it is a plain string; METASPACE's replacement
    struct pattern *pattern;
    size_t length;               // of LENGTH: characters
    int han, hiragana, katakana; // of SCRIPTS
};

// The hand-written scanners of tokenizer_scan.c.
enum scan_kind {
    SCAN_NONE,
    SCAN_GPT2,
    SCAN_GPT2_DIGITS, // first every digit, then GPT-2's pattern
    SCAN_CL100K,      // up to three digits in a word
    SCAN_CL100K_1,    // every digit is a word
    SCAN_O200K,       // words are cut by case
    SCAN_TEKKEN,      // the same without contractions; every digit is a word
    SCAN_DEEPSEEK,    // three patterns: digits, Chinese and Japanese, the rest
    SCAN_WHOLE,       // no pre-tokenizer: cut where no token can cross
};

enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL };

struct unigram; // tokenizer_unigram.c
struct cuts;    // tokenizer_cut.c

struct tokenizer {
    enum model_kind model;
    bool byte_level;    // tokens are bytes, not characters
    bool byte_fallback; // a character without a token becomes <0xNN> tokens
    bool fuses_unknown;
    bool ignores_merges;    // a word that is a token is not merged
    bool trims_places;      // a token's place excludes white space
    bool keeps_first_space; // of the first token, if trims_places
    int32_t unknown;        // id of the unknown token, or -1
    int32_t byte_ids[256];  // token of a single byte, or of <0xNN>; -1 if missing
    int32_t first_ids[256]; // BPE: the symbol that a byte starts as; -1 if it is no symbol
    struct vocabulary vocabulary;
    struct merges merges;
    uint32_t *byte_ranks; // rank of two bytes that are symbols, by left << 8 | right; UINT32_MAX if
                          // none. NULL if not every byte can be a symbol
    size_t window;        // bytes of a huge word that merge at a time (tokenizer_bpe.c); 0: all
    struct unigram *unigram;
    struct text continuing; // WordPiece's "##"; BPE's, too
    struct text suffix;     // BPE: of the last symbol of a word, "</w>"
    size_t longest_word;    // WordPiece: longer words are unknown; in characters

    struct vocabulary special; // added tokens by text
    struct added_set raw;      // matched before normalization
    struct added_set normal;   // matched after it
    struct normal_step normal_steps[TOKENIZER_STEPS];
    int normal_count;
    bool marks_spaces; // the steps only replace spaces by ▁, and may prepend one
    bool reads_spaces; // a space in a word is read as ▁, so that they need not be replaced
    struct split_step split_steps[TOKENIZER_STEPS];
    int split_count;
    bool needs_places; // whether a mark is prepended depends on a word's place in the text
    enum scan_kind scan;
    struct cuts *cuts;       // where long words can be cut; NULL if nowhere
    uint8_t (*borders)[256]; // SCAN_WHOLE: 1 at [b][a] if no token contains byte b after a

    int32_t *before, *after; // tokens added by the post-processor
    int before_count, after_count;
    int32_t size; // largest id plus one, including added tokens
};

enum err tokenizer_read_ranks(struct tokenizer *t, struct arena *arena, struct text file,
                              const char *name);
enum err tokenizer_read_pieces(struct tokenizer *t, struct arena *arena, struct text file,
                               const char *name);
enum err tokenizer_read_normal(struct tokenizer *t, struct arena *arena, const struct json *normal,
                               const char *name);
enum err tokenizer_read_split(struct tokenizer *t, struct arena *arena, const struct json *split,
                              const char *name);
enum err tokenizer_read_post(struct tokenizer *t, struct arena *arena, const struct json *post,
                             const char *name);
enum err tokenizer_read_unigram(struct tokenizer *t, struct arena *arena, struct json_reader *in,
                                const char *name);
struct unigram *tokenizer_new_unigram(struct arena *arena);
void tokenizer_single_unigram(struct unigram *u); // sums scores in single precision
// occurs: text can become the piece. A control piece has an id, and no text becomes it.
enum err tokenizer_add_unigram(struct tokenizer *t, struct arena *arena, struct text piece,
                               double score, bool occurs, const char *name);
enum err tokenizer_read_charsmap(struct normal_step *step, struct arena *arena, struct text base64,
                                 const char *name);
enum err tokenizer_set_charsmap(struct normal_step *step, struct text map, const char *name);
void tokenizer_alphabet(uint16_t codes[256]); // the visible character of each byte
bool tokenizer_base64(struct text in, char *out, size_t *size); // false if it is not base64
enum err tokenizer_finish_unigram(struct tokenizer *t, struct arena *arena, double unknown,
                                  const char *name);
enum err tokenizer_finish(struct tokenizer *t, struct arena *arena); // after reading
// Adds a merge for every way to split a token into two others, with the rank of the token: its id
// if ranks is NULL. A token with TOKENIZER_NO_RANK gets no merges.
void tokenizer_derive_merges(struct tokenizer *t, struct arena *arena, const uint32_t *ranks);
void tokenizer_choose_normal(struct tokenizer *t);
void tokenizer_choose_scan(struct tokenizer *t, struct arena *arena);
void tokenizer_choose_cuts(struct tokenizer *t, struct arena *arena);  // after the scanner
void tokenizer_choose_first(struct tokenizer *t, struct arena *arena); // after the scanner

// --- while running -----------------------------------------------------------

// A stretch of text between added tokens, normalized or not. origin[i] is the offset in the
// original text of the character that byte i came from; a prepended character has the offset of the
// first one. If origin is NULL, the stretch is the original text from byte `start` on.
struct stretch {
    struct text text;
    const uint32_t *origin;
    size_t start;
};

enum {
    WORD_BYTES = 14,
    WAITING_WORDS = 64,
    LONG_PIECES = 7, // of eight bytes
    LONG_BYTES = 8 * LONG_PIECES,
    WORD_IDS = 4,
    WORD_SLOTS = 1 << 18,
    WORD_WAYS = 4,
    LONG_SLOTS = 1 << 16,
    LONG_WAYS = 2,
    LINE_BYTES = 250,
    LINE_SLOTS = 1 << 9,
    ID_SLOTS = 1 << 15,
};

struct word_entry { // a word of up to WORD_BYTES bytes and its number of tokens
    uint64_t low, high;
};

struct long_entry { // the same up to LONG_BYTES
    uint64_t pieces[LONG_PIECES], tail;
};

struct line_entry { // the same up to LINE_BYTES
    uint16_t size, tokens, is_part;
    char bytes[LINE_BYTES];
};

struct word_tables {
    struct word_entry *words;
    struct long_entry *longs;
};

// A word, or a part of one, that is being looked up. Of a short one, low and high are its entry
// with 0 tokens; the number of tokens is the top byte of `high`. Of a long one, low is its set in
// longs, and high its entry's tail.
struct word_key {
    uint64_t low, high;
    struct word_entry *slot; // NULL: longer than WORD_BYTES
    const char *at;
};

struct waiting { // a new word
    struct word_key key;
    int64_t *total; // of its text
    bool again;     // it waits already
    bool may_be_token;
    char bytes[LONG_BYTES];
};

struct id_entry { // a word and up to WORD_IDS tokens
    uint64_t low, high;
    int32_t ids[4];
};

struct symbols { // of the current word
    int32_t *ids;
    uint32_t *sizes; // bytes
    size_t count;
};

struct buffer { // grows, never shrinks
    void *at;
    size_t size;
};

struct tokenizer_cache {
    struct arena arena;   // holds everything, including this struct
    struct arena scratch; // rewound to the mark after each text
    struct arena_mark empty;
    struct pattern_stack stack;
    struct word_tables tables; // its own, or those that are shared
    struct line_entry *lines;  // its own; NULL before the first
    struct id_entry *ids;
    struct waiting *waiting;
    size_t waiting_count;
    struct symbols symbols;
    struct buffer symbol_ids, symbol_sizes;
    struct buffer queue, queue_heads; // for long words
    struct buffer normal;             // a stretch with replaced spaces
    struct buffer lattice;
    struct span batch[TOKENIZER_BATCH];
    const char *next_number; // next digit in the current stretch, found by the scanner
};

void *tokenizer_room(struct tokenizer_cache *cache, struct buffer *buffer, size_t size);

struct match { // an added token in a text, with the white space that it strips
    size_t start, stop;
    int32_t id;
};

// Finds the next added token at or after *at and moves *at after it; false if there is none. from
// is the end of the previous match.
bool tokenizer_added_next(const struct added_set *set, struct text text, size_t *at, size_t from,
                          struct match *match);
enum err tokenizer_added_build(struct added_set *set, struct arena *arena);

// The size of the cluster at `at`, and its replacement; to->at is NULL if it has none as a whole.
size_t tokenizer_charsmap_cluster(const struct normal_step *step, const char *at, const char *end,
                                  struct text *to);
struct text tokenizer_charsmap_character(const struct normal_step *step, struct text character);
struct stretch tokenizer_normalize(const struct tokenizer *t, struct tokenizer_cache *cache,
                                   struct stretch in, bool places);

enum { SCAN_WINDOW = 64, SCAN_UNROLLED = 8, SCAN_ROOM = SCAN_WINDOW + SCAN_UNROLLED };
// Fills spans with the words from *at on, relative to base, until the text ends or there is room
// for fewer than SCAN_ROOM.
size_t tokenizer_scan(const struct tokenizer *t, struct tokenizer_cache *cache, const char *base,
                      const char **at, const char *end, struct span *spans, size_t room);
size_t tokenizer_split(const struct tokenizer *t, struct tokenizer_cache *cache,
                       struct stretch *stretch, bool places, struct span **spans);

// Computes the tokens of a word into cache->symbols.
void tokenizer_model(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word);
// whole: the word is not a part of one. The library looks up only whole words in the vocabulary.
void tokenizer_bpe(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word,
                   bool whole);

struct counted { // a word, and its number of tokens
    struct text word;
    size_t tokens;
};
enum { BPE_BYTES = 62 };
// Counts the tokens of words of up to BPE_BYTES bytes, which are not looked up in the vocabulary.
void tokenizer_bpe_count(const struct tokenizer *t, struct counted *words, size_t count);
// The end of the part of a word that begins at `at`.
const char *tokenizer_cut(const struct cuts *cuts, const char *at, const char *end);
// The same for the first parts of a word, `room` at most: where they end, after `at`. For words
// that are cut every few characters: no branch depends on where, which cannot be foreseen.
size_t tokenizer_cut_all(const struct cuts *cuts, const char *at, const char *end, uint32_t *ends,
                         size_t room);
// Writes the symbols that the merging of a word may start with, characters or bytes, and returns
// their number. For tokens made of bytes; bytes are their ids.
size_t tokenizer_characters(const struct cuts *cuts, const int32_t *bytes, struct text word,
                            int32_t *ids, uint32_t *sizes);
// The token of a character of two or three bytes, or TOKENIZER_NONE. For tokens made of characters.
int32_t tokenizer_character(const struct cuts *cuts, struct text character);
void tokenizer_unigram(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word);
void tokenizer_wordpiece(const struct tokenizer *t, struct tokenizer_cache *cache,
                         struct text word);

// Adds the tokens of words to *total; those of new words when tokenizer_count_waiting() is called.
void tokenizer_count_words(const struct tokenizer *t, struct tokenizer_cache *cache,
                           struct text text, const struct span *spans, size_t count,
                           int64_t *total);
void tokenizer_count_waiting(const struct tokenizer *t, struct tokenizer_cache *cache);
