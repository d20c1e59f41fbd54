/* Floating-point model (S-1): IEEE doubles, no contraction, elementary functions within 8 U of the result. */
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
 * in both: no contraction. Function clones need GCC and an ELF loader; elsewhere there is one version. GROUPDP_PLAIN_C
 * does without all extensions. */
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__) &&                       \
    !defined(GROUPDP_PLAIN_C)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* Four doubles at once, wherever they lie: an extension of GCC and Clang; plain C11 adds the same four lanes in the same
 * order. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(GROUPDP_PLAIN_C)
#define LANES_IN_ONE 1
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* passed to nothing that is not inlined */
#endif
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
#define FOUR(pointer) (*(const four *)(pointer))
#define NO_LANES {0.0}
#else
typedef struct {
    double lane[4];
} four;
#define NO_LANES {{0.0}}
#endif

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

#ifdef LANES_IN_ONE
#define LANE(four_of_them, i) ((four_of_them)[i])
static inline void add_four(four *to, const double *x) { *to += FOUR(x); }
static inline void add_products(four *to, const double *x, const double *y) { *to += FOUR(x) * FOUR(y); }
/* (x - m) y z. */
static inline void add_shifted_products(four *to, const double *x, double m, const double *y, const double *z)
{
    *to += (FOUR(x) - m) * FOUR(y) * FOUR(z);
}
/* x v - y w, and x w + y v. */
static inline void add_real_parts(four *to, const double *x, const double *y, const double *v, const double *w)
{
    *to += FOUR(x) * FOUR(v) - FOUR(y) * FOUR(w);
}
static inline void add_imaginary_parts(four *to, const double *x, const double *y, const double *v, const double *w)
{
    *to += FOUR(x) * FOUR(w) + FOUR(y) * FOUR(v);
}
#else
#define LANE(four_of_them, i) ((four_of_them).lane[i])
static inline void add_four(four *to, const double *x)
{
    for (int i = 0; i < 4; i++)
        to->lane[i] += x[i];
}
static inline void add_products(four *to, const double *x, const double *y)
{
    for (int i = 0; i < 4; i++)
        to->lane[i] += x[i] * y[i];
}
static inline void add_shifted_products(four *to, const double *x, double m, const double *y, const double *z)
{
    for (int i = 0; i < 4; i++)
        to->lane[i] += (x[i] - m) * y[i] * z[i];
}
static inline void add_real_parts(four *to, const double *x, const double *y, const double *v, const double *w)
{
    for (int i = 0; i < 4; i++)
        to->lane[i] += x[i] * v[i] - y[i] * w[i];
}
static inline void add_imaginary_parts(four *to, const double *x, const double *y, const double *v, const double *w)
{
    for (int i = 0; i < 4; i++)
        to->lane[i] += x[i] * w[i] + y[i] * v[i];
}
#endif

static inline double joined(const four *one, const four *other)
{
    double both[4];
    for (int i = 0; i < 4; i++)
        both[i] = LANE(*one, i) + LANE(*other, i);
    return (both[0] + both[1]) + (both[2] + both[3]);
}

static inline double together(const four *one)
{
    return (LANE(*one, 0) + LANE(*one, 1)) + (LANE(*one, 2) + LANE(*one, 3));
}

static inline double dot(const double *x, const double *y, int n)
{
    double total = 0.0, lost = 0.0;
    for (int start = 0; start < n; start += BLOCK) {
        int end = start + BLOCK < n ? start + BLOCK : n, i = start;
        four one = NO_LANES, other = NO_LANES;
        for (; i + 8 <= end; i += 8) {
            add_products(&one, x + i, y + i);
            add_products(&other, x + i + 4, y + i + 4);
        }
        for (; i < end; i++)
            LANE(one, i % 4) += x[i] * y[i];
        add_compensated(&total, &lost, joined(&one, &other));
    }
    return total + lost;
}

static inline double sum(const double *x, int n)
{
    double total = 0.0, lost = 0.0;
    for (int start = 0; start < n; start += BLOCK) {
        int end = start + BLOCK < n ? start + BLOCK : n, i = start;
        four one = NO_LANES, other = NO_LANES;
        for (; i + 8 <= end; i += 8) {
            add_four(&one, x + i);
            add_four(&other, x + i + 4);
        }
        for (; i < end; i++)
            LANE(one, i % 4) += x[i];
        add_compensated(&total, &lost, joined(&one, &other));
    }
    return total + lost;
}

#endif
