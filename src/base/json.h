// SPDX-License-Identifier: Apache-2.0
// json: reads JSON as a stream or as a tree, and writes it.
//
// The reader takes values one after another and records the first error, so that callers check only
// once, at the end:
//
//     struct json_reader in = json_reader(text);
//     struct text key;
//     json_object(&in);
//     while (json_key(&in, scratch, &key))
//         if (text_is(key, "vocab")) size = json_number(&in);
//         else json_skip(&in);
//     TRY(json_end(&in, "tokenizer.json"));
//
// json_read() reads a whole document as a tree. Strings without escapes are views of the input;
// others are decoded into the arena. Nesting beyond JSON_DEPTH is an error. Strings are not checked
// for valid UTF-8. A lone surrogate escape becomes U+FFFD.

#pragma once

#include "base/stats.h"
#include "base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { JSON_DEPTH = 256 };

enum json_kind {
    JSON_NONE, // no value: the end of the text, or an error
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

const char *json_kind_name(enum json_kind kind); // "a list", "a string"

// --- stream ------------------------------------------------------------------

struct json_reader {
    const char *start, *at, *end;
    const char *problem; // the first error; NULL if there is none
    bool first;          // just after an opening bracket
    int depth;
};

struct json_reader json_reader(struct text in);
enum json_kind json_peek(struct json_reader *in); // of the next value, without reading it

void json_array(struct json_reader *in);  // enters a list
bool json_item(struct json_reader *in);   // true before each item, false after the last
void json_object(struct json_reader *in); // enters an object
bool json_key(struct json_reader *in, struct arena *arena, struct text *key);

struct text json_string(struct json_reader *in, struct arena *arena);
struct text json_raw_string(struct json_reader *in, bool *escaped); // undecoded, between the quotes
double json_number(struct json_reader *in);
bool json_bool(struct json_reader *in);
struct text json_skip(struct json_reader *in); // any value; returns its text

// The first quote or backslash, or end; reads eight bytes at once.
const char *json_string_stop(const char *at, const char *end);

// ERR_INPUT if there was an error or text follows; the message has name, line and column.
enum err json_end(struct json_reader *in, const char *name);
enum err json_failed(struct json_reader *in,
                     const char *problem); // an error found by the caller

// --- tree --------------------------------------------------------------------

struct json {
    enum json_kind kind;
    union {
        bool flag;
        double number;
        struct text string;
        struct {
            struct json *items; // list: items; object: key, value, key, value
            size_t count;       // items of a list, members of an object
        };
    };
};

enum err json_read(struct json *out, struct arena *arena, struct text in, const char *name);
struct json json_tree(struct json_reader *in, struct arena *arena); // one value of a stream

// One of the program's own documents, such as {"kind": "plan", "version": 1, …}. ERR_INPUT where it
// is of another kind or of a newer version, or no document at all, such as rows of data.
enum err json_read_document(struct json *out, struct arena *arena, struct text in, const char *name,
                            const char *kind);

const struct json *json_get(const struct json *object, const char *key); // NULL if absent or null
double json_get_number(const struct json *object, const char *key, double otherwise);
struct range json_get_range(const struct json *tree, const char *key); // NAN for what it lacks
bool json_get_bool(const struct json *object, const char *key, bool otherwise);
int64_t json_get_count(const struct json *object, const char *key);    // 0 if absent or none
struct text json_get_text(const struct json *object, const char *key); // .at NULL if absent
const char *json_copy_text(struct arena *arena, const struct json *object,
                           const char *key); // NULL if absent

// --- writing -----------------------------------------------------------------

// Keys are NULL inside lists. A NAN or infinity is written as null.
struct json_writer {
    struct out *out;
    int depth;
    bool compact; // on one line
    bool filled;  // this list or object is not empty
};

void json_open(struct json_writer *w, const char *key, char bracket); // '{' or '['
void json_close(struct json_writer *w, char bracket);                 // '}' or ']'
void json_put_text(struct json_writer *w, const char *key, struct text value);
void json_put_string(struct json_writer *w, const char *key,
                     const char *value); // NULL is written as null
void json_put_number(struct json_writer *w, const char *key, double value);
void json_put_range(struct json_writer *w, const char *key,
                    const struct range *range); // p10, p50, p90
void json_put_count(struct json_writer *w, const char *key, int64_t value);
void json_put_bool(struct json_writer *w, const char *key, bool value);
void json_put_raw(struct json_writer *w, const char *key, struct text value); // value is JSON
void json_quote(struct out *out, struct text value); // with quotes and escapes

#ifdef __cplusplus
}
#endif
