#include "base/field.h"
#include "test/test.h"

#include <string.h>

struct card {
    double memory_bytes_per_s, bf16_flops_per_s;
};

static const struct field fields[] = {
    FIELD(card, memory_bytes_per_s, RATE, "bandwidth"),
    FIELD(card, bf16_flops_per_s, RATE, "peak"),
    { 0 },
};

TEST(field_spells_rates_with_the_unit_of_their_name_and_reads_them_back)
{
    struct card card = { 3.35e12, 989.4e12 }, again = { 0 };
    static const char *const spelled[] = { "3.35 TB/s", "989.4 TFLOP/s" };
    for (int i = 0; i < 2; i++) {
        const char *text = field_spell(&fields[i], &card, &test_arena);
        CHECK(!strcmp(text, spelled[i]));
        CHECK(!field_set(&fields[i], &again, &test_arena, text_of(text)));
        CHECK(field_number(&fields[i], &again) == field_number(&fields[i], &card));
    }
}
