/* Convolutions of images that lie in lanes: forward, back, and each record's own gradient, by tiles that stay in registers. */
#ifndef IMAGE_CONVOLUTION_H
#define IMAGE_CONVOLUTION_H
#include "image_lanes.h"

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
    total_vec squares = {{0}, {0}};
    for (int64_t o = 0; o < outputs; o++) {
        vec shift = {0};
        accumulate_squares(&squares, made + o * s->depth * LANES, s->depth);
        for (int64_t p = 0; s->bias >= 0 && p < places; p++) shift += *at(d, o * area + after->signal_places[p]);
        if (s->bias >= 0) *at(made, outputs * s->depth + o) = shift;
        accumulate(&squares, shift * shift);
    }
    return squares.sum;
}

#endif
