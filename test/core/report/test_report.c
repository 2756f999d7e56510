// SPDX-License-Identifier: Apache-2.0
// report: what is shown of each document, hostile and odd documents, comparisons, CSV.

#include "core/report/report.h"

#include "core/hosting/hosting.h"
#include "base/markup.h"
#include "base/embedded.h"
#include "core/data/profile.h"
#include "base/sha256.h"
#include "test/core/planning.h"
#include "test/core/wellformed.h"

#include <stdlib.h>

static const char usual[] = "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"epochs\":3,"
                            "\"gpu\":\"h100-sxm\",\"gpus\":8,\"stack\":\"hf-peft\"}";

static struct text plan_of(const char *request)
{
    struct out out = { .arena = &test_arena };
    plan_write(planning_make(request), &test_arena, &out);
    return out_view(&out);
}

// Planned once, in memory that outlives the tests.
static struct text usual_plan(void)
{
    static struct arena arena;
    static struct text plan;
    if (!plan.at) {
        struct text made = plan_of(usual);
        plan = (struct text){ arena_copy(&arena, made.at, made.size), made.size };
    }
    return plan;
}

static struct text profile_of(void)
{
    struct lengths lengths = { .arena = &test_arena };
    for (int i = 0; i < 500; i++)
        lengths_add(&lengths, 20 + (i * 37) % 900 + (i % 50 ? 0 : 5000), 10);
    struct profile profile = { .tokenizer = "llama-3.2", .exact = true };
    struct profile_settings settings = { .batching = BATCHING_LONGEST };
    CHECK(!profile_finish(&profile, &test_arena, &lengths, &settings));
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    profile_write(&profile, &w);
    return out_view(&out);
}

static const char pilot[] =
    "{\"kind\":\"pilot\",\"version\":1,\"tokens_per_second\":{\"mean\":9100,\"low\":9000,"
    "\"high\":9200},\"warmup_steps\":3,\"steps\":40,\"verdict\":\"steady\",\"step_seconds\":"
    "{\"p50\":1.5,\"p90\":1.6,\"max\":2,\"series\":[9,4,2,1.5,1.5,1.6,1.4,1.5]},\"peak_bytes\":"
    "60000000000,\"stalls\":{\"data_seconds\":2}}";

static void add(struct report_input *input, struct text json, const char *name)
{
    enum err err = report_add(input, &test_arena, json, name);
    test_check(!err, err ? error_text() : "", __FILE__, __LINE__);
}

static struct text html(const struct report_input *input, const struct report_live *live)
{
    struct out out = { .arena = &test_arena };
    report_html(&out, &test_arena, input, live);
    return out_view(&out);
}

static bool holds(struct text text, const char *piece)
{
    return strstr(text_copy(&test_arena, text), piece) != NULL;
}

static struct wellformed check_page(struct text page)
{
    struct wellformed w;
    const char *problem = wellformed_check(&w, page);
    test_check(!problem, problem ? text_format(&test_arena, "%s at ...%.60s", problem, w.at) : "",
               __FILE__, __LINE__);
    return w;
}

static struct report_input *everything(void)
{
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    add(input, usual_plan(), "plan.json");
    add(input, profile_of(), "profile.json");
    add(input, TEXT(pilot), "pilot.json");
    return input;
}

// --- what is shown -----------------------------------------------------------

TEST(report_has_every_section_of_what_it_was_given)
{
    struct text page = html(everything(), NULL);
    static const char *const ids[] = { "answer",  "mistakes", "range",        "lengths",
                                       "packing", "memory",   "step",         "run",
                                       "scaling", "pilot",    "alternatives", "assumptions" };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        test_check(holds(page, text_format(&test_arena, "<section id=\"%s\"", ids[i])), ids[i],
                   __FILE__, __LINE__);
}

TEST(report_of_rl_shows_phases_the_split_of_gpus_and_lengths_of_answers)
{
    static const char request[] =
        "{\"model\":\"qwen2.5-7b\",\"gpu\":\"h100\",\"gpus\":16,\"sampler_gpus\":8,"
        "\"objective\":\"grpo\",\"async_steps\":1,\"steps\":50,\"search\":false,"
        "\"response_length\":\"600,1400,4096\"}";
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    add(input, plan_of(request), "plan.json");
    struct text page = html(input, NULL);
    check_page(page);
    CHECK(holds(page, "<section id=\"phases\""));
    CHECK(holds(page, "8 of 16 GPUs only sample"));
    CHECK(holds(page, "600,1400,4096 tokens") && holds(page, "(beside the rest)"));
    CHECK(!holds(html(everything(), NULL), "<section id=\"phases\"")); // of supervised tuning
}

TEST(report_shows_the_numbers_of_the_plan)
{
    const struct plan *plan = planning_make(usual);
    struct text page = html(everything(), NULL);
    CHECK(holds(page, text_format(&test_arena, "<span class=\"big\">%s</span>",
                                  text_hours(&test_arena, plan->forecast.gpu_hours.mid))));
    CHECK(holds(page, text_usd(&test_arena, plan->forecast.cost_usd.mid)) ||
          isnan(plan->forecast.cost_usd.mid));
    CHECK(holds(page, text_bytes(&test_arena, plan->estimate.memory.allocated_bytes)));
    CHECK(holds(page, text_bytes(&test_arena, plan->estimate.memory.reserved_bytes)));
    for (size_t i = 0; i < plan->assumption_count; i++)
        CHECK(holds(page, plan->assumptions[i].name));
    for (int i = 0; i < MEMORY_PARTS; i++)
        CHECK(plan->estimate.memory.parts[i] == 0 || holds(page, memory_part_names[i]));
}

TEST(report_is_one_wellformed_file_that_leads_nowhere)
{
    struct text page = html(everything(), NULL);
    struct wellformed w = check_page(page);
    CHECK(w.links == 0 && w.elements > 500);
    CHECK(!strstr(w.names, " script ") && !strstr(w.names, " img ") && !strstr(w.names, " link ") &&
          !strstr(w.names, " iframe "));
    CHECK(page.size < 2000000);
    CHECK(!holds(embedded_file("page.css"), "url(") &&
          !holds(embedded_file("page.css"), "@import"));
}

TEST(report_policy_allows_its_own_style_by_hash_and_nothing_else)
{
    struct text page = html(everything(), NULL);
    const char *at = strstr(text_copy(&test_arena, page), "<style>");
    const char *end = at ? strstr(at, "</style>") : NULL;
    CHECK(end != NULL);
    if (!end)
        return;
    struct out hash = { .arena = &test_arena };
    sha256_put_base64(&hash, (struct text){ at + 7, (size_t)(end - at - 7) });
    CHECK(holds(page,
                text_format(&test_arena, "style-src &#39;sha256-%s&#39;\"/>", out_string(&hash))));
    CHECK(holds(page, "default-src &#39;none&#39;"));
    CHECK(!holds(page, "unsafe-inline") && !holds(page, "script-src"));
}

TEST(report_with_what_if_contains_plan_module_and_script)
{
    struct report_live live = { .style = TEXT(".x { color: red; }"),
                                .markup = TEXT("<h2>What if</h2>"),
                                .script = TEXT("let a = 1 < 2;"),
                                .module = TEXT("AGFzbQ==") };
    struct text page = html(everything(), &live);
    check_page(page);
    CHECK(holds(page, "<section id=\"what-if\" aria-labelledby=\"what-if-title\">\n"
                      "<h2>What if</h2></section>"));
    CHECK(holds(page, "<script type=\"text/plain\" id=\"core-module\">AGFzbQ==</script>"));
    CHECK(holds(page, "<script>let a = 1 < 2;</script>"));
    struct out hash = { .arena = &test_arena };
    sha256_put_base64(&hash, live.script);
    CHECK(holds(page, text_format(&test_arena,
                                  "script-src &#39;wasm-unsafe-eval&#39; &#39;sha256-%s&#39;",
                                  out_string(&hash))));
    const char *data = strstr(text_copy(&test_arena, page), "id=\"report-plan\">");
    const char *end = data ? strstr(data, "</script>") : NULL;
    CHECK(end != NULL);
    struct json tree;
    if (end)
        CHECK(!json_read(&tree, &test_arena, (struct text){ data + 17, (size_t)(end - data - 17) },
                         "embedded"));
}

TEST(report_shows_one_section_for_the_page)
{
    struct out out = { .arena = &test_arena };
    report_sections(&out, &test_arena, everything(), "memory");
    struct text section = out_view(&out);
    check_page(section);
    CHECK(holds(section, "<section id=\"memory\"") && !holds(section, "<section id=\"answer\""));
}

static struct text html_of(const char *json)
{
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    add(input, text_of(json), "x.json");
    struct text page = html(input, NULL);
    check_page(page);
    return page;
}

TEST(report_has_a_badge_for_every_origin)
{
    for (int i = 0; i < ASSUMPTION_ORIGINS; i++) {
        const char *origin = assumption_origins[i];
        struct text page = html_of(text_format(
            &test_arena,
            "{\"kind\":\"plan\",\"version\":1,\"assumptions\":[{\"name\":\"a\",\"value\":1,"
            "\"unit\":\"s\",\"origin\":\"%s\"}]}",
            origin));
        test_check(holds(page, text_format(&test_arena, "<span class=\"origin %s\">%s</span>",
                                           origin, origin)),
                   origin, __FILE__, __LINE__);
    }
}

// A plan's document with that peak on a device of 80 GiB; a context of 1 GiB.
static struct text page_with_memory(double allocated_gib, double reserved_gib, double probability)
{
    const double gib = 1024.0 * 1024 * 1024;
    double total = (reserved_gib + 1) * gib;
    return html_of(text_format(
        &test_arena,
        "{\"kind\":\"plan\",\"version\":1,\"configuration\":{\"gpus\":1,\"gpu\":\"a100\"},"
        "\"gpu_hours\":{\"p10\":1,\"p50\":2,\"p90\":3},\"memory\":{\"fits\":%s,\"fit_probability\":"
        "%g,"
        "\"allocated_bytes\":%.0f,\"reserved_bytes\":%.0f,\"total_bytes\":%.0f,"
        "\"device_bytes\":%.0f,\"total_range_bytes\":{\"p10\":%.0f,\"p50\":%.0f,\"p90\":%.0f},"
        "\"moment\":\"loss\",\"parts\":[{\"name\":\"weights\",\"bytes\":%.0f}]}}",
        probability >= 0.5 ? "true" : "false", probability, allocated_gib * gib, reserved_gib * gib,
        total, 80 * gib, 0.8 * total, total, 1.26 * total, allocated_gib * gib));
}

TEST(report_says_allocated_and_reserved_and_whether_it_may_not_fit)
{
    // Fits, though nearly all of the device is reserved.
    struct text page = page_with_memory(57, 79, 0.97);
    CHECK(holds(page, ">57.0 GiB<") &&
          holds(page, "allocated, 79.0 GiB reserved, of 80.0 GiB: fits (97\u00a0%)<"));
    CHECK(holds(page, "It fits (97\u00a0%): peak 57.0 GiB allocated, 79.0 GiB reserved; the device "
                      "has 80.0 GiB"));
    CHECK(holds(page, "46.6 GiB – 72.8 GiB (80\u00a0% range)") && !holds(page, "may not fit"));
    CHECK(!holds(page, "in use"));
    page = page_with_memory(70, 79, 0.62);
    CHECK(holds(page, "of 80.0 GiB: may not fit (62\u00a0% that it does)"));
    CHECK(holds(page, "It may not fit (62\u00a0% that it does): peak 70.0 GiB allocated"));
    page = page_with_memory(90, 95, 0.2);
    CHECK(holds(page, "of 80.0 GiB: does not fit") &&
          holds(page, "It does not fit: peak 90.0 GiB"));
}

static struct text with_pilot(struct text plan, const char *json)
{
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    add(input, plan, "plan.json");
    add(input, text_of(json), "pilot.json");
    return html(input, NULL);
}

TEST(report_with_a_pilot_shows_the_plan_and_the_hours_as_the_pilot_measured)
{
    const struct plan *plan = planning_make(usual);
    const char *same = "{\"kind\":\"pilot\",\"version\":1,\"tokens_per_second\":{\"mean\":%.17g,"
                       "\"low\":1,\"high\":9},\"configuration\":{\"model\":\"llama-3.1-8b\","
                       "\"method\":\"lora\",\"stack\":\"hf-peft\",\"gpu\":\"h100-sxm\","
                       "\"gpus\":%d}}";
    double seconds = plan->forecast.middle.seconds[OVERHEAD_TRAINING];
    double rate = plan->chosen.workload.processed_tokens / seconds;
    // At the rate that the plan assumes the hours stay the same.
    struct text page = with_pilot(usual_plan(), text_format(&test_arena, same, rate, 8));
    const char *hours = text_hours(&test_arena, plan->forecast.gpu_hours.mid);
    CHECK(holds(page, text_format(&test_arena, "As the pilot measured</dt><dd>%s GPU h<", hours)));
    CHECK(holds(page, "planned before the pilot"));
    CHECK(holds(page, "gpuhours plan --plan plan.json --pilot pilot.json"));
    // At half of it they are longer, by training and evaluation only.
    page = with_pilot(usual_plan(), text_format(&test_arena, same, rate / 2, 8));
    CHECK(!holds(page, text_format(&test_arena, "<dd>%s GPU h<", hours)));
    // A start that took 600 s longer costs them too, on each GPU, and the weights are part of it.
    const double *parts = plan->forecast.middle.seconds;
    double wall = 0, start = parts[OVERHEAD_STARTUP] + parts[OVERHEAD_LOADING];
    for (int i = 0; i < OVERHEAD_KINDS; i++)
        wall += parts[i];
    const char *as_planned = text_format(&test_arena, same, rate, 8);
    const char *started = text_format(&test_arena, "%.*s,\"apart\":{\"startup_seconds\":%.17g}}",
                                      (int)strlen(as_planned) - 1, as_planned, start + 600);
    const char *longer =
        text_hours(&test_arena, plan->forecast.gpu_hours.mid * (wall + 600) / wall);
    page = with_pilot(usual_plan(), started);
    CHECK(holds(page, text_format(&test_arena, "measured</dt><dd>%s GPU h<", longer)));
    // A pilot of another configuration moves nothing here; plan --pilot transfers it.
    page = with_pilot(usual_plan(), text_format(&test_arena, same, rate, 1));
    CHECK(!holds(page, "As the pilot") && holds(page, "which ran another configuration"));
}

TEST(report_has_the_what_if_next_to_the_answer)
{
    struct report_live live = { .markup = TEXT("<h2>What if</h2>"), .script = TEXT("1") };
    const char *page = text_copy(&test_arena, html(everything(), &live));
    const char *answer = strstr(page, "<section id=\"answer\"");
    const char *what_if = strstr(page, "<section id=\"what-if\"");
    const char *next = strstr(page, "<section id=\"mistakes\"");
    CHECK(answer && what_if && next && answer < what_if && what_if < next);
}

// A hosts document with that many offers, the first two on the frontier.
static struct text many_offers(int count)
{
    struct out out = { .arena = &test_arena };
    out_put(&out, "{\"kind\":\"hosts\",\"version\":1,\"picks\":{\"recommended\":0},\"rows\":[");
    for (int i = 0; i < count; i++)
        out_put(&out,
                "%s{\"provider\":\"p%d\",\"instance\":\"i, %d\",\"kind\":\"spot\",\"gpu\":\"g\","
                "\"gpus\":1,\"pareto\":%s,\"elapsed_hours\":{\"p10\":1,\"p50\":%d,\"p90\":3},"
                "\"cost_usd\":{\"p10\":1,\"p50\":%d,\"p90\":3},\"time\":{\"seconds\":["
                "{\"name\":\"training\",\"seconds\":%d}]},\"list\":[{\"use\":1},{\"use\":2}]}",
                i ? "," : "", i, i, i < 2 ? "true" : "false", 1 + i % 37, 1 + i % 41, i);
    out_put(&out, "]}");
    return out_view(&out);
}

static size_t occurrences(struct text text, const char *piece)
{
    size_t count = 0;
    for (const char *at = text_copy(&test_arena, text); (at = strstr(at, piece)); at++)
        count++;
    return count;
}

TEST(report_thins_the_chart_of_a_thousand_offers)
{
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    add(input, many_offers(1000), "hosts.json");
    struct text page = html(input, NULL);
    size_t faint = occurrences(page, "class=\"faint f"); // in two widths
    CHECK(faint > 40 && faint <= 300);
    CHECK(occurrences(page, "class=\"mark ") == 2 * 2);
}

TEST(report_csv_of_offers_has_a_row_an_offer_and_a_column_a_term)
{
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    add(input, many_offers(30), "hosts.json");
    struct out out = { .arena = &test_arena };
    report_csv(&out, &test_arena, input);
    struct csv table;
    CHECK(!csv_read(&table, &test_arena, out_view(&out), "csv", ','));
    CHECK(table.rows == 30 && table.columns == 13);
    int instance = csv_column(&table, "instance"), cost = csv_column(&table, "cost_usd.p50");
    int training = csv_column(&table, "time.seconds.training.seconds");
    CHECK(instance >= 0 && cost >= 0 && training >= 0);
    CHECK(text_is(csv_cell(&table, 7, instance), "i, 7"));
    CHECK(text_is(csv_cell(&table, 7, cost), "8") && text_is(csv_cell(&table, 7, training), "7"));
}

// --- hostile strings ---------------------------------------------------------

// A document in which every string is the given one.
static void put_hostile(struct json_writer *w, const char *key, const struct json *from,
                        struct text evil)
{
    switch (from->kind) {
    case JSON_OBJECT:
        json_open(w, key, '{');
        for (size_t i = 0; i < from->count; i++) {
            const char *name = text_copy(&test_arena, from->items[2 * i].string);
            bool kept = !strcmp(name, "kind") && w->depth == 1;
            if (kept)
                json_put_text(w, name, from->items[2 * i + 1].string);
            else
                put_hostile(w, name, &from->items[2 * i + 1], evil);
        }
        json_close(w, '}');
        break;
    case JSON_ARRAY:
        json_open(w, key, '[');
        for (size_t i = 0; i < from->count; i++)
            put_hostile(w, NULL, &from->items[i], evil);
        json_close(w, ']');
        break;
    case JSON_STRING: json_put_text(w, key, evil); break;
    case JSON_NUMBER: json_put_number(w, key, from->number); break;
    case JSON_BOOL: json_put_bool(w, key, from->flag); break;
    default: json_put_string(w, key, NULL);
    }
}

static struct text hostile(struct text document, struct text evil)
{
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, document, "document"));
    struct out out = { .arena = &test_arena };
    struct json_writer w = { .out = &out };
    put_hostile(&w, NULL, &tree, evil);
    return out_view(&out);
}

static const char *const evils[] = {
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    "</style></script><svg onload=alert(1)>",
    "\xE2\x80\xAE"
    "exe.fdp\xE2\x81\xA6",
    "a\x01\x1b[31mb\x7f",
    "\xff\xfe\xc0\x80",
    "&lt;b&gt; &amp; ]]> <!-- -->",
    "```\n# not a heading\n| cell |",
    "=HYPERLINK(\"http://x\",\"y\")",
};

// Inside a fence all is text, and nothing there ends it; outside no tag is open.
static void check_markdown(struct text markdown)
{
    static const char fence[] = "````````";
    struct text line;
    bool fenced = false;
    while (text_next(&markdown, '\n', &line)) {
        const char *copy = text_copy(&test_arena, line);
        bool ends = !strcmp(copy, fence), begins = !strcmp(copy, "````````text");
        CHECK(!fenced || ends || strspn(copy + strspn(copy, " "), "`") < strlen(fence));
        CHECK(fenced || (!strstr(copy, "<script") && !strstr(copy, "<img") &&
                         !strstr(copy, "<svg") && strncmp(copy, "# not", 5)));
        fenced = begins || (fenced && !ends);
    }
    CHECK(!fenced);
}

static void check_hostile(struct text evil)
{
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    const char *name = text_copy(&test_arena, evil);
    add(input, hostile(usual_plan(), evil), name);
    add(input, hostile(usual_plan(), evil), "other.json");
    add(input, hostile(profile_of(), evil), name);
    add(input, hostile(TEXT(pilot), evil), name);
    struct report_live live = { .script = TEXT("1"),
                                .markup = TEXT("<p>x</p>"),
                                .module = TEXT("AA==") };
    struct text page = html(input, &live);
    struct wellformed w = check_page(page);
    CHECK(w.links == 0 && page.size < 2000000);
    CHECK(!strstr(w.names, " img "));
    struct out text = { .arena = &test_arena }, markdown = { .arena = &test_arena };
    struct out csv = { .arena = &test_arena }, json = { .arena = &test_arena };
    report_text(&text, &test_arena, input, 80, false);
    struct text rest = out_view(&text), line;
    while (text_next(&rest, '\n', &line)) {
        test_check(text_columns(line) <= 80, text_copy(&test_arena, line), __FILE__, __LINE__);
        for (size_t i = 0; i < line.size; i++)
            CHECK((unsigned char)line.at[i] >= 0x20 && line.at[i] != 0x7F);
    }
    report_markdown(&markdown, &test_arena, input);
    check_markdown(out_view(&markdown));
    report_csv(&csv, &test_arena, input);
    struct csv table;
    CHECK(!csv_read(&table, &test_arena, out_view(&csv), "csv", ','));
    CHECK(table.columns == 5);
    report_json(&json, &test_arena, input);
    struct json tree;
    CHECK(!json_read(&tree, &test_arena, out_view(&json), "json"));
}

TEST(report_shows_hostile_strings_as_text)
{
    for (size_t i = 0; i < sizeof evils / sizeof *evils; i++)
        check_hostile(text_of(evils[i]));
}

TEST(report_shortens_labels_of_a_megabyte)
{
    char *label = arena_alloc(&test_arena, 1 << 20);
    memset(label, 'W', (1 << 20) - 1);
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    struct text evil = { label, (1 << 20) - 1 };
    const char json[] = "{\"kind\":\"plan\",\"version\":1,\"configuration\":{\"model\":\"%s\","
                        "\"gpu\":\"%s\",\"gpus\":2},\"gpu_hours\":{\"p10\":1,\"p50\":2,\"p90\":3},"
                        "\"warnings\":[{\"code\":\"%s\",\"text\":\"%s\"}]}";
    struct out document = { .arena = &test_arena };
    out_put(&document, json, label, label, label, label);
    add(input, out_view(&document), label);
    struct text page = html(input, NULL);
    check_page(page);
    CHECK(page.size < 100000);
    CHECK(holds(page, "WWW…"));
    (void)evil;
}

// --- odd documents -----------------------------------------------------------

static void check_refused(const char *json, const char *why)
{
    struct report_input input = { 0 };
    CHECK(report_add(&input, &test_arena, text_of(json), "x.json") == ERR_INPUT);
    test_check(strstr(error_text(), why) != NULL, error_text(), __FILE__, __LINE__);
    CHECK(!strchr(error_text(), '\n') && !strchr(error_text(), 0x1b));
}

TEST(report_refuses_what_it_cannot_show_with_a_sentence)
{
    check_refused("{\"kind\":\"plan\",\"version\":1,", "x.json");
    check_refused("[1,2]", "is not a gpuhours document");
    check_refused("{}", "is not a gpuhours document");
    check_refused("{\"kind\":\"memory\",\"version\":1}", "has kind \"memory\"");
    check_refused("{\"kind\":\"\\u001b[31m\",\"version\":1}", "has kind");
    check_refused("{\"kind\":\"plan\",\"version\":2}", "version 2");
    check_refused("", "x.json");
}

TEST(report_of_any_cut_document_is_a_page_or_a_refusal)
{
    struct text whole = usual_plan();
    for (size_t size = 1; size < whole.size; size += 1 + size / 7) {
        struct report_input input = { 0 };
        CHECK(report_add(&input, &test_arena, (struct text){ whole.at, size }, "cut") == ERR_INPUT);
    }
}

// Numbers that no program writes, and members of other types.
TEST(report_of_odd_values_is_wellformed)
{
    static const char *const odd[] = {
        "{\"kind\":\"plan\",\"version\":1}",
        "{\"kind\":\"plan\",\"version\":1,\"memory\":[],\"gpu_hours\":7,\"drivers\":{\"a\":1},"
        "\"step\":\"x\",\"scaling\":[1,2,3],\"warnings\":[null,{}],\"assumptions\":[[],{}]}",
        "{\"kind\":\"plan\",\"version\":1,\"gpu_hours\":{\"p10\":1e308,\"p50\":-1e308,\"p90\":0},"
        "\"memory\":{\"total_bytes\":1e308,\"device_bytes\":-5,\"parts\":[{\"bytes\":1e308},"
        "{\"bytes\":1e308}]},\"step\":{\"parts\":[{\"seconds\":1e-300}],\"operations\":[{\"kind\":"
        "\"product\",\"flops\":1e300,\"bytes\":1e-300,\"seconds\":1e-300}],"
        "\"sustained_flops_per_second\":1e300,\"memory_bytes_per_second\":1e-300}}",
        "{\"kind\":\"profile\",\"version\":1,\"length\":{\"histogram\":[[1,1e300],[1e300,1],[0,0],"
        "[\"x\"],[]]},\"contexts\":[{},null,7]}",
        "{\"kind\":\"hosts\",\"version\":1,\"rows\":[{},7,null],\"picks\":{\"recommended\":9e99}}",
        "{\"kind\":\"pilot\",\"version\":1,\"step_seconds\":{\"series\":[\"a\",{},1e999]}}",
        "{\"kind\":\"run\",\"version\":1,\"planned\":{\"gpu_hours\":{}}}",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
        if (report_add(input, &test_arena, text_of(odd[i]), "odd.json"))
            continue; // 1e999 is no number
        check_page(html(input, NULL));
        struct out text = { .arena = &test_arena }, json = { .arena = &test_arena };
        report_text(&text, &test_arena, input, 80, true);
        report_markdown(&text, &test_arena, input);
        report_csv(&text, &test_arena, input);
        report_json(&json, &test_arena, input);
        struct json tree;
        CHECK(!json_read(&tree, &test_arena, out_view(&json), "report"));
    }
}

TEST(report_survives_documents_with_bytes_changed_at_random)
{
    struct text whole = usual_plan();
    srand(7);
    for (int i = 0; i < 60; i++) {
        struct arena arena = { 0 };
        char *copy = arena_copy(&arena, whole.at, whole.size);
        for (int k = 0; k < 20; k++)
            copy[rand() % (int)whole.size] = "0123456789e-.[]{}\",:nt"[rand() % 22];
        struct report_input input = { 0 };
        struct out out = { .arena = &arena };
        if (!report_add(&input, &arena, (struct text){ copy, whole.size }, "noise")) {
            report_html(&out, &arena, &input, NULL);
            check_page(out_view(&out));
        }
        arena_release(&arena);
    }
}

// --- comparing ---------------------------------------------------------------

TEST(report_of_two_plans_begins_with_what_differs)
{
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    add(input, usual_plan(), "a.json");
    add(input,
        plan_of(
            "{\"model\":\"llama-3.1-8b\",\"tokens\":\"21.4M\",\"epochs\":3,\"method\":\"qlora\","
            "\"gpu\":\"h100-sxm\",\"gpus\":8,\"stack\":\"hf-peft\"}"),
        "b.json");
    struct text page = html(input, NULL);
    check_page(page);
    const char *text = text_copy(&test_arena, page);
    const char *compare = strstr(text, "<section id=\"compare\""),
               *first = strstr(text, "<section");
    CHECK(compare && compare == first);
    const char *setting = compare ? strstr(compare, "<bdi>method</bdi>") : NULL;
    CHECK(setting && strstr(setting, "qlora"));
    // Settings that are the same are not differences.
    const char *end = compare ? strstr(compare, "</section>") : NULL;
    const char *model = compare ? strstr(compare, "<bdi>model</bdi>") : NULL;
    CHECK(!model || model > end);
    CHECK(strstr(text, "<section id=\"answer\"") && strstr(text, "<section id=\"answer-2\""));
}

TEST(report_csv_of_plans_has_a_row_a_key_and_a_column_a_document)
{
    struct report_input *input = ARENA_NEW(&test_arena, struct report_input, 1);
    add(input, usual_plan(), "a.json");
    add(input, usual_plan(), "b.json");
    struct out out = { .arena = &test_arena };
    report_csv(&out, &test_arena, input);
    struct csv table;
    CHECK(!csv_read(&table, &test_arena, out_view(&out), "csv", ','));
    CHECK(table.columns == 3 && table.rows > 200);
    double expected = planning_make(usual)->forecast.gpu_hours.mid;
    bool found = false, part = false;
    for (size_t i = 0; i < table.rows; i++) {
        if (text_is(csv_cell(&table, i, 0), "gpu_hours.p50")) {
            double value = NAN;
            CHECK(!text_read_number(&value, csv_cell(&table, i, 1)));
            CHECK_NEAR(value, expected, 1e-12);
            CHECK(text_equal(csv_cell(&table, i, 1), csv_cell(&table, i, 2)));
            found = true;
        }
        part |= text_is(csv_cell(&table, i, 0), "memory.parts.weights.bytes");
    }
    CHECK(found && part);
}
