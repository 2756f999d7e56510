// SPDX-License-Identifier: Apache-2.0
// Manual pages in man(7) macros, which groff and mandoc read.

#include "tools/manual/manual.h"
#include "cli/terminal/reference.h"

#include <ctype.h>
#include <string.h>

// Text of a page: backslashes, hyphens and what a line of macros could begin with are escaped, and
// characters beyond ASCII are named, whatever the locale of the reader.
static void put_text(struct out *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        out_put(out, "\\&");
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '\\') {
            out_put(out, "\\e");
        } else if (*at == '-') {
            out_put(out, "\\-");
        } else if (*at < 0x80) {
            out_char(out, (char)*at);
        } else {
            unsigned code = *at >= 0xE0 ? *at & 0x0F : *at & 0x1F;
            while ((at[1] & 0xC0) == 0x80)
                code = code << 6 | (*++at & 0x3F);
            out_put(out, "\\[u%04X]", code);
        }
    }
}

// A paragraph, in lines of the source that stay below 80 bytes.
static void put_line(struct out *out, const char *text)
{
    struct text rest = text_of(text), word;
    size_t begin = out->size;
    while (text_next(&rest, ' ', &word)) {
        bool is_first = out->size == begin;
        if (!is_first && out->size - begin + word.size > 70) {
            out_char(out, '\n');
            begin = out->size;
        } else if (!is_first) {
            out_char(out, ' ');
        }
        put_text(out, text_copy(out->arena, word));
    }
    out_char(out, '\n');
}

static void put_upper(struct out *out, const char *text)
{
    for (; *text; text++)
        out_char(out, (char)toupper((unsigned char)*text));
}

// Words of a usage line, with a break only between them.
static void put_synopsis(struct out *out, const struct command *command)
{
    out_put(out, ".SH SYNOPSIS\n.B gpuhours%s%s\n", command ? " " : "",
            command ? command->name : "");
    put_line(out, command ? command->usage : "COMMAND [OPTION...]");
}

// --- options -----------------------------------------------------------------

static void put_title(void *context, const char *title)
{
    struct out *out = context;
    if (!strcmp(title, "Options"))
        return;
    out_put(out, ".SS ");
    out_char(out, (char)toupper((unsigned char)*title));
    put_line(out, title + 1);
}

static void put_option(void *context, const struct field *field, const void *defaults)
{
    struct out *out = context;
    const char *spelled = help_option(field, out->arena), *value = strchr(spelled, ' ');
    size_t size = value ? (size_t)(value - spelled) : strlen(spelled);
    out_put(out, ".TP\n\\fB");
    put_text(out, text_copy(out->arena, (struct text){ spelled, size }));
    out_put(out, "\\fR");
    if (value) {
        out_put(out, " \\fI");
        put_text(out, value + 1);
        out_put(out, "\\fR");
    }
    out_char(out, '\n');
    put_line(out, help_text(field, defaults, out->arena));
}

static void put_items(struct out *out, const char *heading, const struct reference_item *items)
{
    out_put(out, ".SH %s\n", heading);
    for (; items->name; items++) {
        out_put(out, ".TP\n\\fB");
        put_text(out, items->name);
        out_put(out, "\\fR\n");
        put_line(out, items->meaning);
    }
}

static void put_examples(struct out *out, const struct command *command)
{
    out_put(out, ".SH EXAMPLES\n");
    for (const struct command_example *e = command->examples; e->line; e++) {
        out_put(out, "%s", e == command->examples ? "" : ".PP\n");
        out_char(out, (char)toupper((unsigned char)*e->purpose));
        put_text(out, e->purpose + 1);
        out_put(out, ":\n.PP\n.RS 4\n.nf\n");
        put_text(out, e->line);
        out_put(out, "\n.fi\n.RE\n");
    }
}

static void put_exit_status(struct out *out)
{
    out_put(out, ".SH EXIT STATUS\n");
    for (const struct error_code *c = error_codes; c->name; c++) {
        out_put(out, ".TP\n\\fB%d\\fR\n", c->number);
        put_line(out, c->meaning);
    }
    out_put(out, ".PP\n.B pilot\nand\n.B watch\nend with the trainer's own exit code if it fails,\n"
                 "and with 128 + N after signal N.\n");
}

// --- pages -------------------------------------------------------------------

static void put_commands(struct out *out)
{
    out_put(out, ".SH COMMANDS\n");
    for (const struct command *const *c = commands; *c; c++) {
        out_put(out, ".TP\n\\fBgpuhours %s\\fR\n", (*c)->name);
        put_line(out, (*c)->summary);
    }
    out_put(out, ".TP\n\\fBgpuhours help\\fR [\\fICOMMAND\\fR]\nlist the commands, or the options "
                 "and examples of one\n.TP\n\\fBgpuhours \\-\\-version\\fR\nprint the version and "
                 "the features of this build\n");
}

static void put_see_also(struct out *out, const struct command *command)
{
    out_put(out, ".SH SEE ALSO\n");
    if (command)
        out_put(out, ".BR gpuhours (1),\n");
    const struct command *last = NULL;
    for (const struct command *const *c = commands; *c; c++)
        last = *c != command ? *c : last;
    for (const struct command *const *c = commands; *c; c++)
        if (*c != command)
            out_put(out, ".BR gpuhours\\-%s (1)%s\n", (*c)->name, *c == last ? "" : ",");
}

static void put_common(struct out *out)
{
    static const struct common defaults;
    out_put(out, ".SH OPTIONS\nEvery command has these:\n");
    for (const struct field *f = common_fields; f->name; f++)
        if (!f->hidden)
            put_option(out, f, &defaults);
}

void manual_page(struct out *out, const struct command *command, const char *date)
{
    out_put(out, ".\\\" Made from the command tables by tools/manual.\n.TH GPUHOURS");
    if (command) {
        out_put(out, "\\-");
        put_upper(out, command->name);
    }
    out_put(out, " 1 %s \"gpuhours %s\"\n.SH NAME\ngpuhours%s%s \\- ", date, command_release,
            command ? "\\-" : "", command ? command->name : "");
    put_line(out, command ? command->summary : "forecast the GPU hours of fine-tuning runs");
    put_synopsis(out, command);
    out_put(out, ".SH DESCRIPTION\n");
    put_line(out, command ? command->about
                          : "Forecasts how many GPU hours a fine-tuning run of a language model "
                            "takes, on which hardware and for how much, as a median and an 80 % "
                            "range. Measures data and pilots, compares places to run, and trains. "
                            "Without arguments it forecasts a built-in example.");
    if (command) {
        out_put(out, ".SH OPTIONS\n");
        help_options(command, out->arena, &(struct help_shown){ out, put_title, put_option });
        put_examples(out, command);
    } else {
        put_commands(out);
        put_common(out);
        put_examples(out, command_find("plan"));
    }
    put_exit_status(out);
    put_items(out, "ENVIRONMENT", reference_variables);
    put_items(out, "FILES", reference_files);
    put_see_also(out, command);
}
