// SPDX-License-Identifier: Apache-2.0
// gpuhours merge: merges an adapter into its base model and writes the result.

#include "cli/command.h"
#include "cli/terminal/print.h"
#include "train/files/merge.h"

#include <stdio.h>

struct merge_options {
    const char *model, *adapter, *out;
};

static const struct field merge_fields[] = {
    FIELD(merge_options, model, TEXT, "folder of the base model: config.json and safetensors",
          .value = "DIR", .fallback = "required"),
    FIELD(merge_options, adapter, TEXT, "folder of the adapter, written by PEFT or gpuhours train",
          .value = "DIR", .fallback = "required"),
    FIELD(merge_options, out, TEXT, "folder to write; must not exist", .value = "DIR",
          .fallback = "required"),
    { 0 },
};

static struct merge_options options;

static const struct options *list_options(struct arena *arena)
{
    static const struct options groups[] = { OPTIONS("folders", merge_fields, &options), { 0 } };
    (void)arena;
    options = (struct merge_options){ 0 };
    return groups;
}

static void print_report(const struct command_line *line, const struct merge_report *report)
{
    struct out out = print_out(line->arena);
    if (line->common.json) {
        struct json_writer w = { .out = &out };
        json_open(&w, NULL, '{');
        json_put_string(&w, "kind", "merge");
        json_put_count(&w, "version", 1);
        json_put_string(&w, "out", options.out);
        json_put_count(&w, "folded", report->folded);
        json_put_count(&w, "replaced", report->replaced);
        json_put_count(&w, "copied", report->copied);
        json_put_bool(&w, "dequantized", report->dequantized);
        json_put_number(&w, "bytes", report->bytes);
        json_close(&w, '}');
        out_char(&out, '\n');
    } else {
        out_put(&out, "%s: %lld linears merged, %lld weights replaced, %lld as in the base%s; %s\n",
                options.out, (long long)report->folded, (long long)report->replaced,
                (long long)report->copied, report->dequantized ? ", dequantized" : "",
                text_bytes(line->arena, report->bytes));
    }
    if (line->common.json)
        print_data(out_view(&out));
    else
        print_text(&out);
}

static enum err run(struct command_line *line)
{
    TRY(command_read(line, list_options(line->arena)));
    if (line->positional_count)
        return fail(ERR_USAGE, "%s: merge takes only options; see gpuhours merge --help",
                    line->positional[0]);
    if (!options.model || !options.adapter || !options.out)
        return fail(ERR_USAGE, "merge needs --model, --adapter and --out, each a folder");
    struct merge_report report;
    TRY(merge_fold(&report, line->arena, options.model, options.adapter, options.out));
    print_report(line, &report);
    return OK;
}

static const char *const first[] = { "model", "adapter", "out", NULL };

static const struct command_example examples[] = {
    { "an adapter of gpuhours train or PEFT into its base model",
      "gpuhours merge --model ./model --adapter adapters --out merged" },
    { 0 },
};

const struct command command_merge = {
    .name = "merge",
    .summary = "merge a LoRA adapter into its base model",
    .usage = "--model DIR --adapter DIR --out DIR",
    .about =
        "Adds the adapter's products to the weights of the base model and writes the result as "
        "a model folder that Transformers can load. A quantized base is dequantized first.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
