/* R(M, s) of a group that takes part with probability p: X = 1 - p + p mean of M lognormals e^{s Z - s^2 / 2}, and
 *
 *     p_n(lambda) = E[(lambda X)^n e^{-lambda X}] / n!        the probability that a Poisson(lambda X) variable is n
 *
 * on a grid of log lambda. All terms are positive. G(w) = E[X^w] is n! / Gamma(n - w) times the integral of
 * lambda^{-w} p_n(lambda) over log lambda (S-29), for every w with n - Re w > 0 at once. */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_NODES 20000
#define MOST_TERMS 20000
#define MOST_ALLOCATED 1e9
/* Terms of a sum over Z this far below its largest are left out: the terms are log-concave, and at most 20 000 before
 * them make a ratio below 2^(-60 / 20000): all of them are below 8 U of the sum. */
#define NEGLIGIBLE 0x1p-60
#define MOST_PLACES 20000
/* Above 2^-1074 by more than 20 000 terms and what a product adds; b_0 is a normal double above the other. */
#define LOG_UNDERFLOW -730.0
#define LEAST_LOG_NONE -690.0

/* The largest step whose error is below e^log_tolerance. */
static double rate_step(double shape, double frequency, double log_tolerance)
{
    double best = 0.0;
    for (double angle = 0.05; angle <= LARGEST_ANGLE; angle += 0.05)
        best = larger(best, 2.0 * PI * angle / (3.0 - log_tolerance - shape * log(cos(angle)) + frequency * angle));
    return best;
}

static double place_step(const allocation *of, double shape, double log_tolerance)
{
    double best = 0.0;
    for (double angle = 0.05; angle <= LARGEST_ANGLE; angle += 0.05) {
        double d = angle / of->shift, log_places = log(of->places);
        best = larger(best, 2.0 * PI * d / (3.0 - log_tolerance + log_places + 0.5 * d * d - shape * log(cos(angle))));
    }
    return smaller(best, 1.0);
}

/* The range of Z in units of its step, and of log lambda. */
static void choose_ranges(workspace *space, allocation_table *table, double w_low, double w_high, double log_tolerance)
{
    const allocation *of = table->of;
    double room = 2.0 - log_tolerance + log(of->places), reach = sqrt(2.0 * room), low = reach;
    while (reach < FARTHEST_PLACE && !(log_left_out_above(of, w_high, reach) <= log_tolerance - 1.0))
        reach += 0.25;
    while (low < FARTHEST_PLACE && !(log_left_out_below(of, w_low, low, 0.0) <= log_tolerance - 1.0))
        low += 0.25;
    if (!(reach < FARTHEST_PLACE && low < FARTHEST_PLACE))
        decline(space, NODES);
    table->place_high = reach;
    table->place_low = low;
    double p = exp(of->log_probability);
    table->log_most = larger(of->shift * (reach + table->place_step) - 0.5 * of->shift * of->shift, 0.0) + 1e-9;
    if (p < 1.0)
        table->log_most = smaller(table->log_most, log(1.0 - p + p * exp(smaller(table->log_most, 600.0))) + 1e-9);
    table->log_least = -of->shift * (low + 1.0) - 0.5 * of->shift * of->shift;
    if (p < 1.0)
        table->log_least = larger(table->log_least, log1p(-p) - 1e-9);
    double shape_low = table->taylor - w_high, shape_high = table->taylor - w_low;
    double first = log(shape_low) - table->log_most, last = log(shape_high);
    while (!(log_rates_below(shape_low, table->step, first, table->log_most) <= log_tolerance - 1.0 &&
             log_rates_below(shape_high, table->step, first, table->log_most) <= log_tolerance - 1.0))
        first -= 2.0 * table->step;
    while (!(log_rates_right(table, w_low, last) <= log_tolerance - 1.0 &&
             log_rates_right(table, w_high, last) <= log_tolerance - 1.0)) {
        last += larger(2.0 * table->step, 0.02);
        if (!(last < 200.0))
            decline(space, NODES);
    }
    table->first = floor(first / table->step);
    double nodes = ceil(last / table->step) - table->first + 1.0;
    if (!(nodes <= MOST_NODES))
        decline(space, NODES);
    table->nodes = (int)nodes;
}

/* The window of the node before, moved to the same x: no further up than the largest term, as weights are log-concave. */
window moved(const window *at, int fine)
{
    return (window){at->top > fine ? at->top - fine : 0, at->low > fine ? at->low - fine : 0,
                    at->high > fine ? at->high - fine : 0};
}

/* sum_i weight_i f_i, all of it that matters: the terms are log-concave, the largest moves up from one k to the next, and
 * the window starts from that of the last k. */
WIDE double windowed(const double *weight, const double *f, int places, window *at)
{
    int i = at->top, low = at->low, high;
    while (i + 1 < places && weight[i + 1] * f[i + 1] >= weight[i] * f[i])
        i++;
    double least = weight[i] * f[i] * NEGLIGIBLE;
    while (low + 8 <= i && weight[low + 8] * f[low + 8] <= least)
        low += 8;
    while (low > 0 && weight[low] * f[low] > least)
        low = low > 8 ? low - 8 : 0;
    high = at->high > i ? at->high : i;
    while (high < places - 1 && weight[high] * f[high] > least)
        high = high < places - 9 ? high + 8 : places - 1;
    while (high - 8 >= i && weight[high - 8] * f[high - 8] <= least)
        high -= 8;
    *at = (window){i, low, high};
    return dot(weight + low, f + low, high - low + 1);
}

/* sum_i weight_i f_i, all of it. */
WIDE static double whole(const double *weight, const double *f, int places) { return dot(weight, f, places); }

/* x^k e^{-x} / k! from its predecessor. */
WIDE void raise_power(double *restrict f, const double *restrict x, double k, int points)
{
    for (int i = 0; i < points; i++)
        f[i] = f[i] * x[i] / k;
}

/* log p_n on all nodes, from the coefficients b_k = E[x^k e^{-x}] / k!, x = lambda p L / M. */
static void tabulate_counts(workspace *space, allocation_table *table, const double *weight, int places, int fine,
                            double offset, int lowest)
{
    const allocation *of = table->of;
    int n = table->taylor, nodes = table->nodes;
    double grain = table->step / fine, absent = -expm1(of->log_probability);
    int recurrent = n <= of->places + 1.0;
    double all = (double)fine * (nodes - 1.0) + places;
    spend(space, (double)nodes * n * 100.0 + 2.0 * nodes * places + all * (0.25 * n + 60.0));
    spend(space, (double)nodes * n * n * (recurrent ? 0.75 : log2(of->places) + 1.0));
    int points = (int)all; /* what may be spent is below INT_MAX */
    bookmark place = mark(space);
    double *x = doubles(space, points), *f = doubles(space, points), *lost = doubles(space, points);
    for (int i = 0; i < points; i++) {
        x[i] = exp(grain * (fine * table->first + lowest + i) + offset);
        f[i] = exp(-x[i]);
        lost[i] = -expm1(-x[i]);
    }
    window *at = allocate(space, nodes * sizeof(window));
    double *b = doubles(space, (size_t)nodes * (n + 1)), *multiple = doubles(space, n + 1);
    double *g = doubles(space, n + 1);
    at[0] = (window){0, 0, 0};
    for (int j = 0; j < nodes; j++)
        b[(size_t)j * (n + 1)] = whole(weight, f + (size_t)fine * j, places);
    for (int k = 1; k <= n; k++) {
        multiple[k] = (of->places + 1.0) * k;
        raise_power(f, x, k, points);
        if (k % 64 == 0) /* e^{-x} was below the smallest double */
            for (int i = points - 1; i >= 0 && x[i] > 600.0; i--)
                if (f[i] < 1e-200)
                    f[i] = exp(k * log(x[i]) - x[i] - log_gamma(k + 1.0));
        double terms = 0.0;
        for (int j = 0; j < nodes; j++) {
            if (k == 1 && j > 0)
                at[j] = moved(&at[j - 1], fine);
            b[(size_t)j * (n + 1) + k] = windowed(weight, f + (size_t)fine * j, places, &at[j]);
            terms += at[j].high - at[j].low + 1.0;
        }
        spend(space, larger(0.25 * terms - 100.0 * nodes, 0.0)); /* long windows */
    }
    /* 2^-1074 in every term of b_k, k <= n, in M places; where e^{-x} underflows, x^k e^{-x} / k! for k < 64. */
    double many = 2.0 * log(n + 1.0) + log(of->places + 1.0);
    for (int j = 0; j < nodes; j++) {
        const double *row = b + (size_t)j * (n + 1);
        double missing = whole(weight, lost + (size_t)fine * j, places), rho = absent * exp(table->step * (table->first + j));
        double log_none = missing < 0.5 ? log1p(-missing) : log(row[0]), scale, last, least, most = 0.0, charge;
        double underflow = many + (x[(size_t)fine * j + places - 1] > LARGEST_POINT ? LOG_WITHOUT_POINTS : LOG_UNDERFLOW);
        if (recurrent) {
            scale = power_by_recurrence(row, multiple, n, rho, g, &least);
            last = g[0];
            for (int m = 0; m <= n; m++)
                most = larger(most, g[m]);
            charge = log(most) + of->places * log_none - rho + scale + underflow - log_none;
            if (scale > 0.0) /* then every f_m has an error relative to itself */
                charge = log_add(charge, log(last / least) + of->places * log_none - rho + scale + many + LOG_UNDERFLOW - log_none);
            charge += log1p(rho);
        } else {
            charge = underflow - many - log_none;
            last = power_by_squaring(space, row, of->places, n, rho, &scale, &charge);
            charge = log_add(charge, underflow - log_none) + of->places * log_none - rho + scale;
        }
        table->log_count[j] = log(last) + of->places * log_none - rho + scale;
        double trivial = log_add(larger(table->log_count[j], -1e300), 0.0); /* p_n <= 1 */
        table->log_lost[j] = log_none > LEAST_LOG_NONE && charge < trivial ? charge : trivial;
        table->log_none[j] = log_none;
    }
    rewind_to(space, place);
}

/* The weights of Z = -low, ..., in units of its step, and ranges for every w between the two; `fine` steps of Z times the
 * shift are one of log lambda. */
double *place_weights(workspace *space, allocation_table *table, double step, double fine, double w_low, double w_high,
                      double log_tolerance, int *places, int *low)
{
    const allocation *of = table->of;
    int n = table->taylor;
    if (!(n <= MOST_TERMS && of->places <= MOST_ALLOCATED && fine < 1e6 && n - w_high >= SMALLEST_SHAPE))
        decline(space, NODES);
    /* Half the square of the step in Z has 20 bits, so that the exponents -z^2 / 2 are exact. */
    double half_square = shortened(0.5 * (step / fine / of->shift) * (step / fine / of->shift));
    double grain = of->shift * sqrt(2.0 * half_square);
    table->step = grain * fine;
    table->place_step = grain / of->shift * (1.0 + 1e-15);
    choose_ranges(space, table, w_low, w_high, log_tolerance);
    double below = ceil(table->place_low * of->shift / grain), above = ceil(table->place_high * of->shift / grain);
    if (!(below + above < MOST_PLACES))
        decline(space, NODES);
    *places = (int)(below + above) + 1;
    *low = (int)below;
    double *weight = doubles(space, *places), height = grain / of->shift * 0.39894228040143267794;
    for (int i = 0; i < *places; i++) {
        double index = i - below;
        weight[i] = height * exp(-half_square * (index * index));
    }
    double farthest = larger(table->place_low, table->place_high) + table->place_step;
    table->weight_rounding = 16.0;
    table->point_rounding = 4.0 * (table->step * larger(fabs(table->first), fabs(table->first + table->nodes)) +
                                   of->shift * (farthest + of->shift)) +
                            8.0 * (log(of->places) - of->log_probability) + 20.0;
    return weight;
}

/* A table for every w between w_low and w_high, and w + i s, |s| <= frequency. */
allocation_table tabulate_allocation(workspace *space, const allocation *of, int n, double w_low, double w_high,
                                     double frequency, double log_tolerance)
{
    allocation_table table = {.of = of, .taylor = n};
    double shape = n - w_low, step = rate_step(shape, frequency, log_tolerance);
    double place = place_step(of, shape, log_tolerance), fine = larger(ceil(step / (of->shift * place)), 1.0);
    int places, low;
    double *weight = place_weights(space, &table, step, fine, w_low, w_high, log_tolerance, &places, &low);
    table.log_count = doubles(space, table.nodes);
    table.log_none = doubles(space, table.nodes);
    table.log_lost = doubles(space, table.nodes);
    double offset = of->log_probability - log(of->places) - 0.5 * of->shift * of->shift;
    tabulate_counts(space, &table, weight, places, (int)fine, offset, -low);
    return table;
}
