// SPDX-License-Identifier: Apache-2.0
// files: small files for tests, in a folder of their own that goes when the tests end.

#pragma once

#include "base/text.h"

const char *files_folder(void);                                 // made when first asked for
const char *files_path(const char *name);                       // in it
const char *files_write(const char *name, struct text content); // its path
const char *files_gzip(const char *name, struct text content);  // packed; appended if there is one
const char *files_zstd(const char *name, struct text content);
