/* Logarithm, exponential and digamma out of additions, multiplications and divisions alone, in a fixed order: the same bits
 * on every machine of IEEE 754 doubles, which the C library does not promise.  No contraction to fused operations (setup.py).
 * beam_bpe/reference_unigram.py has the same steps.  Errors are below 2 units in the last place (digamma: absolutely, 1e-14).
 */
#ifndef BEAM_BPE_UNIGRAM_MATH_H
#define BEAM_BPE_UNIGRAM_MATH_H

#include <stdint.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42fee00000p-1 /* its low 21 bits are 0: exact times an exponent */
#define LN2_LOW 0x1.a39ef35793c76p-33
#define SQRT_HALF 0x1.6a09e667f3bcdp-1

static inline double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The natural logarithm of a normal positive number: 2 artanh((m - 1) / (m + 1)) with m between √½ and √2. */
static inline double log_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    double e = (double)((int)(bits >> 52) - 1022);
    double m = from_bits((bits & 0x000FFFFFFFFFFFFFull) | 0x3FE0000000000000ull);
    if (m < SQRT_HALF) {
        m *= 2;
        e -= 1;
    }
    double s = (m - 1) / (m + 1), z = s * s, sum = 0;
    for (int k = 21; k >= 3; k -= 2) sum = (sum + 1.0 / k) * z;
    return e * LN2_HIGH + (e * LN2_LOW + (2 * s + 2 * s * sum));
}

/* e to the power of x for x from -700 to 700; 0 below. */
static inline double exp_of(double x) {
    if (x < -700) return 0;
    double k = (double)(int)(x * (1 / (LN2_HIGH + LN2_LOW)) + (x < 0 ? -0.5 : 0.5));
    double r = (x - k * LN2_HIGH) - k * LN2_LOW, sum = 1;
    for (int n = 14; n >= 1; n--) sum = 1 + sum * r / n;
    return sum * from_bits((uint64_t)((int)k + 1023) << 52);
}

/* The derivative of log Γ at x > 0: by recurrence to 10, there by its asymptotic series. */
static inline double digamma(double x) {
    double below = 0;
    for (; x < 10; x += 1) below += 1 / x;
    double y = 1 / (x * x);
    double series = y * (1.0 / 12 - y * (1.0 / 120 - y * (1.0 / 252 - y * (1.0 / 240 - y * (1.0 / 132 - y * (691.0 / 32760))))));
    return log_of(x) - 0.5 / x - series - below;
}

#endif
