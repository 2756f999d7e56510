// SPDX-License-Identifier: Apache-2.0
// error: how a failure is reported.
//
// A function that can fail because of the world returns an enum err, OK being zero, and says what
// happened with fail():
//
//     if (!row) return fail(ERR_INPUT, "%s:%d: row has no text", path, line);
//
// The sentence says what failed, where, what was found, what was expected, and how to fix it. Only
// cli/ and web/ print it. The codes are the program's exit codes; error_codes[] explains them.

#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum err {
    OK = 0,
    ERR_ANSWER = 1,
    ERR_USAGE = 2,
    ERR_INPUT = 3,
    ERR_UNAVAILABLE = 4,
    ERR_MEMORY = 5,
    ERR_BUG = 70,
};

// Every exit code, in the order of its number; ended by a NULL name.
struct error_code {
    int number;
    const char *name, *meaning;
};
extern const struct error_code error_codes[];

enum err fail(enum err code, const char *format, ...) __attribute__((format(printf, 2, 3)));

const char *error_text(void); // of the last fail() on this thread

// Puts words before the text of the last failure: the caller knows the file, the callee the field.
enum err error_prefix(enum err code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define TRY(call)               \
    do {                        \
        enum err err_ = (call); \
        if (err_)               \
            return err_;        \
    } while (0)

#ifdef __cplusplus
}
#endif
