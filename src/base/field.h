// SPDX-License-Identifier: Apache-2.0
// field: tables that describe structs; options, JSON keys and catalog columns are their rows.
//
//     static const struct field gpu_fields[] = {
//         FIELD(gpu, name, TEXT, "name on the command line"),
//         FIELD(gpu, memory_bytes, BYTES, "device memory"),
//         { 0 }
//     };
//
// From one table come the catalog reader, the JSON reader and writer, the options of a command and
// its --help. A field's kind fixes the member's C type (see below), the spellings it reads and the
// unit it is written in. Text members point into the arena.

#pragma once

#include "base/csv.h"
#include "base/json.h"

#include <stddef.h>

enum field_kind { // member type  reads                       checks
    FIELD_END,
    FIELD_TEXT,    // const char *  anything
    FIELD_DATE,    // const char *  "2026-08-22"
    FIELD_FLAG,    // bool          yes/no/on/off/true/false/1/0
    FIELD_CHOICE,  // int           one of choices, its index  (case, - and _ are ignored)
    FIELD_COUNT,   // int64_t       "21.4M"                    not negative
    FIELD_NUMBER,  // double        "3.5"                      finite
    FIELD_SHARE,   // double        "0.2", "20%"               0 to 1
    FIELD_BYTES,   // double        "80GiB"                    not negative
    FIELD_SECONDS, // double        "24h"                      not negative
    FIELD_RATE,    // double        "989 TFLOP/s", "3.35TB/s"  not negative
    FIELD_USD,     // double        "2.49", "$2.49"            not negative
    FIELD_PRICE,   // double        "2.49", "2.49/gpu-h"       not negative; USD per GPU hour
    FIELD_KINDS,   // how many there are
};

struct field_words { // about a kind; nothing is NULL but a flag's value
    const char *name;
    const char *value; // stands for the value in --help: "N"
    const char *json;  // type of its JSON member: "number, seconds"
};
extern const struct field_words field_kinds[FIELD_KINDS];

struct field {
    const char *name; // as in JSON and in catalogs; --its-name-with-dashes on the command line
    enum field_kind kind;
    size_t offset;
    const char *help;           // one line: what it is, with its unit
    const char *const *choices; // of FIELD_CHOICE, ended by NULL; an empty one is not offered
    double scale;               // what 1 means in a catalog cell without unit; 0 is 1
    bool required;              // a catalog row without it is refused
    const char *since;          // version that brought it into JSON; NULL: as old as its table
    // For the command line only:
    const char *value; // stands for the value in --help: "GPU", "FILE"; NULL: by kind
    // Words for a default that is computed, "%s" in them being the value of the defaults; "" if the
    // option has none; "required" if it must be given.
    const char *fallback;
    bool hidden; // accepted, but not shown: a former name
};

// Further members may follow the help: FIELD(plan_request, gpus, COUNT, "number of GPUs",
// .fallback = "fewest that fit").
#define FIELD(type, member, kind_, ...) FIELD_AS(#member, type, member, kind_, __VA_ARGS__)
#define FIELD_AS(name_, type, member, kind_, ...)                                      \
    {                                                                                  \
        .name = name_, .kind = FIELD_##kind_, .offset = offsetof(struct type, member), \
        .help = __VA_ARGS__                                                            \
    }
#define FIELD_OF(type, member, list, ...) FIELD(type, member, CHOICE, __VA_ARGS__, .choices = list)
#define FIELD_NEEDED(type, member, kind_, ...) \
    FIELD(type, member, kind_, __VA_ARGS__, .required = true)

// A number of the source in words of a table: FIELD_WORDS(MINUTES) " minutes".
#define FIELD_WORDS(number) FIELD_WORDS_(number)
#define FIELD_WORDS_(number) #number

const struct field *field_find(const struct field *fields, struct text name); // _ and - are equal

// Sets the member from its spelling. The sentence of a failure begins with the field's name.
enum err field_set(const struct field *field, void *object, struct arena *arena, struct text value);

// Sets everything to "unknown": NAN for numbers, 0 for counts, NULL for text.
void field_clear(const struct field *fields, void *object);

bool field_known(const struct field *field, const void *object);    // not NAN, not NULL
double field_number(const struct field *field, const void *object); // any numeric kind
const char *field_spell(const struct field *field, const void *object, struct arena *arena);

// What stands for the value in --help: "GPU", "N"; NULL for a flag, which needs none.
const char *field_value(const struct field *field);

// ": fp32, fp16 or bf16", with the word before the last; nothing for a field without choices.
void field_put_choices(const struct field *field, struct out *out, const char *last);

// The default of an option, read from an object that holds all defaults; NULL if it has none.
const char *field_default(const struct field *field, const void *object, struct arena *arena);

void field_write(const struct field *fields, const void *object, struct json_writer *w);

// Reads an object's members; a key that no field has is refused when strict.
enum err field_read(const struct field *fields, void *object, struct arena *arena,
                    const struct json *in, const char *name, bool strict);

// Reads all rows of a catalog into an array of structs of that size. A missing required column or
// cell is refused with file and line; columns that no field has are refused too.
enum err field_read_csv(const struct field *fields, size_t struct_size, void **rows, size_t *count,
                        struct arena *arena, struct text in, const char *name);
