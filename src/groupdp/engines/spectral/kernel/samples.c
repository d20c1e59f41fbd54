/* The composed characteristic function on the contour's frequencies (S-19, S-20). */
#include "arithmetic.h"
#include "spectral.h"

#define LARGEST_EXPONENTIALS 10000000
/* Relative error of the computed logarithm of 1 + d, and of its multiple. */
#define LOGARITHM (64.0 * U)
/* A modulus below this is not resolved. */
#define UNRESOLVED 1e-15
/* Error of D = e^{i s l} - 1, relative to s |l|: 24 U where it comes from sine and cosine, 5 U for each of the at most
 * 14 times that D_{j + k} = D_j + D_k + D_j D_k is used (S-19). */
#define EXPONENTIAL (94.0 * U)

/* What a loss off the axis adds to that: e^{-s Im l} - 1 has 8 U, and 1 + that 9 U, in absolute terms (S-52). */
#define EXPONENTIAL_OFF_AXIS (16.0 * U)

/* Rows of e^{i n s l} - 1, n = 0, ..., rows - 1, one per multiple of the frequency s; Im l is `height`, 0 if NULL. */
WIDE static void exponentials(double s, int rows, const double *offset, const double *height, int nodes, double *real,
                              double *imaginary)
{
    for (int j = 0; j < nodes; j++)
        real[j] = imaginary[j] = 0.0;
    if (rows == 1)
        return;
    for (int j = 0; j < nodes && height != NULL; j++) {
        double half = 0.5 * s * offset[j], sine = sin(half), less = expm1(-s * height[j]), factor = 1.0 + less;
        real[nodes + j] = less - factor * (2.0 * sine * sine);
        imaginary[nodes + j] = factor * (2.0 * sine * cos(half));
    }
    for (int j = 0; j < nodes && height == NULL; j++) {
        double half = 0.5 * s * offset[j], sine = sin(half);
        real[nodes + j] = -2.0 * sine * sine;
        imaginary[nodes + j] = 2.0 * sine * cos(half);
    }
    for (int n = 2, power = 2; n < rows; n++) {
        if (n == 2 * power)
            power = n;
        int one = n == power ? n / 2 : power, other = n - one;
        const double *restrict x = real + (size_t)one * nodes, *restrict y = imaginary + (size_t)one * nodes;
        const double *restrict v = real + (size_t)other * nodes, *restrict w = imaginary + (size_t)other * nodes;
        double *restrict to_real = real + (size_t)n * nodes, *restrict to_imaginary = imaginary + (size_t)n * nodes;
        for (int j = 0; j < nodes; j++) {
            to_real[j] = (x[j] + v[j]) + (x[j] * v[j] - y[j] * w[j]);
            to_imaginary[j] = (y[j] + w[j]) + (x[j] * w[j] + y[j] * v[j]);
        }
    }
}

/* Nodes taken together, so that the rows' parts stay in the cache. */
#define TILE 256

/* Adds sum (x + iy)(v + iw) over n nodes to a sample, for two rows v + iw that lie `stride` apart. */
static inline void add_two_products(const double *x, const double *y, const double *v, const double *w, size_t stride,
                                    int n, double *real, double *imaginary)
{
    const double *v_next = v + stride, *w_next = w + stride;
    four one = NO_LANES, other = NO_LANES, next_one = NO_LANES, next_other = NO_LANES;
    int i = 0;
    for (; i + 4 <= n; i += 4) {
        add_real_parts(&one, x + i, y + i, v + i, w + i);
        add_imaginary_parts(&other, x + i, y + i, v + i, w + i);
        add_real_parts(&next_one, x + i, y + i, v_next + i, w_next + i);
        add_imaginary_parts(&next_other, x + i, y + i, v_next + i, w_next + i);
    }
    for (; i < n; i++) {
        LANE(one, i % 4) += x[i] * v[i] - y[i] * w[i];
        LANE(other, i % 4) += x[i] * w[i] + y[i] * v[i];
        LANE(next_one, i % 4) += x[i] * v_next[i] - y[i] * w_next[i];
        LANE(next_other, i % 4) += x[i] * w_next[i] + y[i] * v_next[i];
    }
    real[0] += together(&one);
    imaginary[0] += together(&other);
    real[1] += together(&next_one);
    imaginary[1] += together(&next_other);
}

/* d[b * rows + j] + i e[...]: the sum over nodes of row b of the blocks times row j of the fine ones, rows even. */
WIDE static void multiply_rows(const double *x, const double *y, int blocks, const double *v, const double *w, int rows,
                               int nodes, double *d, double *e)
{
    for (int i = 0; i < blocks * rows; i++)
        d[i] = e[i] = 0.0;
    for (int start = 0; start < nodes; start += TILE) {
        int n = start + TILE < nodes ? TILE : nodes - start;
        for (int b = 0; b < blocks; b++)
            for (int j = 0; j < rows; j += 2) {
                size_t block = (size_t)b * nodes + start, fine = (size_t)j * nodes + start;
                add_two_products(x + block, y + block, v + fine, w + fine, nodes, n, d + b * rows + j, e + b * rows + j);
            }
    }
}

/* E[D] over the nodes, all samples. With D_j = e^{i j h l} - 1, l = L - centre: about 2 sqrt(J) rows and their products
 * give all J values, and since every D is known relative to s |l| the error of phi - 1 is proportional to s, not to 1. */
void sample_nodes(workspace *space, const tilted_round *tilted, const contour *path, double *d, double *e)
{
    int samples = path->samples, nodes = tilted->nodes, rows = ((int)sqrt(samples - 1.0) + 2) / 2 * 2;
    int blocks = (samples + rows - 1) / rows;
    if ((double)nodes * (rows + blocks) > LARGEST_EXPONENTIALS)
        decline(space, NODES);
    spend(space, 1.2 * nodes * samples + 8.0 * nodes * (rows + blocks));
    double *offset = doubles(space, nodes), *weight = tilted->weight;
    for (int j = 0; j < nodes; j++)
        offset[j] = tilted->loss[j] - tilted->centre;
    double *fine_real = doubles(space, (size_t)rows * nodes), *fine_imaginary = doubles(space, (size_t)rows * nodes);
    double *real = doubles(space, (size_t)blocks * nodes), *imaginary = doubles(space, (size_t)blocks * nodes);
    const double *height = tilted->loss_imaginary, *turned = tilted->weight_imaginary;
    exponentials(path->step, rows, offset, height, nodes, fine_real, fine_imaginary);
    exponentials(path->step * rows, blocks, offset, height, nodes, real, imaginary);
    double *row_real = doubles(space, rows), *row_imaginary = doubles(space, rows);
    double *block_real = doubles(space, blocks), *block_imaginary = doubles(space, blocks);
    double *product_real = doubles(space, (size_t)rows * blocks), *product_imaginary = doubles(space, (size_t)rows * blocks);
    for (int j = 0; j < rows; j++) {
        row_real[j] = dot(weight, fine_real + (size_t)j * nodes, nodes);
        row_imaginary[j] = dot(weight, fine_imaginary + (size_t)j * nodes, nodes);
        if (turned != NULL) {
            row_real[j] -= dot(turned, fine_imaginary + (size_t)j * nodes, nodes);
            row_imaginary[j] += dot(turned, fine_real + (size_t)j * nodes, nodes);
        }
    }
    for (int b = 0; b < blocks; b++) {
        double *x = real + (size_t)b * nodes, *y = imaginary + (size_t)b * nodes;
        for (int j = 0; j < nodes && turned != NULL; j++) {
            double product = x[j] * weight[j] - y[j] * turned[j];
            y[j] = x[j] * turned[j] + y[j] * weight[j];
            x[j] = product;
        }
        for (int j = 0; j < nodes && turned == NULL; j++) {
            x[j] *= weight[j];
            y[j] *= weight[j];
        }
        block_real[b] = sum(x, nodes);
        block_imaginary[b] = sum(y, nodes);
    }
    multiply_rows(real, imaginary, blocks, fine_real, fine_imaginary, rows, nodes, product_real, product_imaginary);
    for (int i = 0; i < samples; i++) {
        d[i] = product_real[i] + (block_real[i / rows] + row_real[i % rows]);
        e[i] = product_imaginary[i] + (block_imaginary[i / rows] + row_imaginary[i % rows]);
    }
}

/* Adds E[D] over the Gaussian branches: E_b[e^{i s l}] = e^{-s^2 mu^2 / 2 + i s (mu^2 (c + 1/2) - centre)}, each D right to
 * 24 U (s |l| + s^2 mu^2 / 2). What is left out is added to the constant error. */
static void sample_gaussians(workspace *space, const tilted_round *tilted, const contour *path, double *d, double *e)
{
    const round_law *law = tilted->law;
    spend(space, 40.0 * law->gaussians * path->samples);
    for (int b = 0; b < law->gaussians; b++) {
        double omega = tilted->omega[b], square = law->mu[b] * law->mu[b];
        double mean = (tilted->tilt + 0.5) * square - tilted->centre;
        if (omega < 1e-25)
            continue; /* charged below */
        for (int i = 0; i < path->samples; i++) {
            double s = path->frequency[i], fall = 0.5 * s * s * square;
            if (fall > 50.0) { /* e^-50 is charged below */
                d[i] -= omega;
                continue;
            }
            double half = 0.5 * s * mean, sine = sin(half), less = expm1(-fall), factor = 1.0 + less;
            d[i] += omega * (less - factor * (2.0 * sine * sine));
            e[i] += omega * (factor * (2.0 * sine * cos(half)));
        }
    }
}

/* The computed E[D] is within s error_by[0] + s^2 error_by[1] + error_by[2] + min(s^2 error_by[3], error_by[4]) (S-19,
 * S-52); so is a part of it, over some nodes. */
static void errors_of(const tilted_round *tilted, double *error_by)
{
    const round_law *law = tilted->law;
    int nodes = tilted->nodes;
    double distance = 0.0, square = 0.0, left_out = 0.0, mass = 0.0;
    for (int j = 0; j < nodes && tilted->loss_imaginary == NULL; j++)
        distance += tilted->weight[j] * fabs(tilted->loss[j] - tilted->centre);
    for (int j = 0; j < nodes && tilted->loss_imaginary != NULL; j++) {
        double modulus = hypot(tilted->weight[j], tilted->weight_imaginary[j]);
        mass += modulus;
        distance += modulus * hypot(tilted->loss[j] - tilted->centre, tilted->loss_imaginary[j]);
    }
    for (int b = 0; b < law->gaussians; b++) {
        double one = law->mu[b] * law->mu[b];
        distance += tilted->omega[b] * fabs((tilted->tilt + 0.5) * one - tilted->centre);
        square += tilted->omega[b] * 0.5 * one;
        left_out += tilted->omega[b] < 1e-25 ? 2.0 * tilted->omega[b] : tilted->omega[b] * 2e-22;
    }
    double adding = (law->gaussians + 4.0) * U; /* of the sum over the Gaussian branches */
    double by_frequency = tilted->first_order_error + (EXPONENTIAL + 2.0 * SUMMED + adding) * distance;
    by_frequency += tilted->loss_imaginary != NULL ? EXPONENTIAL_OFF_AXIS * distance : 0.0;
    /* Of the inner products: |D_j| |D_k| is at most s^2 l^2 / 4, and at most 4 (the latter counts off the axis). */
    double products = 3.0 * (nodes + 60.0) * U, by_square = tilted->second_order_error;
    by_square += tilted->loss_imaginary == NULL ? products * 0.25 * tilted->variance : 0.0;
    by_square += (24.0 * U + adding) * square;
    error_by[0] = by_frequency;
    error_by[1] = by_square;
    error_by[2] = tilted->constant_error + left_out;
    error_by[3] = tilted->loss_imaginary != NULL ? products * 0.25 * tilted->variance : 0.0;
    error_by[4] = tilted->loss_imaginary != NULL ? products * 4.0 * mass : 0.0;
}

/* Adds T log(1 + d + ie) to the samples, d + ie right to what errors_of says (S-20). */
static void add_logarithms(contour *path, double count, int rounds, const double *real, const double *imaginary,
                           const double *error_by, double *log_error_of, double *log_largest)
{
    for (int i = 0; i < path->samples; i++) {
        double s = path->frequency[i], d = real[i], e = imaginary[i];
        double error = s * error_by[0] + s * s * error_by[1] + error_by[2], log_modulus;
        error += smaller(s * s * error_by[3], error_by[4]);
        /* Near 1 the modulus comes from |1 + d|^2 - 1; away from 1, where that would cancel, from 1 + d itself. Below
         * 1e-15, 1e-15 stands in, with its error. */
        double squared = 2.0 * d + (d * d + e * e), modulus = hypot(1.0 + d, e);
        if (squared > -0.75)
            log_modulus = 0.5 * log1p(squared);
        else
            log_modulus = log(larger(modulus, UNRESOLVED));
        if (modulus < UNRESOLVED)
            error += 2.0 * UNRESOLVED;
        double angle = atan2(e, 1.0 + d);
        path->real[i] += count * log_modulus;
        path->imaginary[i] += count * angle;
        /* |log(1 + x)| <= -log(1 - |x|); where that is of no use, the modulus and its error bound the sample. */
        double relative = error * exp(-log_modulus);
        double rounding = (LOGARITHM + rounds * U) * (fabs(log_modulus) + fabs(angle));
        log_error_of[i] += count * (rounding - log1p(-smaller(relative, 1.0 - 1e-12)));
        log_largest[i] += count * (log_modulus + rounding + log1p(relative) * (1.0 + ELEMENTARY));
    }
}

/* E[D] of one round, all samples of the longest contour. */
void sample_round(workspace *space, const tilted_round *tilted, const contour *path, double *real, double *imaginary)
{
    for (int i = 0; i < path->samples; i++)
        real[i] = imaginary[i] = 0.0;
    if (tilted->nodes > 0)
        sample_nodes(space, tilted, path, real, imaginary);
    sample_gaussians(space, tilted, path, real, imaginary);
}

/* Adds T log(phi(s) e^{-i s centre}) of one round to the samples, with the bounds that its error adds (S-19, S-20). */
void add_characteristic(const tilted_round *tilted, double count, int rounds, const double *real, const double *imaginary,
                        contour *path, double *log_error_of, double *log_largest)
{
    double error_by[5];
    errors_of(tilted, error_by);
    add_logarithms(path, count, rounds, real, imaginary, error_by, log_error_of, log_largest);
}

/* From logarithms to samples, with what every evaluation of the sum needs of them. */
void finish_samples(workspace *space, contour *path, const double *log_error_of, const double *log_largest)
{
    path->kernel_real = doubles(space, path->samples);
    path->kernel_imaginary = doubles(space, path->samples);
    for (int i = 0; i < path->samples; i++) {
        double modulus = exp(path->real[i]), angle = path->imaginary[i], most = exp(smaller(log_largest[i], 0.0));
        double error = log_error_of[i] < 1.0 ? modulus * expm1(log_error_of[i]) : INFINITY;
        if (!(error < most)) { /* S-90 */
            modulus = angle = 0.0;
            error = most;
        }
        error = error * 1.01 + 1e-300;
        path->real[i] = modulus * cos(angle);
        path->imaginary[i] = modulus * sin(angle);
        /* z (1 + z); |z| |1 + z| >= c (1 + c) + s^2, so nothing cancels relative to the modulus. */
        double c = path->tilt, s = path->frequency[i];
        double x = c + (c * c - s * s), y = s * (1.0 + 2.0 * c), square = x * x + y * y;
        path->kernel_real[i] = x / square;
        path->kernel_imaginary[i] = -y / square;
        double size = (i == 0 ? 1.0 : 2.0) / sqrt(square);
        path->error_plain += size * error;
        path->error_angle += size * modulus;
        path->error_frequency += size * modulus * s;
    }
}

/* Takes from the samples what small losses alone would have: T log E[e^{isl}; small], exponentiated, with its errors. The
 * first `small` branches of every round are small, and E[1; small] = 1 - E[1; others] (S-50). */
void subtract_small(workspace *space, const tilted_round *tilted, const int *small, int rounds, contour *path)
{
    int samples = path->samples;
    contour alone = {.tilt = path->tilt, .step = path->step, .samples = samples, .frequency = path->frequency};
    double *log_error_of = doubles(space, samples), *log_largest = doubles(space, samples);
    double *real = doubles(space, samples), *imaginary = doubles(space, samples), error_by[5];
    alone.real = doubles(space, samples);
    alone.imaginary = doubles(space, samples);
    for (int i = 0; i < samples; i++)
        alone.real[i] = alone.imaginary[i] = log_error_of[i] = log_largest[i] = 0.0;
    for (int r = 0; r < rounds; r++) {
        tilted_round part = tilted[r];
        double others = 0.0, most = 0.0;
        part.nodes = 0;
        for (int b = 0; b < small[r]; b++)
            part.nodes += part.branch[b].grid.table.nodes;
        for (int b = small[r]; b < part.branches; b++) {
            others += sum(part.branch[b].weight, part.branch[b].grid.table.nodes);
            most += part.branch[b].share;
        }
        sample_nodes(space, &part, path, real, imaginary);
        errors_of(&tilted[r], error_by);
        for (int i = 0; i < samples; i++)
            real[i] -= others;
        /* What is stated of a share is at most its error more than the sum of its weights. */
        error_by[2] += fabs(most - others) + (2.0 * SUMMED + 8.0 * U) * most + 4.0 * U;
        add_logarithms(&alone, part.law->count, rounds, real, imaginary, error_by, log_error_of, log_largest);
    }
    finish_samples(space, &alone, log_error_of, log_largest);
    for (int i = 0; i < samples; i++) {
        path->real[i] -= alone.real[i];
        path->imaginary[i] -= alone.imaginary[i];
    }
    path->error_plain += alone.error_plain;
    path->error_angle += alone.error_angle;
    path->error_frequency += alone.error_frequency;
}
