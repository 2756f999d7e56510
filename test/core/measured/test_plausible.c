// SPDX-License-Identifier: Apache-2.0
#include "base/embedded.h"
#include "core/measured/plausible.h"
#include "core/measured/validate.h"
#include "test/core/knowledge.h"
#include "test/core/measured/shipped.h"

#include <math.h>
#include <string.h>

// 80 layers of width 8192 with 8 of 64 heads for keys and values, 28672 wide inside: 855,638,016
// weights each, 68.45 G in all; 6 FLOPs each but for the input gradients of the first layer.
TEST(plausible_flops_of_a_token_are_as_computed_by_hand)
{
    struct knowledge k = knowledge_open();
    const struct model *model;
    CHECK(!catalog_model(&model, &k.catalog, "llama-3.1-70b"));
    double weights = 80 * 855638016.0;
    CHECK_NEAR(plausible_flops_per_token(model, RECIPE_FULL), weights * (6 - 2 / 80.0), 1);
    CHECK_NEAR(plausible_flops_per_token(model, RECIPE_LORA), weights * (4 - 2 / 80.0), 1);
}

TEST(plausible_refuses_a_rate_above_the_peak_with_the_arithmetic)
{
    struct knowledge k = knowledge_open();
    struct pilot pilot;
    pilot_clear(&pilot);
    pilot.configuration.model = "llama-3.1-70b", pilot.configuration.gpu = "h100-sxm";
    pilot.configuration.gpus = 8;
    pilot.tokens_per_s.mean = 1266929;
    CHECK(plausible_pilot(&k.catalog, &pilot, "pilot.json") == ERR_INPUT);
    CHECK(strstr(error_text(), "pilot.json: 1,266,929 tokens/s × 272 GFLOP per token = 345 "
                               "PFLOP/s, 44 times the peak of 8 × "));
    CHECK(strstr(error_text(), "(7.9 PFLOP/s): check the tokens per step"));
    pilot.tokens_per_s.mean = 20000; // 69 % of the peak
    CHECK(!plausible_pilot(&k.catalog, &pilot, "pilot.json"));
}

TEST(plausible_says_nothing_where_model_or_gpu_are_not_known)
{
    struct knowledge k = knowledge_open();
    struct pilot pilot;
    pilot_clear(&pilot);
    pilot.tokens_per_s.mean = 1e11;
    pilot.configuration.model = "llama-3.1-70b", pilot.configuration.gpus = 8;
    CHECK(!plausible_pilot(&k.catalog, &pilot, "pilot.json"));
    pilot.configuration.gpu = "cpu";
    CHECK(!plausible_pilot(&k.catalog, &pilot, "pilot.json"));
    pilot.configuration.gpu = "h100-sxm", pilot.configuration.model = "nobody-knows-me";
    CHECK(!plausible_pilot(&k.catalog, &pilot, "pilot.json"));
}

TEST(plausible_accepts_every_published_run)
{
    size_t count, checked = 0;
    const struct validate_row *rows = shipped_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const struct setup *setup = rows[i].setup;
        if (!setup || isnan(rows[i].tokens_per_s.measured))
            continue;
        struct plausible rate = { rows[i].tokens_per_s.measured, setup->model, &setup->recipe,
                                  setup->gpu, (double)layout_gpus(&setup->layout) };
        CHECK(!plausible_rate(&rate, "run"));
        checked++;
    }
    CHECK(checked > 200);
}
