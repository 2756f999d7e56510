// SPDX-License-Identifier: Apache-2.0
// record_internal: what the files of record share: the table of shapes, and reading messages.

#pragma once

#include "core/data/record.h"

struct record_signature {
    enum record_format format;
    const char *columns; // PART or PART=COLUMN, separated by spaces: all of them must exist
    const char *from;    // a public data set with these columns
};
extern const struct record_signature record_signatures[]; // ended by a zeroed row

struct record_refusal {
    const char *columns; // all of them must exist
    const char *what, *remedy;
    bool at_last; // only if no signature matches
};
extern const struct record_refusal record_refusals[];       // ended by a zeroed row
extern const char *const record_field_names[RECORD_FIELDS]; // of the parts, for people
enum { RECORD_NAMES = 8 };
extern const char *const record_optional_columns[RECORD_FIELDS][RECORD_NAMES];

// How good a name is for an optional part: 0 is the best, -1 none of its usual ones.
int record_usual_name(enum record_field field, struct text name);

// Reads a list of messages in any common form (role/content, from/value, role/parts, strings in
// turn), a single message, JSON text of these, a transcript ("USER: … ASSISTANT: …"), or a string
// that is the content of one message of role_of_text (NULL: a string is not one).
enum err record_messages(struct template_value *out, struct arena *arena,
                         struct template_value value, const char *role_of_text);

// The text of a value: a string, strings of a list, joined by line ends, or {"parts": [{"text"}]}.
// False if it is none of these.
bool record_text(struct text *out, struct arena *arena, struct template_value value);

// Whether a text begins with a speaker: "USER: …" or "SYSTEM: …" (Glaive), "Human: …".
bool record_is_transcript(struct text text);

// ERR_INPUT if the only object of a file holds a whole table: by columns, or as a list under a key.
// The format is the one that the object would be read as; RECORD_AUTO: none.
enum err record_refuse_table(struct arena *arena, struct text object, enum record_format format);

struct template_value record_message(struct arena *arena, const char *role, struct text content);
struct text record_joined(struct arena *arena, struct text a, const char *between, struct text b);
// Lists the images of a row: those of its column, and those of parts of its messages. A part that
// does not say where its image is stands for one of the column. Sets has_media and has_other.
void record_images(struct record_sequence *out, struct arena *arena, struct text column,
                   struct template_value media);

// The type of a part of a content: its "type"; {"text"} of Gemini is text.
struct text record_part_type(struct template_value part);
bool record_is_media(struct text type);
