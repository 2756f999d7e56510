// SPDX-License-Identifier: Apache-2.0
// test: a test is a sentence and its body.
//
//     TEST(packing_keeps_every_token) { CHECK(total == 12); }
//
// Tests register themselves; test/main.c runs them. A failed CHECK is printed and the test goes on.
// A test that cannot run here says why with test_skip() and returns.

#pragma once

#include "base/arena.h"

#include <math.h>
#include <stdbool.h>

struct test {
    const char *name, *file;
    void (*run)(void);
    struct test *next;
};

extern struct arena test_arena; // emptied after each test

void test_add(struct test *test);
void test_check(bool holds, const char *claim, const char *file, int line);
void test_check_near(double a, double b, double relative, const char *claim, const char *file,
                     int line);
void test_skip(const char *why); // return after it

#define TEST(id)                                            \
    static void id(void);                                   \
    __attribute__((constructor)) static void add_##id(void) \
    {                                                       \
        static struct test test = { #id, __FILE__, id, 0 }; \
        test_add(&test);                                    \
    }                                                       \
    static void id(void)

// How many of its random cases a long test runs: the sanitizers take ten times as long.
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { TEST_UNDER_SANITIZER = 1, TEST_CASES_OF = 10 };
#else
enum { TEST_UNDER_SANITIZER = 0, TEST_CASES_OF = 1 };
#endif

// For long tests of what comes out on average: shorter ones run the same code.
#define SKIP_BELOW_SANITIZERS(why)                   \
    do                                               \
        if (TEST_UNDER_SANITIZER) {                  \
            test_skip("below the sanitizers: " why); \
            return;                                  \
        }                                            \
    while (0)

#define CHECK(claim) test_check((claim), #claim, __FILE__, __LINE__)
#define CHECK_NEAR(a, b, relative) \
    test_check_near((a), (b), (relative), #a " = " #b, __FILE__, __LINE__)
