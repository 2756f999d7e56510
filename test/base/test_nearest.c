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

TEST(text_nearest_of_a_short_word_is_no_other_word)
{
    static const char *const names[] = { "t4", "seed", "model", "batching", "lora" };
    CHECK(!text_nearest(TEXT("m4"), names, 5)); // one letter of two is the name itself
    CHECK(!text_nearest(TEXT("seq-len"), names, 5));
    CHECK(!text_nearest(TEXT("nodes"), names, 5));
    CHECK(!strcmp(text_nearest(TEXT("mdoel"), names, 5), "model")); // swapped letters are one slip
    CHECK(!strcmp(text_nearest(TEXT("lara"), names, 5), "lora"));
}

TEST(text_alike_compares_letters_and_digits_alone)
{
    CHECK(text_alike(TEXT("adamw_8bit"), TEXT("AdamW-8bit")));
    CHECK(text_alike(TEXT(" RunPod "), TEXT("runpod")));
    CHECK(!text_alike(TEXT("runpod"), TEXT("runpod-community")));
    CHECK(!text_alike(TEXT(""), TEXT("")) && !text_alike(TEXT("-"), TEXT("_")));
}
