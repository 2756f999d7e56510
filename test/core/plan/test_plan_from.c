// SPDX-License-Identifier: Apache-2.0
// Configurations of every trainer become options (test/data/from/SOURCES.md says where formats are
// from).

#include "core/plan/plan_from.h"
#include "core/trainers/trainer_facts.h"

#include "host/file.h"
#include "host/yaml.h"
#include "test/core/planning.h"

#include <math.h>
#include <string.h>

static void add(struct trainer_config *config, const char *name)
{
    struct file file;
    struct json tree;
    const char *path = text_format(&test_arena, "test/data/from/%s", name);
    bool open = !file_open(&file, path);
    CHECK(open);
    if (!open)
        return;
    struct text text = { arena_copy(&test_arena, file.text.at, file.text.size), file.text.size };
    file_close(&file);
    enum err err = text_ends(text_of(name), ".json") ? json_read(&tree, &test_arena, text, name)
                                                     : yaml_read(&tree, &test_arena, text, name);
    CHECK(!err && !trainer_config_add(config, &tree, name));
}

static struct trainer_config read_files(const char *names, int64_t gpus,
                                        struct plan_request *request)
{
    struct trainer_config config = { .arena = &test_arena };
    struct text rest = text_of(names), name;
    *request = plan_request_default();
    while (text_next(&rest, ' ', &name))
        add(&config, text_copy(&test_arena, name));
    CHECK(!plan_from(&config, request, gpus));
    return config;
}

static struct trainer_config read_text(const char *yaml, struct plan_request *request)
{
    struct trainer_config config = { .arena = &test_arena };
    struct json tree;
    *request = plan_request_default();
    CHECK(!yaml_read(&tree, &test_arena, text_of(yaml), "test.yaml"));
    CHECK(!trainer_config_add(&config, &tree, "test.yaml"));
    CHECK(!plan_from(&config, request, PLAN_NOT_GIVEN));
    return config;
}

static const char *refusal(const char *yaml)
{
    struct trainer_config config = { .arena = &test_arena };
    struct json tree;
    CHECK(!yaml_read(&tree, &test_arena, text_of(yaml), "test.yaml"));
    CHECK(trainer_config_add(&config, &tree, "test.yaml") == ERR_INPUT);
    return error_text();
}

// "rank=32;method=qlora": all of them stand in the result.
static void expect(const struct trainer_config *config, const char *options)
{
    struct text rest = text_of(options), pair;
    while (text_next(&rest, ';', &pair)) {
        struct text value = text_trim(pair), name;
        text_next(&value, '=', &name);
        const char *found = trainer_config_option(config, text_copy(&test_arena, name));
        bool same = found && text_is(value, found);
        test_check(same,
                   text_format(&test_arena, "%.*s is %.*s, found %s", TEXT_ARGS(name),
                               TEXT_ARGS(value), found ? found : "nothing"),
                   __FILE__, __LINE__);
    }
}

static bool contradicts(const struct trainer_config *config, const char *words)
{
    for (size_t i = 0; i < config->contradiction_count; i++)
        if (strstr(config->contradictions[i], words))
            return true;
    return false;
}

static enum trainer_config_effect effect_of(const struct trainer_config *config, const char *key)
{
    for (size_t i = 0; i < config->item_count; i++)
        if (!strcmp(config->items[i].key, key))
            return config->items[i].effect;
    CHECK(!"the key is in a list");
    return TRAINER_CONFIG_UNKNOWN;
}

// --- one file each -----------------------------------------------------------

TEST(trainer_config_reads_axolotl)
{
    struct plan_request request;
    struct trainer_config config = read_files("axolotl.yml", 4, &request);
    expect(&config,
           "model=NousResearch/Meta-Llama-3.1-8B;method=qlora;quantization=nf4-nested;"
           "rank=32;alpha=16;dropout=0.05;targets=all-linear;context=4096;"
           "batching=packed;micro_batch=2;global_batch=32;steps=200;precision=bf16;"
           "optimizer=adamw-paged-8bit;checkpointing=full;eval_share=0.02041;evals_per_epoch=2;"
           "parallel=ddp;stack=axolotl");
    CHECK(request.recipe.rank == 32 && request.recipe.method == RECIPE_QLORA);
    CHECK(request.global_batch == 32 && request.context == 4096);
    CHECK(request.gpus == PLAN_NOT_GIVEN); // the command line's own
    CHECK(!config.contradiction_count);
    CHECK(isnan(request.epochs) && request.steps == 200);
    CHECK(effect_of(&config, "max_steps") == TRAINER_CONFIG_UNDERSTOOD);
    CHECK(effect_of(&config, "num_epochs") == TRAINER_CONFIG_HARMLESS); // steps end the run
    CHECK(effect_of(&config, "my_own_switch") == TRAINER_CONFIG_UNKNOWN);
    CHECK(effect_of(&config, "learning_rate") == TRAINER_CONFIG_HARMLESS);
    CHECK(effect_of(&config, "lora_r") == TRAINER_CONFIG_UNDERSTOOD);
}

TEST(trainer_config_reads_llama_factory_with_its_deepspeed)
{
    struct plan_request request;
    struct trainer_config config =
        read_files("llama_factory.yaml deepspeed_zero2.json", 4, &request);
    expect(&config,
           "model=meta-llama/Meta-Llama-3-8B-Instruct;method=qlora;rank=64;"
           "targets=all-linear;context=2048;batching=longest;micro_batch=1;"
           "global_batch=32;epochs=3;checkpointing=full;precision=bf16;"
           "parallel=zero2 offload optimizer;stack=llama-factory-deepspeed;eval_share=0.1111;"
           "evaluate_every=500;save_every=500");
    CHECK(!config.contradiction_count); // "auto" contradicts nothing
    CHECK(config.reference_count == 1 && !strcmp(config.references[0], "deepspeed_zero2.json"));
}

TEST(llama_factory_trains_fp32_weights_unless_they_are_pure_bf16)
{
#define FULL "finetuning_type: full\nmodel_name_or_path: llama-3.1-8b\nbf16: true\n"
    struct plan_request request;
    struct trainer_config config = read_text(FULL, &request);
    expect(&config, "method=full;precision=bf16;weights=fp32;stack=llama-factory");
    config = read_text(FULL "enable_liger_kernel: true\n", &request);
    expect(&config, "precision=bf16;weights=fp32;stack=hf-liger");
    config = read_text(FULL "pure_bf16: true\n", &request);
    expect(&config, "precision=bf16;weights=bf16");
    config = read_text("finetuning_type: lora\nmodel_name_or_path: llama-3.1-8b\nbf16: true\n",
                       &request);
    CHECK(!trainer_config_option(&config, "weights"));
#undef FULL
}

TEST(trainer_config_reads_torchtune)
{
    struct plan_request request;
    struct trainer_config config = read_files("torchtune.yaml", 2, &request);
    expect(&config, "model=llama3.1-8b;method=lora;rank=16;alpha=32;dropout=0;targets=q,v,o,mlp;"
                    "context=8192;batching=packed;micro_batch=2;global_batch=32;epochs=1;"
                    "precision=bf16;optimizer=adamw;checkpointing=full;parallel=fsdp;"
                    "stack=torchtune-eager");
}

TEST(trainer_config_reads_nemo_and_megatron_bridge)
{
    struct plan_request request;
    struct trainer_config config = read_files("nemo.yaml", PLAN_NOT_GIVEN, &request);
    expect(&config,
           "model=models/"
           "llama-3.1-70b;method=lora;rank=24;dropout=0.1;targets=q,k,v,gate,up;context=4096;"
           "batching=packed;micro_batch=1;global_batch=64;steps=900;precision=bf16;"
           "optimizer=adamw;checkpointing=selective;gpus=16;nodes=2;"
           "parallel=zero1 tp4 pp2;stack=nemo;seed=77");
    CHECK(!config.contradiction_count && isnan(request.epochs));
    CHECK(effect_of(&config, "trainer.val_check_interval") == TRAINER_CONFIG_MATTERS);
    // No scheme: the whole model is trained, whatever the template says of adapters.
    config = read_text("model:\n  restore_from_path: ???\n  peft:\n    peft_scheme: null\n"
                       "    lora_tuning:\n      adapter_dim: 32\n",
                       &request);
    expect(&config, "method=full;checkpointing=none;stack=nemo");
    CHECK(!config.contradiction_count && !request.model);
    CHECK(effect_of(&config, "model.restore_from_path") == TRAINER_CONFIG_MATTERS);
    config = read_text("model:\n  seq_length: 2048\n  tensor_model_parallel_size: 2\n"
                       "train:\n  train_iters: 600\n  global_batch_size: 64\n"
                       "  micro_batch_size: 2\n  eval_interval: 50\ncheckpoint:\n"
                       "  save_interval: 200\npeft:\n  dim: 8\nrng:\n  seed: 4\n",
                       &request);
    expect(&config, "method=lora;rank=8;context=2048;steps=600;global_batch=64;micro_batch=2;"
                    "evaluate_every=50;save_every=200;seed=4;stack=nemo;parallel=tp2");
}

TEST(trainer_config_reads_litgpt)
{
    struct plan_request request;
    struct trainer_config config = read_files("litgpt.yaml", PLAN_NOT_GIVEN, &request);
    expect(&config, "method=qlora;quantization=nf4-nested;rank=32;targets=q,v,o;context=512;"
                    "batching=longest;micro_batch=2;global_batch=8;gpus=2;epochs=4;"
                    "eval_share=0.05263;seed=1337;optimizer=adamw;parallel=fsdp;stack=litgpt");
    CHECK(request.gpus == 2 && !config.contradiction_count);
}

TEST(trainer_config_merges_peft_transformers_and_accelerate)
{
    struct plan_request request;
    struct trainer_config config = read_files(
        "adapter_config.json training_args.json accelerate_fsdp.yaml", PLAN_NOT_GIVEN, &request);
    expect(&config, "model=Qwen/Qwen2.5-7B-Instruct;method=lora;rank=24;targets=q,k,v,o;"
                    "trains_embeddings=yes;micro_batch=4;global_batch=128;gpus=16;nodes=2;"
                    "epochs=2;batching=grouped;checkpointing=full;parallel=zero2;"
                    "precision=bf16;optimizer=adamw;stack=hf-peft");
    CHECK(!config.contradiction_count);
}

TEST(trainer_config_reads_accelerate_with_deepspeed)
{
    struct plan_request request;
    struct trainer_config config =
        read_files("adapter_config.json training_args.json accelerate_deepspeed.yaml",
                   PLAN_NOT_GIVEN, &request);
    expect(&config, "gpus=8;global_batch=64;parallel=zero3 offload weights;stack=hf-deepspeed");
    CHECK(!config.contradiction_count);
}

TEST(trainer_config_reads_a_command_line_of_trl)
{
    static char *words[] = { "accelerate",
                             "launch",
                             "--num_processes",
                             "4",
                             "-m",
                             "trl",
                             "sft",
                             "--model_name_or_path",
                             "Qwen/Qwen2.5-0.5B",
                             "--use_peft",
                             "--lora_r",
                             "32",
                             "--lora_target_modules",
                             "all-linear",
                             "--load_in_4bit",
                             "--packing",
                             "--max-length=2048",
                             "--per_device_train_batch_size",
                             "2",
                             "--gradient_accumulation_steps",
                             "8",
                             "--bf16",
                             "true",
                             "--optim",
                             "paged_adamw_8bit",
                             "--dataset_name",
                             "someone/rows",
                             "--something_new",
                             NULL };
    struct trainer_config config = { .arena = &test_arena };
    struct plan_request request = plan_request_default();
    CHECK(!trainer_config_words(&config, words));
    CHECK(!plan_from(&config, &request, PLAN_NOT_GIVEN));
    expect(&config, "model=Qwen/Qwen2.5-0.5B;method=qlora;quantization=nf4;rank=32;"
                    "targets=all-linear;batching=packed;context=2048;micro_batch=2;"
                    "global_batch=64;gpus=4;precision=bf16;optimizer=adamw-paged-8bit;epochs=3;"
                    "parallel=ddp;stack=hf-peft");
}

TEST(trainer_config_of_trl_without_peft_trains_the_whole_model)
{
    static char *words[] = { "trl", "sft", "--model_name_or_path", "Qwen/Qwen2.5-0.5B", NULL };
    struct trainer_config config = { .arena = &test_arena };
    struct plan_request request = plan_request_default();
    CHECK(!trainer_config_words(&config, words));
    CHECK(!plan_from(&config, &request, PLAN_NOT_GIVEN));
    expect(&config, "method=full;context=1024;micro_batch=8;stack=hf");
}

TEST(trainer_config_of_trl_without_targets_adapts_what_peft_does)
{
    struct plan_request request;
    struct trainer_config config =
        read_text("model_name_or_path: Qwen/Qwen2.5-7B\nuse_peft: true\nlora_r: 32\n", &request);
    expect(&config, "method=lora;rank=32;targets=q,v;stack=hf-peft");
}

// --- what is optimised -------------------------------------------------------

static const char *objective_of(const char *yaml)
{
    struct plan_request request;
    struct trainer_config config = read_text(yaml, &request);
    CHECK(!request.unknown_objective || !trainer_config_option(&config, "objective"));
    return request.unknown_objective ? request.unknown_objective
                                     : trainer_config_option(&config, "objective");
}

static const char *objective_of_words(char **words)
{
    struct trainer_config config = { .arena = &test_arena };
    struct plan_request request = plan_request_default();
    CHECK(!trainer_config_words(&config, words));
    CHECK(!plan_from(&config, &request, PLAN_NOT_GIVEN));
    return trainer_config_option(&config, "objective");
}

TEST(trainer_config_reads_what_each_trainer_optimises)
{
    static const struct {
        const char *yaml, *objective; // NULL: supervised tuning
    } cases[] = {
        { "base_model: a/b\nrl: dpo\n", "dpo" },
        { "base_model: a/b\nrl: grpo\n", "grpo" },
        { "base_model: a/b\nreward_model: true\n", "reward" },
        { "base_model: a/b\nadapter: lora\n", NULL },
        { "stage: sft\nfinetuning_type: lora\n", "sft" },
        { "stage: dpo\nfinetuning_type: lora\n", "dpo" },
        { "stage: dpo\npref_loss: simpo\n", "simpo" },
        { "stage: rm\n", "reward" },
        { "stage: ppo\n", "ppo" },
        { "learning_rate: 1e-5\nrlhf_type: orpo\n", "orpo" },
        { "learning_rate: 1e-5\nnum_generations: 8\n", "grpo" },
        { "learning_rate: 1e-5\ndesirable_weight: 1.0\n", "kto" },
        { "learning_rate: 1e-5\nloss_type: ipo\nbeta: 0.1\n", "ipo" },
        { "algorithm: {adv_estimator: gae}\nactor_rollout_ref: {model: {path: a/b}}\n", "ppo" },
        { "policy: {model_name: a/b}\ngrpo: {num_prompts_per_step: 32}\n", "grpo" },
        { "policy: {model_name: a/b}\nsft: {max_num_epochs: 1}\n", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = objective_of(cases[i].yaml), *expected = cases[i].objective;
        test_check(found && expected ? !strcmp(found, expected) : found == expected, cases[i].yaml,
                   found ? found : "none", __LINE__);
    }
}

static const char *option_of(const char *yaml, const char *option)
{
    struct plan_request request;
    struct trainer_config config = read_text(yaml, &request);
    return trainer_config_option(&config, option);
}

TEST(trainer_config_reads_how_answers_are_sampled)
{
    static const char verl[] = "algorithm: {adv_estimator: gae}\n"
                               "actor_rollout_ref: {rollout: {name: sglang, n: 4}}\n"
                               "data: {train_batch_size: 64}\nreward_model: {enable: true}\n"
                               "trainer: {total_training_steps: 300}\n";
    static const char nemo[] = "policy: {model_name: a/b, train_global_batch_size: 512}\n"
                               "grpo: {num_prompts_per_step: 64, num_generations_per_prompt: 32, "
                               "async_grpo: {enabled: true}}\n";
    CHECK(!strcmp(option_of(verl, "objective"), "ppo"));
    CHECK(!strcmp(option_of(verl, "sampler"), "sglang"));
    CHECK(!strcmp(option_of(verl, "global_batch"), "256"));
    CHECK(!strcmp(option_of(verl, "reward"), "model"));
    CHECK(!strcmp(option_of(verl, "steps"), "300"));
    CHECK(!strcmp(option_of(nemo, "async_steps"), "1"));
    CHECK(!strcmp(option_of(nemo, "global_batch"), "2048"));
}

TEST(trainer_config_reads_what_decides_over_a_run_of_verl)
{
    struct plan_request request;
    struct trainer_config config = read_text(
        "algorithm: {adv_estimator: grpo, use_kl_in_reward: false, gamma: 1.0}\n"
        "data: {train_batch_size: 128, max_prompt_length: 512, max_response_length: 1024}\n"
        "actor_rollout_ref:\n"
        "  model: {path: a/b, enable_gradient_checkpointing: true, use_remove_padding: true}\n"
        "  actor: {ppo_micro_batch_size_per_gpu: 8, use_kl_loss: true, new_switch: 3,\n"
        "          fsdp_config: {param_offload: true, optimizer_offload: false}}\n"
        "  rollout: {n: 8, name: vllm, tensor_model_parallel_size: 2,\n"
        "            gpu_memory_utilization: 0.4}\n"
        "trainer: {save_freq: 20, test_freq: 5, total_epochs: 2}\n",
        &request);
    expect(&config, "objective=grpo;response_limit=1024;context=1536;micro_batch=8;"
                    "checkpointing=full;save_every=20;evaluate_every=5");
    expect(&config, "reference=auto"); // the KL term needs one
    static const char *const lost[] = {
        "actor_rollout_ref.rollout.tensor_model_parallel_size",
        "actor_rollout_ref.rollout.gpu_memory_utilization",
        "actor_rollout_ref.actor.fsdp_config.param_offload",
        "actor_rollout_ref.model.use_remove_padding",
    };
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        CHECK(effect_of(&config, lost[i]) == TRAINER_CONFIG_MATTERS);
    CHECK(effect_of(&config, "actor_rollout_ref.actor.new_switch") == TRAINER_CONFIG_UNKNOWN);
    CHECK(effect_of(&config, "algorithm.gamma") == TRAINER_CONFIG_HARMLESS);
    // What verl does where nothing is said: no KL term, no save, no test.
    config = read_text("algorithm: {adv_estimator: grpo}\ntrainer: {save_freq: -1}\n", &request);
    expect(&config, "reference=none;save_every=0;evals_per_epoch=0;checkpointing=full");
}

TEST(trainer_config_takes_an_estimator_and_a_key_of_openrlhf_for_no_contradiction)
{
    static const char file[] = "pretrain: a/b\nadvantage_estimator: group_norm\n"
                               "n_samples_per_prompt: 8\nreward_pretrain: a/c\n"
                               "prompt_max_len: 1024\ngenerate_max_len: 3072\n"
                               "init_kl_coef: 0\nsave_steps: -1\nmax_samples: 100000000\n";
    static char *words[] = { "python", "-m", "verl.trainer.main_ppo",
                             "algorithm.adv_estimator=grpo", NULL };
    struct plan_request request;
    struct trainer_config config = read_text(file, &request);
    CHECK(!config.contradiction_count);
    expect(&config, "objective=grpo;response_limit=3072;context=4096;reference=none;save_every=0");
    CHECK(!strcmp(option_of("pretrain: a/b\nn_samples_per_prompt: 4\n", "objective"), "ppo"));
    config = (struct trainer_config){ .arena = &test_arena };
    request = plan_request_default();
    CHECK(!trainer_config_words(&config, words));
    CHECK(!plan_from(&config, &request, PLAN_NOT_GIVEN) && !config.contradiction_count);
    expect(&config, "objective=grpo");
}

TEST(trainer_config_of_trl_that_samples_has_no_adapter_and_no_reference_unasked)
{
    static const char file[] = "model_name_or_path: Qwen/Qwen2.5-7B\nnum_generations: 8\n"
                               "max_completion_length: 256\nuse_vllm: true\n%s";
    struct plan_request request;
    struct trainer_config config =
        read_text(text_format(&test_arena, file, "beta: 0.0\n"), &request);
    CHECK(!strcmp(config.files[0].trainer, "TRL"));
    expect(&config, "objective=grpo;method=full;stack=hf;reference=none;response_limit=256");
    CHECK(!trainer_config_option(&config, "context")); // supervised tuning's default
    config = read_text(text_format(&test_arena, file, ""), &request);
    expect(&config, "reference=none"); // beta is 0 unless given
    config = read_text(text_format(&test_arena, file, "beta: 0.04\nuse_peft: false\n"), &request);
    expect(&config, "method=full;reference=auto");
    // Of preference tuning beta says something else.
    config = read_text("model_name_or_path: a/b\nbeta: 0.1\nloss_type: ipo\n", &request);
    CHECK(!trainer_config_option(&config, "reference"));
    expect(&config, "method=full");
}

TEST(trainer_config_of_trl_without_vllm_samples_by_transformers)
{
    static const char file[] = "model_name_or_path: Qwen/Qwen2.5-7B\nnum_generations: 8\n"
                               "max_completion_length: 256\n%s";
    struct plan_request request;
    struct trainer_config config = read_text(text_format(&test_arena, file, ""), &request);
    expect(&config, "objective=grpo;sampler=hf");
    config = read_text(text_format(&test_arena, file, "use_vllm: false\n"), &request);
    expect(&config, "sampler=hf");
    config = read_text(text_format(&test_arena, file, "use_vllm: true\n"), &request);
    expect(&config, "sampler=vllm");
    config = read_text("model_name_or_path: a/b\nmax_length: 512\n", &request);
    CHECK(!trainer_config_option(&config, "sampler")); // supervised tuning samples nothing
}

TEST(trainer_config_reads_ms_swift)
{
    struct plan_request request;
    struct trainer_config config =
        read_text("model: Qwen/Qwen2.5-7B\ntrain_type: lora\nlora_rank: 32\nattn_impl: flash_attn\n"
                  "max_length: 4096\nper_device_train_batch_size: 2\nswift_version: 3.3.0\n",
                  &request);
    expect(&config, "model=Qwen/Qwen2.5-7B;method=lora;rank=32;context=4096;micro_batch=2;"
                    "global_batch=16;epochs=3;precision=bf16;checkpointing=full;attention=flash2;"
                    "stack=ms-swift");
    config = read_text("tuner_type: full\ngradient_accumulation_steps: 4\n", &request);
    expect(&config, "method=full;stack=ms-swift");
    CHECK(strcmp(trainer_config_option(&config, "global_batch"), "16") != 0); // 4 micro-batches
}

TEST(trainer_config_names_the_attention_kernel)
{
    struct plan_request request;
    struct trainer_config config =
        read_text("model_name_or_path: a/b\nattn_implementation: flash_attention_2\n", &request);
    expect(&config, "attention=flash2");
    config = read_text("base_model: a/b\neager_attention: true\n", &request);
    expect(&config, "attention=eager");
    config = read_text("model_name_or_path: a/b\nfinetuning_type: lora\nflash_attn: disabled\n",
                       &request);
    expect(&config, "attention=eager");
    config =
        read_text("model_name_or_path: a/b\nfinetuning_type: lora\nflash_attn: auto\n", &request);
    CHECK(!trainer_config_option(&config, "attention"));
}

TEST(trainer_config_never_takes_an_unknown_objective_for_supervised_tuning)
{
    CHECK(strstr(objective_of("learning_rate: 1e-5\nrlhf_type: gkd\n"), "gkd"));
    CHECK(strstr(objective_of("learning_rate: 1e-5\nbeta: 0.1\n"), "beta in test.yaml"));
    struct plan plan;
    struct plan_request request = plan_request_default();
    request.model = "llama-3.1-8b", request.tokens = 1000000, request.gpus = 1;
    request.gpu = "h100", request.search = false;
    request.unknown_objective = "rlhf_type is gkd";
    CHECK(plan_make(&plan, &test_arena, planning_data(), &request) == ERR_INPUT);
    request.objective = OBJECTIVE_SFT; // the user says what it is
    CHECK(!plan_make(&plan, &test_arena, planning_data(), &request));
}

TEST(trainer_config_reads_the_objective_of_a_program)
{
    static char *trl[] = { "trl", "dpo", "--beta", "0.1", NULL };
    static char *script[] = { "accelerate", "launch", "--num_processes", "8", "grpo.py", NULL };
    static char *openrlhf[] = { "deepspeed", "--module", "openrlhf.cli.train_rm", NULL };
    static char *verl[] = { "python3", "-m", "verl.trainer.main_ppo", NULL };
    static char *sft[] = { "trl", "sft", "--output_dir", "out/dpo", NULL };
    CHECK(!strcmp(objective_of_words(trl), "dpo"));
    CHECK(!strcmp(objective_of_words(script), "grpo"));
    CHECK(!strcmp(objective_of_words(openrlhf), "reward"));
    CHECK(!strcmp(objective_of_words(verl), "ppo"));
    CHECK(!objective_of_words(sft));
}

// --- what contradicts --------------------------------------------------------

TEST(trainer_config_finds_deepspeed_beside_fsdp)
{
    struct plan_request request;
    struct trainer_config config = { .arena = &test_arena };
    request = plan_request_default();
    add(&config, "axolotl_fsdp.yml");
    trainer_config_missing(&config, config.references[0]);
    CHECK(!plan_from(&config, &request, 8));
    expect(&config,
           "parallel=zero3 offload optimizer weights;targets=q,k,v,o;batching=max;context=2048");
    CHECK(contradicts(&config, "a run can use only one"));
    CHECK(contradicts(&config, "both recompute activations"));
}

TEST(trainer_config_finds_batches_that_do_not_multiply)
{
    struct plan_request request;
    struct trainer_config config =
        read_files("adapter_config.json training_args.json deepspeed_batch.json", 4, &request);
    CHECK(contradicts(&config,
                      "train_batch_size in deepspeed_batch.json is 64, but micro-batch 4 × "
                      "accumulation 1 × 4 GPUs is 16"));
    CHECK(contradicts(&config, "bf16 in training_args.json is bf16, fp16.enabled"));
    CHECK(contradicts(&config, "gradient_accumulation_steps in training_args.json is 2"));
    expect(&config, "global_batch=16;parallel=zero3;stack=hf-deepspeed");
    config = read_files("adapter_config.json deepspeed_batch.json", 16, &request);
    expect(&config, "global_batch=64");
    CHECK(!config.contradiction_count); // 4 × 1 × 16
}

TEST(trainer_config_finds_two_precisions_and_reads_merged_keys)
{
    struct plan_request request;
    struct trainer_config config = read_files("merged.yaml", PLAN_NOT_GIVEN, &request);
    expect(&config, "rank=8;context=2048;micro_batch=1;global_batch=16;epochs=2;method=qlora;"
                    "quantization=int8;batching=longest;targets=all-linear");
    CHECK(config.contradiction_count == 1);
    CHECK(contradicts(&config, "is bf16, fp16 in merged.yaml is fp16"));
}

TEST(trainer_config_tells_a_contradiction_whole_however_long_the_names_of_files_are)
{
    struct trainer_config config = { .arena = &test_arena };
    char *name = ARENA_NEW(&test_arena, char, 601);
    memset(name, 'a', 600);
    trainer_config_say(&config, FACT_PRECISION, "bf16", name, "bf16");
    trainer_config_say(&config, FACT_PRECISION, "fp16", name, "fp16");
    CHECK(contradicts(&config, "is fp16; fp16 is used"));
}

TEST(trainer_config_finds_what_else_cannot_be)
{
    struct plan_request request;
    struct trainer_config config = read_text(
        "base_model: x\nload_in_4bit: true\nload_in_8bit: true\nadapter: lora\n", &request);
    CHECK(contradicts(&config, "load_in_4bit in test.yaml is nf4-nested, load_in_8bit"));
    config = read_text("base_model: x\nadapter: qlora\nload_in_4bit: false\n", &request);
    CHECK(contradicts(&config, "is qlora but load_in_4bit is off"));
    config = read_text("base_model: x\nload_in_4bit: true\n", &request);
    CHECK(contradicts(&config, "quantized weights cannot be"));
    config = read_text("base_model: x\nsample_packing: true\ngroup_by_length: true\n", &request);
    CHECK(contradicts(&config, "using packed"));
    config = read_text("finetuning_type: full\nlora_rank: 8\nmodel_name_or_path: x\n", &request);
    CHECK(contradicts(&config, "sets a rank but"));
    config =
        read_text("base_model: x\nsample_packing: true\npad_to_sequence_len: false\n", &request);
    CHECK(!config.contradiction_count);
}

// --- traps -------------------------------------------------------------------

TEST(trainer_config_tells_models_of_torchtune_by_their_builders)
{
    static const char *const names[][2] = {
        { "torchtune.models.llama3_1.lora_llama3_1_8b", "llama3.1-8b" },
        { "torchtune.models.llama3.qlora_llama3_70b", "llama3-70b" },
        { "torchtune.models.llama3_2.llama3_2_1b", "llama3.2-1b" },
        { "torchtune.models.qwen2_5.lora_qwen2_5_7b_instruct", "qwen2.5-7b" },
        { "torchtune.models.qwen2.qwen2_1_5b", "qwen2-1.5b" },
        { "torchtune.models.mistral.mistral_7b", "mistral-7b" },
        { "torchtune.models.gemma2.lora_gemma2_9b", "gemma2-9b" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct plan_request request;
        struct trainer_config config = read_text(
            text_format(&test_arena, "model:\n  _component_: %s\n", names[i][0]), &request);
        expect(&config, text_format(&test_arena, "model=%s", names[i][1]));
    }
}

TEST(trainer_config_takes_targets_in_any_form_but_a_pattern)
{
    struct plan_request request;
    struct trainer_config config =
        read_text("peft_type: LORA\ntarget_modules: all-linear\n", &request);
    expect(&config, "targets=all-linear");
    config = read_text("peft_type: LORA\ntarget_modules: [c_attn, dense]\n", &request);
    expect(&config, "targets=q,k,v,o");
    config = read_text("finetuning_type: lora\nlora_target: q_proj, v_proj\n", &request);
    expect(&config, "targets=q,v");
    config = read_text("peft_type: LORA\ntarget_modules: '.*layers.(q|v)_proj'\n", &request);
    CHECK(effect_of(&config, "target_modules") == TRAINER_CONFIG_MATTERS);
    CHECK(!trainer_config_option(&config, "targets"));
}

TEST(trainer_config_says_what_a_value_must_be)
{
    CHECK(strstr(refusal("base_model: x\nlora_r: many\n"),
                 "test.yaml: lora_r is \"many\", must be a whole number"));
    CHECK(strstr(refusal("base_model: x\nlora_r: 2.5\n"), "must be a whole number"));
    CHECK(strstr(refusal("base_model: x\nsample_packing: perhaps\n"), "must be true or false"));
    CHECK(strstr(refusal("base_model: [a]\n"), "must be a text"));
    CHECK(strstr(refusal("base_model: x\nmicro_batch_size: true\n"), "must be a whole number"));
}

TEST(trainer_config_refuses_what_no_trainer_wrote)
{
    CHECK(strstr(refusal("name: left-pad\nversion: 1\n"), "no key tells which trainer"));
    CHECK(strstr(refusal("architectures: [LlamaForCausalLM]\n"), "with --model"));
    CHECK(strstr(refusal("- a\n- b\n"), "is a list"));
    CHECK(strstr(refusal(""), "is empty"));
}

static const char *look_of(const char *text, const char *name)
{
    return trainer_config_check_look(text_of(text), name) ? error_text() : NULL;
}

TEST(trainer_config_says_what_to_do_with_a_program)
{
    static const char command[] = "swift sft \\\n  --model Qwen/Qwen2.5-7B\n";
    CHECK(strstr(look_of(command, "swift.sh"), "swift.sh: is a shell script"));
    CHECK(strstr(look_of(command, "swift.sh"), "after --"));
    CHECK(strstr(look_of("#!/bin/bash\ntrl sft\n", "run"), "is a shell script"));
    CHECK(strstr(look_of("import torch\n", "train.py"), "to_json_string()"));
    CHECK(strstr(look_of("from trl import SFTTrainer\n", "train"), "is a Python program"));
    CHECK(strstr(look_of("{\"cells\": []}", "train.ipynb"), "is a notebook"));
    CHECK(!look_of("# a comment\nbase_model: x\n", "axolotl.yml"));
    CHECK(strstr(refusal("some words\n"), "axolotl, LLaMA-Factory"));
}

TEST(trainer_config_loses_an_optimizer_it_has_no_word_for)
{
    struct plan_request request;
    struct trainer_config config = read_text("base_model: x\noptimizer: muon\n", &request);
    CHECK(effect_of(&config, "optimizer") == TRAINER_CONFIG_MATTERS);
    CHECK(request.recipe.optimizer == RECIPE_ADAMW);
}

TEST(trainer_config_knows_fsdp_2_by_its_version)
{
    struct plan_request request;
    struct trainer_config config = read_text("base_model: x\nfsdp_version: 2\nfsdp_config:\n"
                                             "  offload_params: false\n",
                                             &request);
    expect(&config, "parallel=fsdp");
    config = read_text("base_model: x\nfsdp_config:\n  fsdp_version: 2\n"
                       "  reshard_after_forward: false\n  offload_params: true\n",
                       &request);
    expect(&config, "parallel=zero2 offload optimizer weights");
    CHECK(!config.contradiction_count);
    config = read_text("distributed_type: FSDP\nnum_processes: 4\nmixed_precision: no\n", &request);
    expect(&config, "parallel=fsdp;gpus=4");
}

TEST(trainer_config_reads_what_saves_memory)
{
    struct plan_request request;
    struct trainer_config config =
        read_text("model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
                  "optimizer:\n  _component_: bitsandbytes.optim.PagedAdamW8bit\n"
                  "tokenizer:\n  max_seq_len: 2048\nbatch_size: 2\noptimizer_in_bwd: True\n"
                  "enable_activation_checkpointing: True\nenable_activation_offloading: True\n"
                  "fsdp_cpu_offload: False\n",
                  &request);
    expect(&config, "optimizer=adamw-paged-8bit;optimizer_in_backward=yes;"
                    "parallel=offload activations;checkpointing=full");
    CHECK(request.recipe.optimizer_in_backward);
    config = read_text("base_model: x\nadapter: lora\nactivation_offloading: true\n", &request);
    expect(&config, "parallel=offload activations");
}

TEST(trainer_config_reads_how_long_it_runs_and_when_it_evaluates_and_saves)
{
    struct plan_request request;
    struct trainer_config config =
        read_text("per_device_train_batch_size: 4\nmax_steps: 1200\nnum_train_epochs: 3\n"
                  "evaluation_strategy: steps\neval_steps: 100\nsave_strategy: steps\n"
                  "save_steps: 300\n",
                  &request);
    expect(&config, "steps=1200;evaluate_every=100;save_every=300");
    CHECK(isnan(request.epochs) && isnan(request.evals_per_epoch));
    config = read_text("per_device_train_batch_size: 4\nmax_steps: -1\nnum_train_epochs: 2\n"
                       "eval_strategy: epoch\neval_steps: 100\nsave_strategy: \"no\"\n",
                       &request);
    expect(&config, "epochs=2;evals_per_epoch=1;save_every=0");
    CHECK(request.steps == PLAN_NOT_GIVEN && request.evaluate_every == PLAN_NOT_GIVEN);
    CHECK(effect_of(&config, "eval_steps") == TRAINER_CONFIG_HARMLESS);
    // The Trainer's defaults: no evaluation, a save every 500 steps.
    config = read_text("per_device_train_batch_size: 4\neval_steps: 100\n", &request);
    expect(&config, "evals_per_epoch=0;save_every=500");
    // Below 1: a share of the run.
    config = read_text("per_device_train_batch_size: 4\neval_strategy: steps\neval_steps: 0.05\n"
                       "num_train_epochs: 4\nsave_steps: 0.1\n",
                       &request);
    expect(&config, "evals_per_epoch=5;saves_per_epoch=2.5");
    CHECK(request.save_every == PLAN_NOT_GIVEN);
    // axolotl evaluates by steps where they are given, else each epoch; without rows, never.
    config =
        read_text("base_model: x\nval_set_size: 0.1\neval_steps: 50\nsave_steps: 80\n", &request);
    expect(&config, "eval_share=0.1111;evaluate_every=50;save_every=80");
    config = read_text("base_model: x\nsaves_per_epoch: 4\n", &request);
    expect(&config, "eval_share=0;saves_per_epoch=4");
    CHECK(effect_of(&config, "saves_per_epoch") == TRAINER_CONFIG_UNDERSTOOD);
    config =
        read_text("base_model: x\ntest_datasets:\n  - path: y\nsaves_per_epoch: 1\n", &request);
    CHECK(isnan(request.eval_share) && request.saves_per_epoch == 1);
    config = read_text("model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\n"
                       "max_steps_per_epoch: 40\nrun_val_every_n_steps: 10\n",
                       &request);
    expect(&config, "evaluate_every=10;epochs=1");
    CHECK(effect_of(&config, "max_steps_per_epoch") == TRAINER_CONFIG_MATTERS);
}

// --- rows that are not trained on --------------------------------------------

static void measure(struct plan_request *request, int rows)
{
    struct profile *profile = ARENA_NEW(&test_arena, struct profile, 1);
    struct lengths *lengths = ARENA_NEW(&test_arena, struct lengths, 1);
    lengths->arena = &test_arena;
    for (int i = 0; i < rows; i++)
        lengths_add(lengths, 100, 100);
    request->context = 1024;
    CHECK(!plan_request_measure(request, &test_arena, profile, lengths));
    plan_request_renew(request);
}

TEST(plan_from_trains_on_no_row_that_the_trainer_holds_out_or_does_not_read)
{
    static const struct {
        const char *yaml;
        int64_t examples;
        double eval_share;
    } cases[] = {
        { "base_model: x\nval_set_size: 0.1\n", 1800, 0.1111 },
        { "base_model: x\nval_set_size: 200\n", 1800, 1.0 / 9 },
        { "stage: sft\ncutoff_len: 512\nmax_samples: 1000\n", 1000, NAN },
        { "stage: sft\ncutoff_len: 512\nmax_samples: 1000\nval_size: 0.1\n", 900, 0.1111 },
        { "stage: sft\ncutoff_len: 512\nmax_samples: 500\ndataset: a,b,c\n", 1500, NAN },
        { "stage: sft\ncutoff_len: 512\nmax_samples: 9000\n", 2000, NAN },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_request request, given = plan_request_default();
        read_text(cases[i].yaml, &request);
        request.given = &given;
        measure(&request, 2000);
        CHECK(request.examples == cases[i].examples && request.tokens == 100 * request.examples);
        CHECK(isnan(cases[i].eval_share) ? isnan(request.eval_share)
                                         : fabs(request.eval_share - cases[i].eval_share) < 1e-9);
    }
    // Of a count of tokens, where rows have a length that is told or assumed.
    const double told[] = { 400, NAN };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        struct plan_request limited, user = plan_request_default();
        read_text(cases[2].yaml, &limited);
        limited.given = &user;
        user.tokens = limited.tokens = 1000000;
        limited.mean_length = told[i];
        plan_request_renew(&limited);
        CHECK_NEAR(limited.tokens, 1000 * (i ? workload_assumed_lengths(512).mid : told[i]), 1e-4);
    }
    // A share of a count of tokens; and what the user says of evaluations replaces the file's word.
    struct plan_request request, given = plan_request_default();
    read_text(cases[0].yaml, &request);
    request.given = &given;
    given.tokens = request.tokens = 1000000;
    plan_request_renew(&request);
    CHECK(request.tokens == 900000);
    read_text(cases[0].yaml, &request);
    request.given = &given;
    given.eval_share = request.eval_share = 0.05, request.tokens = 1000000;
    plan_request_renew(&request);
    CHECK(request.tokens == 1000000);
}
