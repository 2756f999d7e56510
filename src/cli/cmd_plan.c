// gpuhours plan: the whole chain, from a model and a token count to hours, money and mistakes.

#include "cli/data.h"

#include <stdio.h>

static const struct options *list_options(void)
{
    static const struct options groups[] = { { "Job and hardware", plan_fields, NULL },
                                             { "Recipe", recipe_fields, NULL },
                                             { 0 } };
    return groups;
}

static enum err run(struct command_line *line)
{
    struct plan_request request = plan_request_default();
    const struct options groups[] = { { "Job and hardware", plan_fields, &request },
                                      { "Recipe", recipe_fields, &request.recipe },
                                      { 0 } };
    TRY(command_read(line, groups));
    if (line->positional_count)
        return fail(ERR_USAGE, "%s: plan reads no data yet; --tokens 21.4M says how many there are",
                    line->positional[0]);
    struct plan_data data;
    TRY(data_plan(&data, line));
    TRY(data_request(&request, &data));
    struct plan *plan = ARENA_NEW(line->arena, struct plan, 1);
    TRY(plan_make(plan, line->arena, &data, &request));
    struct out out = { .arena = line->arena };
    if (line->common.json)
        plan_write(plan, line->arena, &out);
    else if (line->common.explain)
        plan_explain(plan, line->arena, &out);
    else
        plan_text(plan, line->arena, &out);
    fwrite(out.at, 1, out.size, stdout);
    return plan->fits ? OK : ERR_ANSWER;
}

const struct command command_plan = {
    "plan",
    "GPU hours, cost, what fits, alternatives and mistakes",
    "gpuhours plan --model llama-3.1-8b --tokens 21.4M --epochs 3 --gpu h100 --gpus 8",
    run,
    list_options,
};
