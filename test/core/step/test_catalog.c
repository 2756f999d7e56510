// SPDX-License-Identifier: Apache-2.0
#include "core/step/catalog.h"
#include "test/test.h"

#include <stdio.h>
#include <string.h>

static struct catalog catalog(void)
{
    struct catalog out;
    CHECK(!catalog_open(&out, &test_arena, NULL, 0));
    return out;
}

static const char *gpu(const char *name)
{
    struct catalog c = catalog();
    const struct gpu *out;
    return catalog_gpu(&out, &c, name) ? error_text() : out->name;
}

static const char *model(const char *name)
{
    struct catalog c = catalog();
    const struct model *out;
    return catalog_model(&out, &c, name) ? error_text() : out->name;
}

static void check_names(const char *(*find)(const char *), const char *const pairs[][2],
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *found = find(pairs[i][0]);
        if (strcmp(found, pairs[i][1]))
            printf("%s: %s, wanted %s\n", pairs[i][0], found, pairs[i][1]);
        CHECK(!strcmp(found, pairs[i][1]));
    }
}

TEST(catalog_finds_gpus_however_people_and_drivers_spell_them)
{
    static const char *const pairs[][2] = {
        { "h100", "h100-sxm" },
        { "H100 SXM", "h100-sxm" },
        { "h100-sxm", "h100-sxm" },
        { "NVIDIA H100 80GB HBM3", "h100-sxm" },
        { "NVIDIA H100 PCIe", "h100-pcie" },
        { "NVIDIA H100 NVL", "h100-nvl" },
        { "H100-96GB-HBM2e-500W", "h100-sxm-96gb" },
        { "NVIDIA A100-SXM4-80GB", "a100-sxm-80gb" },
        { "NVIDIA A100-SXM4-40GB", "a100-sxm-40gb" },
        { "NVIDIA A100 80GB PCIe", "a100-pcie-80gb" },
        { "A100-80GB", "a100-sxm-80gb" },
        { "A100 40 GB", "a100-sxm-40gb" },
        { "a100-40", "a100-sxm-40gb" },
        { "a100-pcie-40", "a100-pcie-40gb" },
        { "V100 32", "v100-sxm2-32gb" },
        { "h100-80", "h100-sxm" },
        { "NVIDIA H200", "h200-sxm" },
        { "NVIDIA B200", "b200-sxm" },
        { "RTX 4090", "rtx-4090" },
        { "rtx4090", "rtx-4090" },
        { "4090", "rtx-4090" },
        { "NVIDIA GeForce RTX 4090", "rtx-4090" },
        { "NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti" },
        { "NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada" },
        { "NVIDIA RTX A6000", "rtx-a6000" },
        { "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000-ws" },
        { "NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-se" },
        { "Tesla V100-SXM2-32GB", "v100-sxm2-32gb" },
        { "Tesla T4", "t4" },
        { "NVIDIA A10G", "a10g" },
        { "NVIDIA L40S", "l40s" },
        { "AMD Instinct MI300X OAM", "mi300x" },
        { "MI250 (GCD)", "mi250-gcd" },
    };
    check_names(gpu, pairs, sizeof pairs / sizeof *pairs);
}

TEST(catalog_finds_models_by_hub_ids_and_short_names)
{
    static const char *const pairs[][2] = {
        { "llama-3.1-8b", "llama-3.1-8b" },
        { "Llama 3.1 8B", "llama-3.1-8b" },
        { "meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b" },
        { "meta-llama/Meta-Llama-3-8B", "llama-3-8b" },
        { "meta-llama/Llama-2-7b-chat-hf", "llama-2-7b" },
        { "unsloth/Llama-3.2-1B-Instruct-bnb-4bit", "llama-3.2-1b" },
        { "Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b" },
        { "Qwen/Qwen2-57B-A14B", "qwen2-57b-a14b" },
        { "Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b" },
        { "Mistral-7B-v0.1", "mistral-7b-v0.1" },
        { "mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3" },
        { "mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b" },
        { "google/gemma-2-9b-it", "gemma-2-9b" },
        { "microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-3.8b" },
        { "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b" },
        { "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b" },
        { "EleutherAI/pythia-160m-deduped", "pythia-160m" },
        { "gpt2", "gpt-2-124m" },
        { "Zephyr-7B (Mistral)", "mistral-7b-v0.1" },
        { "LLaMA-30B", "llama-1-33b" },
    };
    check_names(model, pairs, sizeof pairs / sizeof *pairs);
}

TEST(catalog_names_the_nearest_where_a_name_is_unknown)
{
    CHECK(!strcmp(gpu("h1000"), "there is no GPU \"h1000\"; did you mean h100?"));
    CHECK(!strcmp(gpu("xyzzy-99"), "there is no GPU \"xyzzy-99\"; gpuhours show gpus lists them"));
    CHECK(strstr(gpu("24 GB card (model not stated)"), "there is no GPU"));
    CHECK(strstr(gpu("RTX 4090 Laptop GPU"), "there is no GPU"));
    CHECK(strstr(gpu(""), "there is no GPU"));
    CHECK(!strcmp(model("lama-3.1-8b"),
                  "there is no model \"lama-3.1-8b\"; did you mean llama-3.1-8b?"));
    CHECK(!strcmp(model("llama-8b"), "there is no model \"llama-8b\"; did you mean llama-3-8b, "
                                     "llama-3.1-8b?"));
    CHECK(!strcmp(model("llama-3.1"), "there is no model \"llama-3.1\"; did you mean llama-3.1-8b, "
                                      "llama-3.1-70b, llama-3.1-405b?"));
}

TEST(catalog_refuses_a_name_of_several_cards_with_all_of_them)
{
    CHECK(!strcmp(gpu("rtx6000"), "there is no GPU \"rtx6000\"; did you mean quadro-rtx-6000, "
                                  "rtx-6000-ada, rtx-pro-6000-ws, rtx-pro-6000-se?"));
    CHECK(strstr(gpu("NVIDIA RTX 6000"), "did you mean quadro-rtx-6000, rtx-6000-ada"));
    CHECK(!strcmp(gpu("Quadro RTX 6000"), "quadro-rtx-6000"));
    CHECK(!strcmp(gpu("rtx-8000"), "quadro-rtx-8000"));
}

TEST(catalog_refuses_a_number_of_cards_with_the_option_that_says_it)
{
    static const char *const names[] = { "8 x H100", "8xH100", "8 × H100", "8*H100",
                                         "H100 x8",  "H100x8", "H100:8",   "H100 × 8" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(strstr(gpu(names[i]), "give --gpu H100 --gpus 8"));
}

TEST(catalog_takes_no_chip_of_apples_for_a_near_card)
{
    static const char *const names[] = { "m4", "M3 Max", "mac", "MacBook", "Apple M2", "mps" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(strstr(gpu(names[i]), "Apple's chips are not in the catalog"));
    CHECK(!strcmp(gpu("MI300X"), "mi300x"));
}

TEST(catalog_cuts_layers_where_a_models_name_says_so)
{
    struct catalog c = catalog();
    const struct model *whole, *cut;
    CHECK(!catalog_model(&whole, &c, "llama-3-70b"));
    CHECK(!catalog_model(&cut, &c, "Llama-3-70B layers cut to 12"));
    CHECK(cut->layers == 12 && whole->layers == 80);
    CHECK(model_parameters(whole) - model_parameters(cut) ==
          68 * model_layer_parameters(whole, MODEL_DENSE));
    CHECK(catalog_model(&cut, &c, "Llama-3-70B layers cut to nothing") == ERR_USAGE);
}

static void check_aliases(const struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct name_entry *e = &list->entries[i];
        bool own = name_find(list, text_of(e->text)) == e->row;
        if (!own)
            printf("%s means another row\n", e->text);
        CHECK(own);
    }
}

TEST(catalog_aliases_each_mean_their_own_row)
{
    struct catalog c = catalog();
    check_aliases(&c.model_names);
    check_aliases(&c.gpu_names);
    check_aliases(&c.node_names);
}

static void check_rows(const struct field *fields, const void *rows, size_t size, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *row = (const char *)rows + i * size;
        for (const struct field *f = fields; f->name; f++)
            CHECK(!f->required || field_known(f, row));
        const char *source =
            *(const char *const *)(row + field_find(fields, TEXT("source"))->offset);
        const char *as_of = *(const char *const *)(row + field_find(fields, TEXT("as_of"))->offset);
        CHECK(strlen(source) > 5);
        CHECK(!strncmp(as_of, "19", 2) || !strncmp(as_of, "20", 2));
    }
}

TEST(catalog_rows_have_a_source_and_a_date)
{
    struct catalog c = catalog();
    CHECK(c.gpu_count >= 36 && c.node_count >= 46 && c.operation_count >= 130);
    CHECK(c.offer_count >= 800 && c.colocation_count >= 110);
    check_rows(model_fields, c.models, sizeof *c.models, c.model_count);
    check_rows(gpu_fields, c.gpus, sizeof *c.gpus, c.gpu_count);
    check_rows(node_fields, c.nodes, sizeof *c.nodes, c.node_count);
    check_rows(fact_fields, c.operations, sizeof *c.operations, c.operation_count);
    check_rows(fact_fields, c.colocation, sizeof *c.colocation, c.colocation_count);
    check_rows(offer_fields, c.offers, sizeof *c.offers, c.offer_count);
}

TEST(catalog_gpu_figures_are_plausible_together)
{
    struct catalog c = catalog();
    for (size_t i = 0; i < c.gpu_count; i++) {
        const struct gpu *g = &c.gpus[i];
        CHECK(g->memory_bytes > 8e9 && g->memory_bytes < 400e9);
        CHECK(g->memory_bytes_per_s > 2e11 && g->memory_bytes_per_s < 1e13);
        double balance = g->fp16_flops_per_s / g->memory_bytes_per_s; // FLOP per byte
        CHECK(balance > 20 && balance < 500);
        CHECK(!g->supports_bf16 || g->bf16_flops_per_s == g->fp16_flops_per_s);
        CHECK(!g->supports_fp8 || (g->fp8_flops_per_s >= 0.9 * g->bf16_flops_per_s &&
                                   g->fp8_flops_per_s <= 2.1 * g->bf16_flops_per_s));
        CHECK(!(g->measured_bf16_flops_per_s > 1.12 * g->fp16_flops_per_s)); // boost clocks
        CHECK(!(g->link_bytes_per_s < g->pcie_bytes_per_s));
        CHECK(g->pcie_bytes_per_s >= 15e9 && g->pcie_bytes_per_s <= 130e9);
        CHECK(isnan(g->tdp_watts) || (g->tdp_watts >= 50 && g->tdp_watts <= 1500));
    }
}

TEST(catalog_nodes_have_room_and_links_for_their_gpus)
{
    struct catalog c = catalog();
    for (size_t i = 0; i < c.node_count; i++) {
        const struct node *n = &c.nodes[i];
        const struct gpu *g;
        CHECK(!catalog_gpu(&g, &c, n->gpu) && !strcmp(g->name, n->gpu));
        CHECK(n->gpus <= 72 && n->link_domain_gpus <= 72);
        CHECK(!(n->network_bytes_per_s > 0) ||
              fabs(n->network_bytes_per_s / (double)n->gpus / n->network_bytes_per_s_per_gpu - 1) <
                  0.01);
    }
    const struct gpu *h100 = NULL;
    CHECK(!catalog_gpu(&h100, &c, "h100"));
    const struct node *node = catalog_node_of(&c, h100);
    CHECK(node && !strcmp(node->name, "dgx-h100") && node->gpus == 8);
}

TEST(catalog_refuses_names_that_say_something_else_than_the_card)
{
    struct catalog c = catalog();
    static const char *const refused[] = {
        "4090 48gb", "h100 40gb",        "h100 40",
        "h100-8",    "H100 200GB",       "2x h100",
        "h100,a100", "h100 mig 1g.10gb", "A100-PCIE-80GB MIG 1g.10gb"
    };
    static const char *const taken[] = { "NVIDIA H100 80GB HBM3",
                                         "RTX 4090 24GB",
                                         "Tesla V100-SXM2-32GB",
                                         "NVIDIA A100-SXM4-40GB",
                                         "AMD Instinct MI300X 192GB",
                                         "NVIDIA GH200 480GB",
                                         "L40S-48GB",
                                         "B200 180GB" };
    const struct gpu *found;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        test_check(catalog_gpu(&found, &c, refused[i]) == ERR_USAGE, refused[i], __FILE__,
                   __LINE__);
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        test_check(!catalog_gpu(&found, &c, taken[i]), taken[i], __FILE__, __LINE__);
}

TEST(catalog_offers_cost_what_gpus_cost)
{
    struct catalog c = catalog();
    for (size_t i = 0; i < c.offer_count; i++) {
        const struct offer *o = &c.offers[i];
        double each = o->on_demand_usd_per_hour / (double)o->gpus;
        CHECK(isnan(each) || (each > 0.05 && each < 40));
        CHECK(!(o->spot_usd_per_hour > o->spot_high_usd_per_hour));
    }
}

TEST(catalog_finds_operational_facts)
{
    struct catalog c = catalog();
    const struct fact *f = catalog_operation(&c, "failure", "unexpected failure rate per GPU-hour");
    CHECK(f && f->typical == 1.973e-05 && !strcmp(f->unit, "1/GPU-h"));
    CHECK(!catalog_operation(&c, "failure", "nothing"));
}

// --- overrides ---------------------------------------------------------------

static const char gpu_header[] =
    "name,title,vendor,architecture,memory_bytes,memory_bytes_per_s,fp16_flops_per_s,"
    "bf16_flops_per_s,supports_bf16,pcie_bytes_per_s,source,as_of\n";

static enum err open_with(struct catalog *out, const char *name, const char *text)
{
    struct catalog_file file = { name, text_format(&test_arena, "mine/%s", name), text_of(text) };
    return catalog_open(out, &test_arena, &file, 1);
}

static void check_refused(const char *row, const char *sentence)
{
    struct catalog c;
    CHECK(open_with(&c, "gpus.csv", text_format(&test_arena, "%s%s", gpu_header, row)) ==
          ERR_INPUT);
    if (strcmp(error_text(), sentence))
        printf("says: %s\n", error_text());
    CHECK(!strcmp(error_text(), sentence));
}

TEST(catalog_takes_a_gpu_of_the_users_own_beside_the_embedded_ones)
{
    struct catalog c;
    const struct gpu *g;
    CHECK(!open_with(&c, "gpus.csv",
                     text_format(&test_arena,
                                 "%sz9,Z9,me,Z,96GiB,2TB/s,300TFLOP/s,300TFLOP/s,yes,63GB/s,"
                                 "my bench,2026-10\n",
                                 gpu_header)));
    CHECK(!catalog_gpu(&g, &c, "Z9") && g->memory_bytes == 96.0 * 1024 * 1024 * 1024);
    CHECK(isnan(g->fp8_flops_per_s));
    CHECK(!catalog_gpu(&g, &c, "h100"));
}

TEST(catalog_prefers_the_users_row_to_the_embedded_one_of_that_name)
{
    struct catalog c;
    const struct gpu *g;
    CHECK(!open_with(&c, "gpus.csv",
                     text_format(&test_arena,
                                 "%sh100-sxm,H100,me,Hopper,79GiB,3TB/s,900TFLOP/s,900TFLOP/s,yes,"
                                 "63GB/s,my bench,2026-10\n",
                                 gpu_header)));
    CHECK(!catalog_gpu(&g, &c, "h100-sxm") && g->memory_bytes_per_s == 3e12);
    CHECK(c.gpu_count == catalog().gpu_count);
}

TEST(catalog_refuses_bad_rows_with_file_line_and_column)
{
    check_refused("z9,Z9,me,Z,,2TB/s,300TFLOP/s,300TFLOP/s,yes,63GB/s,s,2026\n",
                  "mine/gpus.csv:2: has no memory_bytes");
    check_refused("z9,Z9,me,Z,nan,2TB/s,300TFLOP/s,300TFLOP/s,yes,63GB/s,s,2026\n",
                  "mine/gpus.csv:2: memory_bytes: \"nan\" is not a number");
    check_refused("z9,Z9,me,Z,-80GiB,2TB/s,300TFLOP/s,300TFLOP/s,yes,63GB/s,s,2026\n",
                  "mine/gpus.csv:2: memory_bytes: \"-80GiB\" is negative");
    check_refused("z9,Z9,me,Z,80GiB,2TB/s\n",
                  "mine/gpus.csv:2: has 6 cells, but the header has 12");
    check_refused("z9,Z9,me,Z,80GiB,2TB/s,1e30,300TFLOP/s,yes,63GB/s,s,2026\n",
                  "gpus.csv: z9: fp16_flops_per_s is 1e+30, must be 1e12 to 1e18");
    check_refused("z9,Z9,me,Z,80GiB,2TB/s,300TFLOP/s,,yes,63GB/s,s,2026\n",
                  "gpus.csv: z9: supports bf16 but has no bf16_flops_per_s");
    struct catalog c;
    CHECK(open_with(&c, "gpus.csv", "name,title\nz9,Z9\n") == ERR_INPUT);
    CHECK(!strcmp(error_text(), "mine/gpus.csv: has no column \"vendor\" (maker)"));
    CHECK(open_with(&c, "gpus.csv", "") == ERR_INPUT);
    CHECK(open_with(&c, "nodes.csv",
                    "name,kind,gpu,gpus,link_domain_gpus,source,as_of\nn,cloud,z9,8,8,s,2026\n") ==
          ERR_INPUT);
    CHECK(!strcmp(error_text(), "nodes.csv: n: its GPU z9 is not in gpus.csv"));
    CHECK(open_with(&c, "operations.csv",
                    "topic,item,low,typical,high,unit,confidence,source,as_of\n"
                    "a,b,3,2,1,s,low,here,2026\n") == ERR_INPUT);
    CHECK(!strcmp(error_text(), "operations.csv: b: low, typical and high are out of order"));
}

TEST(catalog_names_of_hybrid_models_are_refused_by_what_they_have)
{
    static const struct {
        const char *name, *what;
    } cases[] = {
        { "qwen3-next-80b-a3b", "gated delta net layers" },
        { "Qwen/Qwen3.5-35B-A3B", "gated delta net layers" },
        { "nvidia/Nemotron-H-8B-Base-8K", "Mamba layers" },
        { "jamba-1.5-mini", "Mamba layers" },
        { "granite-4.0-h-small", "Mamba layers" },
        { "falcon-h1-7b", "Mamba layers" },
        { "falcon-mamba-7b", "Mamba layers" },
        { "zamba2-7b", "Mamba layers" },
        { "rwkv-7b", "RWKV layers" },
        { "kimi-linear-48b-a3b", "delta attention layers" },
        { "deepseek-v3.2", "sparse attention" },
    };
    struct catalog catalog;
    CHECK(!catalog_open(&catalog, &test_arena, NULL, 0));
    const struct model *model;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(catalog_model(&model, &catalog, cases[i].name) == ERR_INPUT);
        CHECK(strstr(error_text(), cases[i].what) && strstr(error_text(), "gpuhours pilot"));
    }
    // Their namesakes without such layers are not refused.
    CHECK(!catalog_model(&model, &catalog, "qwen3-30b-a3b"));
    CHECK(!catalog_model(&model, &catalog, "falcon-7b"));
    CHECK(catalog_model(&model, &catalog, "nemotron-nano-8b") != OK); // a Llama
    CHECK(!strstr(error_text(), "layers, whose costs"));
}
