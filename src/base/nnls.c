// SPDX-License-Identifier: Apache-2.0
// Non-negative least squares by trying all subsets of columns.

#include "base/nnls.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

// Sums over the rows (AᵀA and Aᵀb); columns are scaled to length one, values are not.
struct normal {
    double gram[NNLS_COLUMNS][NNLS_COLUMNS], product[NNLS_COLUMNS], scale[NNLS_COLUMNS];
    int columns;
};

static void add_up(struct normal *n, const double *rows, const double *values, size_t count)
{
    int k = n->columns;
    for (int a = 0; a < k; a++) {
        double squares = 0;
        for (size_t i = 0; i < count; i++)
            squares += rows[i * (size_t)k + (size_t)a] * rows[i * (size_t)k + (size_t)a];
        n->scale[a] = squares > 0 ? 1 / sqrt(squares) : 0;
    }
    for (size_t i = 0; i < count; i++) {
        const double *row = rows + i * (size_t)k;
        for (int a = 0; a < k; a++) {
            n->product[a] += row[a] * n->scale[a] * values[i];
            for (int b = 0; b <= a; b++)
                n->gram[a][b] += row[a] * n->scale[a] * row[b] * n->scale[b];
        }
    }
}

// Solves for a subset of columns by Cholesky; false if they are linearly dependent or a coefficient
// is not positive.
static bool solve_set(double *x, const struct normal *n, unsigned set)
{
    int of[NNLS_COLUMNS], size = 0;
    double l[NNLS_COLUMNS][NNLS_COLUMNS], y[NNLS_COLUMNS];
    for (int a = 0; a < n->columns; a++)
        if (set >> a & 1)
            of[size++] = a;
    for (int a = 0; a < size; a++)
        for (int b = 0; b <= a; b++) {
            double sum = n->gram[of[a]][of[b]];
            for (int c = 0; c < b; c++)
                sum -= l[a][c] * l[b][c];
            if (a == b && sum < 1e-9)
                return false;
            l[a][b] = a == b ? sqrt(sum) : sum / l[b][b];
        }
    for (int a = 0; a < size; a++) {
        y[a] = n->product[of[a]];
        for (int c = 0; c < a; c++)
            y[a] -= l[a][c] * y[c];
        y[a] /= l[a][a];
    }
    memset(x, 0, (size_t)n->columns * sizeof *x);
    for (int a = size - 1; a >= 0; a--) {
        double sum = y[a];
        for (int c = a + 1; c < size; c++)
            sum -= l[c][a] * x[of[c]];
        x[of[a]] = sum / l[a][a];
        if (x[of[a]] <= 0)
            return false;
    }
    return true;
}

// The reduction of the residual's sum of squares: x · Aᵀb for a least-squares solution.
static double explained(const double *x, const struct normal *n)
{
    double sum = 0;
    for (int a = 0; a < n->columns; a++)
        sum += x[a] * n->product[a];
    return sum;
}

double nnls_solve(double *coefficients, const double *rows, const double *values, size_t count,
                  int columns)
{
    struct normal normal = { .columns = columns };
    double best = 0;
    add_up(&normal, rows, values, count);
    memset(coefficients, 0, (size_t)columns * sizeof *coefficients);
    for (unsigned set = 1; set < 1u << columns; set++) {
        double x[NNLS_COLUMNS];
        if (!solve_set(x, &normal, set) || explained(x, &normal) <= best)
            continue;
        best = explained(x, &normal);
        for (int a = 0; a < columns; a++)
            coefficients[a] = x[a] * normal.scale[a];
    }
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        double off = values[i];
        for (int a = 0; a < columns; a++)
            off -= coefficients[a] * rows[i * (size_t)columns + (size_t)a];
        squares += off * off;
    }
    return count ? sqrt(squares / (double)count) : 0;
}
