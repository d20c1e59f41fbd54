/* Floating-point model (section 6): IEEE doubles, no contraction, elementary functions within 8 U of the result. */
#ifndef GROUPDP_ARITHMETIC_H
#define GROUPDP_ARITHMETIC_H

#include <float.h>
#include <math.h>

/* The bounds assume that every operation is rounded on its own, to a double, and that a NaN is one. */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0) || FLT_EVAL_METHOD != 0
#error "the kernel's error bounds need IEEE arithmetic in double precision"
#endif

#define U 0x1p-53
/* Relative error of one elementary function. */
#define ELEMENTARY (8.0 * U)
/* Relative error of `sum` and `dot` for terms of one sign: 18 additions in a lane, 3 to join the lanes, and a
 * compensated sum over the blocks, which is within 2 U (Neumaier); a product's own rounding on top. */
#define SUMMED (64.0 * U)

#define PI 3.14159265358979323846
#define HALF_LOG_2PI 0.91893853320467274178
#define LOG_2 0.69314718055994530942

/* Compiled twice where the loader can choose: for any processor, and for those with wider vectors. Rounding is the same
 * in both: no contraction. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* Four doubles at once, wherever they lie: an extension of GCC and Clang. */
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
#define FOUR(pointer) (*(const four *)(pointer))

#define BLOCK 128

/* A NaN stays one, whichever side it is on: it must not be able to hide in a maximum. */
static inline double larger(double x, double y) { return x > y || x != x ? x : y; }
static inline double smaller(double x, double y) { return x < y || x != x ? x : y; }

/* log(e^x + e^y); -inf is log 0. */
static inline double log_add(double x, double y)
{
    double high = larger(x, y), low = smaller(x, y);
    return low == -INFINITY ? high : high + log1p(exp(low - high));
}

/* Rounded down to 20 significant bits: multiples by integers below 2^33 are exact doubles. */
static inline double shortened(double value)
{
    int exponent;
    double mantissa = frexp(value, &exponent);
    return ldexp(floor(ldexp(mantissa, 20)), exponent - 20);
}

static inline void add_compensated(double *total, double *lost, double x)
{
    double sum = *total + x;
    *lost += fabs(*total) >= fabs(x) ? (*total - sum) + x : (x - sum) + *total;
    *total = sum;
}

static inline double joined(const four *one, const four *other)
{
    four both = *one + *other;
    return (both[0] + both[1]) + (both[2] + both[3]);
}

static inline double dot(const double *x, const double *y, int n)
{
    double total = 0.0, lost = 0.0;
    for (int start = 0; start < n; start += BLOCK) {
        int end = start + BLOCK < n ? start + BLOCK : n, i = start;
        four one = {0.0}, other = {0.0};
        for (; i + 8 <= end; i += 8) {
            one += FOUR(x + i) * FOUR(y + i);
            other += FOUR(x + i + 4) * FOUR(y + i + 4);
        }
        for (; i < end; i++)
            one[i % 4] += x[i] * y[i];
        add_compensated(&total, &lost, joined(&one, &other));
    }
    return total + lost;
}

static inline double sum(const double *x, int n)
{
    double total = 0.0, lost = 0.0;
    for (int start = 0; start < n; start += BLOCK) {
        int end = start + BLOCK < n ? start + BLOCK : n, i = start;
        four one = {0.0}, other = {0.0};
        for (; i + 8 <= end; i += 8) {
            one += FOUR(x + i);
            other += FOUR(x + i + 4);
        }
        for (; i < end; i++)
            one[i % 4] += x[i];
        add_compensated(&total, &lost, joined(&one, &other));
    }
    return total + lost;
}

#endif
