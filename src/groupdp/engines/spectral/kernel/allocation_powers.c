/* Powers of power series with positive coefficients (S-33), and of such series turned in the complex plane (S-42). */
#include "arithmetic.h"
#include "spectral.h"

/* Coefficients are scaled down beyond this. */
#define LARGE 1e200
/* Above log 2^-1074. */
#define LOG_SMALLEST -744.0

/* sum of (multiple_k - m) b_k f_k over k < n. */
static inline double recurrence_sum(const double *multiple, double m, const double *b, const double *f, int n)
{
    double total = 0.0, lost = 0.0;
    for (int start = 0; start < n; start += BLOCK) {
        int end = start + BLOCK < n ? start + BLOCK : n, k = start;
        four one = NO_LANES, other = NO_LANES;
        for (; k + 8 <= end; k += 8) {
            add_shifted_products(&one, multiple + k, m, b + k, f + k);
            add_shifted_products(&other, multiple + k + 4, m, b + k + 4, f + k + 4);
        }
        for (; k < end; k++)
            LANE(one, k % 4) += (multiple[k] - m) * b[k] * f[k];
        add_compensated(&total, &lost, joined(&one, &other));
    }
    return total + lost;
}

/* Coefficients f_0 = 1, ..., f_n of (B(t) / b_0)^M e^{rho t}, B = sum b_k t^k, from last to first in g, scaled: the
 * logarithm of the scale is returned, and the smallest f_m when it was computed. m b_0 f_m = sum_k ((M + 1) k - m) b_k f_{m-k} +
 * rho sum_k b_k f_{m-1-k} (S-33). */
WIDE double power_by_recurrence(const double *b, const double *multiple, int n, double rho, double *g, double *least)
{
    double scale = 0.0;
    *least = 1.0;
    g[n] = 1.0;
    for (int m = 1; m <= n; m++) {
        const double *next = g + n - m;
        double total = recurrence_sum(multiple + 1, m, b + 1, next + 1, m);
        if (rho > 0.0)
            total += rho * dot(b, next + 1, m);
        double f = total / (m * b[0]);
        g[n - m] = f;
        *least = smaller(f, *least);
        if (f > LARGE) {
            for (int k = n - m; k <= n; k++)
                g[k] *= 1.0 / LARGE;
            scale += log(LARGE);
        }
    }
    return scale;
}

/* The product of two polynomials to degree n; the second is given from last to first. */
WIDE static void multiply(const double *one, const double *other_reversed, int n, double *result)
{
    for (int m = 0; m <= n; m++)
        result[m] = dot(one, other_reversed + n - m, m + 1);
}

static void reverse_into(const double *from, int n, double *to)
{
    for (int m = 0; m <= n; m++)
        to[n - m] = from[m];
}

static double scaled_down(double *f, int n)
{
    double most = 0.0;
    for (int m = 0; m <= n; m++)
        most = larger(most, f[m]);
    if (!(most > 0.0))
        return 0.0;
    int exponent;
    frexp(most, &exponent);
    for (int m = 0; m <= n; m++)
        f[m] = ldexp(f[m], -exponent);
    return exponent * LOG_2;
}

/* The square of a polynomial to degree n, which is given in both orders: every product of two different coefficients stands
 * in it twice. */
WIDE static void multiply_by_itself(const double *f, const double *reversed, int n, double *result)
{
    for (int m = 0; m <= n; m++) {
        double middle = m % 2 == 0 ? f[m / 2] * f[m / 2] : 0.0;
        result[m] = 2.0 * dot(f, reversed + n - m, (m + 1) / 2) + middle;
    }
}

/* log of what underflow makes of a product whose factors, of coefficients up to 1, are right to e^one and e^other; INFINITY
 * beyond 1 (S-33). */
static double log_doubt_of(double one, double other, int n, double log_scale)
{
    double both = log_add(log_add(one, other), LOG_SMALLEST) + log(3.0 * (n + 1.0));
    return both < 0.0 ? log_add(both - log_scale, LOG_SMALLEST) : INFINITY;
}

/* The last coefficient by repeated squaring, for few places, divided by e^scale; b_k / b_0 may be wrong by e^log_doubt, which
 * becomes that of the result, underflow included. Every factor of a product is scaled: its largest coefficient is between 1/2
 * and 1 (S-33). */
double power_by_squaring(workspace *space, const double *b, double places, int n, double rho, double *scale, double *log_doubt)
{
    bookmark at = mark(space);
    double *base = doubles(space, n + 1), *turned = doubles(space, n + 1), *next = doubles(space, n + 1);
    double *result = doubles(space, n + 1), left = places, last, less;
    int is_one = !(rho > 0.0); /* the result so far */
    for (int m = 0; m <= n; m++) {
        base[m] = b[m] / b[0];
        result[m] = m == 0;
    }
    if (rho > 0.0)
        for (int m = 1; m <= n; m++)
            result[m] = result[m - 1] * rho / m;
    *scale = scaled_down(result, n);
    double base_scale = scaled_down(base, n), base_doubt = log_add(*log_doubt + LOG_2, LOG_SMALLEST);
    double doubt = log_add(LOG_SMALLEST - *scale, LOG_SMALLEST);
    for (; left >= 2.0; left = floor(0.5 * left)) {
        reverse_into(base, n, turned);
        if (fmod(left, 2.0) == 1.0) {
            if (is_one) {
                *scale += base_scale - LOG_2; /* result[0] is 1/2 */
                doubt = base_doubt;
                for (int m = 0; m <= n; m++)
                    result[m] = base[m];
            } else {
                multiply(result, turned, n, next);
                for (int m = 0; m <= n; m++)
                    result[m] = next[m];
                less = scaled_down(result, n);
                *scale += base_scale + less;
                doubt = log_doubt_of(doubt, base_doubt, n, less);
            }
            is_one = 0;
        }
        multiply_by_itself(base, turned, n, next);
        for (int m = 0; m <= n; m++)
            base[m] = next[m];
        less = scaled_down(base, n);
        base_scale = 2.0 * base_scale + less;
        base_doubt = log_doubt_of(base_doubt, base_doubt, n, less);
    }
    reverse_into(base, n, turned);
    last = dot(result, turned, n + 1);
    *scale += base_scale;
    *log_doubt = log_doubt_of(doubt, base_doubt, n, 0.0);
    rewind_to(space, at);
    return last;
}

/* (B(t) / b_0)^M e^{rho t} to degree n, B complex and its b_k / b_0 given, rho too: the last coefficient. */
WIDE void turned_recurrence(const double *real, const double *imaginary, const double *multiple, int n,
                                   double rho, double *g, double *h)
{
    double product[2][BLOCK];
    g[n] = 1.0;
    h[n] = 0.0;
    for (int m = 1; m <= n; m++) {
        const double *x = g + n - m, *y = h + n - m;
        double re = 0.0, im = 0.0;
        for (int start = 1; start <= m; start += BLOCK) {
            int count = m + 1 - start < BLOCK ? m + 1 - start : BLOCK;
            for (int i = 0; i < count; i++) {
                double by = multiple[start + i] - m, v = by * real[start + i], w = by * imaginary[start + i];
                product[0][i] = v * x[start + i] - w * y[start + i];
                product[1][i] = v * y[start + i] + w * x[start + i];
            }
            re += sum(product[0], count);
            im += sum(product[1], count);
        }
        if (rho > 0.0) {
            re += rho * (dot(real, x + 1, m) - dot(imaginary, y + 1, m));
            im += rho * (dot(real, y + 1, m) + dot(imaginary, x + 1, m));
        }
        g[n - m] = re / m;
        h[n - m] = im / m;
    }
}

/* The product of two polynomials to degree n; the second is given from last to first. */
WIDE static void multiply_complex(const double *a, const double *b, const double *c, const double *d, int n, double *x,
                                  double *y)
{
    for (int m = 0; m <= n; m++) {
        x[m] = dot(a, c + n - m, m + 1) - dot(b, d + n - m, m + 1);
        y[m] = dot(a, d + n - m, m + 1) + dot(b, c + n - m, m + 1);
    }
}

static void copy_turned(const double *from, int n, double *to, int turn)
{
    for (int m = 0; m <= n; m++)
        to[turn ? n - m : m] = from[m];
}

/* The same by repeated squaring, for few places; coefficients from last to first as above. */
void turned_squaring(workspace *space, const double *real, const double *imaginary, double places, int n,
                            double rho, double *g, double *h)
{
    bookmark at = mark(space);
    double *v[6];
    for (int i = 0; i < 6; i++)
        v[i] = doubles(space, n + 1);
    double *x = doubles(space, n + 1), *y = doubles(space, n + 1);
    copy_turned(real, n, v[0], 0);
    copy_turned(imaginary, n, v[1], 0);
    for (int m = 0; m <= n; m++) {
        x[m] = m == 0 ? 1.0 : x[m - 1] * rho / m;
        y[m] = 0.0;
    }
    for (double left = places; left >= 1.0; left = floor(0.5 * left)) {
        copy_turned(v[0], n, v[2], 1);
        copy_turned(v[1], n, v[3], 1);
        if (fmod(left, 2.0) == 1.0) {
            multiply_complex(x, y, v[2], v[3], n, v[4], v[5]);
            copy_turned(v[4], n, x, 0);
            copy_turned(v[5], n, y, 0);
        }
        if (left >= 2.0) {
            multiply_complex(v[0], v[1], v[2], v[3], n, v[4], v[5]);
            copy_turned(v[4], n, v[0], 0);
            copy_turned(v[5], n, v[1], 0);
        }
    }
    copy_turned(x, n, g, 1);
    copy_turned(y, n, h, 1);
    rewind_to(space, at);
}
