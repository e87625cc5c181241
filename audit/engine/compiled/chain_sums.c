/* Clipped sums of per-example gradients for N chains of linear layers with one kind of activation between them.

   Each model goes by itself and each sum has an order that its own batch fixes, so what a model gets depends on no other
   model. Sums of a product run over its depth in order, in registers; only the norms add vector lanes, so bits differ
   between processors with vectors of different length, or without fused multiply-add. Called from compiled_gradients.py. */
#include "linear_chain.h"

#define BLOCK 256 /* rows of one model that go through together */

int64_t chain_workspace(const chain *c) { return room_size(c, BLOCK); }

/* the next real rows from `at` on, at most a block; returns where to go on */
static int64_t gather(const chain *c, room *r, const float *data, const int64_t *chosen, const uint8_t *mask, int64_t at,
                      int64_t rows) {
    int64_t in = c->sizes[0], p = padded(in);
    for (r->rows = 0; at < rows && r->rows < r->block; at++) {
        if (!mask[at]) continue;
        float *x = r->acts[0] + r->rows * p;
        memcpy(x, data + chosen[at] * in, sizeof(float) * in);
        for (int64_t j = in; j < p; j++) x[j] = 0;
        r->place[r->rows++] = at;
    }
    return at;
}

static void one_model(const chain *c, const float *flat, float *total, const float *data, const void *labels,
                      const int64_t *chosen, const uint8_t *mask, int64_t rows, const float *clip, int64_t per_layer,
                      float *norms, float *left, float *work) {
    float *acts[c->layers + 1], *sigs[c->layers + 1], *packed[c->layers], *bias[c->layers], *squares[c->layers];
    int64_t place[BLOCK];
    float factors[c->layers];
    room r = {acts, sigs, packed, bias, squares, 0, place, 0, BLOCK, 0};
    arrange(c, flat, &r, work);
    for (int64_t i = 0; clip && i < rows; i++) norms[i] = left[i] = 0;
    for (int64_t at = 0; at < rows;) {
        at = gather(c, &r, data, chosen, mask, at, rows);
        forward(c, &r);
        all_slopes(c, sigs[c->layers], r.rows, labels, chosen, place);
        back(c, flat, &r);
        for (int64_t i = 0; clip && i < r.rows; i++) {
            norms[place[i]] = clip_factors(c->layers, squares, i, *clip, per_layer, factors, left + place[i]);
            scale_row(c, &r, i, factors);
        }
        add(c, &r, total);
    }
}

/* Adds to `total` (models x width) the sums of the gradients of the rows of each model that `mask` marks, each clipped
   where `clip` (models) is given.

   data (records x sizes[0]), labels (records; int64 with classes, else float) and chosen (models x rows) tell what a row
   is; flat is (models x width); norms and left (models x rows) are written; work has chain_workspace() floats. */
void chain_sums(const chain *c, int64_t models, const float *flat, float *total, const float *data, const void *labels,
                const int64_t *chosen, const uint8_t *mask, int64_t rows, const float *clip, int64_t per_layer, float *norms,
                float *left, float *work) {
    for (int64_t m = 0; m < models; m++)
        one_model(c, flat + m * c->width, total + m * c->width, data, labels, chosen + m * rows, mask + m * rows, rows,
                  clip ? clip + m : 0, per_layer, norms + m * rows, left + m * rows, work);
}

/* Takes gradient steps with many models, each on rows of its own: in each step a model loses `rate` times the mean gradient
   of the rows that `mask` marks, and stays where there are none.

   chosen and mask are (models x steps x rows); flat (models x width) is updated in place; work has width floats more than
   chain_workspace(). All else is as above. */
void chain_steps(const chain *c, int64_t models, float *flat, const float *data, const void *labels, const int64_t *chosen,
                 const uint8_t *mask, int64_t steps, int64_t rows, float rate, float *work) {
    float *total = work, *rest = work + c->width;
    for (int64_t at = 0; at < models * steps; at++) {
        float *own = flat + at / steps * c->width;
        int64_t count = 0;
        for (int64_t i = 0; i < rows; i++) count += mask[at * rows + i] != 0;
        if (!count) continue;
        memset(total, 0, sizeof(float) * c->width);
        one_model(c, own, total, data, labels, chosen + at * rows, mask + at * rows, rows, 0, 0, 0, 0, rest);
        float share = rate / count;
        for (int64_t j = 0; j < c->width; j++) own[j] -= share * total[j];
    }
}
