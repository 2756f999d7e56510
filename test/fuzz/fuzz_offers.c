// SPDX-License-Identifier: Apache-2.0
// Whatever the text, offers are read or refused; what is read has prices above nothing, is written
// as CSV, and that is read back as the same offers.

#include "core/hosting/offers.h"
#include "test/fuzz/mutate.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
MUTATES_AS(lines)

static bool is_priced(const struct offer *offer)
{
    for (int kind = OFFERS_ON_DEMAND; kind <= OFFERS_RESERVED_3Y; kind++)
        if (offers_price(offer, (enum offers_kind)kind) > 0)
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct arena kept;
    static struct catalog catalog;
    if (!catalog.gpu_count && catalog_open(&catalog, &kept, NULL, 0))
        return 0;
    struct arena arena = { 0 };
    catalog.arena = catalog.gpu_names.arena = &arena;
    struct offers_source source = { .catalog = &catalog,
                                    .text = { (const char *)data, size },
                                    .name = "fuzz.csv",
                                    .as_of = "2026-11-15" };
    struct offers offers, again;
    struct offers_report report;
    if (!offers_read(&offers, &report, &arena, &source)) {
        struct out out = { .arena = &arena };
        if (report.kept != offers.count)
            abort();
        for (size_t i = 0; i < offers.count; i++)
            if (!is_priced(&offers.rows[i].offer))
                abort();
        (void)offers_report_spell(&report, &arena);
        offers_write(&offers, &out);
        source.text = out_view(&out);
        if (offers_read(&again, &report, &arena, &source) == OK && again.count != offers.count)
            abort();
    }
    arena_release(&arena);
    return 0;
}
