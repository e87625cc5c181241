/* Stages of a small convolutional network for LANES records at once: each number of a record is one lane of a vector.

   So strides, margins and few channels leave no lane idle, and a record's gradient, its norm and what clipping makes of it
   never meet those of another lane. Where a stage reads and writes is listed in tables of places, in vectors; the margins
   round an image hold 0 and are never written. */
#ifndef IMAGE_STAGES_H
#define IMAGE_STAGES_H
#include "vectors.h"

typedef struct { /* an image of a record, before or after a stage: its values, and the derivatives of the loss by them */
    int64_t channels, positions;
    int64_t values, value_area;   /* where they start in the workspace, and from one channel to the next */
    int64_t signals, signal_area; /* signals -1: not needed */
    const int32_t *value_places, *signal_places; /* of the positions of a channel */
} image;

typedef struct { /* positions before a convolution that the same taps of its kernel reach: one remainder of the stride */
    int64_t taps, positions, packed;
    const int32_t *tap_numbers, *reach, *from, *to; /* reach: for each output and tap, from a position's `from` on */
} share;

typedef struct {
    int64_t kind, activation;              /* 0 none, 1 relu, 2 tanh: of what the stage returns */
    int64_t weight, bias, gradient;        /* starts in a model's row (-1: none), and in the gradients of the lanes */
    int64_t depth, packed, shares;         /* of a convolution: inputs of one output, packed weights, classes of positions */
    const int32_t *reach, *from;           /* depth; positions */
    const share *shared;
    const int32_t *starts, *members, *divisors; /* of pooling: which positions make one, and by what an average divides */
} stage;

enum { CONVOLUTION, MAXIMUM, AVERAGE };

INLINE vec *at(float *base, int64_t place) { return (vec *)(base + place * LANES); }

/* outs x places vectors, each the sum over depth of a weight and what lies `reach` beyond a place, in order */
#define MIX(outs, count)                                                                                                      \
    INLINE void mix_##outs##_##count(int64_t depth, const float *w, float *in, const int32_t *reach, const int32_t *from,     \
                                     const int32_t *to, float *out, int64_t area, const float *bias) {                       \
        vec sums[outs][count] = {{{0}}}, right[count];                                                                        \
        float *start[count];                                                                                                  \
        for (int p = 0; p < count; p++) start[p] = in + (int64_t)from[p] * LANES;                                             \
        for (int64_t k = 0; k < depth; k++) {                                                                                 \
            for (int p = 0; p < count; p++) right[p] = *at(start[p], reach[k]);                                               \
            for (int i = 0; i < outs; i++)                                                                                    \
                for (int p = 0; p < count; p++) sums[i][p] += w[k * outs + i] * right[p];                                     \
        }                                                                                                                     \
        for (int i = 0; i < outs; i++)                                                                                        \
            for (int p = 0; p < count; p++) *at(out, i * area + to[p]) = sums[i][p] + (bias ? bias[i] : 0.0f);                \
    }

/* outs x taps vectors of a kernel's gradient, each summed over the positions in order */
#define KERNEL(outs, count)                                                                                                   \
    INLINE void kernel_##outs##_##count(int64_t places, float *d, const int32_t *signal_places, int64_t area, float *x,       \
                                        const int32_t *from, const int32_t *reach, float *gradient, int64_t depth) {          \
        vec sums[outs][count] = {{{0}}}, right[count];                                                                        \
        float *start[count];                                                                                                  \
        for (int k = 0; k < count; k++) start[k] = x + (int64_t)reach[k] * LANES;                                             \
        for (int64_t p = 0; p < places; p++) {                                                                                \
            for (int k = 0; k < count; k++) right[k] = *at(start[k], from[p]);                                                \
            for (int i = 0; i < outs; i++) {                                                                                  \
                vec left = *at(d, i * area + signal_places[p]);                                                               \
                for (int k = 0; k < count; k++) sums[i][k] += left * right[k];                                                \
            }                                                                                                                 \
        }                                                                                                                     \
        for (int i = 0; i < outs; i++)                                                                                        \
            for (int k = 0; k < count; k++) *at(gradient, i * depth + k) = sums[i][k];                                        \
    }

#if LANES == 16
#define BROAD 6
MIX(4, 6) MIX(2, 6) MIX(1, 6) KERNEL(4, 6) KERNEL(2, 6) KERNEL(1, 6)
#else /* half as many registers */
#define BROAD 3
#endif
MIX(4, 3) MIX(2, 3) MIX(1, 3) KERNEL(4, 3) KERNEL(2, 3) KERNEL(1, 3)
MIX(4, 1) MIX(2, 1) MIX(1, 1) KERNEL(4, 1) KERNEL(2, 1) KERNEL(1, 1)

/* how many of `left` outputs go through together */
INLINE int64_t tall(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

#if LANES == 16
#define TALL(kernel, height, ...) (width == 6 ? kernel##_##height##_6(__VA_ARGS__) : NARROW(kernel, height, __VA_ARGS__))
#else
#define TALL NARROW
#endif
#define NARROW(kernel, height, ...) (width == 3 ? kernel##_##height##_3(__VA_ARGS__) : kernel##_##height##_1(__VA_ARGS__))
#define TILED(kernel, ...)                                                                                                    \
    (height == 4 ? TALL(kernel, 4, __VA_ARGS__) : height == 2 ? TALL(kernel, 2, __VA_ARGS__) : TALL(kernel, 1, __VA_ARGS__))

INLINE int64_t wide(int64_t left) { return left >= BROAD ? BROAD : left >= 3 ? 3 : 1; }

/* all outputs at all positions; w holds, for each tile of outputs, depth rows of them */
static void mix(int64_t outputs, int64_t depth, const float *w, float *in, const int32_t *reach, int64_t places,
                const int32_t *from, const int32_t *to, float *out, int64_t area, const float *bias) {
    for (int64_t p = 0, width; p < places; p += width) {
        width = wide(places - p);
        for (int64_t o = 0, height; o < outputs; o += height) {
            height = tall(outputs - o);
            TILED(mix, depth, w + o * depth, in, reach, from + p, to + p, out + o * area * LANES, area, bias ? bias + o : 0);
        }
    }
}

/* the weights of a tile of outputs beside each other: row k of the tile at o has w[o..][k] */
static void pack_kernel(const stage *s, int64_t outputs, const float *w, float *packed) {
    for (int64_t o = 0, height; o < outputs; o += height) {
        height = tall(outputs - o);
        for (int64_t k = 0; k < s->depth; k++)
            for (int64_t i = 0; i < height; i++) packed[o * s->depth + k * height + i] = w[(o + i) * s->depth + k];
    }
}

/* the same for the way back through one share, whose outputs are the channels before the convolution */
static void pack_share(const stage *s, const share *h, int64_t channels, int64_t outputs, const float *w, float *packed) {
    int64_t taps = s->depth / channels, depth = outputs * h->taps;
    for (int64_t c = 0, height; c < channels; c += height) {
        height = tall(channels - c);
        for (int64_t k = 0; k < depth; k++)
            for (int64_t i = 0; i < height; i++)
                packed[c * depth + k * height + i] =
                    w[k / h->taps * s->depth + (c + i) * taps + h->tap_numbers[k % h->taps]];
    }
}

static void convolve(const stage *s, const image *before, const image *after, const float *flat, const float *packed,
                     float *images) {
    mix(after->channels, s->depth, packed + s->packed, images + before->values * LANES, s->reach, after->positions, s->from,
        after->value_places, images + after->values * LANES, after->value_area, s->bias >= 0 ? flat + s->bias : 0);
}

static void convolve_back(const stage *s, const image *before, const image *after, const float *packed, float *images) {
    for (const share *h = s->shared; h < s->shared + s->shares; h++)
        mix(before->channels, after->channels * h->taps, packed + h->packed, images + after->signals * LANES, h->reach,
            h->positions, h->from, h->to, images + before->signals * LANES, before->signal_area, 0);
}

/* the gradient of kernel and bias, and its squared norm */
static vec kernel_gradient(const stage *s, const image *before, const image *after, float *images, float *gradients) {
    float *x = images + before->values * LANES, *d = images + after->signals * LANES, *made = gradients + s->gradient * LANES;
    int64_t outputs = after->channels, places = after->positions, area = after->signal_area;
    for (int64_t k = 0, width; k < s->depth; k += width) {
        width = wide(s->depth - k);
        for (int64_t o = 0, height; o < outputs; o += height) {
            height = tall(outputs - o);
            TILED(kernel, places, d + o * area * LANES, after->signal_places, area, x, s->from, s->reach + k,
                  made + (o * s->depth + k) * LANES, s->depth);
        }
    }
    vec squares = {0};
    for (int64_t o = 0; o < outputs; o++) {
        vec own = {0}, shift = {0};
        for (int64_t k = 0; k < s->depth; k++) { vec g = *at(made, o * s->depth + k); own += g * g; }
        for (int64_t p = 0; s->bias >= 0 && p < places; p++) shift += *at(d, o * area + after->signal_places[p]);
        if (s->bias >= 0) *at(made, outputs * s->depth + o) = shift;
        squares += own + shift * shift;
    }
    return squares;
}

/* the largest of some positions, or their average; what is not a number stays so */
static void pool(const stage *s, const image *before, const image *after, float *images) {
    for (int64_t c = 0; c < after->channels; c++) {
        float *x = images + (before->values + c * before->value_area) * LANES;
        float *y = images + (after->values + c * after->value_area) * LANES;
        for (int64_t p = 0; p < after->positions; p++) {
            vec made = *at(x, before->value_places[s->members[s->starts[p]]]);
            for (int64_t m = s->starts[p] + 1; m < s->starts[p + 1]; m++) {
                vec v = *at(x, before->value_places[s->members[m]]);
                if (s->kind == MAXIMUM) made = choose((v > made) | (v != v), v, made);
                else made += v;
            }
            if (s->kind == AVERAGE) made /= (float)s->divisors[p];
            *at(y, after->value_places[p]) = made;
        }
    }
}

/* the first of the largest gets the whole signal, as in torch; each member of an average its share */
static void pool_back(const stage *s, const image *before, const image *after, float *images) {
    for (int64_t c = 0; c < after->channels; c++) {
        float *x = images + (before->values + c * before->value_area) * LANES;
        float *d = images + (before->signals + c * before->signal_area) * LANES;
        float *e = images + (after->signals + c * after->signal_area) * LANES;
        for (int64_t p = 0; p < before->positions; p++) *at(d, before->signal_places[p]) = all(0.0f);
        for (int64_t p = 0; p < after->positions; p++) {
            vec signal = *at(e, after->signal_places[p]), most = *at(x, before->value_places[s->members[s->starts[p]]]);
            if (s->kind == AVERAGE) signal /= (float)s->divisors[p];
            for (int64_t m = s->starts[p] + 1; s->kind == MAXIMUM && m < s->starts[p + 1]; m++) {
                vec v = *at(x, before->value_places[s->members[m]]);
                most = choose(v > most, v, most);
            }
            for (int64_t m = s->starts[p]; m < s->starts[p + 1]; m++) {
                vec *place = at(d, before->signal_places[s->members[m]]);
                if (s->kind == AVERAGE) {
                    *place += signal;
                    continue;
                }
                ivec hit = *at(x, before->value_places[s->members[m]]) == most;
                *place += choose(hit, signal, all(0.0f));
                signal = choose(hit, all(0.0f), signal);
            }
        }
    }
}

static void activate_image(const stage *s, const image *after, float *images) {
    for (int64_t c = 0; s->activation && c < after->channels; c++)
        for (int64_t p = 0; p < after->positions; p++) {
            vec *v = at(images, after->values + c * after->value_area + after->value_places[p]);
            *v = s->activation == 1 ? choose(*v < 0.0f, all(0.0f), *v) : hyperbolic(*v);
        }
}

static void activate_back(const stage *s, const image *after, float *images) {
    for (int64_t c = 0; s->activation && c < after->channels; c++)
        for (int64_t p = 0; p < after->positions; p++) {
            vec h = *at(images, after->values + c * after->value_area + after->value_places[p]);
            vec *d = at(images, after->signals + c * after->signal_area + after->signal_places[p]);
            if (s->activation == 1) *d = choose(h <= 0.0f, all(0.0f), *d);
            else *d *= 1.0f - h * h;
        }
}

/* rows of numbers, one a record, become the lanes of an image; lanes without a row become 0 */
static void to_lanes(const image *m, float *out, int64_t area, const int32_t *places, const float *const *rows, int64_t count) {
    int64_t n = m->channels * m->positions, c = 0, p = 0;
    for (int64_t j = 0; j < n; j += LANES) {
        vec square[LANES] = {{0}};
        for (int64_t i = 0; i < count; i++) {
            if (j + LANES <= n) square[i] = *(const vec *)(rows[i] + j);
            else memcpy(&square[i], rows[i] + j, sizeof(float) * (n - j));
        }
        turn(square);
        for (int64_t l = 0; l < LANES && j + l < n; l++) {
            *at(out, c * area + places[p]) = square[l];
            if (++p == m->positions) p = 0, c++;
        }
    }
}

/* the reverse for the values of an image; rows are as long as whole vectors, which end in 0 */
static void from_lanes(const image *m, float *images, float *const *rows, int64_t count) {
    int64_t n = m->channels * m->positions, c = 0, p = 0;
    for (int64_t j = 0; j < n; j += LANES) {
        vec square[LANES] = {{0}};
        for (int64_t l = 0; l < LANES && j + l < n; l++) {
            square[l] = *at(images, m->values + c * m->value_area + m->value_places[p]);
            if (++p == m->positions) p = 0, c++;
        }
        turn(square);
        for (int64_t i = 0; i < count; i++) *(vec *)(rows[i] + j) = square[i];
    }
}

/* adds the lanes of n vectors up, each into a number of `total` */
static void add_lanes(float *sums, int64_t n, float *total) {
    for (int64_t j = 0; j < n; j += LANES) {
        vec square[LANES] = {{0}}, made = {0};
        for (int64_t l = 0; l < LANES && j + l < n; l++) square[l] = *at(sums, j + l);
        turn(square);
        for (int64_t l = 0; l < LANES; l++) made += square[l];
        for (int64_t l = 0; l < LANES && j + l < n; l++) total[j + l] += made[l];
    }
}

#endif
