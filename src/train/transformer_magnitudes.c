// SPDX-License-Identifier: Apache-2.0
// The magnitudes of DoRA: each output of an adapted linear is brought to a trained length.
//
//     out_j = m_j / ‖(W + s B A)_j‖ · (x Wᵀ + z Bᵀ)_j
//
// The lengths of the rows change with the adapters and are computed for each product: that costs as
// much as a token for each of the rank's columns.

#include "train/transformer_internal.h"

static struct tensor part_of(struct tensor tensor, int64_t row, int64_t column, int64_t rows,
                             int64_t columns)
{
    return tensor_columns(tensor_rows(tensor, row, rows), column, columns);
}

static void note(struct transformer *t, int64_t rows, int64_t columns, int64_t depth)
{
    transformer_note(t, "magnitudes", 2.0 * (double)rows * (double)columns * (double)depth);
}

// ‖W + s B A‖ of the rows of a linear, (1, out), from its projection's stacked block.
static void row_norms(struct transformer *t, const struct projection *p, const struct linear *l,
                      struct tensor block, struct tensor out)
{
    int64_t rank = t->setup.recipe->rank;
    note(t, l->out, p->in, rank);
    ops(t)->row_norms(t->device, out, part_of(block, l->first, 0, l->out, p->in),
                      part_of(block, l->first, p->in + l->first_z, l->out, rank),
                      part_of(block, p->out + l->first_z, 0, rank, p->in), t->adapter_scale);
}

static struct tensor norms_of(struct transformer *t, const struct projection *p,
                              const struct linear *l, struct tensor block)
{
    struct tensor norms = tensor_columns(t->scratch.row_norms, 0, l->out);
    row_norms(t, p, l, block, norms);
    return norms;
}

void transformer_magnify(struct transformer *t, const struct projection *p, struct tensor block,
                         struct tensor y)
{
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (l->magnitude)
            ops(t)->magnify(t->device, tensor_columns(y, l->first, l->out), l->magnitude->master,
                            norms_of(t, p, l, block));
    }
}

void transformer_magnify_backward(struct transformer *t, const struct projection *p,
                                  struct tensor block, struct tensor dy, struct tensor x,
                                  struct tensor z)
{
    struct tensor y = tensor_of(t->scratch.unmagnified.at, x.dtype, x.rows, p->out);
    ops(t)->matmul_nt(t->device, y, tensor_columns(x, 0, p->in),
                      part_of(block, 0, 0, p->out, p->in), 1, 0);
    ops(t)->matmul_nt(t->device, y, z, part_of(block, 0, p->in, p->out, p->rank), 1, 1);
    for (int i = 0; i < p->count; i++) {
        const struct linear *l = p->linears[i];
        if (!l->magnitude)
            continue;
        note(t, x.rows, l->out, p->in);
        note(t, x.rows, l->out, t->setup.recipe->rank);
        ops(t)->magnify_backward(
            t->device, l->magnitude->gradient, tensor_columns(dy, l->first, l->out),
            tensor_columns(y, l->first, l->out), l->magnitude->master, norms_of(t, p, l, block));
    }
}

void transformer_start_magnitude(struct transformer *t, const struct parameter *magnitude)
{
    const struct projection *p = transformer_group_of(t, magnitude)->projection;
    for (int i = 0; i < p->count; i++)
        if (p->linears[i]->magnitude == magnitude)
            row_norms(t, p, p->linears[i], transformer_stacked(t, p), magnitude->master);
}
