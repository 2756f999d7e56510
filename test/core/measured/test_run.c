// SPDX-License-Identifier: Apache-2.0
#include "core/measured/run.h"
#include "test/core/knowledge.h"

static const char header[] =
    "id,source,model,method,precision,seq_len,packed,micro_batch,parallelism,framework,gpu,n_gpus,"
    "lora_targets,notes,mem_kind\n";

static enum err setup_of(struct setup *setup, struct run **run, const char *row)
{
    struct knowledge k = knowledge_open();
    size_t count;
    struct text csv = text_of(text_format(&test_arena, "%s%s\n", header, row));
    TRY(run_read(run, &count, &test_arena, csv, "runs.csv"));
    return run_setup(setup, &test_arena, *run, &k.catalog, k.stacks, k.stack_count);
}

TEST(run_maps_a_published_row_to_our_terms)
{
    struct setup setup;
    struct run *run;
    CHECK(!setup_of(&setup, &run,
                    "X-1,\"org/repo@1234 README, table\",Llama-2-70B,lora,fp8,8192,yes,1,tp4 dp2,"
                    "NeMo/Megatron (TransformerEngine),H100-SXM-80GB,8,\"attention (qkv,o)\",,"));
    CHECK(text_is(run_source(run), "org/repo"));
    CHECK(setup.recipe.method == RECIPE_LORA && setup.recipe.precision == RECIPE_FP8);
    CHECK(!strcmp(setup.recipe.targets, "attention"));
    CHECK(setup.layout.tensor == 4 && setup.layout.data == 2);
    CHECK(!strcmp(setup.stack->name, "nemo") && !strcmp(setup.gpu->name, "h100-sxm"));
}

TEST(run_reads_quantised_bases_from_the_precision)
{
    struct setup setup;
    struct run *run;
    CHECK(!setup_of(&setup, &run,
                    "X-2,o/r,Mistral-7B,lora,int8+bf16,512,yes,4,single,axolotl,,1,all linear,,"));
    CHECK(setup.recipe.method == RECIPE_QLORA && setup.recipe.quantization == RECIPE_INT8);
    CHECK(setup.gpu == NULL); // memory can still be said
}

TEST(run_of_an_unknown_framework_runs_as_transformers_do)
{
    struct setup setup;
    struct run *run;
    CHECK(!setup_of(&setup, &run,
                    "X-5,o/r,Mistral-7B,lora,bf16,512,yes,4,single,NewTrainer,A100-80GB,1,,,"));
    CHECK(!strcmp(setup.stack->name, "hf-peft"));
    CHECK(!setup_of(&setup, &run,
                    "X-6,o/r,Mistral-7B,full,bf16,512,yes,4,single,NewTrainer,A100-80GB,1,,,"));
    CHECK(!strcmp(setup.stack->name, "hf"));
}

TEST(run_says_why_it_cannot_map_a_row)
{
    struct setup setup;
    struct run *run;
    CHECK(setup_of(&setup, &run,
                   "X-3,o/r,Nosuch-9B,lora,bf16,512,yes,4,single,axolotl,A100-80GB,1,,,"));
    CHECK(strstr(error_text(), "Nosuch-9B"));
    CHECK(setup_of(&setup, &run,
                   "X-4,o/r,Mistral-7B,magic,bf16,512,yes,4,single,axolotl,A100-80GB,1,,,"));
    CHECK(strstr(error_text(), "magic"));
}

TEST(run_compares_memory_with_the_reading_the_source_quotes)
{
    struct memory memory = { .allocated_bytes = 1, .reserved_bytes = 2, .total_bytes = 3 };
    struct run run = { .mem_kind = "allocated" };
    CHECK(run_memory(&run, &memory) == 1);
    run.mem_kind = "reserved";
    CHECK(run_memory(&run, &memory) == 2);
    run.mem_kind = "device";
    CHECK(run_memory(&run, &memory) == 3);
}
