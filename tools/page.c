// SPDX-License-Identifier: Apache-2.0
// page MARKUP STYLE SCRIPT MODULE: prints the web page as one self-contained file: the markup, the
// styles of report and page, the script, and the module in base64.

#include "base/embedded.h"
#include "core/report/report.h"

#include <stdio.h>

static struct arena arena;

static struct text read_file(const char *path)
{
    struct out out = { .arena = &arena };
    char piece[65536];
    FILE *in = fopen(path, "rb");
    for (size_t got; in && (got = fread(piece, 1, sizeof piece, in)) > 0;)
        out_bytes(&out, piece, got);
    if (!in || ferror(in))
        fprintf(stderr, "page: cannot read %s\n", path);
    if (in)
        fclose(in);
    return out_view(&out);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    struct text markup = read_file(argv[1]), own = read_file(argv[2]);
    struct text script = read_file(argv[3]), module = read_file(argv[4]);
    if (!markup.size || !own.size || !script.size || !module.size)
        return 1;
    struct out style = { .arena = &arena }, out = { .arena = &arena };
    struct text shared = embedded_file("page.css");
    out_bytes(&style, shared.at, shared.size);
    out_bytes(&style, own.at, own.size);
    out_put(&out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    report_policy(&out, out_view(&style), script);
    out_put(
        &out,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<title>gpuhours: GPU hours of a fine-tune</title>\n<style>%s</style>\n</head>\n<body>\n",
        out_string(&style));
    out_bytes(&out, markup.at, markup.size);
    out_put(&out, "<script type=\"text/plain\" id=\"core-module\">");
    out_bytes(&out, module.at, module.size);
    out_put(&out, "</script>\n<script>");
    out_bytes(&out, script.at, script.size);
    out_put(&out, "</script>\n</body>\n</html>\n");
    fwrite(out.at, 1, out.size, stdout);
    arena_release(&arena);
    return 0;
}
