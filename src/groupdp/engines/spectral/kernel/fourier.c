/* Sums of exponentials at j = 0 .. J (S-114): the weights are spread over a grid by a Gaussian, transformed, and divided by
 * its transform (Greengard and Lee 2004). */
#include "arithmetic.h"
#include "envelope.h"

/* The grid has 8 J points; e^{-(x/d)^2 / (4 tau)}, tau j^2 = FLATNESS (j/J)^2, over so many points on either side. */
#define FINENESS 8
#define FLATNESS 0.72
#define SPREAD 14

/* e^{2 pi i jk / n}, in place, n a power of 2; the sum over k of a level's two halves at a time. */
static void transform_grid(workspace *space, double *real, double *imaginary, int n)
{
    double *cosine = doubles(space, n / 2 + 1), *sine = doubles(space, n / 2 + 1);
    for (int i = 0; i < n / 2; i++) {
        cosine[i] = cos(2.0 * PI * i / n);
        sine[i] = sin(2.0 * PI * i / n);
    }
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            double x = real[i], y = imaginary[i];
            real[i] = real[j];
            imaginary[i] = imaginary[j];
            real[j] = x;
            imaginary[j] = y;
        }
    }
    double *c = doubles(space, n / 2 + 1), *s = doubles(space, n / 2 + 1);
    for (int half = 1; half < n; half *= 2) {
        int stride = n / (2 * half);
        for (int i = 0; i < half; i++) {
            c[i] = cosine[(size_t)i * stride];
            s[i] = sine[(size_t)i * stride];
        }
        for (int start = 0; start < n; start += 2 * half) {
            double *restrict x = real + start, *restrict y = imaginary + start;
            double *restrict v = real + start + half, *restrict w = imaginary + start + half;
            for (int i = 0; i < half; i++) {
                double a = v[i] * c[i] - w[i] * s[i], b = v[i] * s[i] + w[i] * c[i];
                v[i] = x[i] - a;
                w[i] = y[i] - b;
                x[i] += a;
                y[i] += b;
            }
        }
    }
}

double exponential_sums(workspace *space, int points, const double *position, const double *one, const double *other,
                        int samples, double *real, double *imaginary, double *other_real, double *other_imaginary)
{
    int n = FINENESS * samples, most = 0, here = 0, *nearby = allocate(space, n * sizeof(int));
    double *x = doubles(space, n), *y = doubles(space, n), fall[SPREAD + 2];
    /* in units of the grid: e^{-t^2 / (4 width)}, width = tau (n / 2 pi)^2 */
    double width = FLATNESS * (FINENESS / (2.0 * PI)) * (FINENESS / (2.0 * PI));
    spend(space, 40.0 * points * SPREAD + 40.0 * n);
    for (int i = 0; i < n; i++)
        x[i] = y[i] = 0.0, nearby[i] = 0;
    for (int i = 0; i < SPREAD + 2; i++)
        fall[i] = exp(-0.25 * i * i / width);
    for (int p = 0; p < points; p++) {
        double place = (position[p] - floor(position[p])) * n;
        int nearest = (int)floor(place + 0.5);
        nearby[nearest & (n - 1)]++;
        double t = place - nearest, middle = exp(-0.25 * t * t / width), ratio = exp(0.5 * t / width), up = middle, down = middle;
        for (int i = 0; i <= SPREAD; i++) {
            int k = (nearest + i) & (n - 1), l = (nearest - i) & (n - 1);
            double high = up * fall[i], low = down * fall[i];
            x[k] += one[p] * high;
            y[k] += other[p] * high;
            if (i > 0) {
                x[l] += one[p] * low;
                y[l] += other[p] * low;
            }
            up *= ratio;
            down /= ratio;
        }
    }
    for (int i = -SPREAD; i < n + SPREAD; i++) { /* terms that are added up at one point of the grid */
        here += nearby[(i + SPREAD) & (n - 1)] - (i > SPREAD ? nearby[i - SPREAD - 1] : 0);
        most = here > most ? here : most;
    }
    transform_grid(space, x, y, n);
    double scale = 1.0 / sqrt(4.0 * PI * width);
    for (int j = 0; j <= samples; j++) {
        int k = (n - j) & (n - 1);
        double share = (double)j / samples, factor = 0.5 * scale * exp(FLATNESS * share * share);
        real[j] = factor * (x[j] + x[k]);
        imaginary[j] = factor * (y[j] - y[k]);
        other_real[j] = factor * (y[j] + y[k]);
        other_imaginary[j] = factor * (x[k] - x[j]);
    }
    return FOURIER_ERROR + 2.2 * U * most;
}
