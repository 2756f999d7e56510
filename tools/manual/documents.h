// SPDX-License-Identifier: Apache-2.0
// documents: what each JSON document of the program holds, one table per document.
//
// A row is a path ("rows[].gpu": the key gpu of each object in the array rows), its type and what
// it is. Rows may stand for many: a range has p10, p50 and p90; a field table or another list of
// rows stands under the path. "*" is any key. test/cli/json_documents_match_their_tables.sh
// compares the tables with what the program prints, both ways.

#pragma once

#include "base/field.h"

struct documents_key {
    const char *path;
    const char *type; // "string", "integer", "number", "boolean", "array", "object", "any"
    const char *help;
    const char *when;                 // printed only then; NULL: always
    const char *since;                // version; NULL: 0.1.0
    const struct field *fields;       // these, under the path
    const struct documents_key *keys; // these, under the path; ended by { 0 }
    const char *const *names;         // a number for each of these names; ended by NULL
};

struct documents_document {
    const char *kind; // "plan"
    const char *made_by;
    const struct documents_key *keys;
};
extern const struct documents_document documents[]; // ended by { 0 }
