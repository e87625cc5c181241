/* One model that is a chain of linear layers: forward, signals back, norms, clipped sums, a block of rows at a time. */
#ifndef LINEAR_CHAIN_H
#define LINEAR_CHAIN_H
#include "vectors.h"

typedef struct {
    int64_t layers, activation, classes, width; /* activation: 0 relu, 1 tanh; classes 0: squared error */
    const int64_t *sizes;                       /* layers + 1 */
    const int64_t *weights, *biases;            /* starts in a model's row; -1 for no bias */
} chain;

/* the activation of a hidden layer; padding stays 0 */
static void activate(const chain *c, float *h, int64_t rows, int64_t size) {
    int64_t p = padded(size);
    for (int64_t i = 0; i < rows * p; i += LANES) {
        vec z = *(vec *)(h + i);
        *(vec *)(h + i) = c->activation ? hyperbolic(z) : choose(z < 0.0f, all(0.0f), z);
    }
}

/* turns the outputs of one record into the derivative of its loss by them */
static void slopes(const chain *c, float *o, int64_t size, const void *label, int64_t record) {
    if (!c->classes) {
        o[0] = 2.0f * (o[0] - ((const float *)label)[record]);
        return;
    }
    float most = o[0], sum = 0;
    for (int64_t j = 1; j < size; j++) most = o[j] > most ? o[j] : most;
    for (int64_t j = 0; j < size; j += LANES) *(vec *)(o + j) = exponential(*(vec *)(o + j) - most);
    for (int64_t j = size; j < padded(size); j++) o[j] = 0;
    for (int64_t j = 0; j < size; j++) sum += o[j];
    for (int64_t j = 0; j < size; j += LANES) *(vec *)(o + j) /= sum;
    o[((const int64_t *)label)[record]] -= 1.0f;
}

/* the same for a vector of records, each in a lane, whose outputs take one vector; without the labels' part */
static void slopes_by_lanes(float *o, int64_t size) {
    vec outputs[LANES], sum = {0};
    for (int l = 0; l < LANES; l++) outputs[l] = *(vec *)(o + l * LANES);
    turn(outputs);
    vec most = outputs[0];
    for (int64_t j = 1; j < size; j++) most = choose(outputs[j] > most, outputs[j], most);
    for (int64_t j = 0; j < size; j++) sum += outputs[j] = exponential(outputs[j] - most);
    for (int64_t j = 0; j < LANES; j++) outputs[j] = (j < size ? outputs[j] : all(0.0f)) / sum;
    turn(outputs);
    for (int l = 0; l < LANES; l++) *(vec *)(o + l * LANES) = outputs[l];
}

/* turns the outputs of all rows, records `chosen` by their places, into those derivatives */
static void all_slopes(const chain *c, float *o, int64_t rows, const void *labels, const int64_t *chosen, const int64_t *place) {
    int64_t size = c->sizes[c->layers], p = padded(size), i = 0;
    for (; c->classes && p == LANES && i + LANES <= rows; i += LANES) {
        slopes_by_lanes(o + i * p, size);
        for (int64_t l = i; l < i + LANES; l++) o[l * p + ((const int64_t *)labels)[chosen[place[l]]]] -= 1.0f;
    }
    for (; i < rows; i++) slopes(c, o + i * p, size, labels, chosen[place[i]]);
}

/* of one model: layer inputs and signals of up to `block` rows, packed weights, squared norms, a panel */
typedef struct {
    float **acts, **sigs, **packed, **bias, **squares, *panel;
    int64_t *place, rows;  /* which of the pass's rows are here, and how many */
    int64_t block, deeper; /* deeper: the signals of the chain's inputs are needed, because layers stand before it */
} room;

/* floats that a room takes */
static int64_t room_size(const chain *c, int64_t block) {
    int64_t need = 0, widest = 0;
    for (int64_t l = 0; l <= c->layers; l++) {
        int64_t p = padded(c->sizes[l]);
        need += 2 * block * p;
        if (l) need += p * c->sizes[l - 1] + 2 * LANES * c->sizes[l - 1] + p;
        if (c->sizes[l] > widest) widest = c->sizes[l];
    }
    return need + (widest + WIDE) * block + WIDE * widest + c->layers * (block + 2 * LANES);
}

static void arrange(const chain *c, const float *flat, room *r, float *work) {
    for (int64_t l = 0; l <= c->layers; l++) {
        int64_t p = padded(c->sizes[l]);
        r->acts[l] = work, work += r->block * p;
        r->sigs[l] = work, work += r->block * p;
        if (!l) continue;
        r->bias[l - 1] = work, work += p + LANES;
        r->packed[l - 1] = work, work += (p + LANES) * c->sizes[l - 1];
        r->squares[l - 1] = work, work += r->block;
    }
    r->panel = work;
    for (int64_t l = 0; l < c->layers; l++) {
        int64_t in = c->sizes[l], out = c->sizes[l + 1];
        memset(r->bias[l], 0, sizeof(float) * (padded(out) + LANES));
        if (c->biases[l] >= 0) memcpy(r->bias[l], flat + c->biases[l], sizeof(float) * out);
        for (int64_t j = 0; j < out; j += WIDE)
            pack_transposed(in, flat + c->weights[l] + j * in, out - j, r->packed[l] + j * in);
    }
}

static void forward(const chain *c, room *r) {
    for (int64_t l = 0; l < c->layers; l++) {
        int64_t in = c->sizes[l], out = c->sizes[l + 1];
        float *made = l + 1 == c->layers ? r->sigs[l + 1] : r->acts[l + 1];
        for (int64_t j = 0; j < out; j += WIDE)
            product(r->rows, in, r->acts[l], padded(in), 1, r->packed[l] + j * in, made + j, padded(out), r->bias[l] + j,
                    panel_width(out - j));
        if (l + 1 < c->layers) activate(c, made, r->rows, out);
    }
}

/* signals of all layers from those of the last, and the squared norm of each row's gradient in each layer */
static void back(const chain *c, const float *flat, room *r) {
    static const float nothing[WIDE] = {0};
    for (int64_t l = c->layers - 1; l >= 0; l--) {
        int64_t in = c->sizes[l], out = c->sizes[l + 1], p = padded(in), q = padded(out);
        squared_rows(r->sigs[l + 1], r->rows, q, r->squares[l]);
        squared_rows(r->acts[l], r->rows, p, r->panel);
        for (int64_t i = 0; i < r->rows; i++) r->squares[l][i] *= r->panel[i] + (c->biases[l] >= 0 ? 1.0f : 0.0f);
        if (!l && !r->deeper) return;
        for (int64_t j = 0; j < in; j += WIDE) {
            pack(out, flat + c->weights[l] + j, in, in - j, r->panel);
            product(r->rows, out, r->sigs[l + 1], q, 1, r->panel, r->sigs[l] + j, p, nothing, panel_width(in - j));
        }
        for (int64_t k = 0; l && k < r->rows * p; k += LANES) {
            vec h = *(vec *)(r->acts[l] + k), d = *(vec *)(r->sigs[l] + k);
            if (c->activation) *(vec *)(r->sigs[l] + k) = d * (1.0f - h * h);
            else *(vec *)(r->sigs[l] + k) = choose(h <= 0.0f, all(0.0f), d);
        }
    }
}

/* what clipping does to row i of layers with these squared norms: a factor for each, all 0 where the norm is not finite.
   Returns the norm, and what is left of it in `left`. */
static float clip_factors(int64_t layers, float *const *squares, int64_t i, float clip, int64_t per_layer, float *factors,
                          float *left) {
    float sum = 0, kept = 0;
    for (int64_t l = 0; l < layers; l++) sum += squares[l][i];
    float norm = sqrtf(sum);
    for (int64_t l = 0; l < layers; l++) {
        float own = per_layer ? sqrtf(squares[l][i]) : norm, bound = per_layer ? clip / sqrtf(layers) : clip;
        factors[l] = !isfinite(norm) ? 0.0f : own > bound ? bound / own : 1.0f;
        if (factors[l] > 0.0f) kept += factors[l] * factors[l] * squares[l][i];
    }
    *left = sqrtf(kept);
    return norm;
}

/* scales the signals of row i by a factor a layer; what meets a factor of 0 becomes 0, finite or not */
static void scale_row(const chain *c, room *r, int64_t i, const float *factors) {
    for (int64_t l = 0; l < c->layers; l++) {
        int64_t p = padded(c->sizes[l]), q = padded(c->sizes[l + 1]);
        float *d = r->sigs[l + 1] + i * q;
        if (factors[l] == 0.0f) {
            memset(d, 0, sizeof(float) * q);
            memset(r->acts[l] + i * p, 0, sizeof(float) * p);
        } else if (factors[l] < 1.0f) {
            for (int64_t j = 0; j < q; j += LANES) *(vec *)(d + j) *= factors[l];
        }
    }
}

/* adds the gradients of all rows, as their signals stand, to `total` */
static void add(const chain *c, room *r, float *total) {
    for (int64_t l = 0; l < c->layers; l++) {
        int64_t in = c->sizes[l], out = c->sizes[l + 1], q = padded(out);
        float *gradient = total + c->weights[l], *shift = c->biases[l] >= 0 ? total + c->biases[l] : 0;
        for (int64_t j = 0; j < in; j += WIDE) pack(r->rows, r->acts[l] + j, padded(in), in - j, r->panel + j * r->rows);
        for (int64_t k = 0; k < out; k += 8) /* along rows of the sum, which may be too large for the cache */
            for (int64_t j = 0; j < in; j += WIDE)
                product(out - k < 8 ? out - k : 8, r->rows, r->sigs[l + 1] + k, 1, q, r->panel + j * r->rows,
                        gradient + k * in + j, in, 0, in - j);
        for (int64_t i = 0; shift && i < r->rows; i++)
            for (int64_t j = 0; j < out; j++) shift[j] += r->sigs[l + 1][i * q + j];
    }
}

#endif
