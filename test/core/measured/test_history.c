// SPDX-License-Identifier: Apache-2.0
#include "core/measured/history.h"
#include "test/test.h"

#include <math.h>
#include <string.h>

static const char *const plan_text =
    "{ \"kind\": \"plan\", \"version\": 1, \"workload\": { \"processed_tokens\": 3e6 },\n"
    "  \"tokens_per_second\": { \"p10\": 800, \"p50\": 1000, \"p90\": 1300 },\n"
    "  \"roofline_tokens_per_second\": 1100,\n"
    "  \"wall_hours\": { \"p10\": 0.8, \"p50\": 1, \"p90\": 1.5 },\n"
    "  \"gpu_hours\": { \"p10\": 1.6, \"p50\": 2, \"p90\": 3 },\n"
    "  \"configuration\": { \"model\": \"llama-3.1-8b\", \"method\": \"lora\", \"stack\":\n"
    "    \"hf-peft\", \"gpu\": \"h100-sxm\", \"gpus\": 2, \"context\": 2048, \"note\": \"a  b\" } "
    "}\n";

static struct history_entry read_text(const char *text)
{
    struct history_entry entry;
    CHECK(!history_read(&entry, &test_arena, text_of(text), "test"));
    return entry;
}

TEST(history_of_a_plan_has_its_configuration_and_forecast)
{
    struct history_entry e = read_text(plan_text);
    CHECK(e.kind == HISTORY_PLAN && !strcmp(e.model, "llama-3.1-8b") && e.gpus == 2);
    CHECK(!strcmp(e.key, "llama-3.1-8b/lora/hf-peft/h100-sxm×2/2048"));
    CHECK(e.tokens == 3e6 && e.gpu_hours.high == 3 && e.wall_hours.low == 0.8);
    CHECK(e.tokens_per_second.mid == 1000 && e.roofline_tokens_per_second == 1100);
    CHECK(isnan(e.actual_gpu_hours));
    CHECK(!strncmp(e.configuration, "{\"model\":\"llama-3.1-8b\",", 24));
    CHECK(strstr(e.configuration, "\"a  b\"")); // blanks inside strings stay
    CHECK(strlen(e.uid) == 16);
}

TEST(history_of_a_profile_goes_by_its_files_and_has_its_tokenizer)
{
    struct history_entry one =
        read_text("{\"kind\":\"profile\",\"tokens\":15,\"tokenizer\":{\"name\":\"Qwen\"},"
                  "\"files\":[{\"name\":\"data/train.jsonl\"}]}");
    CHECK(!strcmp(one.name, "train.jsonl") && !strcmp(one.model, "Qwen") && one.tokens == 15);
    struct history_entry three =
        read_text("{\"kind\":\"profile\",\"files\":[{\"name\":\"a.jsonl\"},{\"name\":\"b\"},{}]}");
    CHECK(!strcmp(three.name, "a.jsonl and 2 more") && !three.model);
    static const char *const odd[] = { "[]", "{}", "7", "[7]", "[{\"name\":1}]" };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct history_entry none =
            read_text(text_format(&test_arena, "{\"kind\":\"profile\",\"files\":%s}", odd[i]));
        CHECK(!none.name);
    }
}

TEST(history_refuses_a_document_with_a_zero_byte)
{
    static const char in[] = "{\"kind\":\"pilot\",\"configuration\":{\"m\0odel\":\"m\"}}";
    struct history_entry entry;
    CHECK(history_read(&entry, &test_arena, (struct text){ in, sizeof in - 1 }, "p") == ERR_INPUT);
    CHECK(strstr(error_text(), "zero byte"));
}

// Two marks were once read as none: the entry could then not be read again from an export.
TEST(history_drops_one_byte_order_mark_and_refuses_two)
{
    struct history_entry entry;
    struct text once = text_of("\xEF\xBB\xBF{\"kind\":\"pilot\"}");
    struct text twice = text_of("\xEF\xBB\xBF\xEF\xBB\xBF{\"kind\":\"pilot\"}");
    CHECK(!history_read(&entry, &test_arena, once, "pilot.json"));
    CHECK(entry.document[0] == '{');
    CHECK(history_read(&entry, &test_arena, twice, "pilot.json") == ERR_INPUT);
}

TEST(history_of_the_same_document_is_the_same_and_of_another_is_not)
{
    struct history_entry a = read_text(plan_text), b = read_text(plan_text);
    CHECK(!strcmp(a.uid, b.uid));
    b.name = "night"; // is no other plan
    history_seal(&b, &test_arena);
    CHECK(!strcmp(a.uid, b.uid));
    b.document = "{}";
    history_seal(&b, &test_arena);
    CHECK(strcmp(a.uid, b.uid));
}

TEST(history_of_a_pilot_and_of_a_run_have_actuals)
{
    struct history_entry pilot =
        read_text("{\"kind\":\"pilot\",\"tokens_per_second\":{\"mean\":950,"
                  "\"low\":940,\"high\":960},\"stack\":\"hf\"}");
    CHECK(pilot.actual_tokens_per_second == 950 && !strcmp(pilot.stack, "hf"));
    CHECK(isnan(pilot.actual_gpu_hours) && isnan(pilot.tokens_per_second.mid) && !pilot.key);
    struct history_entry run =
        read_text("{\"kind\":\"run\",\"gpu_hours\":2.5,\"wall_hours\":null}");
    CHECK(run.actual_gpu_hours == 2.5 && isnan(run.actual_wall_hours));
    struct history_entry plan = read_text(plan_text);
    history_answer(&run, &plan, true);
    CHECK(!strcmp(run.plan, plan.uid) && run.gpu_hours.mid == 2 && !strcmp(run.gpu, "h100-sxm"));
    history_answer(&pilot, &plan, true);
    CHECK(isnan(pilot.gpu_hours.mid) && pilot.tokens_per_second.mid == 1000);
    CHECK(!strcmp(pilot.stack, "hf")); // what it knows itself stays
}

TEST(history_of_the_same_configuration_takes_the_rate_but_not_the_hours)
{
    struct history_entry run = read_text("{\"kind\":\"run\",\"gpu_hours\":2.5}");
    struct history_entry plan = read_text(plan_text);
    history_answer(&run, &plan, false);
    CHECK(run.tokens_per_second.mid == 1000 && isnan(run.gpu_hours.mid));
}

// A run of the engine on a laptop, with the name of a plan for H100s, once slowed later plans.
TEST(history_of_a_run_elsewhere_has_no_forecast_of_its_plan)
{
    struct history_entry run =
        read_text("{\"kind\":\"run\",\"tokens_per_second\":12,\"wall_hours\":9,"
                  "\"configuration\":{\"model\":\"m\",\"gpu\":\"cpu\",\"gpus\":1}}");
    struct history_entry plan = read_text(plan_text);
    history_answer(&run, &plan, true);
    CHECK(!strcmp(run.plan, plan.uid) && !strcmp(run.method, "lora"));
    CHECK(isnan(run.roofline_tokens_per_second) && isnan(run.tokens_per_second.mid) &&
          isnan(run.wall_hours.mid));
    CHECK(!strcmp(history_lacks(&run), "it ran on a CPU"));
}

TEST(history_refuses_documents_of_other_programs)
{
    static const char *const bad[] = {
        "[]", "{}", "{\"kind\":\"poem\"}", "{\"kind\":3}", "{\"kind\":\"plan\"", ""
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct history_entry entry;
        CHECK(history_read(&entry, &test_arena, text_of(bad[i]), "test") == ERR_INPUT);
    }
}

TEST(history_survives_members_of_other_kinds)
{
    struct history_entry e = read_text("{\"kind\":\"plan\",\"configuration\":[1],\"gpu_hours\":7,"
                                       "\"workload\":3,\"tokens_per_second\":\"x\"}");
    CHECK(!e.model && !e.key && isnan(e.gpu_hours.mid) && isnan(e.tokens));
    e = read_text("{\"kind\":\"plan\",\"configuration\":{\"gpus\":-1,\"context\":1e300,"
                  "\"model\":5},\"tokenizer\":[]}");
    CHECK(e.gpus == 0 && e.context == 0 && !e.model);
}

TEST(history_written_and_read_again_is_the_same)
{
    struct history_entry entries[2] = { read_text(plan_text),
                                        read_text("{\"kind\":\"run\",\"gpu_hours\":2.5}") };
    entries[0].at = entries[1].at = "2026-11-15T11:20:05Z";
    entries[1].name = "a \"name\", with = signs";
    struct out out = { .arena = &test_arena };
    history_write(entries, 2, &out);
    struct history_entry *back;
    size_t count;
    CHECK(!history_read_all(&back, &count, &test_arena, out_view(&out), "export"));
    CHECK(count == 2);
    for (size_t i = 0; i < count; i++)
        for (const struct field *f = history_fields; f->name; f++) {
            const char *at = (const char *)&entries[i] + f->offset;
            const char *to = (const char *)&back[i] + f->offset;
            CHECK(field_known(f, &entries[i]) == field_known(f, &back[i]));
            if (f->kind == FIELD_TEXT && *(const char *const *)at)
                CHECK(!strcmp(*(const char *const *)at, *(const char *const *)to));
            else if (f->kind == FIELD_NUMBER && field_known(f, &entries[i]))
                CHECK(*(const double *)at == *(const double *)to);
        }
}

TEST(history_import_refuses_broken_files)
{
    static const char *const bad[] = { "",
                                       "[]",
                                       "{}",
                                       "{\"runs\":3}",
                                       "{\"runs\":[1]}",
                                       "{\"runs\":[{}]}",
                                       "{\"runs\":[{\"uid\":\"x\"}]",
                                       "{\"runs\":[{\"uid\":\"0123456789abcdef\"}]}" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct history_entry *entries;
        size_t count;
        CHECK(history_read_all(&entries, &count, &test_arena, text_of(bad[i]), "test"));
    }
}

TEST(history_csv_quotes_cells_and_defuses_formulas)
{
    struct history_entry e = read_text("{\"kind\":\"run\",\"gpu_hours\":2.5}");
    e.name = "=1+1", e.model = "a,b \"c\"";
    struct out out = { .arena = &test_arena };
    history_write_csv(&e, 1, &test_arena, &out);
    struct csv csv;
    CHECK(!csv_read(&csv, &test_arena, out_view(&out), "export", ','));
    CHECK(csv.rows == 1);
    CHECK(text_is(csv_cell(&csv, 0, csv_column(&csv, "name")), "'=1+1"));
    CHECK(text_is(csv_cell(&csv, 0, csv_column(&csv, "model")), "a,b \"c\""));
    CHECK(text_is(csv_cell(&csv, 0, csv_column(&csv, "actual_gpu_hours")), "2.5"));
}

static struct history_entry ended(double tokens_per_second, double gpu_hours)
{
    struct history_entry e = read_text("{\"kind\":\"run\"}"), plan = read_text(plan_text);
    history_answer(&e, &plan, true);
    e.actual_tokens_per_second = tokens_per_second;
    e.actual_gpu_hours = gpu_hours;
    return e;
}

TEST(history_coverage_counts_what_lay_inside_by_stack_and_gpu)
{
    struct history_entry entries[4] = { ended(900, 2.1), ended(1400, 5), ended(NAN, 1.6),
                                        read_text(plan_text) };
    struct history_coverage all = history_coverage(&test_arena, entries, 4, NULL, NULL);
    CHECK(all.tokens_per_second.n == 2 && all.tokens_per_second.inside == 1);
    CHECK(all.gpu_hours.n == 3 && all.gpu_hours.inside == 2 && all.wall_hours.n == 0);
    CHECK_NEAR(all.gpu_hours.median_error, 1.25, 1e-12); // of 1.05, 1.25 and 2.5
    struct history_coverage none = history_coverage(&test_arena, entries, 4, "unsloth", NULL);
    CHECK(none.gpu_hours.n == 0 && none.tokens_per_second.n == 0);
    CHECK(history_coverage(&test_arena, entries, 4, "hf-peft", "h100-sxm").gpu_hours.n == 3);
}
