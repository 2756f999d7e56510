// SPDX-License-Identifier: Apache-2.0
// gradient: holds a gradient against differences of the function, in fp64.
//
//     gradient_check(x, dx, loss, &context); // loss(&context) is a function of x's elements
//
// The difference has four points, (8 (f(h) − f(−h)) − (f(2h) − f(−2h))) / 12 h, so that its own
// error is far below the bound of 1e-6. Errors are relative to the element, or to the tensor's mean
// size where the element is smaller than that.

#pragma once

#include "base/rng.h"
#include "test/test.h"
#include "train/backend.h"

#define GRADIENT_BOUND 1e-6

static inline struct device *gradient_device(void)
{
    static struct device device;
    if (!device.backend)
        CHECK(!backend_cpu.open(&device, 0));
    return &device;
}

#define OP(name) gradient_device()->backend->name

static inline struct tensor gradient_tensor(enum dtype dtype, int64_t rows, int64_t columns)
{
    size_t bytes = (size_t)(rows * columns * dtype_bytes(dtype));
    return tensor_of(arena_alloc(&test_arena, bytes ? bytes : 1), dtype, rows, columns);
}

static inline void gradient_fill(struct tensor tensor, uint64_t seed)
{
    struct rng rng = rng_seeded(seed);
    for (int64_t i = 0; i < tensor_count(tensor); i++) {
        double x = rng_normal(&rng);
        tensor_store(tensor_flat(tensor), 0, i, &x, 1);
    }
}

static inline struct tensor gradient_random(int64_t rows, int64_t columns, uint64_t seed)
{
    struct tensor tensor = gradient_tensor(DTYPE_F64, rows, columns);
    gradient_fill(tensor, seed);
    return tensor;
}

static inline double *gradient_at(struct tensor tensor, int64_t i)
{
    return (double *)tensor.at + i / tensor.columns * tensor.stride + i % tensor.columns;
}

// Σ a · b
static inline double gradient_dot(struct tensor a, struct tensor b)
{
    double sum = 0;
    for (int64_t i = 0; i < tensor_count(a); i++)
        sum += *gradient_at(a, i) * *gradient_at(b, i);
    return sum;
}

static inline double gradient_difference(double *x, double (*loss)(void *), void *context)
{
    double before = *x, h = 1e-3, f[4];
    static const double steps[] = { 1, -1, 2, -2 };
    for (int i = 0; i < 4; i++) {
        *x = before + steps[i] * h;
        f[i] = loss(context);
    }
    *x = before;
    return (8 * (f[0] - f[1]) - (f[2] - f[3])) / (12 * h);
}

// Looks at every stride-th element; returns the largest relative error.
static inline double gradient_error(struct tensor x, struct tensor dx, int64_t stride,
                                    double (*loss)(void *), void *context)
{
    int64_t count = tensor_count(x);
    double mean = sqrt(gradient_dot(dx, dx) / (double)count), worst = 0;
    for (int64_t i = 0; i < count; i += stride) {
        double exact = *gradient_at(dx, i);
        double measured = gradient_difference(gradient_at(x, i), loss, context);
        double size = fmax(fmax(fabs(exact), fabs(measured)), mean);
        double error = size > 0 ? fabs(exact - measured) / size : 0;
        worst = error > worst || isnan(error) ? error : worst;
    }
    return worst;
}

static inline void gradient_check(struct tensor x, struct tensor dx, double (*loss)(void *),
                                  void *context)
{
    CHECK(gradient_dot(dx, dx) > 0);
    CHECK(gradient_error(x, dx, 1, loss, context) < GRADIENT_BOUND);
}
