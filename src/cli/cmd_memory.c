// gpuhours memory: the byte plan by part, and the largest micro-batch and context that fit.

#include "cli/data.h"
#include "cli/from.h"
#include "cli/print.h"
#include "core/plan/fit.h"

#include <stdio.h>

static const struct options *list_options(void)
{
    static const struct options groups[] = { { "Job and hardware", plan_fields, NULL },
                                             { "Recipe", recipe_fields, NULL },
                                             { "Trainer", from_fields, NULL },
                                             { 0 } };
    return groups;
}

static enum err run(struct command_line *line)
{
    struct plan_request request = plan_request_default();
    struct from from = { 0 };
    const struct options groups[] = { { "Job and hardware", plan_fields, &request },
                                      { "Recipe", recipe_fields, &request.recipe },
                                      { "Trainer", from_fields, &from },
                                      { 0 } };
    TRY(command_read(line, groups));
    if (from_given(&from, line)) { // once more, over the trainer's configuration
        int64_t gpus = request.gpus;
        request = plan_request_default();
        TRY(from_read(&from, line));
        TRY(from_fill(&from, &request, gpus));
        TRY(command_again(line, groups));
        from_warn(&from, line);
    }
    if (line->positional_count)
        return fail(ERR_USAGE, "%s: memory takes options only; see --help", line->positional[0]);
    struct plan_data data;
    TRY(data_plan(&data, line));
    TRY(data_request(&request, &data));
    struct fit fit;
    TRY(fit_make(&fit, line->arena, &data, &request));
    struct out out = print_out(line->arena);
    if (line->common.json)
        fit_write(&fit, line->arena, &out);
    else
        fit_text(&fit, line->arena, &out);
    if (line->common.explain && from.config && !line->common.json) {
        out_put(&out, "\n");
        trainer_config_text(from.config, &out);
    }
    if (line->common.json)
        print_data(out_view(&out));
    else
        print_text(&out);
    return fit.memory.fits ? OK : ERR_ANSWER;
}

const struct command command_memory = {
    "memory",
    "the byte plan by part; the largest micro-batch and context that fit",
    "gpuhours memory --model llama-3.1-8b --method qlora --gpu rtx-4090",
    run,
    list_options,
};
