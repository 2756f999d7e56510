// SPDX-License-Identifier: Apache-2.0
// parity: runs a case on the CPU, then twice on the GPU, and compares what it leaves.
//
//     static void add(struct parity *p)
//     {
//         struct tensor a = parity_random(p, DTYPE_BF16, 7, 301), sum = parity_room(p, …);
//         p->op->add(p->device, sum, a, a);
//         parity_output(p, sum);
//     }
//
// Numbers depend on the case and their order alone, so that all three runs see the same. Memory
// that is only written is poisoned with NaNs before; what lies between the rows of a strided tensor
// must come back as it was.

#pragma once

#include "train/backend.h"

// How tensors are laid out in a run of a case.
struct parity_shape {
    const char *name;
    int64_t rows, columns;
    int64_t offset, extra; // columns before it, and in all, that belong to a wider matrix
};

struct parity {
    struct device *device;
    const struct backend *op;
    const struct parity_shape *shape;
    enum dtype dtype;
    uint64_t seed;
    struct parity_memory *memory;   // to be released
    struct parity_outputs *outputs; // of this run
};

// Tensors of the device: normal numbers, or room that is poisoned; strided as the shape says.
struct tensor parity_random(struct parity *p, enum dtype dtype, int64_t rows, int64_t columns);
struct tensor parity_room(struct parity *p, enum dtype dtype, int64_t rows, int64_t columns);
struct tensor parity_dense(struct parity *p, enum dtype dtype, int64_t rows, int64_t columns,
                           bool random);
struct tensor parity_number(struct parity *p, double value); // (1, 1) in fp64
void *parity_upload(struct parity *p, const void *host, int64_t bytes);
int32_t *parity_integers(struct parity *p, int64_t count, int32_t below);
uint64_t parity_draw(struct parity *p, uint64_t below);

void parity_output(struct parity *p, struct tensor out);                   // near enough
void parity_output_exact(struct parity *p, struct tensor out);             // the same bytes
void parity_output_bytes(struct parity *p, const void *at, int64_t bytes); // the same

struct parity_case {
    const char *name;
    void (*run)(struct parity *p);
    const struct parity_shape *shapes;
    const enum dtype *dtypes; // ends in PARITY_END
};

enum { PARITY_END = -1 };

extern const struct parity_case parity_cases[];         // elementwise and the like (cases.c)
extern const struct parity_case parity_product_cases[]; // products and attention (products.c)
extern const struct parity_case parity_mixture_cases[]; // of experts (mixtures.c)
enum err parity_limits(struct device *gpu, char *problem, int64_t size); // memory, big copies

// Prints the tables of speeds; of a mixture alone if the word is "experts" (timing.c).
enum err timing_run(struct device *gpu, const char *word);
