/* The sampled contour: one set of samples serves every epsilon near the one it was planned for (contour.py).
 *
 *     delta(eps) = 1 / (2 pi i) int e^{K(z) - eps z} k(z) dz  over Re z = c,       k(z) = 1 / (z (z + 1))
 *
 * The trapezoid rule with step h = 2 pi / Y in s = Im z gives, exactly, sum_m e^{m c Y} delta(eps + m Y).
 */
#include "arithmetic.h"
#include "spectral.h"

#define LARGEST_CONTOUR 50000
#define LARGEST_EXPONENTIALS 3000000
#define LARGEST_PRODUCTS 3e8
/* Relative error of the computed logarithm of 1 + d, and of its multiple. */
#define LOGARITHM (64.0 * U)
/* A modulus below this is not resolved. */
#define UNRESOLVED 1e-15
/* Error of D = e^{i s l} - 1, relative to s |l|: 24 U where it comes from sine and cosine, 5 U for each of the at most
 * 14 times that D_{j + k} = D_j + D_k + D_j D_k is used (section 6). */
#define EXPONENTIAL (94.0 * U)
/* Aliases, truncation and quadrature are each planned to stay below this fraction of delta. */
#define LOG_PLANNED_ERROR -32.2361913
#define LONG_PERIOD 15.0
#define PERIODS 160
/* An estimate of the reach beyond so many times that of a Gaussian is not trusted. */
#define TRUSTED 20.0

static const double NEARBY[] = {0.9, 0.95, 0.98, 1.01, 1.03, 1.06, 1.1, 1.15, 1.3};

/* log of 1 / (e^x - 1). */
static double log_series(double x) { return -x - log(-expm1(-x)); }

/* log of a bound on sum_{m != 0} e^{m c Y} delta(eps + m Y): Chernoff with tilt c' < c for m < 0 (c' = 0 is delta <= 1)
 * and c' > c for m > 0, summed as a geometric series. `series` may hold log_series(|c' - c| Y). */
static double log_alias(const scan *found, double tilt, double epsilon, double period, const double *series)
{
    double left = log_series(tilt * period), right = INFINITY;
    for (int i = 0; i < found->size; i++) {
        double gap = fabs(found->tilt[i] - tilt);
        if (!(gap > 0.0))
            continue;
        double level = found->level[i] - found->tilt[i] * epsilon * (1.0 - copysign(4.0 * U, epsilon));
        level += series != NULL ? series[i] : log_series(gap * period);
        if (found->tilt[i] < tilt)
            left = smaller(left, level);
        else
            right = smaller(right, level);
    }
    return log_add(left, right) + 1e-9;
}

/* The shortest period Y (on a fine geometric grid) whose aliases stay below e^goal. */
static double choose_period(workspace *space, const saddle *at, double deviation, double goal)
{
    int low = -1, high = PERIODS - 1;
    double ratio = pow(1e5, 1.0 / (PERIODS - 1)), shortest = 4.0 * deviation;
    if (log_alias(&at->found, at->tilt, at->epsilon, shortest * pow(ratio, high), NULL) > goal)
        decline(space);
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (log_alias(&at->found, at->tilt, at->epsilon, shortest * pow(ratio, middle), NULL) <= goal)
            high = middle;
        else
            low = middle;
    }
    return shortest * pow(ratio, high);
}

static double truncation_level(const decay *decays, int phases, double frequency)
{
    double level = -log(PI * frequency);
    for (int i = 0; i < phases; i++)
        level += log_decay(&decays[i], frequency);
    return level;
}

/* The smallest frequency S (to 2 per cent) with prod B(S)^T / (pi S) below e^goal; infinite if there is none near. */
static double choose_truncation(const decay *decays, int phases, double reach, double goal)
{
    double low = 0.5 * reach, high = 1.2 * reach, factor = 1.4;
    for (; !(truncation_level(decays, phases, high) <= goal); high *= factor, factor *= 1.4) {
        low = high;
        if (!(high < 1e8 * reach))
            return INFINITY;
    }
    while (high > 1.02 * low) {
        double middle = sqrt(low * high);
        if (truncation_level(decays, phases, middle) <= goal)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* Rows of e^{i n s l} - 1, n = 0, ..., rows - 1, one per multiple of the frequency s. */
WIDE static void exponentials(double s, int rows, const double *offset, int nodes, double *real, double *imaginary)
{
    for (int j = 0; j < nodes; j++)
        real[j] = imaginary[j] = 0.0;
    if (rows == 1)
        return;
    for (int j = 0; j < nodes; j++) {
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

/* sum (x + iy)(v + iw). */
WIDE static void complex_dot(const double *x, const double *y, const double *v, const double *w, int n, double *real,
                             double *imaginary)
{
    four one = {0.0}, one_more = {0.0}, other = {0.0}, other_more = {0.0};
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        one += FOUR(x + i) * FOUR(v + i) - FOUR(y + i) * FOUR(w + i);
        other += FOUR(x + i) * FOUR(w + i) + FOUR(y + i) * FOUR(v + i);
        one_more += FOUR(x + i + 4) * FOUR(v + i + 4) - FOUR(y + i + 4) * FOUR(w + i + 4);
        other_more += FOUR(x + i + 4) * FOUR(w + i + 4) + FOUR(y + i + 4) * FOUR(v + i + 4);
    }
    for (; i < n; i++) {
        one[i % 4] += x[i] * v[i] - y[i] * w[i];
        other[i % 4] += x[i] * w[i] + y[i] * v[i];
    }
    *real = joined(&one, &one_more);
    *imaginary = joined(&other, &other_more);
}

/* Adds T log(phi(s) e^{-i s centre}) of one round to the samples, with the bounds that its error adds.
 *
 * With D_j = e^{i j h l} - 1, l = L - centre: about 2 sqrt(J) rows and their products give all J values, and since
 * every D is known relative to s |l| the error of phi - 1 is proportional to s, not to 1 (section 6). */
static void add_characteristic(workspace *space, const tilted_round *tilted, int phases, contour *path,
                               double *log_error_of, double *log_largest)
{
    int samples = path->samples, nodes = tilted->table.nodes, rows = (int)sqrt(samples - 1.0) + 1;
    int blocks = (samples + rows - 1) / rows;
    if ((double)nodes * (rows + blocks) > LARGEST_EXPONENTIALS || (double)nodes * samples > LARGEST_PRODUCTS)
        decline(space);
    double *offset = doubles(space, nodes), *distances = doubles(space, nodes), *weight = tilted->weight;
    for (int j = 0; j < nodes; j++) {
        offset[j] = tilted->loss[j] - tilted->centre;
        distances[j] = fabs(offset[j]);
    }
    double *fine_real = doubles(space, (size_t)rows * nodes), *fine_imaginary = doubles(space, (size_t)rows * nodes);
    double *real = doubles(space, (size_t)blocks * nodes), *imaginary = doubles(space, (size_t)blocks * nodes);
    exponentials(path->step, rows, offset, nodes, fine_real, fine_imaginary);
    exponentials(path->step * rows, blocks, offset, nodes, real, imaginary);
    double *row_real = doubles(space, rows), *row_imaginary = doubles(space, rows);
    for (int j = 0; j < rows; j++) {
        row_real[j] = dot(weight, fine_real + (size_t)j * nodes, nodes);
        row_imaginary[j] = dot(weight, fine_imaginary + (size_t)j * nodes, nodes);
    }
    double distance = dot(weight, distances, nodes), rounds = tilted->law->count;
    double by_frequency = tilted->first_order_error + (EXPONENTIAL + 2.0 * SUMMED) * distance;
    double by_square = 3.0 * (nodes + 60.0) * U * 0.25 * tilted->variance;
    double constant = exp(tilted->log_quadrature_error);
    for (int b = 0; b < blocks; b++) {
        double *x = real + (size_t)b * nodes, *y = imaginary + (size_t)b * nodes;
        for (int j = 0; j < nodes; j++) {
            x[j] *= weight[j];
            y[j] *= weight[j];
        }
        double block_real = sum(x, nodes), block_imaginary = sum(y, nodes);
        for (int j = 0; j < rows && b * rows + j < samples; j++) {
            int i = b * rows + j;
            double s = path->frequency[i], d, e;
            complex_dot(x, y, fine_real + (size_t)j * nodes, fine_imaginary + (size_t)j * nodes, nodes, &d, &e);
            d += block_real + row_real[j];
            e += block_imaginary + row_imaginary[j];
            double error = s * by_frequency + s * s * by_square + constant, log_modulus;
            /* Near 1 the modulus comes from |1 + d|^2 - 1; away from 1, where that would cancel, from 1 + d itself.
             * Below 1e-15, 1e-15 stands in, with its error. */
            double squared = 2.0 * d + (d * d + e * e), modulus = hypot(1.0 + d, e);
            if (squared > -0.75)
                log_modulus = 0.5 * log1p(squared);
            else
                log_modulus = log(larger(modulus, UNRESOLVED));
            if (modulus < UNRESOLVED)
                error += 2.0 * UNRESOLVED;
            double angle = atan2(e, 1.0 + d);
            path->real[i] += rounds * log_modulus;
            path->imaginary[i] += rounds * angle;
            /* |log(1 + x)| <= -log(1 - |x|); where that is of no use, the modulus and its error bound the sample. */
            double relative = error * exp(-log_modulus);
            double rounding = (LOGARITHM + phases * U) * (fabs(log_modulus) + fabs(angle));
            log_error_of[i] += rounds * (rounding - log1p(-smaller(relative, 1.0 - 1e-12)));
            log_largest[i] += rounds * (log_modulus + rounding + log1p(relative) * (1.0 + ELEMENTARY));
        }
    }
}

/* From logarithms to samples, with what every evaluation of the sum needs of them. */
static void finish_samples(workspace *space, contour *path, const double *log_error_of, const double *log_largest)
{
    path->kernel_real = doubles(space, path->samples);
    path->kernel_imaginary = doubles(space, path->samples);
    for (int i = 0; i < path->samples; i++) {
        double modulus = exp(path->real[i]), angle = path->imaginary[i], error;
        if (log_error_of[i] < 1.0)
            error = modulus * expm1(log_error_of[i]);
        else
            error = exp(smaller(log_largest[i], 0.0)) + modulus;
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

static double interpolated_variance(const scan *found, double tilt)
{
    int i = 1;
    while (i < found->size - 1 && found->tilt[i] < tilt)
        i++;
    double share = (tilt - found->tilt[i - 1]) / (found->tilt[i] - found->tilt[i - 1]);
    share = smaller(larger(share, 0.0), 1.0);
    return (1.0 - share) * found->variance[i - 1] + share * found->variance[i];
}

/* How far the contour will have to reach, from the coarse grids of the scan. A poor answer costs time only. */
static double expected_reach(workspace *space, const saddle *at, double reach)
{
    const prepared *problem = at->by.problem;
    decay *decays = allocate(space, problem->phases * sizeof(decay));
    double log_scale = 0.0;
    for (int i = 0; i < problem->phases; i++) {
        const quadrature *grid = &at->by.grids[i];
        int nodes = grid->table.nodes;
        tilted_round rough = {.law = grid->law, .step = grid->step, .table = grid->table};
        rough.exponent = problem->direction == REMOVE ? 1.0 + at->tilt : -at->tilt;
        rough.weight = doubles(space, nodes);
        double top = -INFINITY;
        for (int j = 0; j < nodes; j++) {
            rough.weight[j] = rough.exponent * grid->table.psi[j] + grid->log_weight[j];
            top = larger(top, rough.weight[j]);
        }
        for (int j = 0; j < nodes; j++)
            rough.weight[j] = exp(rough.weight[j] - top);
        double total = sum(rough.weight, nodes);
        for (int j = 0; j < nodes; j++)
            rough.weight[j] /= total;
        log_scale += grid->law->count * (top + log(total));
        decays[i] = certify(space, &rough, 0);
    }
    double goal = at->log_delta - (log_scale - at->tilt * at->epsilon) + LOG_PLANNED_ERROR;
    double found = choose_truncation(decays, problem->phases, reach, goal);
    if (found > TRUSTED * reach) /* too coarse a grid to tell, with few rounds */
        return 3.5 * reach;
    return smaller(larger(1.15 * found, 1.2 * reach), 1e3 * reach);
}

contour build(workspace *space, const prepared *problem, saddle *at)
{
    int phases = problem->phases;
    double total_rounds = 0.0, deviation = sqrt(interpolated_variance(&at->found, at->tilt));
    for (int i = 0; i < phases; i++)
        total_rounds += problem->rounds[i].count;
    /* A Gaussian characteristic function would be negligible beyond this frequency; the certificate asks for more. */
    double reach = sqrt(-2.0 * LOG_PLANNED_ERROR) / deviation, planned = expected_reach(space, at, reach);
    double log_tolerance = LOG_PLANNED_ERROR - 3.0 - log(total_rounds);
    tilted_round *tilted = allocate(space, phases * sizeof(tilted_round));
    decay *decays = allocate(space, phases * sizeof(decay));
    contour path = {.tilt = at->tilt};
    for (int tries = 0;; tries++) {
        double scale = 0.0, lost = 0.0, centre_lost = 0.0;
        path.log_scale_error = path.centre = path.centre_size = 0.0;
        for (int i = 0; i < phases; i++) {
            tilted[i] =
                tilt_round(space, &problem->rounds[i], problem->direction, at->tilt, planned, log_tolerance);
            double rounds = tilted[i].law->count;
            add_compensated(&scale, &lost, rounds * tilted[i].log_moment);
            path.log_scale_error += 1.01 * rounds * tilted[i].log_moment_error;
            /* To 2 U of its size: an error of the centre moves epsilon, and 4 U is what is charged for it. */
            add_compensated(&path.centre, &centre_lost, rounds * tilted[i].centre);
            path.centre_size += rounds * fabs(tilted[i].centre);
            decays[i] = certify(space, &tilted[i], 1);
        }
        path.log_scale = scale + lost;
        path.centre += centre_lost;
        /* The trapezoid sum is of this size, relative to e^{K(c) - c eps}. */
        double size = at->log_delta - (path.log_scale - at->tilt * at->epsilon);
        double certified = choose_truncation(decays, phases, reach, size + LOG_PLANNED_ERROR);
        if (certified <= planned) {
            reach = certified;
            break;
        }
        if (tries == 3)
            decline(space);
        if (certified < INFINITY)
            planned = 1.1 * certified;
        else
            planned *= 12.0; /* cells that are too wide: a higher frequency makes them finer */
    }
    /* Each product's rounding, and that of their sum. */
    path.log_scale_error += 4.0 * U * fabs(path.log_scale);
    for (int i = 0; i < phases; i++)
        path.log_scale_error += U * fabs(tilted[i].law->count * tilted[i].log_moment);
    path.centre_size *= 1.0 + phases * U;

    double goal = at->log_delta + LOG_PLANNED_ERROR, period = choose_period(space, at, deviation, goal);
    if (period > LONG_PERIOD * deviation) {
        /* A heavy tail: aliases are then best bounded with tilts close to the contour's own. */
        extend(space, at, NEARBY, sizeof NEARBY / sizeof NEARBY[0]);
        period = choose_period(space, at, deviation, goal);
    }
    path.step = shortened(2.0 * PI / period);
    /* The quadratures are certified up to the planned frequency: the contour may end earlier than wanted, not later. */
    double steps = smaller(ceil(reach / path.step), floor(planned / path.step));
    if (!(steps >= 2.0 && steps <= LARGEST_CONTOUR))
        decline(space);
    int samples = path.samples = (int)steps + 1;
    path.period = 2.0 * PI / path.step * (1.0 - 1e-15);
    path.frequency = doubles(space, samples);
    path.real = doubles(space, samples);
    path.imaginary = doubles(space, samples);
    double *log_error_of = doubles(space, samples), *log_largest = doubles(space, samples);
    for (int i = 0; i < samples; i++) {
        path.frequency[i] = path.step * i;
        path.real[i] = path.imaginary[i] = log_error_of[i] = log_largest[i] = 0.0;
    }
    for (int i = 0; i < phases; i++) {
        add_characteristic(space, &tilted[i], phases, &path, log_error_of, log_largest);
        path.log_truncation += log_decay(&decays[i], path.frequency[samples - 1]);
        path.nodes += tilted[i].table.nodes;
    }
    finish_samples(space, &path, log_error_of, log_largest);
    path.found = &at->found;
    path.alias = doubles(space, at->found.size);
    for (int i = 0; i < at->found.size; i++)
        path.alias[i] = log_series(fabs(at->found.tilt[i] - path.tilt) * path.period);
    return path;
}

/* (h / 2 pi) sum_j sample_j e^{-i s_j (eps - centre)} k(z_j), and the same with -1 / (1 + z) for the derivative. */
static void sum_up(const contour *path, double epsilon, double *value, double *derivative)
{
    double total = 0.0, lost = 0.0, slope = 0.0;
    for (int i = 0; i < path->samples; i++) {
        double s = path->frequency[i], angle = s * (epsilon - path->centre), cosine = cos(angle), sine = sin(angle);
        double x = path->real[i] * path->kernel_real[i] - path->imaginary[i] * path->kernel_imaginary[i];
        double y = path->real[i] * path->kernel_imaginary[i] + path->imaginary[i] * path->kernel_real[i];
        double term = x * cosine + y * sine, other = y * cosine - x * sine;
        double factor = i == 0 ? 1.0 : 2.0;
        add_compensated(&total, &lost, factor * term);
        slope -= factor * (path->tilt * term - s * other);
    }
    *value = (total + lost) / path->period;
    *derivative = slope / path->period;
}

/* The uncorrected log delta and its derivative in epsilon, for Newton steps. */
void contour_slope(const contour *path, double epsilon, double *value, double *slope)
{
    double total, derivative;
    sum_up(path, epsilon, &total, &derivative);
    *value = log(total) + path->log_scale - path->tilt * epsilon;
    *slope = derivative / total;
}

/* (lower, upper) for log delta(epsilon) of the rounds as trimmed; lower may be -inf. */
void contour_log_delta(const contour *path, double epsilon, double *lower, double *upper)
{
    double total, derivative;
    sum_up(path, epsilon, &total, &derivative);
    double angle = 4.0 * U * (fabs(epsilon) + path->centre_size);
    double error = path->error_plain + path->error_angle * (40.0 * U + ELEMENTARY + SUMMED);
    error = (error + path->error_frequency * angle) / path->period * 1.01;
    error += exp(path->log_truncation) / (PI * path->frequency[path->samples - 1]) * 1.01;
    *lower = -INFINITY;
    *upper = 0.0;
    if (!(total + error > 0.0)) /* a NaN, or an error bound that does not hold: never an answer */
        return;
    double exponent = path->log_scale - path->tilt * epsilon;
    double slack = path->log_scale_error + 6.0 * U * (fabs(path->log_scale) + fabs(path->tilt * epsilon));
    double log_aliases = log_alias(path->found, path->tilt, epsilon, path->period, path->alias);
    double aliases = exp(smaller(log_aliases - exponent + slack, 700.0));
    double logarithm = log(total + error), sure = (total - error - aliases) * (1.0 - 4.0 * U);
    double high = logarithm + ELEMENTARY * fabs(logarithm) + exponent + slack + 8.0 * U;
    high += 4.0 * U * fabs(high);
    if (high < 0.0)
        *upper = high;
    if (sure > 0.0) {
        logarithm = log(sure);
        double low = logarithm - ELEMENTARY * fabs(logarithm) + exponent - slack - 8.0 * U;
        *lower = low - 4.0 * U * fabs(low);
    }
}
