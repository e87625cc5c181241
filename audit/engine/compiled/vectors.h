/* Vectors of floats, functions of them, and products that keep a tile of the result in registers.

   Sums of a product run over its depth in order; only `squared` adds the lanes of a vector, so bits differ between
   processors with vectors of different length, or without fused multiply-add. */
#ifndef VECTORS_H
#define VECTORS_H
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif defined(__AVX__)
#define LANES 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LANES 4
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif
#define WIDE (2 * LANES) /* columns of a panel */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))

static int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

INLINE vec all(float x) { return x - (vec){0}; }
INLINE vec choose(ivec yes, vec a, vec b) { return (vec)((yes & (ivec)a) | (~yes & (ivec)b)); }

INLINE vec exponential(vec x) {
    vec low = choose(x < -87.3f, all(-87.3f), x), y = choose(low > 88.0f, all(88.0f), low);
    vec t = y * 1.44269504088896341f + 12582912.0f, n = t - 12582912.0f;
    vec r = y - n * 0.693359375f + n * 2.12194440e-4f;
    vec p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    ivec power = (__builtin_convertvector(n, ivec) + 127) << 23;
    vec made = choose(x < -87.3f, all(0.0f), p * (vec)power);
    return choose(x == x, made, x);
}

INLINE vec hyperbolic(vec x) {
    vec size = (vec)((ivec)x & 0x7fffffff), s = x * x;
    vec p = all(-5.70498872745e-3f);
    p = p * s + 2.06390887954e-2f;
    p = p * s - 5.37397155531e-2f;
    p = p * s + 1.33314422036e-1f;
    p = p * s - 3.33332819422e-1f;
    vec near = p * s * x + x;
    vec far = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
    far = (vec)((ivec)far | ((ivec)x & (int32_t)0x80000000));
    return choose(x == x, choose(size < 0.625f, near, far), x);
}

/* rows x 1 or 2 vectors of c, summed in registers over depth, in order */
#define TILE(rows, vecs)                                                                                                      \
    INLINE void tile_##rows##_##vecs(int64_t depth, const float *a, int64_t row, int64_t step, const float *b, float *c,      \
                                     int64_t ldc, const float *bias, int64_t valid) {                                         \
        vec sums[rows][vecs] = {{{0}}}, right[vecs];                                                                          \
        for (int64_t k = 0; k < depth; k++) {                                                                                 \
            for (int v = 0; v < vecs; v++) right[v] = *(const vec *)(b + (k * vecs + v) * LANES);                             \
            for (int i = 0; i < rows; i++)                                                                                    \
                for (int v = 0; v < vecs; v++) sums[i][v] += a[i * row + k * step] * right[v];                                \
        }                                                                                                                     \
        for (int i = 0; i < rows; i++)                                                                                        \
            for (int v = 0; v < vecs; v++) {                                                                                  \
                float *place = c + i * ldc + v * LANES;                                                                       \
                if (bias) *(vec *)place = sums[i][v] + *(const vec *)(bias + v * LANES);                                      \
                else if (valid >= (v + 1) * LANES) *(vec *)place += sums[i][v];                                               \
                else for (int l = 0; l < valid - v * LANES; l++) place[l] += sums[i][v][l];                                   \
            }                                                                                                                 \
    }
TILE(8, 2) TILE(6, 2) TILE(4, 2) TILE(2, 2) TILE(1, 2) TILE(8, 1) TILE(4, 1) TILE(2, 1) TILE(1, 1)

/* c (m x valid) = bias + a b, or += a b where bias is null; b is one packed panel of one or two vectors */
static void product(int64_t m, int64_t depth, const float *a, int64_t row, int64_t step, const float *b, float *c, int64_t ldc,
                    const float *bias, int64_t valid) {
    int64_t i = 0;
#define TILES(tall, vecs) \
    for (; i + tall <= m; i += tall) tile_##tall##_##vecs(depth, a + i * row, row, step, b, c + i * ldc, ldc, bias, valid)
    if (valid > LANES) {
#if LANES == 16
        TILES(8, 2);
#else /* half as many registers */
        TILES(6, 2);
#endif
        TILES(4, 2);
        TILES(2, 2);
        TILES(1, 2);
    } else {
        TILES(8, 1);
        TILES(4, 1);
        TILES(2, 1);
        TILES(1, 1);
    }
#undef TILES
}

INLINE int64_t panel_width(int64_t left) { return left > LANES ? WIDE : LANES; }

/* columns j.. of b (depth x n) as one panel */
static void pack(int64_t depth, const float *b, int64_t ldb, int64_t valid, float *panel) {
    int64_t wide = panel_width(valid), some = valid < wide ? valid : wide;
    for (int64_t k = 0; k < depth; k++, b += ldb, panel += wide) {
        if (some == wide) { /* by vectors: compilers turn a short copy of unknown size into a slow string instruction */
            for (int64_t j = 0; j < wide; j += LANES) *(vec *)(panel + j) = *(const vec *)(b + j);
            continue;
        }
        memset(panel, 0, sizeof(float) * wide);
        memcpy(panel, b, sizeof(float) * some);
    }
}

/* the transpose of a square of LANES rows, in place */
INLINE void turn(vec *rows) {
    vec turned[LANES];
    for (int round = 1; round < LANES; round *= 2) {
        for (int l = 0; l < LANES / 2; l++) {
            turned[2 * l] = LOW(rows[l], rows[l + LANES / 2]);
            turned[2 * l + 1] = HIGH(rows[l], rows[l + LANES / 2]);
        }
        memcpy(rows, turned, sizeof turned);
    }
}

/* the same as `pack` for the transpose of w (n x depth) */
static void pack_transposed(int64_t depth, const float *w, int64_t valid, float *panel) {
    int64_t wide = panel_width(valid), some = valid < wide ? valid : wide;
    for (int64_t j = 0; j < wide; j += LANES)
        for (int64_t k = 0; k < depth; k += LANES) {
            vec rows[LANES];
            for (int l = 0; l < LANES; l++) {
                rows[l] = (vec){0};
                if (j + l >= some) continue;
                if (k + LANES <= depth) rows[l] = *(const vec *)(w + (j + l) * depth + k);
                else memcpy(&rows[l], w + (j + l) * depth + k, sizeof(float) * (depth - k));
            }
            turn(rows);
            for (int l = 0; l < LANES && k + l < depth; l++) *(vec *)(panel + (k + l) * wide + j) = rows[l];
        }
}

/* a sum with what its additions lost (Kahan): squares of like numbers are rounded to one side, many thousand of them by
   more than a clip norm may be passed by; where it is infinite the loss is no number */
typedef struct {
    vec sum, lost;
} total_vec;

INLINE void accumulate(total_vec *t, vec x) {
    vec term = x - t->lost, sum = t->sum + term;
    t->lost = (sum - t->sum) - term;
    t->sum = sum;
}

/* adds the squares of n vectors, of which eight at a time are close enough to each other */
INLINE void accumulate_squares(total_vec *t, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 8) {
        vec squares = {0};
        for (int64_t j = i; j < n && j < i + 8; j++) { vec v = *(const vec *)(x + j * LANES); squares += v * v; }
        accumulate(t, squares);
    }
}

static float squared(const float *x, int64_t n) { /* n is a multiple of LANES; what is beyond the values is 0 */
    total_vec squares = {{0}, {0}};
    float made = 0;
    accumulate_squares(&squares, x, n / LANES);
    for (int l = 0; l < LANES; l++) made += squares.sum[l];
    return made;
}

/* the same of each of `rows` rows, whose lanes are added for a vector of rows at a time */
static void squared_rows(const float *x, int64_t rows, int64_t n, float *into) {
    int64_t i = 0;
    for (; i + LANES <= rows; i += LANES) {
        vec sums[LANES], made = {0};
        for (int l = 0; l < LANES; l++) {
            total_vec squares = {{0}, {0}};
            accumulate_squares(&squares, x + (i + l) * n, n / LANES);
            sums[l] = squares.sum;
        }
        turn(sums);
        for (int l = 0; l < LANES; l++) made += sums[l];
        *(vec *)(into + i) = made;
    }
    for (; i < rows; i++) into[i] = squared(x + i * n, n);
}

#endif
