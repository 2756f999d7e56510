// SPDX-License-Identifier: Apache-2.0
// reference: environment variables and files of the program, as tables.
//
// gpuhours help, the manual pages and docs/reference.md print them; a test compares the variables
// with the calls of getenv(). Exit codes: error_codes[] of base/error.h.

#pragma once

struct reference_item {
    const char *name, *meaning;
};
extern const struct reference_item reference_variables[], reference_files[]; // ended by { 0 }
