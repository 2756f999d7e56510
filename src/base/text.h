// SPDX-License-Identifier: Apache-2.0
// text: views of strings, string building, and numbers as people write them.
//
// A struct text points into what someone else owns. A struct out grows a string in an arena:
//
//     struct out out = { .arena = arena };
//     out_put(&out, "%s needs %s", name, text_bytes(arena, peak_bytes));
//
// The text_* functions spell base units for people ("41.2 GiB", "4 h 12 min", "21.4 M");
// text_read_* read such spellings back.
//
// Code that writes for people need not know the terminal: it asks the struct out for a style, and
// gets plain text where the out is not styled.
//
//     out_wrapped(&out, 2, 2, text_format(arena, "memory: %s, %s of %s",
//                                         out_styled(&out, OUT_GOOD, "fits"), peak, device));

#pragma once

#include "base/arena.h"
#include "base/error.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct text {
    const char *at;
    size_t size;
};

#define TEXT(literal) ((struct text){ (literal), sizeof(literal) - 1 })
#define TEXT_ARGS(text) text_precision((text).size, INT_MAX), (text).at // for "%.*s"
#define TEXT_BRIEF(text) text_precision((text).size, 60), (text).at // for a sentence that quotes

int text_precision(size_t size, int most);
struct text text_of(const char *string);
bool text_is(struct text text, const char *string);

// What follows one byte order mark; all of it if there is none.
struct text text_after_mark(struct text text);
bool text_equal(struct text a, struct text b);
bool text_ends(struct text text, const char *ending);
struct text text_trim(struct text text);
const char *text_copy(struct arena *arena, struct text text);          // NUL-terminated
const char *text_one_line(struct arena *arena, struct text text);      // line ends, tabs: spaces
bool text_next(struct text *rest, char separator, struct text *piece); // splits; false at the end

// --- characters --------------------------------------------------------------

size_t text_put_utf8(char *out, uint32_t code); // room for 4 bytes; returns how many it took

// The next character of UTF-8. A byte that starts none is U+FFFD.
uint32_t text_next_code(const char **at, const char *end);

// Columns of a terminal: East Asian wide characters take two, combining ones and the escape
// sequences of out_styled() none.
int text_code_columns(uint32_t code);
int text_columns(struct text text);
size_t text_fit(struct text text, int columns); // how many bytes fill at most so many columns

// The text, or its beginning and "…", in at most so many columns. NULL is "".
const char *text_cut(struct arena *arena, const char *text, int columns);

// --- building ----------------------------------------------------------------

// What a piece of text is to its reader; the terminal's colours follow from it.
enum out_style {
    OUT_HEADING, // titles of sections and tables: bold
    OUT_NUMBER,  // the number that was asked for: bold
    OUT_NOTE,    // what may be skipped: dim
    OUT_GOOD,    // "fits": green
    OUT_WARNING, // yellow
    OUT_BAD,     // "DOES NOT FIT": bold red
};

struct out {
    struct arena *arena;
    char *at;
    size_t size, room;
    int columns; // width of lines, tables and charts; 0: 80
    bool styled; // colours and bold may be written
};

int out_columns(const struct out *out);

// The text between the escape sequences of the style, or the text itself where out is not styled.
const char *out_styled(const struct out *out, enum out_style style, const char *text);

void out_put(struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void out_put_args(struct out *out, const char *format, va_list args);
void out_bytes(struct out *out, const char *at, size_t size);
void out_char(struct out *out, char c);
void out_repeat(struct out *out, char c, int count);
void out_heading(struct out *out, const char *title); // a line of its own
// Puts words, broken into lines; the cursor is at column, later lines start at indent.
void out_wrapped(struct out *out, int indent, int column, const char *text);
// Puts a line of a summary: a label, then the text, wrapped, from column OUT_LABEL on.
enum { OUT_LABEL = 15 };
void out_labelled(struct out *out, const char *label, const char *text);
const char *out_string(struct out *out); // NUL-terminated
struct text out_view(const struct out *out);

// --- spelling numbers --------------------------------------------------------

const char *text_format(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// "s", or nothing after 1: text_format(arena, "%lld run%s", runs, text_plural(runs)).
static inline const char *text_plural(double count)
{
    return count == 1 ? "" : "s";
}

const char *text_bytes(struct arena *arena, double bytes); // "41.2 GiB"
// With as many digits more as tell it from another that is printed beside it: "14.83 GiB".
const char *text_bytes_apart(struct arena *arena, double bytes, double other);
const char *text_count(struct arena *arena, double count);     // "21.4 M", "8.03 B", "512"
const char *text_commas(struct arena *arena, int64_t count);   // "52,002"
const char *text_seconds(struct arena *arena, double seconds); // "4 h 12 min", "38 s", "12 ms"
const char *text_hours(struct arena *arena, double hours);     // "8.5", "0.42", "1,240"
const char *text_usd(struct arena *arena, double usd);         // "$14.20", "$1,240"
const char *text_share(struct arena *arena, double share);     // "3.1 %"

// --- reading numbers ---------------------------------------------------------

// Each fails with ERR_INPUT and a sentence without a place; the caller prefixes it.
enum err text_read_number(double *out, struct text text); // "21.4M", "1e6", "8B", "3k"; finite only
enum err text_read_count(int64_t *out, struct text text); // the same, whole; "10,000,000"
enum err text_read_bytes(double *out, struct text text);  // "80 GiB", "80GB", "512"
enum err text_read_seconds(double *out, struct text text); // "24h", "3 d", "90 min", "1.5h", "30"
enum err text_read_share(double *out, struct text text);   // "0.2", "20%"
enum err text_read_rate(double *out, struct text text);    // "989 TFLOP/s", "3.35 TB/s", "1e12"
enum err text_read_usd(double *out, struct text text);     // "2.49", "$2.49", "2.49 USD", "5k"

// "2.49" and "2.49/gpu-h" are dollars per GPU hour, "20/h" per hour of a machine.
enum err text_read_price(double *usd, bool *per_gpu, struct text text);

// Whether two words have the same letters and digits, in upper or lower case: "adamw_8bit" is
// "AdamW-8bit".
bool text_alike(struct text a, struct text b);

// The candidate nearest to a mistyped word, or NULL when none is near.
const char *text_nearest(struct text word, const char *const *candidates, size_t count);

#ifdef __cplusplus
}
#endif
