// SPDX-License-Identifier: Apache-2.0
// A table of other trainers' options and the ones that say the same here.

#include "core/trainers/trainer_option.h"

static const char ACCUMULATED[] = "--global-batch (micro-batch × GPUs × accumulation steps)";
static const char ROWS[] = "--micro-batch (rows per GPU) or --global-batch (rows per step)";
static const char NO_HOURS[] = "it changes no GPU hours: leave it out";
static const char FILES[] = "give the data's files without an option";

static const struct trainer_option options[] = {
    { "max_seq_length", "context", 0, 0 },
    { "max_seq_len", "context", 0, 0 },
    { "max_length", "context", 0, 0 },
    { "max_len", "context", 0, 0 },
    { "seq_len", "context", 0, 0 },
    { "seq_length", "context", 0, 0 },
    { "sequence_len", "context", 0, 0 },
    { "sequence_length", "context", 0, 0 },
    { "cutoff_len", "context", 0, 0 },
    { "model_max_length", "context", 0, 0 },
    { "block_size", "context", 0, 0 },
    { "context_length", "context", 0, 0 },
    { "context_window", "context", 0, 0 },
    { "batch_size", "global_batch", ROWS, 0 },
    { "batch_size", "micro_batch", 0, 0 },
    { "per_device_train_batch_size", "micro_batch", 0, 0 },
    { "per_device_batch_size", "micro_batch", 0, 0 },
    { "micro_batch_size", "micro_batch", 0, 0 },
    { "train_micro_batch_size_per_gpu", "micro_batch", 0, 0 },
    { "train_batch_size", "global_batch", 0, 0 },
    { "global_batch_size", "global_batch", 0, 0 },
    { "effective_batch_size", "global_batch", 0, 0 },
    { "gradient_accumulation", "accumulation", 0, 0 },
    { "gradient_accumulation", "global_batch", ACCUMULATED, 0 },
    { "gradient_accumulation_steps", "accumulation", 0, 0 },
    { "gradient_accumulation_steps", "global_batch", ACCUMULATED, 0 },
    { "grad_accum", "accumulation", 0, 0 },
    { "grad_accum", "global_batch", ACCUMULATED, 0 },
    { "accumulation", "global_batch", ACCUMULATED, 0 },
    { "num_train_epochs", "epochs", 0, 0 },
    { "num_epochs", "epochs", 0, 0 },
    { "max_steps", "steps", 0, 0 },
    { "lora_rank", "rank", 0, 0 },
    { "lora_r", "rank", 0, 0 },
    { "r", "rank", 0, 0 },
    { "lora_alpha", "alpha", 0, 0 },
    { "lora_dropout", "dropout", 0, 0 },
    { "lora_target", "targets", 0, 0 },
    { "lora_targets", "targets", 0, 0 },
    { "lora_target_modules", "targets", 0, 0 },
    { "target_modules", "targets", 0, 0 },
    { "use_dora", "dora", 0, 0 },
    { "use_rslora", "rslora", 0, 0 },
    { "lora", "method", "--method lora", 0 },
    { "use_lora", "method", "--method lora", 0 },
    { "use_peft", "method", "--method lora", 0 },
    { "adapter", "method", "--method lora or --method qlora", 0 },
    { "qlora", "method", "--method qlora", 0 },
    { "finetuning_type", "method", 0, 0 },
    { "load_in_4bit", "method", "--method qlora", 0 },
    { "quantization_bit", "method", "--method qlora", 0 },
    { "load_in_8bit", "quantization", "--method qlora --quantization int8", 0 },
    { "gradient_checkpointing", "checkpointing", "--checkpointing full", 0 },
    { "activation_checkpointing", "checkpointing", "--checkpointing full", 0 },
    { "optim", "optimizer", 0, 0 },
    { "bf16", "precision", "--precision bf16", 0 },
    { "fp16", "precision", "--precision fp16", 0 },
    { "dtype", "precision", 0, 0 },
    { "torch_dtype", "precision", 0, 0 },
    { "mixed_precision", "precision", 0, 0 },
    { "sample_packing", "packing", 0, 0 },
    { "model_name", "model", 0, 0 },
    { "model_name_or_path", "model", 0, 0 },
    { "base_model", "model", 0, 0 },
    { "num_gpus", "gpus", 0, 0 },
    { "n_gpus", "gpus", 0, 0 },
    { "gpu_count", "gpus", 0, 0 },
    { "world_size", "gpus", 0, 0 },
    { "nproc_per_node", "gpus", "--gpus (over all machines)", 0 },
    { "nnodes", "nodes", 0, 0 },
    { "num_nodes", "nodes", 0, 0 },
    { "gpu_type", "gpu", 0, 0 },
    { "deepspeed", "parallel", "--parallel zero1, zero2 or fsdp (as zero3)", 0 },
    { "fsdp", "parallel", "--parallel fsdp", 0 },
    { "ddp", "parallel", "--parallel ddp", 0 },
    { "strategy", "parallel", 0, 0 },
    { "eval_steps", "evaluate_every", 0, 0 },
    { "save_steps", "save_every", 0, 0 },
    { "num_generations", "generations", 0, 0 },
    { "max_completion_length", "response_length", 0, 0 },
    { "max_new_tokens", "response_length", 0, 0 },
    { "learning_rate", "rate", 0, NO_HOURS },
    { "lr", "rate", 0, NO_HOURS },
    { "lr_scheduler_type", "schedule", 0, NO_HOURS },
    { "lr_scheduler", "schedule", 0, NO_HOURS },
    { "warmup_steps", "warmup", 0, NO_HOURS },
    { "warmup_ratio", "warmup", 0, NO_HOURS },
    { "weight_decay", "decay", 0, NO_HOURS },
    { "max_grad_norm", "clip", 0, NO_HOURS },
    { "output_dir", "out", 0, NO_HOURS },
    { "dataset", "data", 0, FILES },
    { "dataset_path", "data", 0, FILES },
    { "train_file", "data", 0, FILES },
};

static const struct {
    const char *ours, *value, *meant;
} values[] = {
    { "method", "dora", "--method lora --dora" },
    { "method", "qdora", "--method qlora --dora" },
    { "method", "rslora", "--method lora --rslora" },
    { "method", "sft", "--objective sft" },
    { "method", "dpo", "--objective dpo" },
    { "method", "orpo", "--objective orpo" },
    { "method", "kto", "--objective kto" },
    { "method", "grpo", "--objective grpo" },
    { "method", "ppo", "--objective ppo" },
    { "optimizer", "adam", "--optimizer adamw" },
    { "checkpointing", "on", "--checkpointing full" },
    { "checkpointing", "true", "--checkpointing full" },
    { "checkpointing", "off", "--checkpointing none" },
    { "checkpointing", "false", "--checkpointing none" },
};

const struct trainer_option *trainer_option_next(const struct trainer_option *after)
{
    const struct trainer_option *next = after ? after + 1 : options;
    return next < options + sizeof options / sizeof *options ? next : NULL;
}

const struct trainer_option *trainer_option_find(struct text name,
                                                 const struct trainer_option *after)
{
    const struct trainer_option *next = trainer_option_next(after);
    while (next && !text_alike(name, text_of(next->theirs)))
        next = trainer_option_next(next);
    return next;
}

const char *trainer_option_words(const struct trainer_option *option, struct arena *arena)
{
    if (option->words)
        return option->words;
    struct out dashed = { .arena = arena };
    out_put(&dashed, "--");
    for (const char *c = option->ours; *c; c++)
        out_put(&dashed, "%c", *c == '_' ? '-' : *c);
    return out_string(&dashed);
}

const char *trainer_option_value(struct text ours, struct text value)
{
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (text_is(ours, values[i].ours) && text_alike(value, text_of(values[i].value)))
            return values[i].meant;
    return NULL;
}
