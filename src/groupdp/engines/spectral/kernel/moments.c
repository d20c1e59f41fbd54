/* G(a) = E[R(U)^a] by the trapezoid rule: step, range, and the proved error of both (moments.py; sections 3, 4). */
#include "arithmetic.h"
#include "spectral.h"

#define LARGEST_QUADRATURE 150000
#define LARGEST_TABLE 8000000
#define LARGEST_EXPONENT 1e12
#define EXACT_MULTIPLES 0x1p32
#define ROOT_2PI 2.50662827463100050242
#define STRIPS 50

typedef struct {
    double low, high;
} range;

static double largest_shift(const round_law *law) { return law->m[law->size - 1]; }
static double span_of(const round_law *law) { return largest_shift(law) - law->m[0]; }

/* The curvature of -log(phi chi) beyond the edge of the thinning, 1 without. */
static double stiffness_of(const round_law *law)
{
    return law->thin.thinned ? 1.0 + 1.0 / (law->thin.width * law->thin.width) : 1.0;
}

/* log(cos(A)) without the rounding of 1: the exponents that multiply it may be as large as 1e17. */
static double log_cosine(double angle)
{
    double sine = sin(angle);
    return 0.5 * log1p(-sine * sine);
}

/* log of (M_+ + M_-) / (e^{2 pi d / h} - 1) / G(a), for all frequencies up to the one given. */
static double log_discretisation_error(const quadrature *grid, double exponent, double frequency)
{
    const round_law *law = grid->law;
    double strip = grid->strip, growth = 0.5 * stiffness_of(law) * strip * strip;
    if (exponent < 0.0)
        growth += exponent * log_cosine(0.5 * span_of(law) * strip);
    double lines = log_add(0.0, frequency * largest_shift(law) * strip);
    double decay = 2.0 * PI * strip / grid->step;
    return growth + (lines - decay - (decay < 40.0 ? log1p(-exp(-decay)) : 0.0));
}

/* The strip that allows the largest step. */
static void choose_step(quadrature *grid, double exponent, double frequency, double log_tolerance)
{
    const round_law *law = grid->law;
    double stiffness = stiffness_of(law), span = span_of(law), widest = 12.0 / sqrt(stiffness), best = 0.0;
    if (span > 0.0)
        widest = smaller(widest, 0.98 * PI / span);
    for (int i = 0; i < STRIPS; i++) {
        double strip = widest * (0.02 + 0.98 * i / (STRIPS - 1));
        double needed = 0.5 * stiffness * strip * strip + frequency * largest_shift(law) * strip + 1.0 - log_tolerance;
        if (exponent < 0.0)
            needed += exponent * log_cosine(0.5 * span * strip);
        double step = 2.0 * PI * strip / needed;
        if (step > best) {
            best = step;
            grid->strip = strip;
        }
    }
    grid->step = shortened(best);
}

/* Where a Psi'(u) = u, for a <= 0: bisection with Newton steps on a decreasing function. Only guides. */
static double concave_peak(const round_law *law, double exponent)
{
    if (exponent == 0.0)
        return 0.0;
    double low = exponent * largest_shift(law), high = 0.0, u = 0.5 * low;
    for (int i = 0; i < 60; i++) {
        double top = -INFINITY, total = 0.0, first = 0.0, second = 0.0;
        for (int j = 0; j < law->size; j++)
            top = larger(top, law->log_p[j] + law->m[j] * u - 0.5 * law->m[j] * law->m[j]);
        for (int j = 0; j < law->size; j++) {
            double m = law->m[j], term = exp(law->log_p[j] + m * u - 0.5 * m * m - top);
            total += term;
            first += term * m;
            second += term * m * m;
        }
        double slope = first / total, variance = larger(second / total - slope * slope, 0.0);
        double value = exponent * slope - u;
        if (value > 0.0)
            low = u;
        else
            high = u;
        double next = u - value / (exponent * variance - 1.0);
        if (!(low < next && next < high))
            next = 0.5 * (low + high);
        if (fabs(next - u) < 0.05)
            return next;
        u = next;
    }
    return u;
}

/* For a >= 1: the slope of Psi lies between the smallest and the largest shift. */
static range range_by_slope(const round_law *law, double lowest, double highest, double log_tolerance)
{
    double room = 2.0 - log_tolerance, bottom = lowest * law->m[0], steepest = highest * largest_shift(law);
    if (law->thin.thinned)
        bottom = smaller(bottom, law->thin.edge); /* beyond the edge there is nothing to peak */
    range result = {bottom - sqrt(2.0 * room), steepest + sqrt(2.0 * room)};
    if (law->thin.thinned) {
        /* From the edge on, log(phi chi R^a) rises at most like (steepest - edge) t - stiffness t^2 / 2. */
        double stiffness = stiffness_of(law), excess = steepest - law->thin.edge;
        double beyond = (excess + sqrt(excess * excess + 2.0 * stiffness * room)) / stiffness;
        result.high = smaller(result.high, law->thin.edge + beyond);
    }
    return result;
}

/* For a >= 1: sum t_i^a <= (sum t_i)^a <= n^{a-1} sum t_i^a, where t_i^a phi is a Gaussian around a m_i. */
static range range_by_power_mean(workspace *space, const round_law *law, double a, double log_tolerance)
{
    double *crests = doubles(space, law->size), highest = -INFINITY;
    double inverse = law->thin.thinned ? 1.0 / (law->thin.width * law->thin.width) : 0.0, edge = law->thin.edge;
    range result = {INFINITY, -INFINITY};
    for (int i = 0; i < law->size; i++) {
        double slope = a * law->m[i], crest = 0.5 * slope * slope;
        if (law->thin.thinned && slope > edge) {
            double peak = (slope + edge * inverse) / (1.0 + inverse), past = peak - edge;
            crest = slope * peak - 0.5 * peak * peak - 0.5 * inverse * past * past;
        }
        crests[i] = crest;
        highest = larger(highest, a * law->log_p[i] - 0.5 * a * law->m[i] * law->m[i] + crest);
    }
    for (int i = 0; i < law->size; i++) {
        double slope = a * law->m[i], crest = crests[i], peak = slope, stiffness = 1.0;
        double room = a * law->log_p[i] - 0.5 * a * law->m[i] * law->m[i] + crest - highest;
        room += (a - 1.0) * log(law->size) + 2.0 - log_tolerance;
        if (!(room > 0.0))
            continue;
        if (law->thin.thinned && slope > edge) {
            peak = (slope + edge * inverse) / (1.0 + inverse);
            stiffness = 1.0 + inverse;
        }
        /* To the left of the edge the curvature is 1. */
        double left = slope - sqrt(larger(slope * slope - 2.0 * (crest - room), 0.0));
        result.low = smaller(result.low, left);
        result.high = larger(result.high, peak + sqrt(2.0 * room / stiffness));
    }
    return result;
}

/* Where phi chi R^a is not negligible, for exponents all >= 1 or all <= 0. */
static range range_of(workspace *space, const round_law *law, double lowest, double highest, double log_tolerance)
{
    if (highest <= 0.0) {
        /* log(phi R^a) is concave with second derivative at most -1. */
        double width = sqrt(2.0 * (2.0 - log_tolerance));
        double one = concave_peak(law, lowest), other = lowest == highest ? one : concave_peak(law, highest);
        return (range){smaller(one, other) - width, larger(one, other) + width};
    }
    range slopes = range_by_slope(law, lowest, highest, log_tolerance);
    range powers = range_by_power_mean(space, law, lowest, log_tolerance);
    if (highest > lowest) {
        range more = range_by_power_mean(space, law, highest, log_tolerance);
        powers = (range){smaller(powers.low, more.low), larger(powers.high, more.high)};
    }
    return (range){larger(slopes.low, powers.low), smaller(slopes.high, powers.high)};
}

/* A grid on which every exponent in between has relative error about e^log_tolerance; `with_identity` also covers the
 * exponents 0 and 1, for sums that use E[R] = 1. */
quadrature plan(workspace *space, const round_law *law, double lowest, double highest, double frequency,
                double log_tolerance, int with_identity)
{
    quadrature grid = {.law = law};
    choose_step(&grid, smaller(lowest, 0.0), frequency, log_tolerance);
    range reach = range_of(space, law, lowest, highest, log_tolerance);
    for (int exponent = 0; with_identity && exponent <= 1; exponent++) {
        range more = range_of(space, law, exponent, exponent, log_tolerance);
        reach = (range){smaller(reach.low, more.low), larger(reach.high, more.high)};
    }
    double farthest = larger(-reach.low, reach.high), shift = largest_shift(law);
    double exponent = larger(farthest * farthest, shift * (farthest + shift));
    if (!(reach.low < reach.high && exponent <= LARGEST_EXPONENT && farthest <= EXACT_MULTIPLES * grid.step))
        decline(space);
    double first = floor(reach.low / grid.step), count = ceil(reach.high / grid.step) - first + 1.0;
    if (!(count <= LARGEST_QUADRATURE && count * law->size <= LARGEST_TABLE))
        decline(space);
    int nodes = (int)count;
    grid.table = tabulate(space, law, grid.step, first, nodes);
    grid.log_weight = doubles(space, nodes);
    double constant = log(grid.step) - HALF_LOG_2PI;
    for (int j = 0; j < nodes; j++) {
        double u = grid.table.u[j];
        grid.log_weight[j] = constant - 0.5 * u * u + (law->thin.thinned ? log_keep(&law->thin, u) : 0.0);
    }
    return grid;
}

/* log of (integral + h maximum) over the value at the end, for a Gaussian of deviation 1 / root; rounded up. */
static double log_gaussian_sum(double distance, double slope, double root, double step)
{
    double integral = (distance > 0.0 ? 0.5 : 1.0) * ROOT_2PI / root, inside = smaller(distance, 0.0);
    return log(integral + step) + 0.5 * inside * inside + 8.0 * U * fabs(inside * slope);
}

/* log of a bound on h sum phi chi e^{log_factor + slope (u - end)} over the nodes beyond `end`, on one side of it. */
static double log_beyond(const quadrature *grid, double log_factor, double slope, double end, double side)
{
    const thinning *thin = &grid->law->thin;
    double value = log_factor - 0.5 * end * end * (1.0 - 8.0 * U) - HALF_LOG_2PI;
    double plain = value + log_gaussian_sum(side * (end - slope), slope, 1.0, grid->step);
    if (!thin->thinned || side < 0.0 || end < thin->edge)
        return plain;
    double inverse = 1.0 / (thin->width * thin->width), root = sqrt(1.0 + inverse), past = end - thin->edge;
    double distance = (end - slope + inverse * past) / root;
    double thinned = value - 0.5 * inverse * past * past * (1.0 - 8.0 * U) - LOG_2;
    return smaller(plain, thinned + log_gaussian_sum(distance, slope, root, grid->step));
}

/* Relative error of a slope: that of the terms' exponents, twice, for the terms and for their sum. */
double slope_error(const round_law *law, double u)
{
    double largest = largest_shift(law), rarest = 0.0;
    for (int i = 0; i < law->size; i++)
        rarest = larger(rarest, fabs(law->log_p[i]));
    return 4.0 * U * (24.0 * (largest * (fabs(u) + largest) + rarest) + 30.0 * law->size + 40.0);
}

/* log of a bound on the part of the infinite trapezoid sum of phi chi R^a outside the nodes. */
double log_tails(const quadrature *grid, double a)
{
    const round_law *law = grid->law;
    const ratio_table *table = &grid->table;
    double both = -INFINITY;
    for (int right = 0; right <= 1; right++) {
        int end = right ? table->nodes - 1 : 0;
        double u = table->u[end], psi = table->psi[end], side = right ? 1.0 : -1.0, slope;
        /* a <= 0: Psi is convex and lies above its tangents. a > 0: its slope lies between the extreme shifts. Both are
         * rounded to the safe side. */
        double doubt = 1e-9 + slope_error(law, u);
        if (a > 0.0)
            slope = right ? largest_shift(law) * (1.0 + doubt) : law->m[0] * (1.0 - doubt);
        else
            slope = table->slope[end] * (right ? 1.0 - doubt : 1.0 + doubt);
        double rounding = fabs(a) * (table->psi_error[end] + U * fabs(psi));
        double bound = log_beyond(grid, a * psi + rounding, a * slope, u, side);
        if (a >= 1.0) {
            /* Power mean: R^a <= n^{a-1} sum_i t_i^a. */
            double log_size = log(law->size), parts = -INFINITY;
            for (int i = 0; i < law->size; i++) {
                double m = law->m[i], log_p = law->log_p[i];
                double term = a * (log_p + m * u - 0.5 * m * m) + (a - 1.0) * log_size;
                term += 16.0 * U * a * (fabs(log_p) + m * fabs(u) + 0.5 * m * m + log_size);
                term = log_beyond(grid, term, a * m, u, side);
                if (!(term <= parts - 60.0)) /* what is left out is below the slack at the end; a NaN is not */
                    parts = log_add(parts, term);
            }
            bound = smaller(bound, parts);
        }
        both = log_add(both, bound);
    }
    return both + 1e-9;
}

/* log of a bound on |trapezoid - G(a + i s)| / G(a) for all |s| <= frequency; `log_moment` is that of the sum. */
double log_error(const quadrature *grid, double exponent, double log_moment, double frequency)
{
    double tails = log_tails(grid, exponent) - log_moment;
    /* Relative to the trapezoid sum; 0.7 > log 2 turns that into relative to G where it is below 1/2. */
    return log_add(log_discretisation_error(grid, exponent, frequency), tails) + 0.7;
}
