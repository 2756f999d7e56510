// SPDX-License-Identifier: Apache-2.0
// nnls: non-negative least squares.
//
//     double rows[] = { 1, 2,  1, 3,  1, 5 }, values[] = { 5, 7, 11 }, x[2];
//     nnls_solve(x, rows, values, 3, 2);           // 1 + 2 · second column
//
// For few columns: solves ordinary least squares for every subset of columns and takes the best one
// whose coefficients are all positive. That is the optimum, because the optimum is the ordinary
// least-squares solution of its own support. Linearly dependent columns stay at zero.

#pragma once

#include <stddef.h>

enum { NNLS_COLUMNS = 6 };

// rows has count × columns numbers. Returns the root mean square of the residuals.
double nnls_solve(double *coefficients, const double *rows, const double *values, size_t count,
                  int columns);
