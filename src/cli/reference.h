// reference: exit codes, environment variables and files of the program, as tables.
//
// gpuhours help, the manual pages and docs/reference.md print them; a test compares the variables
// with the calls of getenv() and the codes with enum err.

#pragma once

#include "base/error.h"

struct reference_code {
    int code;
    const char *name, *meaning;
};
extern const struct reference_code reference_codes[]; // ended by a name of NULL

struct reference_item {
    const char *name, *meaning;
};
extern const struct reference_item reference_variables[], reference_files[]; // ended by { 0 }
