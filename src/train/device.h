// SPDX-License-Identifier: Apache-2.0
// device: opens the CPU, or a GPU through a library that is loaded at run time.
//
//     struct device device;
//     TRY(device_open(&device, DEVICE_AUTO, 0));      // a GPU if there is one
//     double flops_per_s = device_peak(&device);      // of a large product, measured now
//     device.backend->close(&device);
//
// The CUDA backend is libgpuhours-cuda.so, next to the program or on the library path; the same
// program runs without it, and without a GPU.

#pragma once

#include "train/backend.h"

enum device_kind { DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA };
extern const char *const device_kinds[]; // "auto", "cpu", "cuda", NULL

enum err device_open(struct device *out, enum device_kind kind, int index);

bool device_is_gpu(const struct device *device);
double device_peak(struct device *device); // NAN: not enough memory to measure it
