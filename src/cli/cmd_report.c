// SPDX-License-Identifier: Apache-2.0
// gpuhours report: documents as a page with charts, or as text, Markdown or CSV.

#include "base/embedded.h"
#include "cli/command.h"
#include "cli/terminal/print.h"
#include "core/step/catalog.h"
#include "core/report/report.h"
#include "host/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct request {
    const char *html;
    bool markdown, csv;
} request;

static const struct field own_fields[] = {
    FIELD(request, html, TEXT, "write one self-contained page; - is standard output",
          .value = "FILE", .fallback = ""),
    FIELD(request, markdown, FLAG, "print Markdown, e.g. for a ticket"),
    FIELD(request, csv, FLAG, "print CSV: a row per key, a column per document"),
    { 0 },
};

static const struct options *list_options(struct arena *arena)
{
    static const struct options groups[] = { OPTIONS("output", own_fields, &request), { 0 } };
    (void)arena;
    request = (struct request){ 0 };
    return groups;
}

static enum err read_documents(struct report_input *input, struct command_line *line)
{
    for (int i = 0; i < line->positional_count; i++) {
        struct file file;
        const char *path = line->positional[i];
        TRY(file_open(&file, path));
        struct text json = { text_copy(line->arena, file.text), file.text.size };
        file_close(&file);
        TRY(report_add(input, line->arena, json, path));
    }
    return OK;
}

// The interactive part of the page, if this build has it.
static const struct report_live *find_live(struct report_live *live)
{
    *live = (struct report_live){
        .style = embedded_file("live.css"),
        .markup = embedded_file("what_if.html"),
        .script = embedded_file("live.js"),
        .module = embedded_file("core.b64"),
    };
    return live->script.size && live->markup.size && live->module.size ? live : NULL;
}

static enum err run(struct command_line *line)
{
    TRY(command_read(line, list_options(line->arena)));
    if (!line->positional_count)
        return fail(ERR_USAGE, "report needs documents that plan, profile, pilot or hosts wrote "
                               "with --json");
    if ((request.html != NULL) + request.markdown + request.csv + line->common.json > 1)
        return fail(ERR_USAGE, "use only one of --html, --markdown, --csv and --json");
    struct report_input *input = ARENA_NEW(line->arena, struct report_input, 1);
    TRY(read_documents(input, line));
    struct out out = print_out(line->arena);
    bool for_people = !request.markdown && !request.csv && !line->common.json;
    if (request.html) {
        struct report_live live;
        report_html(&out, line->arena, input, find_live(&live));
        return file_write(request.html, out_view(&out));
    }
    if (request.markdown)
        report_markdown(&out, line->arena, input);
    else if (request.csv)
        report_csv(&out, line->arena, input);
    else if (line->common.json)
        report_json(&out, line->arena, input);
    else
        report_text(&out, line->arena, input, out.columns, out.styled);
    if (for_people)
        print_text(&out);
    else
        print_data(out_view(&out));
    return OK;
}

static const char *const first[] = { "html", "markdown", "csv", NULL };

static const struct command_example examples[] = {
    { "one page with charts and a live what-if",
      "gpuhours report plan.json profile.json --html report.html" },
    { "a summary for a ticket", "gpuhours report plan.json hosts.json --markdown" },
    { 0 },
};

const struct command command_report = {
    .name = "report",
    .summary = "show documents as a page with charts, text, Markdown or CSV",
    .usage = "DOCUMENT... [--html FILE | --markdown | --csv | --json]",
    .about = "Shows the JSON documents of plan, profile, pilot and hosts with charts: on the "
             "terminal, as one HTML page that loads nothing, as Markdown or as CSV. Two plans are "
             "compared.",
    .first = first,
    .examples = examples,
    .run = run,
    .options = list_options,
};
