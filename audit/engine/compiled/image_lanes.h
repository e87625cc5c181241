/* Images of LANES records at once: each number of a record is one lane of a vector.

   So strides, margins and few channels leave no lane idle, and a record's gradient, its norm and what clipping makes of it
   never meet those of another lane. Where a stage reads and writes is listed in tables of places, in vectors; the margins
   round an image hold 0 and are never written. Tables are made by image_tables.py. */
#ifndef IMAGE_LANES_H
#define IMAGE_LANES_H
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
    int64_t groups;                             /* of normalisation: of channels that are normalised together */
    double epsilon;
} stage;

enum { CONVOLUTION, MAXIMUM, AVERAGE, NORMALISATION };

INLINE vec *at(float *base, int64_t place) { return (vec *)(base + place * LANES); }

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
