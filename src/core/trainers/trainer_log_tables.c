// SPDX-License-Identifier: Apache-2.0
// The keys, bars and phrases of trainers. A new format is a row here, and a fixture in
// test/data/logs.

#include "core/trainers/trainer_log_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define AT(field) offsetof(struct trainer_log_found, event.field)
#define PHASE(name) offsetof(struct trainer_log_found, event.phases[TRAINER_PHASE_##name])
#define IN(field) offsetof(struct trainer_log_found, field)
#define MIB 1048576.0
#define GIB 1073741824.0

// If a line has two keys of the same value, the row further down wins.
static const struct trainer_log_key keys[] = {
    { "iter", IN(micro_step), 1, 0 },
    { "iteration", IN(micro_step), 1, 0 },
    { "training iteration", IN(micro_step), 1, 0 },
    { "batch", IN(micro_step), 1, 0 },
    { "step", AT(step), 1, 0 },
    { "global step", AT(step), 1, 0 },
    { "global_step", AT(step), 1, 0 },
    { "completed step", AT(step), 1, 0 },
    { "training step", AT(step), 1, 0 },
    { "current_steps", AT(step), 1, 0 }, // LLaMA-Factory
    { "trainer/global_step", AT(step), 1, 0 },
    { "global_step/max_steps", AT(step), 1, KEY_OF_TOTAL }, // ms-swift
    { "total_steps", AT(total), 1, 0 },
    { "max_steps", AT(total), 1, 0 },

    { "total optimization steps", IN(announced), 1, 0 }, // transformers
    { "total steps", IN(announced), 1, 0 },              // Unsloth
    { "num epochs", IN(epochs), 1, 0 },
    { "distributed & accumulation)", AT(global_batch), 1, 0 }, // "Total train batch size (w. …"
    { "instantaneous batch size per device", AT(micro_batch), 1, 0 },
    { "batch size per device", AT(micro_batch), 1, 0 }, // Unsloth
    { "gradient accumulation steps", IN(gathered), 1, 0 },
    { "data parallel gpus", IN(ranks), 1, 0 },
    { "epoch", AT(epoch), 1, 0 },

    { "loss", AT(loss), 1, 0 },
    { "train_loss", AT(loss), 1, 0 },
    { "train_loss_step", AT(loss), 1, 0 },
    { "training_loss", AT(loss), 1, 0 },
    { "train loss", AT(loss), 1, 0 },
    { "loss train", AT(loss), 1, 0 }, // litgpt
    { "lm loss", AT(loss), 1, 0 },    // Megatron
    { "reduced_train_loss", AT(loss), 1, 0 },
    { "step_loss", AT(loss), 1, 0 },
    { "loss/train/total", AT(loss), 1, 0 }, // Composer
    { "learning_rate", AT(rate), 1, 0 },
    { "learning rate", AT(rate), 1, 0 },
    { "lr", AT(rate), 1, 0 },
    { "rate", AT(rate), 1, 0 }, // our own
    { "lr-*", AT(rate), 1, 0 },

    { "eval_loss", AT(evaluation_loss), 1, 0 },
    { "eval/loss", AT(evaluation_loss), 1, 0 },
    { "val_loss", AT(evaluation_loss), 1, 0 },
    { "val loss", AT(evaluation_loss), 1, 0 },
    { "valid loss", AT(evaluation_loss), 1, 0 },
    { "validation loss", AT(evaluation_loss), 1, 0 },
    { "val", AT(evaluation_loss), 1, 0 },
    { "lm loss value", AT(evaluation_loss), 1, 0 }, // Megatron
    { "held_out_loss", AT(evaluation_loss), 1, 0 }, // our own
    { "eval metrics/eval/languagecrossentropy", AT(evaluation_loss), 1, 0 },

    { "num_tokens", AT(tokens), 1, 0 }, // TRL
    { "num_input_tokens_seen", AT(tokens), 1, 0 },
    { "total_tokens", AT(tokens), 1, 0 },
    { "total tokens", AT(tokens), 1, 0 },
    { "tokens/total", AT(tokens), 1, 0 }, // axolotl
    { "tokens_seen", AT(tokens), 1, 0 },
    { "consumed_tokens", AT(tokens), 1, 0 },
    { "consumed tokens", AT(tokens), 1, 0 },
    { "trained tokens", AT(tokens), 1, 0 },
    { "time/token", AT(tokens), 1, 0 },            // Composer: before this step
    { "processed_tokens", AT(step_tokens), 1, 0 }, // our own
    { "tokens_per_step", AT(step_tokens), 1, 0 },
    { "throughput", AT(tokens_per_s), 1, 0 }, // LLaMA-Factory: since the start
    { "tokens_per_second", AT(tokens_per_s), 1, 0 },
    { "tokens_per_sec", AT(tokens_per_s), 1, 0 },
    { "train_tokens_per_second", AT(tokens_per_s), 1, 0 },
    { "step_tokens_per_second", AT(tokens_per_s), 1, 0 },
    { "tokens/sec", AT(tokens_per_s), 1, 0 },
    { "tokens/s", AT(tokens_per_s), 1, 0 },
    { "throughput/tokens_per_sec", AT(tokens_per_s), 1, 0 },
    { "tps", AT(tokens_per_s_gpu), 1, 0 }, // torchtitan
    { "tokens_per_second_per_gpu", AT(tokens_per_s_gpu), 1, 0 },
    { "tokens/train_per_sec_per_gpu", AT(tokens_per_s_gpu), 1, 0 },
    { "tokens/s/device", AT(tokens_per_s_gpu), 1, 0 },
    { "throughput/device/tokens_per_sec", AT(tokens_per_s_gpu), 1, 0 },

    { "consumed samples", AT(samples), 1, 0 },
    { "consumed_samples", AT(samples), 1, 0 },
    { "time/sample", AT(samples), 1, 0 },
    { "global batch size", AT(global_batch), 1, 0 },
    { "global_batch_size", AT(global_batch), 1, 0 },
    { "total batch size", AT(global_batch), 1, 0 },

    { "elapsed time per iteration (ms)", AT(step_seconds), 1e-3, 0 },
    { "train_step_timing in s", AT(step_seconds), 1, 0 },
    { "seconds", AT(step_seconds), 1, 0 },
    { "step_time", AT(step_seconds), 1, 0 },
    { "time", AT(step_seconds), 1, KEY_WITH_UNIT },
    { "it/sec", AT(step_seconds), 1, KEY_INVERSE },
    { "train_steps_per_second", AT(step_seconds), 1, KEY_INVERSE }, // transformers, last line
    { "elapsed_time", AT(elapsed_seconds), 1, KEY_DURATION },       // LLaMA-Factory
    { "train_runtime", AT(run_seconds), 1, 0 },
    { "training time", AT(run_seconds), 1, KEY_WITH_UNIT },
    { "timestamp", AT(clock_seconds), 1, KEY_CLOCK },
    { "_timestamp", AT(clock_seconds), 1, KEY_CLOCK },
    { "wall_time", AT(clock_seconds), 1, KEY_CLOCK },

    { "timing_s/step", AT(step_seconds), 1, 0 }, // verl
    { "timing_s/gen", PHASE(ROLLOUT), 1, 0 },
    { "timing_s/reward", PHASE(REWARD), 1, 0 },
    { "timing_s/ref", PHASE(REFERENCE), 1, 0 },
    { "timing_s/old_log_prob", PHASE(LOG_PROBABILITIES), 1, 0 },
    { "timing_s/values", PHASE(VALUES), 1, 0 },
    { "timing_s/update_critic", PHASE(CRITIC), 1, 0 },
    { "timing_s/update_actor", PHASE(TRAINING), 1, 0 },
    { "timing_s/update_weights", PHASE(WEIGHTS), 1, 0 },
    { "perf/total_num_tokens", AT(step_tokens), 1, 0 },
    { "response_length/mean", AT(answer_tokens), 1, 0 },
    { "timing/step_total", AT(step_seconds), 1, 0 }, // OpenRLHF
    { "timing/generation", PHASE(ROLLOUT), 1, 0 },
    { "timing/make_experience", PHASE(SCORING), 1, 0 },
    { "timing/ppo_train", PHASE(TRAINING), 1, 0 },
    { "timing/broadcast", PHASE(WEIGHTS), 1, 0 },
    { "response_length", AT(answer_tokens), 1, 0 },
    { "total step time", AT(step_seconds), 1, KEY_WITH_UNIT }, // NeMo-RL
    { "generation", PHASE(ROLLOUT), 1, KEY_WITH_UNIT },
    { "reward_calculation", PHASE(REWARD), 1, KEY_WITH_UNIT },
    { "policy_and_reference_logprobs", PHASE(SCORING), 1, KEY_WITH_UNIT },
    { "policy_logprobs", PHASE(LOG_PROBABILITIES), 1, KEY_WITH_UNIT },
    { "reference_logprobs", PHASE(REFERENCE), 1, KEY_WITH_UNIT },
    { "policy_training", PHASE(TRAINING), 1, KEY_WITH_UNIT },
    { "value_training", PHASE(CRITIC), 1, KEY_WITH_UNIT },
    { "prepare_for_generation/total", PHASE(WEIGHTS), 1, KEY_WITH_UNIT },
    { "weight_sync", PHASE(WEIGHTS), 1, KEY_WITH_UNIT },
    { "mean generation length", AT(answer_tokens), 1, 0 },
    { "completions/mean_length", AT(answer_tokens), 1, 0 }, // TRL

    { "peak_memory_alloc", AT(peak_bytes), GIB, 0 }, // torchtune
    { "memory/max_mem_allocated(gib)", AT(peak_bytes), GIB, 0 },
    { "memory/max_allocated (gib)", AT(peak_bytes), GIB, 0 },
    { "memory/peak_allocated_mem", AT(peak_bytes), 1e9, 0 },
    { "total_peak_memory_allocated_mb", AT(peak_bytes), MIB, 0 }, // Liger's callback
    { "vram_allocated", AT(peak_bytes), GIB, 0 },
    { "max allocated", AT(peak_bytes), MIB, 0 }, // Megatron
    { "memory used", AT(peak_bytes), 1e9, 0 },   // litgpt
    { "peak mem", AT(peak_bytes), 1, KEY_WITH_UNIT },
    { "memory", AT(peak_bytes), 1, KEY_WITH_UNIT },
};

static bool is_key(const char *key, const char *name)
{
    size_t size = strlen(key);
    return key[size - 1] == '*' ? !strncmp(key, name, size - 1) : !strcmp(key, name);
}

static const struct trainer_log_key *look_up(const char *name)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].name[0] == name[0] && is_key(keys[i].name, name))
            return &keys[i];
    return NULL;
}

const struct trainer_log_key *trainer_log_find_key(const char *name)
{
    const struct trainer_log_key *key = look_up(name);
    if (!key && (!strncmp(name, "train/", 6) || !strncmp(name, "train ", 6)))
        key = look_up(name + 6);
    return key;
}

// --- bars --------------------------------------------------------------------

// The first prefix of a description, ignoring case. '#' is a number: the epoch, counted from 1 if a
// total follows.
static const struct {
    const char *begin;
    enum trainer_log_bar_kind kind;
} bars[] = {
    { "evaluat", BAR_EVALUATION },
    { "eval", BAR_EVALUATION },
    { "validat", BAR_EVALUATION },
    { "valid", BAR_EVALUATION },
    { "testing", BAR_EVALUATION },
    { "predict", BAR_EVALUATION },
    { "sanity check", BAR_EVALUATION },
    { "epoch #", BAR_EPOCH },
    { "training epoch: #", BAR_EPOCH },
    { "training epoch #", BAR_EPOCH },
    { "train epoch #", BAR_EPOCH },
    { "epochs", BAR_OTHER },
    { "epoch", BAR_OTHER },
    { "training", BAR_TRAINING },
    { "train", BAR_TRAINING },
    { "steps", BAR_TRAINING },
    { "iteration", BAR_TRAINING },
    { "finetuning", BAR_TRAINING },
    { "fine-tuning", BAR_TRAINING },
    { "#|#|loss", BAR_TRAINING },
};

// Reads the numbers in place of '#'.
static bool begins(struct text name, const char *begin, double numbers[2], size_t *end)
{
    size_t at = 0, count = 0;
    for (; *begin; begin++) {
        if (*begin == '#') {
            double value = 0;
            size_t first = at;
            while (at < name.size && at < first + 15 && isdigit((unsigned char)name.at[at]))
                value = value * 10 + (name.at[at++] - '0');
            if (at == first)
                return false;
            numbers[count++] = value;
        } else if (at < name.size && tolower((unsigned char)name.at[at]) == *begin) {
            at++;
        } else {
            return false;
        }
    }
    *end = at;
    return true;
}

static bool mentions(struct text name, const char *word)
{
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= name.size; i++)
        if (!strncasecmp(name.at + i, word, size))
            return true;
    return false;
}

enum trainer_log_bar_kind trainer_log_find_bar_kind(struct text name, double *epoch, double *step)
{
    *epoch = *step = NAN;
    if (!name.size)
        return BAR_BARE;
    for (size_t i = 0; i < sizeof bars / sizeof *bars; i++) {
        double numbers[2];
        size_t end;
        if (!begins(name, bars[i].begin, numbers, &end))
            continue;
        if (bars[i].begin[0] == '#')
            *step = numbers[1];
        if (bars[i].kind != BAR_EPOCH)
            return bars[i].kind;
        if (mentions(name, "steps")) // counts through all epochs
            return BAR_TRAINING;
        *epoch = numbers[0] -
                 (end < name.size && name.at[end] == '/' && strncasecmp(name.at, "epoch", 5) != 0);
        return BAR_EPOCH;
    }
    return BAR_OTHER;
}

// --- phrases -----------------------------------------------------------------

static const struct {
    const char *text;
    enum trainer_log_phrase_kind kind;
} phrases[] = {
    { "out of memory. Tried to allocate", PHRASE_OUT_OF_MEMORY }, // CUDA, HIP, XPU, NPU
    { "OutOfMemoryError:", PHRASE_OUT_OF_MEMORY },                // tips name it without the colon
    { "CUDA error: out of memory", PHRASE_OUT_OF_MEMORY },
    { "HIP error: out of memory", PHRASE_OUT_OF_MEMORY },
    { "CUBLAS_STATUS_ALLOC_FAILED", PHRASE_OUT_OF_MEMORY },
    { "RESOURCE_EXHAUSTED", PHRASE_OUT_OF_MEMORY },
    { "***** Running Evaluation", PHRASE_EVALUATION_BEGIN },
    { "***** Running Prediction", PHRASE_EVALUATION_BEGIN },
    { "***** Running evaluation", PHRASE_EVALUATION_BEGIN },
    { "Running evaluation step", PHRASE_EVALUATION_BEGIN }, // axolotl
    { "Validating ...", PHRASE_EVALUATION_BEGIN },          // litgpt
    { "[Eval batch=", PHRASE_EVALUATION_BEGIN },            // Composer
    { "Evaluating iter ", PHRASE_EVALUATION_BEGIN },        // Megatron
    { "Evaluating on ", PHRASE_EVALUATION_BEGIN },
    { "Validation: iteration ", PHRASE_EVALUATION_BEGIN }, // NeMo
    { "Running validation", PHRASE_EVALUATION_BEGIN },
    { "Saving model checkpoint to", PHRASE_SAVE },     // transformers
    { "saving checkpoint at iteration", PHRASE_SAVE }, // Megatron
    { "successfully saved checkpoint", PHRASE_SAVE },
    { "Scheduled async checkpoint", PHRASE_SAVE },
    { "Model checkpoint of size", PHRASE_SAVE }, // torchtune
    { "Saving LoRA weights to", PHRASE_SAVE },   // litgpt
    { "Saving checkpoint to", PHRASE_SAVE },
    { "Saved checkpoint to", PHRASE_SAVE },
    { "Saving the checkpoint", PHRASE_SAVE }, // torchtitan
    { "Saved adapter weights to", PHRASE_SAVE },
    { "Training completed", PHRASE_END },
    { "Training Completed", PHRASE_END },
    { "Training finished", PHRASE_END },
    { "Training time: ", PHRASE_END },       // litgpt
    { "`Trainer.fit` stopped", PHRASE_END }, // Lightning
    { "[after training is done]", PHRASE_END },
    { "***** train metrics", PHRASE_END },
    { "Total optimization steps =", PHRASE_BANNER },
    { "Num Epochs =", PHRASE_BANNER },
    { "Total steps =", PHRASE_BANNER },
    { "Total train batch size (", PHRASE_BANNER },
    { "atch size per device =", PHRASE_BANNER },
    { "Gradient Accumulation steps =", PHRASE_BANNER },
    { "Data Parallel GPUs =", PHRASE_BANNER },
    { " memory (MB) | ", PHRASE_VALUES },            // Megatron
    { "Memory used: ", PHRASE_VALUES },              // litgpt
    { ":log_dist] [Rank 0] step=", PHRASE_COUNTED }, // DeepSpeed
    { ", num_updates=", PHRASE_COUNTED },            // fairseq
    { "Iter(train) [", PHRASE_BATCHES },             // MMEngine, of XTuner
    { "[batch=", PHRASE_BLOCK },
    { "= Step ", PHRASE_HEADING }, // NeMo-RL
    { "Training Results:", PHRASE_RESULTS },
    { "\u2022 Total step time:", PHRASE_STEP },
};

enum trainer_log_phrase_kind trainer_log_find_phrase(const char *line, const char **after)
{
    for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++) {
        const char *at = strstr(line, phrases[i].text);
        if (!at)
            continue;
        *after = at + strlen(phrases[i].text);
        return phrases[i].kind;
    }
    return PHRASE_NONE;
}

int trainer_log_find_base(const char *line)
{
    return strstr(line, "Training epoch ") != NULL; // NeMo
}
