// SPDX-License-Identifier: Apache-2.0
// The model families, and the tokens that are estimated for them.

#include "core/tokenizer/tokenizer.h"
#include "test/test.h"

#include <math.h>
#include <string.h>

TEST(families_are_found_by_the_name_of_a_model)
{
    static const char *const names[][2] = {
        { "meta-llama/Llama-3.1-8B-Instruct", "Llama 3" },
        { "Qwen/Qwen2.5-7B", "Qwen" },
        { "mistralai/Mistral-Nemo-Base-2407", "Mistral Nemo" },
        { "mistralai/Mistral-7B-v0.1", "Mistral" },
        { "google/gemma-3-4b-it", "Gemma 3" },
        { "google/gemma-2b", "Gemma" },
        { "somebody/thing", "others" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct tokenizer_family family;
        CHECK(!tokenizer_family(&family, &test_arena, names[i][0]));
        CHECK(!strcmp(family.family, names[i][1]));
        CHECK(family.factor > 0.5 && family.factor < 2 && family.spread > 0 && family.spread < 0.5);
    }
}

// Article 1 of the Universal Declaration of Human Rights, and what the families' tokenizers make of
// it.
TEST(estimates_count_other_scripts_by_their_characters)
{
    static const struct {
        const char *text;
        int llama, qwen;
    } cases[] = {
        { "Все люди рождаются свободными и равными в своем достоинс"
          "тве и правах. Они наделены разумом и совестью и должны п"
          "оступать в отношении друг друга в духе братства.",
          48, 49 },
        { "כל בני אדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כול"
          "ם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג איש ברעהו"
          " ברוח של אחוה.",
          127, 51 },
        { "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्"
          "वतन्त्रता और समानता प्राप्त है । उन्हें बुद्धि और अन्तरा"
          "त्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव स"
          "े बर्ताव करना चाहिए ।",
          94, 173 },
        { "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักด[เก"
          "ียรติศักดิ์]และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัต"
          "ิต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
          67, 89 },
        { "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 "
          "이성과 양심"
          "을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
          52, 55 },
        { "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
          38, 29 },
        { "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間"
          "は、理性と良心とを授けら"
          "れており、互いに同胞の精神をもって行動しなければならない。",
          58, 52 },
        { "Alle Menschen sind frei und gleich an Würde und Rechten "
          "geboren. Sie sind mit Vernunft und Gewissen begabt und s"
          "ollen einander im Geist der Brüderlichkeit begegnen.",
          44, 44 },
    };
    static const char *const models[] = { "llama-3.1-8b", "qwen3-8b" };
    struct tokenizer *builtin = NULL;
    CHECK(!tokenizer_builtin(&builtin, &test_arena));
    struct tokenizer_cache *cache = tokenizer_cache_init();
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct tokenizer_family family;
        struct tokenizer_parts parts = { 0 };
        double real = i & 1 ? cases[i / 2].qwen : cases[i / 2].llama, doubt;
        CHECK(!tokenizer_family(&family, &test_arena, models[i & 1]));
        tokenizer_parts_add(&parts, &family, builtin, cache, text_of(cases[i / 2].text));
        double tokens = tokenizer_estimate(&family, &parts, &doubt);
        test_check(fabs(tokens - real) <= 0.25 * real, cases[i / 2].text, __FILE__, __LINE__);
        CHECK(doubt > 0.05 * tokens && doubt < 0.5 * tokens);
    }
    tokenizer_cache_release(cache);
}
