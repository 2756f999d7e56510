// SPDX-License-Identifier: Apache-2.0
// Suggestions for misspelled names.

#include "base/text.h"
#include "test/test.h"

#include <string.h>

TEST(text_nearest_corrects_a_typo_but_does_not_guess)
{
    static const char *const names[] = { "t4", "h100", "lora", "llama-3.1-8b" };
    CHECK(!strcmp(text_nearest(TEXT("h1000"), names, 4), "h100"));
    CHECK(!strcmp(text_nearest(TEXT("lroa"), names, 4), "lora"));
    CHECK(!strcmp(text_nearest(TEXT("lama 3.1 8B"), names, 4), "llama-3.1-8b"));
    CHECK(!text_nearest(TEXT("xyz"), names, 4));
    CHECK(!text_nearest(TEXT(""), names, 4));
}
