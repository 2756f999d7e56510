// gpuhours merge: merges an adapter into its base model and writes the result.

#include "cli/command.h"
#include "cli/print.h"
#include "train/merge.h"

#include <stdio.h>

struct merge_options {
    const char *model, *adapter, *out;
};

static const struct field merge_fields[] = {
    FIELD(merge_options, model, TEXT, "folder of the base: config.json and safetensors"),
    FIELD(merge_options, adapter, TEXT, "folder of the adapter, as PEFT or train wrote it"),
    FIELD(merge_options, out, TEXT, "folder to write, which must not be there"),
    { 0 },
};

static const struct options *list_options(void)
{
    static const struct options groups[] = { { "Folders", merge_fields, NULL }, { 0 } };
    return groups;
}

static void print_report(const struct command_line *line, const struct merge_options *options,
                         const struct merge_report *report)
{
    struct out out = print_out(line->arena);
    if (line->common.json) {
        struct json_writer w = { .out = &out };
        json_open(&w, NULL, '{');
        json_put_string(&w, "out", options->out);
        json_put_count(&w, "folded", report->folded);
        json_put_count(&w, "replaced", report->replaced);
        json_put_count(&w, "copied", report->copied);
        json_put_bool(&w, "dequantized", report->dequantized);
        json_put_number(&w, "bytes", report->bytes);
        json_close(&w, '}');
        out_char(&out, '\n');
    } else {
        out_put(&out, "%s: %lld linears merged, %lld weights replaced, %lld as in the base%s; %s\n",
                options->out, (long long)report->folded, (long long)report->replaced,
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
    struct merge_options options = { 0 };
    const struct options groups[] = { { "Folders", merge_fields, &options }, { 0 } };
    TRY(command_read(line, groups));
    if (line->positional_count)
        return fail(ERR_USAGE, "%s: merge takes only options; see gpuhours merge --help",
                    line->positional[0]);
    if (!options.model || !options.adapter || !options.out)
        return fail(ERR_USAGE, "merge needs --model, --adapter and --out, each a folder");
    struct merge_report report;
    TRY(merge_fold(&report, line->arena, options.model, options.adapter, options.out));
    print_report(line, &options, &report);
    return OK;
}

const struct command command_merge = {
    "merge",
    "fold an adapter into its base model",
    "gpuhours merge --model llama-3.1-8b --adapter adapters --out merged",
    run,
    list_options,
};
