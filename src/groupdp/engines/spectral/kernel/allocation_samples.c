/* The characteristic function of rounds of allocations on the contour's frequencies (S-34). */
#include "arithmetic.h"
#include "spectral.h"

/* Relative error of the computed logarithm of 1 + d, and the modulus below which it is not resolved (S-20). */
#define LOGARITHM (64.0 * U)
#define UNRESOLVED 1e-15

/* log Gamma(a) - log Gamma(a - is) - is log a by Stirling's series, a >= 24, and the sum of the sizes of its parts. */
void gamma_ratio(double a, double s, double *real, double *imaginary, double *size)
{
    double y = s / a, half_log = 0.5 * log1p(y * y), angle = atan2(s, a), norm = a * a + s * s;
    /* 1/(12 z) - 1/(360 z^3) + 1/(1260 z^5) - ... at z = a and z = a - is; 1/z = (a + is) / |z|^2. */
    double p = a / norm, q = s / norm, p2 = p * p - q * q, q2 = 2.0 * p * q;
    static const double series[] = {1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0};
    double at_a = 0.0, x = 0.0, v = 0.0, square = 1.0 / (a * a);
    for (int i = 4; i >= 0; i--) {
        at_a = at_a * square + series[i];
        double next = x * p2 - v * q2 + series[i];
        v = x * q2 + v * p2;
        x = next;
    }
    *real = -(a - 0.5) * half_log + s * angle + (at_a / a - (x * p - v * q));
    *imaginary = (a - 0.5) * angle + s * (half_log - 1.0) - (x * q + v * p);
    *size = a * half_log + s * (angle + half_log + 2.0) + 0.1;
}

/* The same from rays, or from a line. */
static void sample_turned(workspace *space, const tilted_factor *factor, const contour *path, double *real,
                          double *imaginary, double *log_error_of, double *log_largest)
{
    for (int i = 0; i < path->samples; i++) {
        double s = path->frequency[i], x, y, error;
        if (factor->line != NULL)
            sample_line(factor, s, &x, &y, &error);
        else
            sample_rays(space, factor, s, &x, &y, &error);
        double modulus = hypot(x, y), log_modulus = log(larger(modulus, UNRESOLVED)), angle = atan2(y, x);
        if (modulus < UNRESOLVED)
            error += 2.0 * UNRESOLVED;
        double relative = error * exp(-log_modulus), rounding = LOGARITHM * (fabs(log_modulus) + fabs(angle));
        real[i] = log_modulus;
        imaginary[i] = factor->sign * angle;
        log_error_of[i] = rounding - log1p(-smaller(relative, 1.0 - 1e-12));
        log_largest[i] = smaller(real[i] + rounding + log1p(relative) * (1.0 + ELEMENTARY), log_factor_decay(factor, s));
    }
}

/* log of one factor's characteristic function on the samples, without its centre; the bound on the error of that
 * logarithm, and on the logarithm of the modulus (S-34). */
static void sample_factor(workspace *space, const tilted_factor *factor, const contour *path, double *real,
                          double *imaginary, double *log_error_of, double *log_largest)
{
    const tilted_round *of = &factor->of;
    double distance = 0.0;
    if (factor->curve != NULL) {
        sample_curve(space, factor, path, real, imaginary, log_error_of, log_largest);
        return;
    }
    if (of->nodes == 0) { /* S-36 */
        for (int i = 0; i < path->samples; i++) {
            double s = path->frequency[i];
            real[i] = -0.5 * s * s * of->variance;
            imaginary[i] = 0.0;
            log_error_of[i] = s * of->first_order_error + 8.0 * U * fabs(real[i]);
            log_largest[i] = real[i] * (1.0 - 1e-14);
        }
        return;
    }
    if (factor->rays > 0 || factor->line != NULL) { /* S-41, S-45 */
        spend(space, 60.0 * path->samples * (factor->rays > 0 ? factor->ray[0].nodes : factor->line->nodes));
        sample_turned(space, factor, path, real, imaginary, log_error_of, log_largest);
        return;
    }
    for (int i = 0; i < path->samples; i++)
        real[i] = imaginary[i] = 0.0;
    sample_nodes(space, of, path, real, imaginary);
    for (int j = 0; j < of->nodes; j++)
        distance += of->weight[j] * fabs(of->loss[j] - of->centre);
    double by_frequency = of->first_order_error + (94.0 * U + 2.0 * SUMMED + 4.0 * U) * distance;
    double by_square = 3.0 * (of->nodes + 60.0) * U * 0.25 * of->variance, rate = factor->rate;
    spend(space, 60.0 * path->samples);
    for (int i = 0; i < path->samples; i++) {
        double s = path->frequency[i], d = real[i], e = imaginary[i], log_modulus, gamma, turn, size;
        double error = s * by_frequency + s * s * by_square + of->constant_error;
        double squared = 2.0 * d + (d * d + e * e), modulus = hypot(1.0 + d, e);
        log_modulus = squared > -0.75 ? 0.5 * log1p(squared) : log(larger(modulus, UNRESOLVED));
        if (modulus < UNRESOLVED)
            error += 2.0 * UNRESOLVED;
        double angle = atan2(e, 1.0 + d), relative = error * exp(-log_modulus);
        gamma = turn = size = 0.0;
        if (factor->shape > 0.0) /* atoms have no such part */
            gamma_ratio(factor->shape, s, &gamma, &turn, &size);
        double rounding = LOGARITHM * (fabs(log_modulus) + fabs(angle)) + 40.0 * U * size;
        real[i] = log_modulus + gamma;
        imaginary[i] = angle + factor->sign * turn;
        log_error_of[i] = rounding - log1p(-smaller(relative, 1.0 - 1e-12));
        log_largest[i] = smaller(real[i] + rounding + log1p(relative) * (1.0 + ELEMENTARY), -s * s * rate);
    }
}

/* Adds T log(phi(s) e^{-i s centre}) of a round of allocations, with the bounds that its error adds (S-20, S-34). */
void add_allocations(workspace *space, const tilted_round *tilted, int rounds, contour *path, double *log_error_of,
                     double *log_largest)
{
    const allocation_law *of = tilted->law->allocated;
    const tilted_allocation *parts = tilted->allocated;
    int samples = path->samples, factors = of->factors;
    double **column[4], count = tilted->law->count;
    for (int k = 0; k < 4; k++) {
        column[k] = allocate(space, factors * sizeof(double *));
        for (int f = 0; f < factors; f++)
            column[k][f] = doubles(space, samples);
    }
    for (int f = 0; f < factors; f++) {
        bookmark place = mark(space);
        sample_factor(space, &parts->factor[f], path, column[0][f], column[1][f], column[2][f], column[3][f]);
        rewind_to(space, place);
    }
    int *first = allocate(space, ((size_t)of->products + 1) * sizeof(int)), used = 0;
    int *which = allocate(space, (size_t)of->products * factors * sizeof(int));
    for (int b = 0; b < of->products; b++) {
        first[b] = used;
        for (int f = 0; f < factors; f++)
            if (of->times[b * factors + f] > 0.0)
                which[used++] = f;
    }
    first[of->products] = used;
    spend(space, 10.0 * samples * (used + 4.0 * of->products));
    for (int i = 0; i < samples; i++) {
        double s = path->frequency[i], x = 0.0, y = 0.0, error = 0.0, log_modulus = 0.0, angle = 0.0, log_error = 0.0;
        double most = 0.0;
        for (int b = 0; b < of->products; b++) {
            double part[4] = {0.0}, centre = 0.0, size = 0.0;
            for (int j = first[b]; j < first[b + 1]; j++) {
                int f = which[j];
                double times = of->times[b * factors + f];
                for (int k = 0; k < 4; k++)
                    part[k] += times * column[k][f][i];
                centre += times * parts->factor[f].of.centre;
                size += times * (fabs(column[0][f][i]) + fabs(column[1][f][i]) + s * fabs(parts->factor[f].of.centre));
            }
            part[2] += 4.0 * U * (factors + 4.0) * size;
            if (of->products == 1) {
                log_modulus = part[0];
                angle = part[1];
                log_error = part[2];
                most = part[3];
                break;
            }
            double modulus = exp(part[0]), turn = part[1] + s * (centre - tilted->centre), share = parts->share[b];
            double largest = exp(smaller(part[3], 0.0)), wrong = part[2] < 1.0 ? modulus * expm1(part[2]) : INFINITY;
            if (!(wrong < largest)) { /* S-90 */
                modulus = 0.0;
                wrong = largest;
            }
            x += share * modulus * cos(turn);
            y += share * modulus * sin(turn);
            error += share * (1.01 * wrong + modulus * (20.0 * U + 4.0 * U * s * (fabs(centre) + fabs(tilted->centre))));
        }
        if (of->products > 1) {
            error = 1.01 * error + 2.0 * parts->share_error + (of->products + 20.0) * U;
            double modulus = hypot(x, y);
            log_modulus = log(larger(modulus, UNRESOLVED));
            error += modulus < UNRESOLVED ? 2.0 * UNRESOLVED : 0.0;
            angle = atan2(y, x);
            double relative = error * exp(-log_modulus);
            log_error = LOGARITHM * (fabs(log_modulus) + fabs(angle)) - log1p(-smaller(relative, 1.0 - 1e-12));
            most = smaller(log_modulus + log1p(relative) + 64.0 * U * fabs(log_modulus), 0.0);
        }
        path->real[i] += count * log_modulus;
        path->imaginary[i] += count * angle;
        log_error_of[i] += count * (log_error + rounds * U * (fabs(log_modulus) + fabs(angle)));
        log_largest[i] += count * (most + rounds * U * fabs(log_modulus));
    }
}
