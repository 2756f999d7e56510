// SPDX-License-Identifier: Apache-2.0
#include "core/data/packing.h"
#include "test/test.h"

#include <string.h>

TEST(packing_loss_says_how_many_rows_and_tokens_a_window_takes)
{
    struct packing_loss loss = { 0 };
    for (int i = 0; i < 3; i++)
        packing_loss_add(&loss, 2048, 2048);
    CHECK(!packing_loss_matters(&loss));
    packing_loss_add(&loss, 3000, 2048);
    CHECK(packing_loss_matters(&loss) && loss.longest == 3000);
    CHECK(!strcmp(packing_loss_text(&loss, &test_arena, 2048),
                  "of 4 rows, 1 is cut at the context of 2,048: 952 of 9,144 tokens (10.4 %) are "
                  "not trained on"));
    loss = (struct packing_loss){ .examples = 9, .tokens = 90, .dropped = 2, .lost = 30 };
    CHECK(!strcmp(packing_loss_text(&loss, &test_arena, 16),
                  "of 9 rows, 2 are left out (too long for the context of 16, or without labels): "
                  "30 of 90 tokens (33.3 %) are not trained on"));
}

TEST(packing_loss_below_that_of_a_recommended_window_does_not_matter)
{
    struct packing_loss loss = { .examples = 1000, .tokens = 1e6, .cut = 10, .lost = 5000 };
    CHECK(!packing_loss_matters(&loss));
    loss.cut = 11;
    CHECK(packing_loss_matters(&loss));
    loss.cut = 1, loss.lost = 5001;
    CHECK(packing_loss_matters(&loss));
}
