/* The sampled contour: one set of samples serves every epsilon near the one it was planned for.
 *
 *     delta(eps) = 1 / (2 pi i) int e^{K(z) - eps z} k(z) dz  over Re z = c,       k(z) = 1 / (z (z + 1))     (S-4)
 *
 * The trapezoid rule with step h = 2 pi / Y in s = Im z gives, exactly, sum_m e^{m c Y} delta(eps + m Y).
 */
#include "arithmetic.h"
#include "spectral.h"

#define LARGEST_CONTOUR 50000
/* Deviations: twice what a Gaussian's period would be at delta = 1e-6. */
#define LONG_PERIOD 30.0
/* Deviations: a longer period has too many steps. */
#define LONGEST_PERIOD 4e5
#define RECTANGLES 128
/* How far log delta may be from what is expected, with allocations. */
#define UNSURE 4.0

static const double NEARBY[] = {0.9, 0.95, 0.98, 1.01, 1.03, 1.06, 1.1, 1.15, 1.3};

/* log of 1 / (e^x - 1). */
static double log_series(double x) { return -x - log(-expm1(-x)); }

/* log of 1 + e^x, for planning. */
static double log_one_plus(double x) { return x > 40.0 ? x : log1p(exp(x)); }

/* S-5: log of a bound on sum_{m != 0} e^{m c Y} delta(eps + m Y): Chernoff with tilt c' < c for m < 0 (c' = 0 is delta <= 1)
 * and c' > c for m > 0, summed as a geometric series. `series` may hold log_series(|c' - c| Y). */
double log_alias(const scan *found, double tilt, double epsilon, double period, const double *series)
{
    double left = log_series(tilt * period) + found->above, right = INFINITY;
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

/* A period Y whose aliases stay below e^goal, hardly longer than the shortest. With tilt c' alone they are below half of
 * that if 1 / (e^x - 1) <= e^{goal - log 2 - level} for x = |c' - c| Y, that is, x >= log(1 + e^{level - goal + log 2}). */
static double choose_period(workspace *space, const saddle *at, double deviation, double goal)
{
    const scan *found = &at->found;
    double half = goal - 0.7, left = log_one_plus(-half) / at->tilt, right = INFINITY;
    for (int i = 0; i < found->size; i++) {
        double gap = fabs(found->tilt[i] - at->tilt), excess = found->level[i] - found->tilt[i] * at->epsilon - half;
        if (!(gap > 0.0))
            continue;
        double period = log_one_plus(excess) / gap;
        if (found->tilt[i] < at->tilt)
            left = smaller(left, period);
        else
            right = smaller(right, period);
    }
    double period = larger(larger(left, right), 4.0 * deviation), longest = LONGEST_PERIOD * deviation;
    while (period <= longest && !(log_alias(found, at->tilt, at->epsilon, period, NULL) <= goal))
        period *= 1.05; /* rounding, where levels are large */
    if (!(period <= longest))
        decline(space, ALIASES);
    return period;
}

/* Where losses that are not small would have decayed, if they were Gaussian with the largest shift; only a beginning. */
static double first_reach(const prepared *problem, double log_planned)
{
    double largest = 0.0;
    for (int i = 0; i < problem->rounds; i++)
        for (int b = 0; b < problem->round[i].branches; b++)
            largest = larger(largest, largest_shift(&problem->round[i].branch[b].right) +
                                          largest_shift(&problem->round[i].branch[b].left));
    return 2.0 * sqrt(-2.0 * log_planned) / largest;
}

/* The decay of a round without its small losses, and their share of it (S-50). */
static decay beside(workspace *space, const tilted_round *tilted, int small)
{
    tilted_round others = *tilted;
    double share = 0.0;
    others.branch += small;
    others.branches -= small;
    for (int b = 0; b < small; b++)
        share += tilted->branch[b].share;
    decay bound = certify(space, &others, RECTANGLES, 1);
    bound.small = share * (1.0 + 1e-12);
    return bound;
}

/* A contour through the saddle. Aliases, truncation and quadrature are each planned to stay below e^log_planned of the
 * delta expected there. */
contour build(workspace *space, const prepared *problem, saddle *at, double log_planned)
{
    return build_beside(space, problem, at, log_planned, NULL);
}

contour build_beside(workspace *space, const prepared *problem, saddle *at, double log_planned, const int *small)
{
    double *times = doubles(space, problem->rounds);
    for (int i = 0; i < problem->rounds; i++)
        times[i] = problem->round[i].count;
    sampled_term term = {.at = at, .times = times};
    build_terms(space, problem, &term, 1, log_planned, small);
    return term.path;
}

/* The period of a term; tilts are added where its tail is heavy. */
static double period_of(workspace *space, const prepared *problem, double log_planned, sampled_term *term)
{
    saddle *at = term->at;
    double deviation = sqrt(interpolated_variance(&at->found, at->tilt));
    double goal = at->log_delta + log_planned - (problem->allocates ? UNSURE : 0.0), longest = LONG_PERIOD * deviation;
    /* A heavy tail: aliases are then best bounded with tilts close to the contour's own. */
    if (log_alias(&at->found, at->tilt, at->epsilon, longest, NULL) > goal)
        extend(space, at, NEARBY, sizeof NEARBY / sizeof NEARBY[0]);
    return choose_period(space, at, deviation, goal);
}

/* The samples of a term, from those of its rounds. */
static void sample_term(workspace *space, const prepared *problem, const tilted_round *tilted, double *const *real,
                        double *const *imaginary, sampled_term *term)
{
    contour *path = &term->path;
    int samples = path->samples;
    path->real = doubles(space, samples);
    path->imaginary = doubles(space, samples);
    double *log_error_of = doubles(space, samples), *log_largest = doubles(space, samples);
    for (int i = 0; i < samples; i++)
        path->real[i] = path->imaginary[i] = log_error_of[i] = log_largest[i] = 0.0;
    for (int i = 0; i < problem->rounds; i++) {
        if (!(term->times[i] > 0.0))
            continue;
        if (tilted[i].allocated != NULL)
            add_allocations(space, &tilted[i], problem->rounds, path, log_error_of, log_largest);
        else
            add_characteristic(&tilted[i], term->times[i], problem->rounds, real[i], imaginary[i], path, log_error_of,
                               log_largest);
        path->nodes += tilted[i].nodes;
    }
    path->log_truncation = log_decay_of_all(term->decays, term->rounds, path->frequency[samples - 1], 0.0);
    finish_samples(space, path, log_error_of, log_largest);
    path->found = term->at->found;
    path->alias = doubles(space, path->found.size);
    for (int i = 0; i < path->found.size; i++)
        path->alias[i] = log_series(fabs(path->found.tilt[i] - path->tilt) * path->period);
}

void build_terms(workspace *space, const prepared *problem, sampled_term *term, int terms, double log_planned,
                 const int *small)
{
    int rounds = problem->rounds;
    double total_rounds = 0.0, tilt = term[0].at->tilt, period = 0.0, reach, most = 0.0;
    for (int i = 0; i < rounds; i++)
        total_rounds += term[0].times[i];
    /* A Gaussian characteristic function would be negligible beyond this frequency; the certificate asks for more. */
    reach = sqrt(-2.0 * log_planned / interpolated_variance(&term[0].at->found, tilt));
    begin(space, REACH);
    double planned = small == NULL ? expected_reach(space, term[0].at, reach, log_planned) : first_reach(problem, log_planned);
    begin(space, PERIOD);
    for (int t = 0; t < terms; t++)
        period = larger(period, period_of(space, problem, log_planned, &term[t]));
    if (space->brief && !problem->allocates && problem->round[0].branches > 0 &&
        planned / 2.0 * period / (2.0 * PI) * term[0].at->by.grids[0][0].table.nodes > BRIEF_WORK)
        decline(space, STEPS); /* even a reach half of what is expected, with the nodes of a scan, is not brief */
    double step = shortened(2.0 * PI / period), log_tolerance = log_planned - 3.0 - log(total_rounds);
    planned = larger(planned, 2.0 * step);
    tilted_round *tilted = allocate(space, rounds * sizeof(tilted_round));
    decay *decays = allocate(space, rounds * sizeof(decay));
    for (int tries = 0;; tries++) {
        for (int i = 0; i < rounds; i++) {
            begin(space, TILT);
            tilted[i] = tilt_round(space, &problem->round[i], tilt, planned, log_tolerance);
            begin(space, DECAY);
            decays[i] = small == NULL ? certify(space, &tilted[i], RECTANGLES, 1) : beside(space, &tilted[i], small[i]);
        }
        reach = reach_of_terms(space, problem, tilted, decays, log_planned, term, terms);
        if (reach <= planned)
            break;
        if (tries == 3)
            decline(space, TRUNCATION);
        if (reach < INFINITY)
            planned = 1.1 * reach;
        else
            planned *= 12.0; /* cells that are too wide: a higher frequency makes them finer */
    }
    begin(space, SAMPLES);
    contour longest = {.tilt = tilt, .step = step};
    for (int t = 0; t < terms; t++) {
        /* The quadratures are certified up to the planned frequency: the contour may end earlier than wanted, not later. */
        double steps = smaller(larger(ceil(term[t].reach / step), 2.0), floor(planned / step));
        if (!(steps >= 2.0 && steps <= LARGEST_CONTOUR))
            decline(space, STEPS);
        term[t].path.samples = (int)steps + 1;
        most = larger(most, steps);
    }
    for (int i = 0; i < rounds; i++)
        if (space->brief && !problem->allocates && tilted[i].nodes * most > BRIEF_WORK)
            decline(space, STEPS);
    longest.samples = (int)most + 1;
    longest.frequency = doubles(space, longest.samples);
    for (int i = 0; i < longest.samples; i++)
        longest.frequency[i] = step * i;
    double **real = allocate(space, rounds * sizeof(double *)), **imaginary = allocate(space, rounds * sizeof(double *));
    for (int i = 0; i < rounds; i++) {
        if (tilted[i].allocated != NULL)
            continue;
        real[i] = doubles(space, longest.samples);
        imaginary[i] = doubles(space, longest.samples);
        sample_round(space, &tilted[i], &longest, real[i], imaginary[i]);
    }
    for (int t = 0; t < terms; t++) {
        contour *path = &term[t].path;
        path->step = step;
        path->period = 2.0 * PI / step * (1.0 - 1e-15);
        path->frequency = longest.frequency;
        sample_term(space, problem, tilted, real, imaginary, &term[t]);
        if (small != NULL)
            subtract_small(space, tilted, small, rounds, path);
    }
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
    *value = -INFINITY;
    *slope = 0.0;
    for (const contour *one = path; one != NULL; one = one->next) {
        double total, derivative;
        sum_up(one, epsilon, &total, &derivative);
        double own = log(total) + one->log_scale - one->tilt * epsilon + one->log_count;
        if (!isfinite(own) && path->next != NULL)
            continue;
        double both = log_add(*value, own), share = exp(own - both);
        *slope = (1.0 - share) * *slope + share * (derivative / total);
        *value = both;
    }
}

/* (lower, upper) for log delta(epsilon) of the rounds of one contour; lower may be -inf. The sum (S-21), truncation (S-6),
 * aliases (S-5). */
static void one_log_delta(const contour *path, double epsilon, double *lower, double *upper)
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
    double log_aliases = log_alias(&path->found, path->tilt, epsilon, path->period, path->alias);
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

/* The same for all contours together, and what has none (S-39). */
void contour_log_delta(const contour *path, double epsilon, double *lower, double *upper)
{
    one_log_delta(path, epsilon, lower, upper);
    if (path->next == NULL && path->log_count == 0.0 && !(path->rest_from > 0.0))
        return;
    *lower = *upper = -INFINITY;
    for (const contour *one = path; one != NULL; one = one->next) {
        double least, most;
        one_log_delta(one, epsilon, &least, &most);
        *lower = log_add(*lower, least + (one->log_count - one->count_error));
        *upper = log_add(*upper, most + (one->log_count + one->count_error));
        *lower -= isfinite(*lower) ? 4e-15 * (1.0 + fabs(*lower) + one->log_count) : 0.0;
        *upper += 4e-15 * (1.0 + fabs(*upper) + one->log_count);
    }
    *upper = log_add(*upper, path->log_rest) + 4e-15 * (1.0 + fabs(*upper));
    if (!(*upper < 0.0 && epsilon >= path->rest_from))
        *upper = 0.0;
}
