// SPDX-License-Identifier: Apache-2.0
// How trainers spell the values that several of them have.

#include "core/trainers/trainer_rows.h"

const struct trainer_config_word trainer_words_optimizers[] = {
    { "adamw", "adamw" },
    { "adam", "adamw" },
    { "adamwtorch", "adamw" },
    { "adamwtorchfused", "adamw" },
    { "adamwhf", "adamw" },
    { "adamwapexfused", "adamw" },
    { "fusedadam", "adamw" },
    { "distributedfusedadam", "adamw" },
    { "cpuadam", "adamw" },
    { "adamwbnb8bit", "adamw-8bit" },
    { "adamw8bit", "adamw-8bit" },
    { "adamwtorch8bit", "adamw-8bit" },
    { "pagedadamw8bit", "adamw-paged-8bit" },
    { "pagedadamw", "adamw-paged" },
    { "pagedadamw32bit", "adamw-paged" },
    { "sgd", "sgd" },
    { "adafactor", "adafactor" },
    { 0 },
};

const struct trainer_config_word trainer_words_precisions[] = {
    { "bf16", "bf16" },
    { "bfloat16", "bf16" },
    { "bf16true", "bf16" },
    { "bf16mixed", "bf16" },
    { "fp16", "fp16" },
    { "float16", "fp16" },
    { "half", "fp16" },
    { "16", "fp16" },
    { "16true", "fp16" },
    { "16mixed", "fp16" },
    { "fp32", "fp32" },
    { "float32", "fp32" },
    { "32true", "fp32" },
    { "32", "fp32" },
    { "fp8", "fp8" },
    { "auto", NULL },
    { "no", NULL },
    { "false", NULL },
    { 0 },
};

const struct trainer_config_word trainer_words_adapters[] = {
    { "lora", "lora" },
    { "qlora", "qlora" },
    { "full", "full" },
    { "none", "full" },
    { "no", "full" },
    { "null", "none" },
    { 0 },
};

const struct trainer_config_word trainer_words_recomputes[] = {
    { "true", "full" },    { "yes", "full" },     { "false", "none" },       { "no", "none" },
    { "offload", "full" }, { "unsloth", "full" }, { "offloaddisk", "full" }, { 0 },
};

// As transformers, LLaMA-Factory and ms-swift spell them.
const struct trainer_config_word trainer_words_attentions[] = {
    { "eager", "eager" },
    { "disabled", "eager" },
    { "sdpa", "sdpa" },
    { "flashattention2", "flash2" },
    { "flashattn", "flash2" },
    { "fa2", "flash2" },
    { "kernelscommunity/flashattn2", "flash2" },
    { "flashattention3", "flash3" },
    { "fa3", "flash3" },
    { "kernelscommunity/flashattn3", "flash3" },
    { "kernelscommunity/vllmflashattn3", "flash3" },
    { "auto", NULL },
    { 0 },
};

const struct trainer_config_word trainer_words_shardings[] = {
    { "fullshard", "full" },
    { "shardgradop", "gradients" },
    { "noshard", "none" },
    { "hybridshard", "full" },
    { "hybridshardzero2", "gradients" },
    { "1", "full" },
    { "2", "gradients" },
    { "3", "none" },
    { "4", "full" },
    { 0 },
};

// FSDP 2: weights are freed after the forward pass, or kept.
const struct trainer_config_word trainer_words_reshards[] = {
    { "true", "full" },
    { "false", "gradients" },
    { 0 },
};

const struct trainer_config_word trainer_words_stages[] = {
    { "0", "0" }, { "1", "1" }, { "2", "2" }, { "3", "3" }, { 0 },
};

const struct trainer_config_word trainer_words_devices[] = {
    { "cpu", "yes" },
    { "nvme", "yes" },
    { "none", NULL },
    { 0 },
};
