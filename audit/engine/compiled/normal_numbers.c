/* torch's Gaussian numbers of the CPU, faster: the same words of the Mersenne Twister (Matsumoto, Nishimura 1998, MT19937) and
   the same pairs (Box, Muller 1958), by loops that a compiler turns into vector code.

   torch takes 16 words at a time: of word w it keeps u = (w mod 2^24) / 2^24, the first eight are radii sqrt(-2 log(1 - u)),
   the last eight angles 2 pi u, of which eight cosines come first and eight sines after them. Logarithm, sine and cosine are
   our own, so numbers agree with torch's to rounding. Called from compiled_noise.py. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define WORDS 624            /* of one state: 39 times 16 */
#define SHIFT 397
#define PAIRS (WORDS / 2)

typedef struct {
    uint32_t words[WORDS];   /* the state */
    float numbers[WORDS];    /* what it came to */
    int64_t next;            /* the first of them that was not handed out yet */
} stream;

int64_t normal_stream_bytes(void) { return (int64_t)sizeof(stream); }

void normal_start(stream *s, uint32_t seed) {
    s->words[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) s->words[i] = 1812433253u * (s->words[i - 1] ^ (s->words[i - 1] >> 30)) + i;
    s->next = WORDS;
}

static inline uint32_t twist(uint32_t high, uint32_t low) {
    uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
    return (mixed >> 1) ^ (-(low & 1u) & 0x9908b0dfu);
}

static inline uint32_t temper(uint32_t y) {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static void advance(uint32_t *s) {
    for (int i = 0; i < WORDS - SHIFT; i++) s[i] = s[i + SHIFT] ^ twist(s[i], s[i + 1]);
    for (int i = WORDS - SHIFT; i < WORDS - 1; i++) s[i] = s[i - (WORDS - SHIFT)] ^ twist(s[i], s[i + 1]);
    s[WORDS - 1] = s[SHIFT - 1] ^ twist(s[WORDS - 1], s[0]);
}

/* sqrt(-2 log x) for 2^-24 <= x <= 1; the logarithm by m - 1 for the mantissa m in [sqrt(1/2), sqrt(2)) */
static inline float radius(float x) {
    int32_t bits;
    memcpy(&bits, &x, 4);
    int32_t power = (bits - 0x3f3504f3) >> 23;
    bits -= power * (1 << 23);
    float m;
    memcpy(&m, &bits, 4);
    float f = m - 1.0f, square = f * f, e = (float)power;
    float p = 7.0376836292e-2f;
    p = p * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    float tail = p * f * square - 2.12194440e-4f * e - 0.5f * square;
    return sqrtf(-2.0f * (f + tail + 0.693359375f * e));
}

/* cosine and sine of 2 pi u for 0 <= u < 1, from the nearest quarter of a turn */
static inline void turn(float u, float *cosine, float *sine) {
    float quarters = 4.0f * u;
    int32_t quarter = (int32_t)(quarters + 0.5f);
    float x = (quarters - (float)quarter) * 1.57079632679489662f, s = x * x;
    float c = ((2.443315711809948e-5f * s - 1.388731625493765e-3f) * s + 4.166664568298827e-2f) * s * s - 0.5f * s + 1.0f;
    float d = ((-1.9515295891e-4f * s + 8.3321608736e-3f) * s - 1.6666654611e-1f) * s * x + x;
    float along = quarter & 1 ? d : c, across = quarter & 1 ? c : d;
    *cosine = (quarter + 1) & 2 ? -along : along;
    *sine = quarter & 2 ? -across : across;
}

/* eight floats of every sixteen, from the first or the ninth on */
static inline void halves(const float *from, float *into) {
    for (int i = 0; i < PAIRS; i += 8) memcpy(into + i, from + 2 * i, 32);
}

/* both numbers of each pair of uniform ones */
void normal_pairs(const float *restrict radii, const float *restrict angles, int64_t pairs, float *restrict cosines,
                  float *restrict sines) {
    for (int64_t i = 0; i < pairs; i++) {
        float r = radius(1.0f - radii[i]), cosine, sine;
        turn(angles[i], &cosine, &sine);
        cosines[i] = r * cosine;
        sines[i] = r * sine;
    }
}

static void refill(stream *s) {
    float uniforms[WORDS], radii[PAIRS], angles[PAIRS], cosines[PAIRS], sines[PAIRS];
    advance(s->words);
    for (int i = 0; i < WORDS; i++) uniforms[i] = (float)(int32_t)(temper(s->words[i]) & 0xffffffu) * 0x1p-24f;
    halves(uniforms, radii);
    halves(uniforms + 8, angles);
    normal_pairs(radii, angles, PAIRS, cosines, sines);
    for (int i = 0; i < PAIRS; i += 8) {
        memcpy(s->numbers + 2 * i, cosines + i, 32);
        memcpy(s->numbers + 2 * i + 8, sines + i, 32);
    }
    s->next = 0;
}

/* the next `width` numbers of each model, a multiple of 16, into `models` rows; 0 from `ends[2 i]` to `ends[2 i + 1]` */
void normal_numbers(stream *streams, int64_t models, int64_t width, const int64_t *ends, int64_t zeros, float *into) {
    for (int64_t model = 0; model < models; model++) {
        stream *s = streams + model;
        float *row = into + model * width;
        for (int64_t start = 0, count; start < width; start += count) {
            if (s->next == WORDS) refill(s);
            count = WORDS - s->next < width - start ? WORDS - s->next : width - start;
            memcpy(row + start, s->numbers + s->next, sizeof(float) * (size_t)count);
            s->next += count;
        }
        for (int64_t i = 0; i < zeros; i++)
            memset(row + ends[2 * i], 0, sizeof(float) * (size_t)(ends[2 * i + 1] - ends[2 * i]));
    }
}
