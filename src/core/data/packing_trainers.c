// How each trainer pads and packs: a table, read from the trainers' sources (2026-05 to 2026-08).
//
// All but torchtune, NeMo and our own engine end an epoch as transformers' Trainer does: the last
// micro-batch may be short, accelerate repeats examples so that every rank has the same number, and
// an incomplete last step still counts as a step.

#include "core/data/packing.h"

#include <string.h>

const char *const batching_names[] = { "max", "longest", "grouped", "packed", NULL };

enum { MAP_ROWS = 1000 }; // batch_size of datasets.map

static const struct packing_rule padded = {
    .width = PACKING_WIDTH_LONGEST,
    .shuffles_examples = true,
};

// TRL 2026-07: best-fit decreasing within each map batch, padding-free.
static const struct packing_rule trl_bfd = {
    .method = PACKING_BEST_FIT,
    .width = PACKING_WIDTH_FLAT,
    .chunk_examples = MAP_ROWS,
    .shuffles_rows = true,
    .skips_unlabelled = true,
};
static const struct packing_rule trl_bfd_split = {
    .method = PACKING_BEST_FIT,
    .excess = PACKING_SPLIT,
    .width = PACKING_WIDTH_FLAT,
    .chunk_examples = MAP_ROWS,
    .shuffles_rows = true,
    .skips_unlabelled = true,
};
static const struct packing_rule trl_wrapped = {
    .method = PACKING_WRAPPED,
    .excess = PACKING_SPLIT,
    .width = PACKING_WIDTH_LONGEST,
    .chunk_examples = MAP_ROWS,
    .shuffles_rows = true,
    .skips_unlabelled = true,
    .attends_across = true,
};

// axolotl 2026-07: the function is called first-fit decreasing, but nothing is sorted. With flash
// attention, one row spans the windows of the whole micro-batch and is padded to whole windows; the
// number of steps is rounded down. Longer rows are dropped first (excess_length_strategy).
static const struct packing_rule axolotl_first_fit = {
    .method = PACKING_FIRST_FIT,
    .excess = PACKING_DROP,
    .width = PACKING_WIDTH_FLAT,
    .chunk_examples = 100000,
    .bin_examples = 200, // sample_packing_bin_size
    .shuffles_examples = true,
    .fills_micro_batch = true,
    .drops_last = true,
};
static const struct packing_rule axolotl_sequential = {
    .method = PACKING_NEXT_FIT,
    .excess = PACKING_DROP,
    .width = PACKING_WIDTH_FLAT,
    .shuffles_examples = true,
    .fills_micro_batch = true,
    .drops_last = true,
};
static const struct packing_rule axolotl_padded = {
    .excess = PACKING_DROP,
    .width = PACKING_WIDTH_LONGEST,
    .multiple = 64,
    .shuffles_examples = true,
};

// LLaMA-Factory 2026-08: packs to cutoff_len - 1 and pads to cutoff_len. Examples are cut to that
// length first, so its check that drops long ones never applies.
static const struct packing_rule llama_factory_neat = {
    .method = PACKING_KNAPSACK,
    .excess = PACKING_CUT_SHARE,
    .width = PACKING_WIDTH_WINDOW,
    .chunk_examples = MAP_ROWS, // preprocessing_batch_size
    .reserve = 1,
    .shuffles_rows = true,
};
static const struct packing_rule llama_factory_across = {
    .method = PACKING_KNAPSACK,
    .excess = PACKING_CUT_SHARE,
    .width = PACKING_WIDTH_WINDOW,
    .chunk_examples = MAP_ROWS,
    .reserve = 1,
    .shuffles_rows = true,
    .attends_across = true,
};
static const struct packing_rule llama_factory_padded = {
    .excess = PACKING_CUT_SHARE,
    .width = PACKING_WIDTH_LONGEST,
    .multiple = 8,
    .shuffles_examples = true,
};

// NeMo and Megatron-Bridge: packed offline over the whole set; lengths minus one, because inputs
// and labels are shifted; micro-batches of one pack; incomplete global batches are dropped.
static const struct packing_rule nemo_shuffle = {
    .method = PACKING_FIRST_FIT,
    .excess = PACKING_DROP,
    .width = PACKING_WIDTH_LONGEST,
    .multiple = 16,
    .shift = 1,
    .single_rows = true,
    .shuffles_examples = true,
    .shuffles_rows = true,
    .drops_last = true,
};
static const struct packing_rule nemo_decreasing = {
    .method = PACKING_FIRST_FIT_DECREASING,
    .excess = PACKING_DROP,
    .width = PACKING_WIDTH_LONGEST,
    .multiple = 16,
    .shift = 1,
    .single_rows = true,
    .shuffles_rows = true,
    .drops_last = true,
};
static const struct packing_rule nemo_padded = {
    .width = PACKING_WIDTH_LONGEST,
    .multiple = 16,
    .shift = 1,
    .shuffles_examples = true,
    .drops_last = true,
};

// ms-swift 2026-08: longer rows are deleted by default (truncation_strategy).
static const struct packing_rule swift_volume = {
    .method = PACKING_VOLUME,
    .excess = PACKING_DROP,
    .width = PACKING_WIDTH_FLAT,
    .chunk_examples = MAP_ROWS,
    .shuffles_examples = true,
    .shuffles_rows = true,
};
static const struct packing_rule swift_sequential = {
    .method = PACKING_NEXT_FIT,
    .excess = PACKING_DROP,
    .width = PACKING_WIDTH_FLAT,
    .shuffles_examples = true,
    .shuffles_rows = true,
};
static const struct packing_rule swift_padded = {
    .excess = PACKING_DROP,
    .width = PACKING_WIDTH_LONGEST,
    .shuffles_examples = true,
};

// torchtune: its tokenizers cut to max_seq_len; packs in file order and pads to max_seq_len.
static const struct packing_rule torchtune_packed = {
    .method = PACKING_NEXT_FIT,
    .width = PACKING_WIDTH_WINDOW,
    .shuffles_rows = true,
    .drops_last = true,
};
static const struct packing_rule torchtune_padded = {
    .width = PACKING_WIDTH_LONGEST,
    .shuffles_examples = true,
    .drops_last = true,
};

// Best fit over the whole set. Our engine lays documents end to end (padding-free); like_native
// pads every row to the window.
static const struct packing_rule native_packed = {
    .method = PACKING_BEST_FIT,
    .width = PACKING_WIDTH_FLAT,
    .shuffles_rows = true,
};

static const struct packing_rule like_native = {
    .method = PACKING_BEST_FIT,
    .width = PACKING_WIDTH_WINDOW,
    .shuffles_rows = true,
};

const struct packing_trainer packing_trainers[] = {
    { "hf", "bfd", &trl_bfd, &padded, NULL },
    { "hf", "bfd-split", &trl_bfd_split, &padded, NULL },
    { "hf", "wrapped", &trl_wrapped, &padded, NULL },
    { "axolotl", "first-fit", &axolotl_first_fit, &axolotl_padded, NULL },
    { "axolotl", "sequential", &axolotl_sequential, &axolotl_padded, NULL },
    { "llama-factory", "neat", &llama_factory_neat, &llama_factory_padded, NULL },
    { "llama-factory", "knapsack", &llama_factory_across, &llama_factory_padded, NULL },
    { "nemo", "first-fit-shuffle", &nemo_shuffle, &nemo_padded, NULL },
    { "nemo", "first-fit-decreasing", &nemo_decreasing, &nemo_padded, NULL },
    { "ms-swift", "constant-volume", &swift_volume, &swift_padded, NULL },
    { "ms-swift", "sequential", &swift_sequential, &swift_padded, NULL },
    { "torchtune", "next-fit", &torchtune_packed, &torchtune_padded, NULL },
    { "native", "best-fit", &native_packed, &padded, NULL },
    { "litgpt", "best-fit", &like_native, &padded,
      "LitGPT does not pack fine-tuning data; simulated with the packing of our own engine" },
    { "llm-foundry", "best-fit", &like_native, &padded,
      "LLM Foundry packs each batch by a profiled ratio; simulated with the packing of our own "
      "engine" },
    { 0 },
};

// Stacks that use TRL's and transformers' batching.
static const char *const like_hf[] = { "trl", "hf-peft", "hf-compile", "unsloth", "peft" };

static enum err unknown_stack(const char *stack)
{
    const char *names[32];
    size_t count = 0;
    for (const struct packing_trainer *t = packing_trainers; t->stack; t++)
        if (!count || strcmp(names[count - 1], t->stack))
            names[count++] = t->stack;
    for (size_t i = 0; i < sizeof like_hf / sizeof *like_hf; i++)
        names[count++] = like_hf[i];
    const char *near = text_nearest(text_of(stack), names, count);
    return fail(ERR_USAGE,
                "unknown stack %s%s%s; known are hf, hf-peft, "
                "hf-compile, unsloth, axolotl, llama-factory, nemo, ms-swift, torchtune, litgpt, "
                "llm-foundry and native",
                stack, near ? "; did you mean " : "", near ? near : "");
}

enum err packing_trainer_find(const struct packing_trainer **out, const char *stack,
                              const char *packer)
{
    const char *wanted = stack ? stack : "hf";
    for (size_t i = 0; i < sizeof like_hf / sizeof *like_hf; i++)
        if (!strcmp(wanted, like_hf[i]))
            wanted = "hf";
    *out = NULL;
    const char *packers[8];
    size_t count = 0;
    for (const struct packing_trainer *t = packing_trainers; t->stack; t++) {
        if (strcmp(t->stack, wanted))
            continue;
        if (!packer || !strcmp(t->packer, packer)) {
            *out = t;
            return OK;
        }
        packers[count++] = t->packer;
    }
    if (!count)
        return unknown_stack(wanted);
    return fail(ERR_USAGE, "%s has no packer %s; it has %s%s%s%s%s", wanted, packer, packers[0],
                count > 1 ? ", " : "", count > 1 ? packers[1] : "", count > 2 ? ", " : "",
                count > 2 ? packers[2] : "");
}

struct packing_rule packing_rule(const struct packing_trainer *trainer, enum batching batching)
{
    struct packing_rule rule = *(batching == BATCHING_PACKED ? trainer->packed : trainer->padded);
    if (batching == BATCHING_GROUPED)
        rule.method = PACKING_GROUPED;
    if (batching == BATCHING_MAX)
        rule.width = PACKING_WIDTH_WINDOW;
    return rule;
}
