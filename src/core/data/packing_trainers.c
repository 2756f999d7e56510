// SPDX-License-Identifier: Apache-2.0
// How each trainer pads and packs, from its source (snapshots of 2026-05 to 2026-08). Stacks name a
// row of this table as their "trainer" (data/stacks.json).
//
// All but torchtune, NeMo and our own engine end an epoch as transformers' Trainer does: the last
// micro-batch may be short, accelerate repeats examples so that every rank has the same number, and
// a step with fewer micro-batches than the others still counts.

#include "core/data/packing.h"

#include <stdio.h>
#include <string.h>

#define NAMES "max", "longest", "grouped", "packed"
const char *const batching_names[] = { NAMES, NULL };
const char *const batching_names_auto[] = { NAMES, "auto", NULL };

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

// axolotl 2026-07: the function is called first-fit decreasing, but sorts nothing. With flash
// attention, one row has the windows of the whole micro-batch and is padded to whole windows; the
// number of steps is rounded down. Longer examples are dropped first (excess_length_strategy).
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

// LLaMA-Factory 2026-08: packs into cutoff_len − 1 tokens and pads to cutoff_len. Examples are cut
// to that length first, so its code that drops longer ones never runs.
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

// NeMo and Megatron-Bridge: pack the whole set offline, with lengths less one because inputs and
// labels are shifted; micro-batches of one pack; an incomplete global batch is dropped.
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

// Best fit over the whole set: our engine concatenates the documents; others have rows of one
// shape.
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
    { "hf", "bfd", &trl_bfd, &padded, NULL, false, true },
    { "hf", "bfd-split", &trl_bfd_split, &padded, NULL, false, true },
    { "hf", "wrapped", &trl_wrapped, &padded, NULL, false, true },
    { "axolotl", "first-fit", &axolotl_first_fit, &axolotl_padded, NULL, false, false },
    { "axolotl", "sequential", &axolotl_sequential, &axolotl_padded, NULL, false, false },
    { "llama-factory", "neat", &llama_factory_neat, &llama_factory_padded, NULL, false, false },
    { "llama-factory", "knapsack", &llama_factory_across, &llama_factory_padded, NULL, false,
      false },
    { "nemo", "first-fit-shuffle", &nemo_shuffle, &nemo_padded, NULL, false, false },
    { "nemo", "first-fit-decreasing", &nemo_decreasing, &nemo_padded, NULL, false, false },
    { "ms-swift", "constant-volume", &swift_volume, &swift_padded, NULL, false, false },
    { "ms-swift", "sequential", &swift_sequential, &swift_padded, NULL, false, false },
    { "torchtune", "next-fit", &torchtune_packed, &torchtune_padded, NULL, false, false },
    { "native", "best-fit", &native_packed, &padded, NULL, true, false },
    { "litgpt", "best-fit", &like_native, &padded,
      "LitGPT does not pack fine-tuning data; packed as our own engine would", false, false },
    { "llm-foundry", "best-fit", &like_native, &padded,
      "LLM Foundry packs each batch by a profiled ratio; packed as our own engine would", false,
      false },
    { 0 },
};

static enum err unknown_trainer(const char *name)
{
    const char *names[32];
    char list[512] = "";
    size_t count = 0, size = 0;
    for (const struct packing_trainer *t = packing_trainers; t->name; t++)
        if (!count || strcmp(names[count - 1], t->name)) {
            names[count++] = t->name;
            size += (size_t)snprintf(list + size, sizeof list - size, "%s%s", size ? ", " : "",
                                     t->name);
        }
    const char *near = text_nearest(text_of(name), names, count);
    return fail(ERR_USAGE, "there is no trainer \"%s\"%s%s; the trainers are %s", name,
                near ? "; did you mean " : "", near ? near : "", list);
}

enum err packing_trainer_find(const struct packing_trainer **out, const char *name,
                              const char *packer)
{
    const char *wanted = name ? name : "hf";
    *out = NULL;
    const char *packers[8];
    size_t count = 0;
    for (const struct packing_trainer *t = packing_trainers; t->name; t++) {
        if (strcmp(t->name, wanted))
            continue;
        if (!packer || !strcmp(t->packer, packer)) {
            *out = t;
            return OK;
        }
        packers[count++] = t->packer;
    }
    if (!count)
        return unknown_trainer(wanted);
    return fail(ERR_USAGE, "%s has no packer %s; its packers are %s%s%s%s%s", wanted, packer,
                packers[0], count > 1 ? ", " : "", count > 1 ? packers[1] : "",
                count > 2 ? ", " : "", count > 2 ? packers[2] : "");
}

bool packing_strings_raw(const char *trainer)
{
    const struct packing_trainer *found;
    return !packing_trainer_find(&found, trainer, NULL) && found->raw_strings;
}

bool packing_unpadded(const char *trainer)
{
    const struct packing_trainer *found;
    return !packing_trainer_find(&found, trainer, NULL) && found->unpadded;
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
