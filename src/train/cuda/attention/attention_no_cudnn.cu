// SPDX-License-Identifier: Apache-2.0
// Stands in for attention_cudnn.cu in a build without cuDNN: opening it always fails.

#include "train/cuda/attention/attention_cudnn.h"

#include <stdio.h>

struct cudnn *cudnn_open(char note[CUDNN_NOTE])
{
    snprintf(note, CUDNN_NOTE, "this build has no cuDNN");
    return NULL;
}

void cudnn_close(struct cudnn *)
{
}

int64_t cudnn_version(const struct cudnn *)
{
    return 0;
}

struct cudnn_plan *cudnn_plan_make(struct cudnn *, const struct cudnn_shape *, char *)
{
    return NULL;
}

void cudnn_plan_free(struct cudnn *, struct cudnn_plan *)
{
}

int64_t cudnn_plan_bytes(const struct cudnn_plan *)
{
    return 0;
}

bool cudnn_run(struct cudnn *, struct cudnn_plan *, cudaStream_t, const struct cudnn_pointers *,
               void *, char *)
{
    return false;
}
