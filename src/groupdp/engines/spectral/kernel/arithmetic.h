/* Floating-point model (section 6): IEEE doubles, no contraction, elementary functions within 8 U of the result. */
#ifndef GROUPDP_ARITHMETIC_H
#define GROUPDP_ARITHMETIC_H

#include <math.h>

#define U 0x1p-53
/* Relative error of one elementary function. */
#define ELEMENTARY (8.0 * U)
/* Relative error of `sum` and `dot` for terms of one sign: 16 additions in a lane, 3 to join the lanes, and a
 * compensated sum over the blocks, which is within 2 U (Neumaier); a product's own rounding on top. */
#define SUMMED (64.0 * U)

#define PI 3.14159265358979323846
#define HALF_LOG_2PI 0.91893853320467274178
#define LOG_2 0.69314718055994530942

#define LANES 8
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

static inline double join_lanes(const double *lane)
{
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static inline double dot(const double *x, const double *y, int n)
{
    double total = 0.0, lost = 0.0;
    for (int start = 0; start < n; start += BLOCK) {
        int end = start + BLOCK < n ? start + BLOCK : n, i = start;
        double lane[LANES] = {0.0};
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++)
                lane[j] += x[i + j] * y[i + j];
        for (int j = 0; i < end; i++, j++)
            lane[j] += x[i] * y[i];
        add_compensated(&total, &lost, join_lanes(lane));
    }
    return total + lost;
}

static inline double sum(const double *x, int n)
{
    double total = 0.0, lost = 0.0;
    for (int start = 0; start < n; start += BLOCK) {
        int end = start + BLOCK < n ? start + BLOCK : n, i = start;
        double lane[LANES] = {0.0};
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++)
                lane[j] += x[i + j];
        for (int j = 0; i < end; i++, j++)
            lane[j] += x[i];
        add_compensated(&total, &lost, join_lanes(lane));
    }
    return total + lost;
}

#endif
