/* What stands between the convolutions of images that lie in lanes: pooling, normalisation of groups, activations. */
#ifndef IMAGE_STAGES_H
#define IMAGE_STAGES_H
#include "image_lanes.h"

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

/* of a group of channels: a mean, what it is off by, and what to multiply by to bring them to deviation 1. The mean as one float
   would be off by more than the deviation where numbers are nearly equal. */
typedef struct {
    vec mean, rest, scale;
} moment;

INLINE vec centred(vec x, const moment *m) { return (x - m->mean) - m->rest; }

/* sums over the channels of a group, a channel at a time: of what is off a mean, and of its squares */
static void off_mean(const image *before, int64_t first, int64_t channels, float *images, vec mean, vec *sum, vec *squares) {
    *sum = *squares = (vec){0};
    for (int64_t c = first; c < first + channels; c++) {
        vec own = {0}, own_squares = {0};
        for (int64_t p = 0; p < before->positions; p++) {
            vec off = *at(images, before->values + c * before->value_area + before->value_places[p]) - mean;
            own += off;
            own_squares += off * off;
        }
        *sum += own;
        *squares += own_squares;
    }
}

static moment moments(const stage *s, const image *before, int64_t group, float *images) {
    int64_t channels = before->channels / s->groups, first = group * channels;
    float count = channels * before->positions;
    vec sum, squares;
    moment m;
    off_mean(before, first, channels, images, (vec){0}, &sum, &squares);
    m.mean = sum / count;
    off_mean(before, first, channels, images, m.mean, &sum, &squares);
    m.rest = sum / count;
    vec variance = squares / count - m.rest * m.rest;
    variance = choose(variance < 0.0f, all(0.0f), variance) + (float)s->epsilon;
    for (int64_t l = 0; l < LANES; l++) m.scale[l] = 1.0f / sqrtf(variance[l]);
    return m;
}

static void normalise(const stage *s, const image *before, const image *after, const float *flat, float *images) {
    int64_t channels = before->channels / s->groups;
    moment m = {{0}, {0}, {0}};
    for (int64_t c = 0; c < before->channels; c++) {
        float weight = s->weight >= 0 ? flat[s->weight + c] : 1.0f, bias = s->bias >= 0 ? flat[s->bias + c] : 0.0f;
        if (c % channels == 0) m = moments(s, before, c / channels, images);
        for (int64_t p = 0; p < before->positions; p++) {
            vec x = *at(images, before->values + c * before->value_area + before->value_places[p]);
            *at(images, after->values + c * after->value_area + after->value_places[p]) = centred(x, &m) * m.scale * weight + bias;
        }
    }
}

/* the gradient of scale and shift, its squared norm, and the signals before, if they are needed */
static vec normalise_back(const stage *s, const image *before, const image *after, const float *flat, float *images,
                          float *gradients) {
    int64_t channels = before->channels / s->groups;
    float count = channels * before->positions, *made = gradients + s->gradient * LANES;
    vec squares = {0};
    for (int64_t g = 0; g < s->groups; g++) {
        vec slope = {0}, shift = {0};
        moment m = moments(s, before, g, images);
        for (int64_t c = g * channels; c < (g + 1) * channels; c++) {
            float *x = images + (before->values + c * before->value_area) * LANES;
            float *d = images + (after->signals + c * after->signal_area) * LANES;
            float weight = s->weight >= 0 ? flat[s->weight + c] : 1.0f;
            vec product = {0}, sum = {0};
            for (int64_t p = 0; p < before->positions; p++) {
                vec signal = *at(d, after->signal_places[p]);
                product += signal * centred(*at(x, before->value_places[p]), &m);
                sum += signal;
            }
            product *= m.scale;
            if (s->weight >= 0) *at(made, c) = product, squares += product * product;
            if (s->bias >= 0) *at(made, before->channels + c) = sum, squares += sum * sum;
            slope += product * weight;
            shift += sum * weight;
        }
        for (int64_t c = g * channels; before->signals >= 0 && c < (g + 1) * channels; c++) {
            float *x = images + (before->values + c * before->value_area) * LANES;
            float *d = images + (after->signals + c * after->signal_area) * LANES;
            float weight = s->weight >= 0 ? flat[s->weight + c] : 1.0f;
            float *e = images + (before->signals + c * before->signal_area) * LANES;
            for (int64_t p = 0; p < before->positions; p++) {
                vec normal = centred(*at(x, before->value_places[p]), &m) * m.scale;
                vec signal = *at(d, after->signal_places[p]) * weight - (shift + normal * slope) / count;
                *at(e, before->signal_places[p]) = signal * m.scale;
            }
        }
    }
    return squares;
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

#endif
