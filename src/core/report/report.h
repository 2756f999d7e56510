// report: documents of gpuhours as something to look at: HTML, terminal text, Markdown, CSV.
//
// Takes any plans, profiles, pilots, hosts and run documents and shows what they say: the answer as
// a range, lengths, padding, memory, the time of a step, what drives the range, device counts,
// offers, pilots, assumptions, mistakes. Two plans or more are compared, differences first.
//
//     struct report_input input = { 0 };
//     TRY(report_add(&input, arena, json, "plan.json"));
//     struct out out = { .arena = arena };
//     report_html(&out, arena, &input, NULL);
//
// The sections are described once (text, charts, tables) and drawn in each form. Everything that
// came from outside is shown as text. The HTML is one file that loads nothing: its policy allows
// the style and script in it by their hashes and no other, and it reads without scripts.

#pragma once

#include "base/json.h"

enum report_kind { REPORT_PLAN, REPORT_PROFILE, REPORT_PILOT, REPORT_HOSTS, REPORT_RUN };

struct report_document {
    enum report_kind kind;
    const char *name; // of the file, harmless and short
    struct text text; // the JSON
    struct json tree;
};

enum { REPORT_DOCUMENTS = 32 };

struct report_input {
    struct report_document documents[REPORT_DOCUMENTS];
    size_t count;
};

// Reads a document, which must outlive the input. ERR_INPUT with a sentence for other kinds,
// other versions and broken JSON.
enum err report_add(struct report_input *input, struct arena *arena, struct text json,
                    const char *name);

// What makes a report live, as the page has it; each text is ours, not from outside.
//
// In the document stand, in this order: <main id="report"> with the sections; then, where this is
// given, <section id="what-if"> with the markup in it, <script type="text/plain" id="core-module">
// with the module in base64, <script type="application/json" id="report-plan"> with the first plan
// (null where there is none), likewise id="report-profile", and the script.
struct report_live {
    struct text style;  // after page.css
    struct text markup; // HTML
    struct text script; // runs under 'wasm-unsafe-eval'; may not add style or script elements
    struct text module; // base64 of core.wasm
};

void report_html(struct out *out, struct arena *arena, const struct report_input *input,
                 const struct report_live *live); // NULL: static only
void report_text(struct out *out, struct arena *arena, const struct report_input *input,
                 int columns, bool colour);
void report_markdown(struct out *out, struct arena *arena, const struct report_input *input);
void report_csv(struct out *out, struct arena *arena, const struct report_input *input);
void report_json(struct out *out, struct arena *arena, const struct report_input *input);

// The sections alone, as they stand inside <main>: what the page shows after each change. `only` is
// the id of one section ("answer", "memory", "step", …), or NULL for all.
void report_sections(struct out *out, struct arena *arena, const struct report_input *input,
                     const char *only);

// The <meta> of a policy that allows these inline texts and nothing else. Empty texts are left out.
void report_policy(struct out *out, struct text style, struct text script);
