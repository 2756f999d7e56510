// error: how a failure is reported.
//
// A function that can fail because of the world returns an enum err, OK being zero, and says what
// happened with fail():
//
//     if (!row) return fail(ERR_INPUT, "%s:%d: row has no text", path, line);
//
// The sentence names what, where, what was found, what was wanted, and the way out. Only cli/ and
// web/ ever print it. The codes are the program's exit codes; ERR_ANSWER is an answer of "no".

#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum err {
    OK = 0,
    ERR_ANSWER = 1,      // done, and the answer is no: does not fit, outside its bound
    ERR_USAGE = 2,       // the command line is wrong
    ERR_INPUT = 3,       // a file, a row or a catalog is wrong
    ERR_UNAVAILABLE = 4, // this build or machine cannot do it
    ERR_DEVICE_MEMORY = 5,
    ERR_BUG = 70,
};

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
