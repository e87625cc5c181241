/* Clipped sums of per-example gradients for N networks of convolutions and pooling before a chain of linear layers.

   LANES records of one model go through together, each in a lane of its own as far as images reach and as a row of the
   chain behind them. Records are grouped in the order of the model's own batch, so what a model gets depends on no other
   model. Called from compiled_gradients.py. */
#include "image_convolution.h"
#include "image_stages.h"
#include "linear_chain.h"

typedef struct {
    int64_t stages, layers;              /* layers: of the stages that have parameters */
    int64_t vectors, gradients, packed;  /* numbers of the images and of the gradients, in vectors; packed weights, in floats */
    const image *images;                 /* stages + 1 */
    const stage *list;
    const chain *tail;
} network;

/* of one model: images, packed weights, the gradients of LANES records, their clipped sums, and squared norms by layer */
typedef struct {
    float *images, *packed, *gradients, *sums, **squares;
} front;

int64_t conv_workspace(const network *n) {
    return (n->vectors + 2 * n->gradients + n->layers) * LANES + padded(n->packed) + room_size(n->tail, LANES);
}

static float *arrange_front(const network *n, const float *flat, front *f, float *work) {
    f->images = work, work += n->vectors * LANES;
    f->gradients = work, work += n->gradients * LANES;
    f->sums = work, work += n->gradients * LANES;
    for (int64_t l = 0; l < n->layers; l++) f->squares[l] = work, work += LANES;
    f->packed = work, work += padded(n->packed);
    memset(f->sums, 0, sizeof(float) * n->gradients * LANES);
    for (int64_t i = 0; i < n->stages; i++) {
        const stage *s = n->list + i;
        if (s->kind != CONVOLUTION) continue;
        int64_t channels = n->images[i].channels, outputs = n->images[i + 1].channels;
        pack_kernel(s, outputs, flat + s->weight, f->packed + s->packed);
        for (const share *h = s->shared; h < s->shared + s->shares; h++)
            pack_share(s, h, channels, outputs, flat + s->weight, f->packed + h->packed);
    }
    return work;
}

/* the next real rows from `start` on into the first image, at most LANES; returns where to go on */
static int64_t gather(const network *n, room *r, front *f, const float *data, const int64_t *chosen, const uint8_t *mask,
                      int64_t start, int64_t rows) {
    const image *first = n->images;
    const float *records[LANES];
    for (r->rows = 0; start < rows && r->rows < LANES; start++) {
        if (!mask[start]) continue;
        records[r->rows] = data + chosen[start] * first->channels * first->positions;
        r->place[r->rows++] = start;
    }
    to_lanes(first, f->images + first->values * LANES, first->value_area, first->value_places, records, r->rows);
    return start;
}

static void forward_front(const network *n, room *r, front *f, const float *flat) {
    float *rows[LANES];
    for (int64_t i = 0; i < n->stages; i++) {
        const stage *s = n->list + i;
        if (s->kind == CONVOLUTION) convolve(s, n->images + i, n->images + i + 1, flat, f->packed, f->images);
        else if (s->kind == NORMALISATION) normalise(s, n->images + i, n->images + i + 1, flat, f->images);
        else pool(s, n->images + i, n->images + i + 1, f->images);
        activate_image(s, n->images + i + 1, f->images);
    }
    for (int64_t i = 0; i < r->rows; i++) rows[i] = r->acts[0] + i * padded(n->tail->sizes[0]);
    from_lanes(n->images + n->stages, f->images, rows, r->rows);
}

static void back_front(const network *n, room *r, front *f, const float *flat) {
    const image *last = n->images + n->stages;
    const float *rows[LANES];
    for (int64_t i = 0; i < r->rows; i++) rows[i] = r->sigs[0] + i * padded(n->tail->sizes[0]);
    to_lanes(last, f->images + last->signals * LANES, last->signal_area, last->signal_places, rows, r->rows);
    for (int64_t i = n->stages - 1, layer = n->layers; i >= 0; i--) {
        const stage *s = n->list + i;
        const image *before = n->images + i, *after = before + 1;
        activate_back(s, after, f->images);
        vec squares = {0};
        if (s->kind == CONVOLUTION) squares = kernel_gradient(s, before, after, f->images, f->gradients);
        if (s->kind == NORMALISATION) squares = normalise_back(s, before, after, flat, f->images, f->gradients);
        if (s->weight >= 0) *(vec *)f->squares[--layer] = squares;
        if (before->signals < 0) return;
        if (s->kind == CONVOLUTION) convolve_back(s, before, after, f->packed, f->images);
        else if (s->kind != NORMALISATION) pool_back(s, before, after, f->images);
    }
}

/* adds the gradients of the lanes times the factors of their layers; what meets a factor of 0 adds nothing, finite or not */
static void add_front(const network *n, front *f, const vec *factors) {
    for (int64_t i = 0, layer = 0; i < n->stages; i++) {
        const stage *s = n->list + i;
        if (s->weight < 0) continue;
        int64_t outputs = n->images[i + 1].channels, count = outputs * (s->depth + (s->bias >= 0));
        vec factor = factors[layer++];
        for (int64_t g = s->gradient; g < s->gradient + count; g++)
            *at(f->sums, g) += choose(factor > 0.0f, factor * *at(f->gradients, g), all(0.0f));
    }
}

static void finish(const network *n, front *f, float *total) {
    for (int64_t i = 0; i < n->stages; i++) {
        const stage *s = n->list + i;
        if (s->weight < 0) continue;
        int64_t outputs = n->images[i + 1].channels, weights = outputs * s->depth;
        add_lanes(f->sums + s->gradient * LANES, weights, total + s->weight);
        if (s->bias >= 0) add_lanes(f->sums + (s->gradient + weights) * LANES, outputs, total + s->bias);
    }
}

static void one_model(const network *n, const float *flat, float *total, const float *data, const void *labels,
                      const int64_t *chosen, const uint8_t *mask, int64_t rows, const float *clip, int64_t per_layer,
                      float *norms, float *left, float *work) {
    const chain *c = n->tail;
    int64_t layers = n->layers + c->layers, place[LANES];
    float *acts[c->layers + 1], *sigs[c->layers + 1], *packed[c->layers], *bias[c->layers], *squares[layers], factors[layers];
    vec lanes[n->layers];
    front f = {0, 0, 0, 0, squares};
    room r = {acts, sigs, packed, bias, squares + n->layers, 0, place, 0, LANES, 1};
    arrange(c, flat, &r, arrange_front(n, flat, &f, work));
    for (int64_t i = 0; clip && i < rows; i++) norms[i] = left[i] = 0;
    for (int64_t start = 0; start < rows;) {
        start = gather(n, &r, &f, data, chosen, mask, start, rows);
        if (!r.rows) break;
        forward_front(n, &r, &f, flat);
        forward(c, &r);
        all_slopes(c, sigs[c->layers], r.rows, labels, chosen, place);
        back(c, flat, &r);
        back_front(n, &r, &f, flat);
        for (int64_t l = 0; l < n->layers; l++)
            for (int64_t i = 0; i < LANES; i++) lanes[l][i] = !clip && i < r.rows;
        for (int64_t i = 0; clip && i < r.rows; i++) {
            norms[place[i]] = clip_factors(layers, squares, i, *clip, per_layer, factors, left + place[i]);
            for (int64_t l = 0; l < n->layers; l++) lanes[l][i] = factors[l];
            scale_row(c, &r, i, factors + n->layers);
        }
        add_front(n, &f, lanes);
        add(c, &r, total);
    }
    finish(n, &f, total);
}

/* Adds to `total` (models x width) the sums of the gradients of the rows of each model that `mask` marks, each clipped
   where `clip` (models) is given.

   data (records x numbers of the first image), labels (records; int64 with classes, else float) and chosen (models x rows)
   tell what a row is; flat is (models x width); norms and left (models x rows) are written; work has conv_workspace()
   floats, of which those between images are 0 before the first call. */
void conv_sums(const network *n, int64_t models, const float *flat, float *total, const float *data, const void *labels,
               const int64_t *chosen, const uint8_t *mask, int64_t rows, const float *clip, int64_t per_layer, float *norms,
               float *left, float *work) {
    int64_t width = n->tail->width;
    for (int64_t m = 0; m < models; m++)
        one_model(n, flat + m * width, total + m * width, data, labels, chosen + m * rows, mask + m * rows, rows,
                  clip ? clip + m : 0, per_layer, norms + m * rows, left + m * rows, work);
}

/* Takes gradient steps with many models, each on rows of its own, as chain_steps() does: in each step a model loses `rate`
   times the mean gradient of the rows that `mask` marks, and stays where there are none. */
void conv_steps(const network *n, int64_t models, float *flat, const float *data, const void *labels, const int64_t *chosen,
                const uint8_t *mask, int64_t steps, int64_t rows, float rate, float *work) {
    int64_t width = n->tail->width;
    float *total = work, *rest = work + width;
    for (int64_t number = 0; number < models * steps; number++) {
        float *own = flat + number / steps * width;
        int64_t count = 0;
        for (int64_t i = 0; i < rows; i++) count += mask[number * rows + i] != 0;
        if (!count) continue;
        memset(total, 0, sizeof(float) * width);
        one_model(n, own, total, data, labels, chosen + number * rows, mask + number * rows, rows, 0, 0, 0, 0, rest);
        float share = rate / count;
        for (int64_t j = 0; j < width; j++) own[j] -= share * total[j];
    }
}
