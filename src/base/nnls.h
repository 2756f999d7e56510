// nnls: least squares with coefficients that are not negative.
//
//     double rows[] = { 1, 2,  1, 3,  1, 5 }, values[] = { 5, 7, 11 }, x[2];
//     nnls_solve(x, rows, values, 3, 2);           // 1 + 2 · second column
//
// For a handful of columns: each set of columns is solved by itself, and of those whose solution is
// positive the one with the smallest residual is the answer, because the optimum is the plain least
// squares of its own support. Columns that others explain stay at zero.

#pragma once

#include <stddef.h>

enum { NNLS_COLUMNS = 6 };

// rows has count × columns numbers. Returns the root mean square of the residuals.
double nnls_solve(double *coefficients, const double *rows, const double *values, size_t count,
                  int columns);
