// SPDX-License-Identifier: Apache-2.0
// report: gpuhours documents as HTML, terminal text, Markdown or CSV.
//
// Shows any number of plan, profile, pilot, hosts and run documents: the answer with its range,
// lengths, padding, memory, the time of a step, what drives the range, GPU counts, offers, pilots,
// assumptions, warnings. Two or more plans are compared, differences first.
//
//     struct report_input input = { 0 };
//     TRY(report_add(&input, arena, json, "plan.json"));
//     struct out out = { .arena = arena };
//     report_html(&out, arena, &input, NULL);
//
// The sections (text, charts, tables) are built once and written in each format. Everything from
// outside is escaped. The HTML is one file that loads nothing: its security policy allows only the
// style and script inside it, by their hashes, and it is readable without scripts.

#pragma once

#include "base/json.h"

enum report_kind { REPORT_PLAN, REPORT_PROFILE, REPORT_PILOT, REPORT_HOSTS, REPORT_RUN };

struct report_document {
    enum report_kind kind;
    const char *name; // of the file, made safe to print
    struct text text; // the JSON
    struct json tree;
};

enum { REPORT_DOCUMENTS = 32 };

struct report_input {
    struct report_document documents[REPORT_DOCUMENTS];
    size_t count;
};

// Reads a document, which must outlive the input. ERR_INPUT for other kinds, other versions and
// malformed JSON.
enum err report_add(struct report_input *input, struct arena *arena, struct text json,
                    const char *name);

// The parts of an interactive report ("what if"), shared with the page; trusted texts of our own.
//
// The document then has <section id="what-if"> with the markup after the first section of <main
// id="report">, and after <main>: <script type="text/plain" id="core-module"> with the module in
// base64, <script type="application/json" id="report-plan"> with the first plan (null if there is
// none), likewise id="report-profile", and the script.
struct report_live {
    struct text style;  // after page.css
    struct text markup; // HTML
    struct text script; // runs under 'wasm-unsafe-eval'; may not add style or script elements
    struct text module; // base64 of core.wasm
};

void report_html(struct out *out, struct arena *arena, const struct report_input *input,
                 const struct report_live *live); // NULL: not interactive
void report_text(struct out *out, struct arena *arena, const struct report_input *input,
                 int columns, bool colour);
void report_markdown(struct out *out, struct arena *arena, const struct report_input *input);
// Hosts documents only: a row per offer, a column per term. Otherwise a row per key, a column per
// document.
void report_csv(struct out *out, struct arena *arena, const struct report_input *input);
void report_json(struct out *out, struct arena *arena, const struct report_input *input);

// Only the sections, the content of <main>: what the page shows after each change. `only` is the id
// of one section ("answer", "memory", "step", …), or NULL for all.
void report_sections(struct out *out, struct arena *arena, const struct report_input *input,
                     const char *only);

// The <meta> of a security policy that allows these inline texts and nothing else. Empty texts are
// left out.
void report_policy(struct out *out, struct text style, struct text script);
