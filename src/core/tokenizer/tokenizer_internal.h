// tokenizer_internal: what the files of the tokenizer share.
//
// The stages, in the order in which a text passes them:
//
//     tokenizer_added.c   cuts the text at added tokens
//     tokenizer_normal.c  normalizes each stretch between them
//     tokenizer_scan.c    cuts a stretch into words, by hand-written scanners of the common
//     patterns tokenizer_split.c   the same for every other pre-tokenizer, by lists of spans
//     tokenizer_bpe.c     tokens of a word; tokenizer_unigram.c and tokenizer_wordpiece.c likewise
//     tokenizer_cache.c   remembers the words
//     tokenizer.c         runs them
//
// tokenizer_read.c fills the structs below from tokenizer.json, tokenizer_ranks.c from rank files,
// tokenizer_pieces.c from SentencePiece models, tokenizer_builtin.c from what is compiled in.

#pragma once

#include "base/json.h"
#include "base/pattern.h"
#include "core/tokenizer/tokenizer.h"
#include "base/unicode.h"

enum {
    TOKENIZER_IDS = 1 << 21, // ids and ranks are below this
    TOKENIZER_BATCH = 256,   // words that are looked up together
    TOKENIZER_STEPS = 16,    // of a normalizer or a pre-tokenizer
    TOKENIZER_NONE = -1,     // no token
};

struct span {
    uint32_t start, end;
};

// --- vocabulary --------------------------------------------------------------

// A token of up to VOCABULARY_INLINE bytes is told from its slot alone, a longer one by its hash
// first.
struct vocabulary_slot {
    uint64_t low;
    uint32_t high;
    uint32_t tag; // the id, above VOCABULARY_SIZE_BITS bits of the size; 0 if the slot is empty
};
enum { VOCABULARY_INLINE = 12, VOCABULARY_SIZE_BITS = 10 };

// Tokens by id and by bytes.
struct vocabulary {
    struct text *tokens; // .at is NULL for ids without a token
    int32_t size;        // largest id plus one
    int32_t count;
    struct vocabulary_slot *slots;
    size_t mask;
};

void tokenizer_vocabulary_init(struct vocabulary *v, struct arena *arena, size_t expected);
// False where the bytes or the id are taken by another token already.
bool tokenizer_vocabulary_add(struct vocabulary *v, struct arena *arena, struct text token,
                              int32_t id);
int32_t tokenizer_vocabulary_find(const struct vocabulary *v, struct text token);
// Has the memory fetched that a find will need soon.
void tokenizer_vocabulary_fetch(const struct vocabulary *v, struct text token);
uint64_t tokenizer_hash(const char *at, size_t size);

// --- merges ------------------------------------------------------------------

// A pair of adjacent tokens that merges; of several, the lowest rank goes first.
struct merge {
    int32_t left, right;
    uint32_t rank;
    int32_t whole;
};

struct merges {
    uint64_t *slots; // left, right and rank, 21 bits each; all bits set if empty
    size_t mask, used;
    uint64_t *filter; // a bit that is set for each pair there is, and for few others
    int32_t *wholes;  // what a merge makes, by its rank
    size_t room;
    uint32_t count; // the largest rank plus one
};
#define TOKENIZER_NO_RANK UINT32_MAX
enum { TOKENIZER_HOT = 8192 }; // ranks below it are hot

void tokenizer_merges_init(struct merges *m, struct arena *arena, size_t expected);
// Of a pair added twice the last counts.
void tokenizer_merges_add(struct merges *m, struct arena *arena, struct merge merge);
// Adds many to a table with room for them, those of neighbouring slots together, so that each part
// of the table is in the processor's caches while it fills. Leaves wholes to the caller.
void tokenizer_merges_fill(struct merges *m, struct arena *scratch, const struct merge *list,
                           size_t count);
void tokenizer_merges_whole(struct merges *m, struct arena *arena, struct merge merge);
void tokenizer_merges_finish(struct merges *m, struct arena *arena); // makes the filter
// False if the two do not merge; true may err.
bool tokenizer_merges_may(const struct merges *m, int32_t left, int32_t right);
// TOKENIZER_NO_RANK if the two do not merge.
uint32_t tokenizer_merges_rank(const struct merges *m, int32_t left, int32_t right);

// --- stages as read from the file --------------------------------------------

struct added_token {
    struct text text;
    int32_t id;
    bool single_word, strips_left, strips_right, normalized, special;
};

// A trie over the texts of added tokens. Children of a node are a list of siblings.
struct added_node {
    uint32_t child, sibling; // 0 is none
    int32_t token;           // index of the added token that ends here, or -1
    uint8_t byte;
};

struct added_set {
    struct added_token *tokens;
    size_t count;
    struct added_node *nodes;
    size_t node_count, room;
    uint32_t roots[256]; // node of each first byte, or 0
    int first_bytes;     // how many are used
    uint8_t only;        // the first byte, where first_bytes is 1
};

enum normal_kind {
    NORMAL_FORM, // NFC and kin
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
    struct text charsmap;                  // units of its trie
    struct text charsmap_pool;
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
    bool each;           // of DIGITS: one by one
    bool prefix_space;   // of BYTE_LEVEL
    bool splits;         // of METASPACE, and of BYTE_LEVEL: by GPT-2's pattern
    int prepend;         // of METASPACE: 0 never, 1 the first stretch, 2 each
    struct text literal; // of PATTERN, where the pattern is a plain string; METASPACE's replacement
    struct pattern *pattern;
};

// The words of a stretch by one of the hand-written scanners.
enum scan_kind {
    SCAN_NONE,
    SCAN_GPT2,
    SCAN_GPT2_DIGITS, // digits one by one first (Digits, then GPT-2's pattern)
    SCAN_CL100K,      // digits by threes
    SCAN_CL100K_1,    // digits one by one
    SCAN_O200K,       // words cut by case, with contractions or without
    SCAN_WHOLE,       // no pre-tokenizer: cut where no token can lie across
};

enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE, MODEL_WORDLEVEL };

struct unigram; // tokenizer_unigram.c

struct tokenizer {
    enum model_kind model;
    bool byte_level;    // tokens are bytes, not characters
    bool byte_fallback; // a character without a token becomes <0xNN> tokens
    bool fuses_unknown;
    bool ignores_merges;    // a word that is a token is taken whole
    bool trims_places;      // white space is not counted to a token's place
    bool keeps_first_space; // where trims_places
    int32_t unknown;        // or -1
    int32_t byte_ids[256];  // token of a single byte, or of <0xNN>; -1 if missing
    struct vocabulary vocabulary;
    struct merges merges;
    struct merges hot;    // those of the lowest ranks once more, in a table that caches hold
    uint32_t *byte_ranks; // rank of a pair of bytes, by left << 8 | right; UINT32_MAX if none
    struct unigram *unigram;
    struct text continuing; // WordPiece's "##"
    size_t longest_word;    // WordPiece's, in characters

    struct vocabulary special; // added tokens by text
    struct added_set raw;      // matched before normalizing
    struct added_set normal;   // matched after it
    struct normal_step normal_steps[TOKENIZER_STEPS];
    int normal_count;
    bool marks_spaces; // the steps replace spaces by ▁, and perhaps put one in front
    struct split_step split_steps[TOKENIZER_STEPS];
    int split_count;
    enum scan_kind scan;
    uint64_t (*joined)[4]; // SCAN_WHOLE: bit b of joined[a]: some token has b right behind a

    int32_t *before, *after; // post-processor's tokens
    int before_count, after_count;
    int32_t size; // the largest id plus one, added tokens included
};

enum err tokenizer_read_json(struct tokenizer *t, struct arena *arena, struct text file,
                             const char *name);
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
enum err tokenizer_add_unigram(struct tokenizer *t, struct arena *arena, struct text piece,
                               double score, const char *name);
enum err tokenizer_read_charsmap(struct normal_step *step, struct arena *arena, struct text base64,
                                 const char *name);
enum err tokenizer_set_charsmap(struct normal_step *step, struct text map, const char *name);
bool tokenizer_base64(struct text in, char *out, size_t *size); // false if it is none
enum err tokenizer_finish_unigram(struct tokenizer *t, struct arena *arena, double unknown,
                                  const char *name);
enum err tokenizer_finish(struct tokenizer *t, struct arena *arena); // when all is read
// Every way to write a token as two others becomes a merge, of the rank of the token, which is its
// id where ranks is NULL. TOKENIZER_NO_RANK keeps a token from being made.
void tokenizer_derive_merges(struct tokenizer *t, struct arena *arena, const uint32_t *ranks);
void tokenizer_add_merge(struct tokenizer *t, struct arena *arena, struct merge merge);
void tokenizer_choose_normal(struct tokenizer *t);
void tokenizer_choose_scan(struct tokenizer *t, struct arena *arena);

// --- while running -----------------------------------------------------------

// A stretch between added tokens. origin says for each byte where in the whole text the character
// it came from starts; what was put in front shares its place with the first character. Where
// origin is NULL the stretch is the text itself, from byte `start` on.
struct stretch {
    struct text text;
    const uint32_t *origin;
    size_t start;
};

struct word_entry { // a word of up to WORD_BYTES bytes and how many tokens it has
    uint64_t low, high;
};

struct long_entry { // likewise up to LONG_BYTES
    uint64_t words[4];
};

struct id_entry { // a word and up to WORD_IDS tokens
    uint64_t low, high;
    int32_t ids[4];
};

enum {
    WORD_BYTES = 14,
    LONG_BYTES = 30,
    WORD_IDS = 4,
    WORD_SLOTS = 1 << 17,
    WORD_WAYS = 4,
    LONG_SLOTS = 1 << 14,
    ID_SLOTS = 1 << 15,
};

struct symbols { // of the word that is being merged
    int32_t *ids;
    uint32_t *sizes; // bytes
    size_t count;
};

struct buffer { // grows, never shrinks
    void *at;
    size_t size;
};

struct tokenizer_cache {
    struct arena arena;   // all of the cache, itself included
    struct arena scratch; // emptied down to the mark after each text
    struct arena_mark empty;
    struct pattern_stack stack;
    struct word_entry *words;
    struct long_entry *longs;
    struct id_entry *ids;
    struct symbols symbols;
    struct buffer symbol_ids, symbol_sizes;
    struct buffer queue, queue_heads; // of long words
    struct buffer normal;             // of a stretch whose spaces were replaced
    struct buffer lattice;
    struct span batch[TOKENIZER_BATCH];
    const char *next_number; // that the scanner found, in the stretch it is in
};

void *tokenizer_room(struct tokenizer_cache *cache, struct buffer *buffer, size_t size);

struct match { // an added token in a text, with what it strips
    size_t start, stop;
    int32_t id;
};

// Finds the next added token at or behind *at, and moves *at behind it; false if there is none.
// from is where the last match ended.
bool tokenizer_added_next(const struct added_set *set, struct text text, size_t *at, size_t from,
                          struct match *match);
enum err tokenizer_added_build(struct added_set *set, struct arena *arena);

// The size of the cluster at `at`, and what replaces it; to->at is NULL where nothing does as a
// whole.
size_t tokenizer_charsmap_cluster(const struct normal_step *step, const char *at, const char *end,
                                  struct text *to);
struct text tokenizer_charsmap_character(const struct normal_step *step, struct text character);
struct stretch tokenizer_normalize(const struct tokenizer *t, struct tokenizer_cache *cache,
                                   struct stretch in, bool places);

// Fills spans from *at on, relative to base, until they are full or the text ends.
size_t tokenizer_scan(const struct tokenizer *t, struct tokenizer_cache *cache, const char *base,
                      const char **at, const char *end, struct span *spans, size_t room);
size_t tokenizer_split(const struct tokenizer *t, struct tokenizer_cache *cache,
                       struct stretch *stretch, bool places, struct span **spans);

// Tokens of a word, into cache->symbols.
void tokenizer_model(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word);
void tokenizer_bpe(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word);
void tokenizer_unigram(const struct tokenizer *t, struct tokenizer_cache *cache, struct text word);
void tokenizer_wordpiece(const struct tokenizer *t, struct tokenizer_cache *cache,
                         struct text word);

int64_t tokenizer_count_words(const struct tokenizer *t, struct tokenizer_cache *cache,
                              struct text text, const struct span *spans, size_t count);
