/* Clipped sums of per-example gradients for N chains of linear layers with one kind of activation between them.

   Each model goes by itself and each sum has an order that its own batch fixes, so what a model gets depends on no other
   model. Sums of a product run over its depth in order, in registers; only the norms add vector lanes, so bits differ
   between processors with vectors of different length. Called from chain.py, which documents the arguments. */
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
#define BLOCK 256        /* rows of one model that go through together */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))

typedef struct {
    int64_t layers, activation, classes, width; /* activation: 0 relu, 1 tanh; classes 0: squared error */
    const int64_t *sizes;                       /* layers + 1 */
    const int64_t *weights, *biases;            /* starts in a model's row; -1 for no bias */
} chain;

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
TILE(8, 2) TILE(4, 2) TILE(2, 2) TILE(1, 2) TILE(8, 1) TILE(4, 1) TILE(2, 1) TILE(1, 1)

/* c (m x valid) = bias + a b, or += a b where bias is null; b is one packed panel of one or two vectors */
static void product(int64_t m, int64_t depth, const float *a, int64_t row, int64_t step, const float *b, float *c, int64_t ldc,
                    const float *bias, int64_t valid) {
    int64_t i = 0;
#define TILES(tall, vecs) \
    for (; i + tall <= m; i += tall) tile_##tall##_##vecs(depth, a + i * row, row, step, b, c + i * ldc, ldc, bias, valid)
    if (valid > LANES) {
        TILES(8, 2);
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
    for (int64_t k = 0; k < depth; k++) {
        if (some < wide) memset(panel + k * wide, 0, sizeof(float) * wide);
        memcpy(panel + k * wide, b + k * ldb, sizeof(float) * some);
    }
}

/* the same for the transpose of w (n x depth) */
static void pack_transposed(int64_t depth, const float *w, int64_t valid, float *panel) {
    int64_t wide = panel_width(valid), some = valid < wide ? valid : wide;
    for (int64_t j = 0; j < wide; j += LANES)
        for (int64_t k = 0; k < depth; k += LANES) {
            vec rows[LANES], turned[LANES];
            for (int l = 0; l < LANES; l++) {
                rows[l] = (vec){0};
                if (j + l >= some) continue;
                if (k + LANES <= depth) rows[l] = *(const vec *)(w + (j + l) * depth + k);
                else memcpy(&rows[l], w + (j + l) * depth + k, sizeof(float) * (depth - k));
            }
            for (int round = 1; round < LANES; round *= 2) {
                for (int l = 0; l < LANES / 2; l++) {
                    turned[2 * l] = LOW(rows[l], rows[l + LANES / 2]);
                    turned[2 * l + 1] = HIGH(rows[l], rows[l + LANES / 2]);
                }
                memcpy(rows, turned, sizeof rows);
            }
            for (int l = 0; l < LANES && k + l < depth; l++) *(vec *)(panel + (k + l) * wide + j) = rows[l];
        }
}

static float squared(const float *x, int64_t n) { /* n is a multiple of LANES; what is beyond the values is 0 */
    vec sums = {0};
    for (int64_t i = 0; i < n; i += LANES) { vec v = *(const vec *)(x + i); sums += v * v; }
    float made = 0;
    for (int l = 0; l < LANES; l++) made += sums[l];
    return made;
}

int64_t chain_workspace(const chain *c) {
    int64_t need = 0, widest = 0;
    for (int64_t l = 0; l <= c->layers; l++) {
        int64_t p = padded(c->sizes[l]);
        need += 2 * BLOCK * p;
        if (l) need += p * c->sizes[l - 1] + 2 * LANES * c->sizes[l - 1] + p;
        if (c->sizes[l] > widest) widest = c->sizes[l];
    }
    return need + (widest + WIDE) * BLOCK + WIDE * widest + c->layers * (BLOCK + 2 * LANES);
}

static void activate(const chain *c, float *h, int64_t rows, int64_t size) {
    int64_t p = padded(size);
    for (int64_t i = 0; i < rows * p; i += LANES) {
        vec z = *(vec *)(h + i);
        *(vec *)(h + i) = c->activation ? hyperbolic(z) : choose(z < 0.0f, all(0.0f), z);
    }
}

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

static void one_model(const chain *c, const float *flat, float *total, const float *data, const void *labels,
                      const int64_t *chosen, const uint8_t *mask, int64_t rows, const float *clip, int64_t per_layer,
                      float *norms, float *left, float *work) {
    static const float nothing[WIDE] = {0};
    int64_t layers = c->layers, place[BLOCK];
    float *acts[layers + 1], *sigs[layers + 1], *packed[layers], *bias[layers], *squares[layers];
    for (int64_t l = 0; l <= layers; l++) {
        int64_t p = padded(c->sizes[l]);
        acts[l] = work, work += BLOCK * p;
        sigs[l] = work, work += BLOCK * p;
        if (l) {
            bias[l - 1] = work, work += p + LANES;
            packed[l - 1] = work, work += (p + LANES) * c->sizes[l - 1];
            squares[l - 1] = work, work += BLOCK;
        }
    }
    float *panel = work;
    for (int64_t l = 0; l < layers; l++) {
        int64_t in = c->sizes[l], out = c->sizes[l + 1];
        const float *w = flat + c->weights[l];
        memset(bias[l], 0, sizeof(float) * (padded(out) + LANES));
        if (c->biases[l] >= 0) memcpy(bias[l], flat + c->biases[l], sizeof(float) * out);
        for (int64_t j = 0; j < out; j += WIDE) pack_transposed(in, w + j * in, out - j, packed[l] + j * in);
    }
    int64_t at = 0;
    while (at < rows) {
        int64_t n = 0, in = c->sizes[0], p = padded(in);
        for (; at < rows && n < BLOCK; at++) {
            norms[at] = left[at] = 0;
            if (!mask[at]) continue;
            float *x = acts[0] + n * p;
            memcpy(x, data + chosen[at] * in, sizeof(float) * in);
            for (int64_t j = in; j < p; j++) x[j] = 0;
            place[n++] = at;
        }
        if (!n) continue;
        for (int64_t l = 0; l < layers; l++) {
            int64_t i = c->sizes[l], o = c->sizes[l + 1], q = padded(o);
            for (int64_t j = 0; j < o; j += WIDE)
                product(n, i, acts[l], padded(i), 1, packed[l] + j * i, (l + 1 == layers ? sigs : acts)[l + 1] + j, q, bias[l] + j,
                        panel_width(o - j));
            if (l + 1 < layers) activate(c, acts[l + 1], n, o);
        }
        for (int64_t r = 0; r < n; r++)
            slopes(c, sigs[layers] + r * padded(c->sizes[layers]), c->sizes[layers], labels, chosen[place[r]]);
        for (int64_t l = layers - 1; l >= 0; l--) {
            int64_t i = c->sizes[l], o = c->sizes[l + 1], q = padded(i);
            const float *w = flat + c->weights[l];
            for (int64_t r = 0; clip && r < n; r++)
                squares[l][r] = squared(sigs[l + 1] + r * padded(o), padded(o)) *
                                (squared(acts[l] + r * q, q) + (c->biases[l] >= 0 ? 1.0f : 0.0f));
            if (!l) break;
            for (int64_t j = 0; j < i; j += WIDE) {
                pack(o, w + j, i, i - j, panel);
                product(n, o, sigs[l + 1], padded(o), 1, panel, sigs[l] + j, q, nothing, panel_width(i - j));
            }
            for (int64_t k = 0; k < n * q; k += LANES) {
                vec h = *(vec *)(acts[l] + k), d = *(vec *)(sigs[l] + k);
                if (c->activation) *(vec *)(sigs[l] + k) = d * (1.0f - h * h);
                else *(vec *)(sigs[l] + k) = choose(h <= 0.0f, all(0.0f), d);
            }
        }
        for (int64_t r = 0; clip && r < n; r++) {
            float sum = 0, kept = 0;
            for (int64_t l = 0; l < layers; l++) sum += squares[l][r];
            float norm = sqrtf(sum);
            norms[place[r]] = norm;
            for (int64_t l = 0; l < layers; l++) {
                float own = per_layer ? sqrtf(squares[l][r]) : norm, bound = per_layer ? *clip / sqrtf(layers) : *clip;
                float factor = own > bound ? bound / own : 1.0f;
                int64_t o = padded(c->sizes[l + 1]), i = padded(c->sizes[l]);
                float *d = sigs[l + 1] + r * o;
                if (!(norm <= 3.4028235e38f)) {
                    memset(d, 0, sizeof(float) * o);
                    memset(acts[l] + r * i, 0, sizeof(float) * i);
                    continue;
                }
                kept += factor * factor * squares[l][r];
                if (factor < 1.0f)
                    for (int64_t j = 0; j < o; j += LANES) *(vec *)(d + j) *= factor;
            }
            left[place[r]] = sqrtf(kept);
        }
        for (int64_t l = 0; l < layers; l++) {
            int64_t i = c->sizes[l], o = c->sizes[l + 1], q = padded(o);
            float *gradient = total + c->weights[l];
            for (int64_t j = 0; j < i; j += WIDE) pack(n, acts[l] + j, padded(i), i - j, panel + j * n);
            for (int64_t k = 0; k < o; k += 8) /* along rows of the sum, which may be too large for the cache */
                for (int64_t j = 0; j < i; j += WIDE)
                    product(o - k < 8 ? o - k : 8, n, sigs[l + 1] + k, 1, q, panel + j * n, gradient + k * i + j, i, 0, i - j);
            if (c->biases[l] < 0) continue;
            float *shift = total + c->biases[l];
            for (int64_t r = 0; r < n; r++)
                for (int64_t j = 0; j < o; j++) shift[j] += sigs[l + 1][r * q + j];
        }
    }
}

void chain_sums(const chain *c, int64_t models, const float *flat, float *total, const float *data, const void *labels,
                const int64_t *chosen, const uint8_t *mask, int64_t rows, const float *clip, int64_t per_layer, float *norms,
                float *left, float *work) {
    for (int64_t m = 0; m < models; m++)
        one_model(c, flat + m * c->width, total + m * c->width, data, labels, chosen + m * rows, mask + m * rows, rows,
                  clip ? clip + m : 0, per_layer, norms + m * rows, left + m * rows, work);
}
