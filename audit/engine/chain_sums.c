/* Clipped sums of per-example gradients for N chains of linear layers with one kind of activation between them.

   Each model goes by itself and each sum has an order that its own batch fixes, so what a model gets depends on no other
   model. Sums of a product run over its depth in order, in registers; only the norms add vector lanes, so bits differ
   between processors with vectors of different length, or without fused multiply-add. Called from chain.py. */
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

/* of one model: layer inputs and signals of up to BLOCK rows, packed weights, squared norms, a panel */
typedef struct {
    float **acts, **sigs, **packed, **bias, **squares, *panel;
    int64_t *place, rows; /* which of the pass's rows are here, and how many */
} room;

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

static void arrange(const chain *c, const float *flat, room *r, float *work) {
    for (int64_t l = 0; l <= c->layers; l++) {
        int64_t p = padded(c->sizes[l]);
        r->acts[l] = work, work += BLOCK * p;
        r->sigs[l] = work, work += BLOCK * p;
        if (!l) continue;
        r->bias[l - 1] = work, work += p + LANES;
        r->packed[l - 1] = work, work += (p + LANES) * c->sizes[l - 1];
        r->squares[l - 1] = work, work += BLOCK;
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

/* the next real rows from `at` on, at most BLOCK; returns where to go on */
static int64_t gather(const chain *c, room *r, const float *data, const int64_t *chosen, const uint8_t *mask, int64_t at,
                      int64_t rows) {
    int64_t in = c->sizes[0], p = padded(in);
    for (r->rows = 0; at < rows && r->rows < BLOCK; at++) {
        if (!mask[at]) continue;
        float *x = r->acts[0] + r->rows * p;
        memcpy(x, data + chosen[at] * in, sizeof(float) * in);
        for (int64_t j = in; j < p; j++) x[j] = 0;
        r->place[r->rows++] = at;
    }
    return at;
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
        for (int64_t i = 0; i < r->rows; i++)
            r->squares[l][i] =
                squared(r->sigs[l + 1] + i * q, q) * (squared(r->acts[l] + i * p, p) + (c->biases[l] >= 0 ? 1.0f : 0.0f));
        if (!l) return;
        for (int64_t j = 0; j < in; j += WIDE) {
            pack(out, flat + c->weights[l] + j, in, in - j, r->panel);
            product(r->rows, out, r->sigs[l + 1], q, 1, r->panel, r->sigs[l] + j, p, nothing, panel_width(in - j));
        }
        for (int64_t k = 0; k < r->rows * p; k += LANES) {
            vec h = *(vec *)(r->acts[l] + k), d = *(vec *)(r->sigs[l] + k);
            if (c->activation) *(vec *)(r->sigs[l] + k) = d * (1.0f - h * h);
            else *(vec *)(r->sigs[l] + k) = choose(h <= 0.0f, all(0.0f), d);
        }
    }
}

/* scales the signals of row i to the clip norm; a row without a finite norm becomes 0, as does all that it meets.
   Returns its norm, and what is left of it in `left`. */
static float clip_row(const chain *c, room *r, int64_t i, float clip, int64_t per_layer, float *left) {
    float sum = 0, kept = 0;
    for (int64_t l = 0; l < c->layers; l++) sum += r->squares[l][i];
    float norm = sqrtf(sum);
    for (int64_t l = 0; l < c->layers; l++) {
        float own = per_layer ? sqrtf(r->squares[l][i]) : norm, bound = per_layer ? clip / sqrtf(c->layers) : clip;
        float factor = own > bound ? bound / own : 1.0f;
        int64_t p = padded(c->sizes[l]), q = padded(c->sizes[l + 1]);
        float *d = r->sigs[l + 1] + i * q;
        if (!isfinite(norm)) {
            memset(d, 0, sizeof(float) * q);
            memset(r->acts[l] + i * p, 0, sizeof(float) * p);
            continue;
        }
        kept += factor * factor * r->squares[l][i];
        if (factor < 1.0f)
            for (int64_t j = 0; j < q; j += LANES) *(vec *)(d + j) *= factor;
    }
    *left = sqrtf(kept);
    return norm;
}

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

static void one_model(const chain *c, const float *flat, float *total, const float *data, const void *labels,
                      const int64_t *chosen, const uint8_t *mask, int64_t rows, const float *clip, int64_t per_layer,
                      float *norms, float *left, float *work) {
    float *acts[c->layers + 1], *sigs[c->layers + 1], *packed[c->layers], *bias[c->layers], *squares[c->layers];
    int64_t place[BLOCK], outputs = c->sizes[c->layers];
    room r = {acts, sigs, packed, bias, squares, 0, place, 0};
    arrange(c, flat, &r, work);
    for (int64_t i = 0; clip && i < rows; i++) norms[i] = left[i] = 0;
    for (int64_t at = 0; at < rows;) {
        at = gather(c, &r, data, chosen, mask, at, rows);
        forward(c, &r);
        for (int64_t i = 0; i < r.rows; i++)
            slopes(c, sigs[c->layers] + i * padded(outputs), outputs, labels, chosen[place[i]]);
        back(c, flat, &r);
        for (int64_t i = 0; clip && i < r.rows; i++) norms[place[i]] = clip_row(c, &r, i, *clip, per_layer, left + place[i]);
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
