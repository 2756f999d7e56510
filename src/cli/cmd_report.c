// gpuhours report: documents as a page with charts, or as text, Markdown or CSV.

#include "base/embedded.h"
#include "cli/command.h"
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
    FIELD(request, html, TEXT, "file that is written: one page that loads nothing; - is stdout"),
    FIELD(request, markdown, FLAG, "Markdown on standard output, for tickets"),
    FIELD(request, csv, FLAG, "a table on standard output: a row a key, a column a document"),
    { 0 },
};

static const struct options *list_options(void)
{
    static const struct options groups[] = { { "Output", own_fields, &request }, { 0 } };
    return groups;
}

// Whether standard output is a terminal with 256 colours and NO_COLOR is not set.
static bool has_colours(void)
{
    const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no && *no) && term &&
           (strstr(term, "256color") || strstr(term, "kitty") || strstr(term, "alacritty"));
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
    request = (struct request){ 0 };
    TRY(command_read(line, list_options()));
    if (!line->positional_count)
        return fail(ERR_USAGE, "report needs documents that plan, profile, pilot or hosts wrote "
                               "with --json");
    if ((request.html != NULL) + request.markdown + request.csv + line->common.json > 1)
        return fail(ERR_USAGE, "use only one of --html, --markdown, --csv and --json");
    struct report_input *input = ARENA_NEW(line->arena, struct report_input, 1);
    TRY(read_documents(input, line));
    struct out out = { .arena = line->arena };
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
        report_text(&out, line->arena, input, 80, has_colours());
    fwrite(out.at, 1, out.size, stdout);
    return OK;
}

const struct command command_report = {
    "report",
    "a page with charts of plans, profiles, pilots and offers",
    "gpuhours report plan.json profile.json --html report.html",
    run,
    list_options,
};
