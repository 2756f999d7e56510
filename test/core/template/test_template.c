// SPDX-License-Identifier: Apache-2.0
// Templates, compared with the output of jinja2 (test/data/templates/README.md).

#include "core/template/template.h"
#include "host/file.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

#define FOLDER "test/data/templates/"

static struct text slurp(const char *path)
{
    struct file file;
    if (file_open(&file, path))
        return TEXT("");
    struct text text = { arena_copy(&test_arena, file.text.at, file.text.size), file.text.size };
    file_close(&file);
    return text;
}

static struct template_value read_json(const char *path)
{
    struct template_value value = { 0 };
    CHECK(template_value_read(&value, &test_arena, slurp(path), path) == OK);
    return value;
}

static struct text member(struct template_value object, const char *key)
{
    const struct template_value *value = template_value_find(object.dict, text_of(key));
    return value && value->kind == TEMPLATE_STRING ? value->string : (struct text){ 0 };
}

static void set_variables(struct template_run *run, struct template_value variables)
{
    struct template_value none = { .kind = TEMPLATE_NONE };
    run->date = (struct template_date){ .year = 2024, .month = 7, .day = 26 };
    template_set(run, "tools", none);
    template_set(run, "documents", none);
    template_set(run, "add_generation_prompt", template_value_flag(false));
    template_set(run, "bos_token", template_value_string(TEXT("<s>")));
    template_set(run, "eos_token", template_value_string(TEXT("</s>")));
    for (size_t i = 0; variables.kind == TEMPLATE_DICT && i < variables.dict->count; i++)
        template_set(run, text_copy(&test_arena, variables.dict->entries[i].key.string),
                     variables.dict->entries[i].value);
}

static bool spans_equal(const struct template_run *run, const struct template_list *wanted)
{
    if (run->span_count != wanted->count)
        return false;
    for (size_t i = 0; i < wanted->count; i++) {
        const struct template_value *pair = wanted->items[i].list->items;
        if (run->spans[i].start != (size_t)pair[0].whole ||
            run->spans[i].end != (size_t)pair[1].whole)
            return false;
    }
    return true;
}

// Renders one case and compares; prints its label and both texts if they differ.
static void hold(struct text source, struct template_value variables, struct template_value wanted,
                 const char *name)
{
    struct out out = { .arena = &test_arena };
    struct template_run run = { 0 };
    const struct template *template;
    const struct template_value *text = template_value_find(wanted.dict, TEXT("text"));
    enum err err = template_compile(&template, &test_arena, source, name);
    bool good = err == (text ? OK : ERR_INPUT);
    if (!err) {
        template_run_init(&run, template);
        set_variables(&run, variables);
        err = template_render(&run, &out);
        good = text ? !err && text_equal(out_view(&out), text->string) &&
                          spans_equal(&run, template_value_find(wanted.dict, TEXT("spans"))->list)
                    : err == ERR_INPUT;
        template_run_release(&run);
    }
    CHECK(good);
    if (!good)
        printf("%s\n  wanted %.*s\n  found  %.*s (%s)\n", name, text ? (int)text->string.size : 8,
               text ? text->string.at : "an error", TEXT_ARGS(out_view(&out)),
               err ? error_text() : "");
}

TEST(templates_render_byte_for_byte_as_jinja2_does)
{
    struct template_value cases = read_json(FOLDER "expected.json");
    struct template_value conversations = read_json(FOLDER "conversations.json");
    struct text errors = slurp(FOLDER "errors.txt"), lines[100];
    size_t line_count = 0, checked = 0;
    while (line_count < 100 && text_next(&errors, '\n', &lines[line_count]))
        line_count++;
    for (size_t i = 0; i < cases.list->count; i++) {
        struct template_value wanted = cases.list->items[i];
        struct text file = member(wanted, "template"), name = member(wanted, "case");
        const struct template_value *line = template_value_find(wanted.dict, TEXT("line"));
        const char *label = text_format(&test_arena, "%.*s %.*s", TEXT_ARGS(file), TEXT_ARGS(name));
        if (line)
            label = text_format(&test_arena, "errors.txt:%lld", (long long)line->whole + 1);
        struct text source = line ? lines[line->whole]
                                  : slurp(text_format(&test_arena, FOLDER "%.*s", TEXT_ARGS(file)));
        for (size_t k = 0; k < conversations.list->count; k++) {
            struct template_value conversation = conversations.list->items[k];
            if (!(line ? k == 2 : text_equal(member(conversation, "name"), name)))
                continue;
            hold(source, *template_value_find(conversation.dict, TEXT("variables")), wanted, label);
            checked++;
        }
    }
    CHECK(checked == cases.list->count && checked > 200);
}

static enum err compile(const char *source)
{
    const struct template *template;
    return template_compile(&template, &test_arena, text_of(source), "t");
}

TEST(an_unsupported_construct_is_refused_by_name_and_line)
{
    static const char *const cases[][2] = {
        { "\n{% include 'x' %}", "t:2: the statement include is not supported" },
        { "{% extends 'x' %}", "the statement extends is not supported" },
        { "{% call m() %}{% endcall %}", "the statement call is not supported" },
        { "{% for x in y recursive %}{% endfor %}", "recursive loops are not supported" },
        { "{{ x | urlencode }}", "the filter urlencode is not supported" },
        { "{{ f(*x) }}", "*arguments in a call are not supported" },
        { "{{ '\\N{DASH}' }}", "\\N{" },
        { "{{ 0x1F }}", "numbers that are not decimal are not supported" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(compile(cases[i][0]) == ERR_INPUT);
        CHECK(strstr(error_text(), cases[i][1]) != NULL);
    }
}

static enum err render_limited(const char *source, struct template_limits limits)
{
    const struct template *template;
    struct template_run run;
    struct out out = { .arena = &test_arena };
    CHECK(template_compile(&template, &test_arena, text_of(source), "t") == OK);
    template_run_init(&run, template);
    run.limits = limits;
    enum err err = template_render(&run, &out);
    template_run_release(&run);
    return err;
}

TEST(templates_that_loop_grow_or_nest_forever_are_stopped)
{
    struct template_limits limits = { 100000, 1 << 20, 1 << 20, 100 };
    static const char *const cases[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ 'twelve bytes' }}{% endfor %}",
        "{% set n = namespace(s='x') %}{% for a in range(99) %}{% set n.s = n.s + n.s %}{% endfor "
        "%}",
        "{% set n = namespace(s=[1]) %}{% for a in range(99) %}{% set n.s = n.s + n.s %}{% endfor "
        "%}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'x' * 999999999 }}",
        "{{ ('x' * 999999) | replace('x', 'y' * 99999) }}",
        "{% set n = namespace(s='x') %}{% for a in range(99) %}{% set n.s %}{{ n.s }}{{ n.s }}"
        "{% endset %}{% endfor %}",
        "{{ [1] * 999999999 }}",
        "{{ 'x'.ljust(99999999) }}",
        "{% for a in range(99999) %}{{ 'y' * 1000 ~ a }}{% endfor %}",
        "{% set n = namespace(s=1) %}{% for a in range(9999) %}{% set n.s = [n.s] %}{% endfor %}"
        "{{ n.s }}",
        "{% set n = namespace(s=1, t=1) %}{% for a in range(9999) %}{% set n.s = [n.s] %}"
        "{% set n.t = [n.t] %}{% endfor %}{{ n.s == n.t }}",
        "{% set n = namespace(s=1) %}{% for a in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}"
        "{{ n.s | tojson }}",
        "{% set n = namespace(s=1, t=1) %}{% for a in range(99) %}{% set n.s = [n.s, n.s] %}"
        "{% set n.t = [n.t, n.t] %}{% endfor %}{{ n.s == n.t }}{{ n.s in [n.t] }}{{ n.s < n.t }}",
        "{% set s = 'a' * 99999 %}{% for a in range(99999) %}{{ 'b' in s }}{% endfor %}",
        "{% set s = 'a' * 99999 %}{% for a in range(99999) %}{{ s | length }}{% endfor %}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(render_limited(cases[i], limits) == ERR_INPUT);
    CHECK(render_limited("{% for a in range(999) %}{{ a }}{% endfor %}", limits) == OK);
}

TEST(deeply_nested_source_is_refused)
{
    struct out out = { .arena = &test_arena };
    for (int i = 0; i < 100000; i++)
        out_put(&out, "{%% if x %%}");
    CHECK(compile(out_string(&out)) == ERR_INPUT);
    struct out brackets = { .arena = &test_arena };
    out_put(&brackets, "{{ ");
    out_repeat(&brackets, '(', 100000);
    CHECK(compile(out_string(&brackets)) == ERR_INPUT);
    struct out signs = { .arena = &test_arena };
    out_put(&signs, "{{ ");
    out_repeat(&signs, '-', 100000);
    CHECK(compile(out_string(&signs)) == ERR_INPUT);
}

TEST(templates_with_more_variables_than_any_has_are_refused_at_once)
{
    struct out source = { .arena = &test_arena };
    for (int i = 0; i < 55000; i++)
        out_put(&source, "{%% set n%d = 1 %%}", i);
    const struct template *template;
    CHECK(template_compile(&template, &test_arena, out_view(&source), "t") == ERR_INPUT);
    CHECK(strstr(error_text(), "more than 2000 variables"));
}

TEST(a_run_renders_again_with_the_values_set)
{
    const struct template *template;
    struct template_run run;
    struct out out = { .arena = &test_arena };
    CHECK(!template_compile(&template, &test_arena, TEXT("{% set x = x ~ '!' %}{{ x }}"), "t"));
    template_run_init(&run, template);
    template_set(&run, "x", template_value_string(TEXT("a")));
    CHECK(!template_render(&run, &out) && !template_render(&run, &out));
    template_set(&run, "x", template_value_string(TEXT("b")));
    CHECK(!template_render(&run, &out));
    CHECK(text_is(out_view(&out), "a!a!b!"));
    CHECK(template_uses(template, "x") && !template_uses(template, "y"));
    template_run_release(&run);
}

TEST(a_template_that_needs_the_date_gets_the_one_set_or_an_error)
{
    const struct template *template;
    struct template_run run;
    struct out out = { .arena = &test_arena };
    CHECK(!template_compile(&template, &test_arena, TEXT("{{ strftime_now('%d %b %Y') }}"), "t"));
    template_run_init(&run, template);
    CHECK(template_render(&run, &out) == ERR_INPUT && strstr(error_text(), "--date"));
    run.date = (struct template_date){ .year = 2026, .month = 2, .day = 3 };
    CHECK(!template_render(&run, &out) && text_is(out_view(&out), "03 Feb 2026"));
    template_run_release(&run);
}

TEST(json_objects_keep_the_first_position_and_the_last_value_of_a_key)
{
    struct template_value value;
    struct template_budget budget = template_value_budget();
    struct out text = { .arena = &test_arena }, printed = { .arena = &test_arena };
    out_put(&text, "{\"a\": 1, \"b\": 2, \"a\": 3");
    for (int i = 0; i < 40; i++)
        out_put(&text, ", \"k%d\": %d", i % 20, i);
    out_put(&text, "}");
    CHECK(!template_value_read(&value, &test_arena, out_view(&text), "t"));
    CHECK(value.dict->count == 22 && value.dict->entries[0].value.whole == 3);
    CHECK(template_value_find(value.dict, TEXT("k7"))->whole == 27);
    CHECK(!template_value_read(&value, &test_arena, TEXT("[-9, 1.0, 1e2, 99999999999999999999]"),
                               "t"));
    CHECK(template_value_print(&printed, value, &budget));
    CHECK(text_is(out_view(&printed), "[-9, 1.0, 100.0, 99999999999999999999]"));
}
