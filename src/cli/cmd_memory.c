// SPDX-License-Identifier: Apache-2.0
// gpuhours memory: the byte plan by part, and the largest micro-batch and context that fit.

#include "cli/data.h"
#include "cli/from.h"
#include "cli/terminal/print.h"
#include "core/plan/fit.h"

#include <stdio.h>
#include <string.h>

// What memory depends on; other options of a plan are refused rather than ignored.
static const char *const used[] = {
    "model", "context",    "micro_batch", "global_batch",     "gpu",       "gpus",      "parallel",
    "stack", "image_size", "images",      "image_max_pixels", "objective", "reference", "reward",
    NULL
};
static const struct {
    const char *name, *words;
} defaults_here[] = {
    { "gpu", "none: bytes only" },
    { "gpus", "1" },
    { "context", "%s" },
    { "micro_batch", "1" },
};
enum { FIELDS = 64 };
static struct field used_fields[FIELDS], unused_fields[FIELDS];

static const struct options *list_options(struct arena *arena)
{
    static struct plan_request request;
    static struct from from;
    static struct options groups[5];
    const struct plan_request *defaults = data_defaults(arena);
    const struct options all[] = {
        OPTIONS("job and hardware", used_fields, &request, .defaults = defaults),
        OPTIONS("training recipe", recipe_fields, &request.recipe),
        OPTIONS("trainer configuration", from_fields, &from),
        OPTIONS("not used", unused_fields, &request,
                .refused = "memory does not depend on it; gpuhours plan has this option"),
        { 0 },
    };
    request = plan_request_default();
    from = (struct from){ 0 };
    command_pick(used_fields, plan_fields, used, true);
    command_pick(unused_fields, plan_fields, used, false);
    for (struct field *f = used_fields; f->name; f++)
        for (size_t i = 0; i < sizeof defaults_here / sizeof *defaults_here; i++)
            if (!strcmp(f->name, defaults_here[i].name))
                f->fallback = defaults_here[i].words;
    memcpy(groups, all, sizeof groups);
    return groups;
}

static enum err run(struct command_line *line)
{
    struct plan_request request = plan_request_default();
    struct from from = { 0 };
    const struct options *listed = list_options(line->arena);
    const struct options groups[] = { OPTIONS("", used_fields, &request),
                                      OPTIONS("", recipe_fields, &request.recipe),
                                      OPTIONS("", from_fields, &from),
                                      listed[3],
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
    data_take_quantized(&request, line);
    TRY(data_request(&request, &data));
    data_note_unused(&request.recipe, line);
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
    return fit.memory.fits ? OK : fail(ERR_ANSWER, "%s", ""); // the answer itself says why not
}

static const char *const first[] = { "model",         "method",   "gpu",         "gpus",
                                     "stack",         "context",  "micro_batch", "global_batch",
                                     "checkpointing", "parallel", "from",        NULL };

static const struct command_example examples[] = {
    { "what fits on one RTX 4090",
      "gpuhours memory --model llama-3.1-8b --method qlora --gpu rtx-4090" },
    { "full fine-tuning, sharded over eight GPUs",
      "gpuhours memory --model llama-3.1-8b --method full --gpu h100 --gpus 8 --parallel fsdp" },
    { 0 },
};

const struct command command_memory = {
    .name = "memory",
    .summary = "show memory by part; the largest micro-batch and context that fit",
    .usage = "--model MODEL [OPTION...]",
    .about =
        "Shows the GPU memory that a training step needs: weights, gradients, optimizer states, "
        "activations and logits, what the allocator reserves on top, and the largest "
        "micro-batch and context that fit with each kind of activation checkpointing.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
