/* Rounds of random allocations under their tilted law. With w = 1 + z forward and -z reversed, and a = n - Re w,
 *
 *     G(w) = n! / Gamma(n - w) sum_j step lambda_j^{-w} p_n(lambda_j)                                            (S-29)
 *
 * so the loss's characteristic function is that of -+ log lambda on the nodes times a^{-+is} Gamma(a) / Gamma(a -+ is). */
#include "arithmetic.h"
#include "spectral.h"

/* From so many terms on rays are used, with at least so many per frequency; and from fewer terms on where powers of more
 * than few places take repeated squaring, which costs most. No effect on validity. */
#define MANY_TERMS 300.0
#define MANY_TO_SQUARE 150.0
#define FEW_PLACES 32.0
#define TERMS_PER_FREQUENCY 0.2
#define MOST_ON_A_RAY 400.0

/* The rate of decay of a product: |phi(s)| <= e^{-s^2 mu^2 / 2}, mu^2 the sum of s^2 / M over factors with p = 1 (S-35). */
double allocation_mu(const allocation_law *law, int product)
{
    double square = 0.0;
    for (int f = 0; f < law->factors; f++) {
        const allocation *of = &law->factor[f];
        if (of->log_probability == 0.0)
            square += law->times[product * law->factors + f] * of->shift * of->shift / of->places;
    }
    return sqrt(square) * (1.0 - 1e-14);
}

/* About log E[X^2] of a product. */
double log_second_moment(const allocation_law *law, int product)
{
    double result = 0.0;
    for (int f = 0; f < law->factors; f++) {
        const allocation *of = &law->factor[f];
        if (of->atoms != NULL) {
            double mean = 0.0;
            for (int j = 0; j < of->atoms->size; j++)
                mean += of->atoms->loss[j] < 0.5 ? exp(of->atoms->log_p[j]) * expm1(of->atoms->loss[j]) : 0.0;
            result += law->times[product * law->factors + f] * log1p(larger(mean, 1e-300));
            continue;
        }
        double square = smaller(of->shift * of->shift, 600.0), excess = expm1(square);
        if (of->is_cut)
            excess = larger(exp(square + log_normal_cdf(of->cut - 2.0 * of->shift)) - 1.0, 0.2 * smaller(square, 1.0));
        excess *= exp(2.0 * of->log_probability) / of->places;
        result += law->times[product * law->factors + f] * log1p(excess);
    }
    return result;
}

/* About the variance of the loss, for a first guess: that of a lognormal variable with the second moment of X. */
double allocation_variance(const allocation_law *law)
{
    double total = 0.0;
    for (int b = 0; b < law->products; b++)
        total += exp(law->log_weight[b]) * log_second_moment(law, b);
    return total;
}

/* Relative error of log_gamma: (x - 1/2) log x to 12 U, the rest below it; the series' first term left out is 2e-17. */
static double log_gamma_error(double x) { return 16.0 * U * (x * fabs(log(x)) + x + 2.0); }

/* Relative rounding error of p_n at a node but for that of its points, in units of U (S-33). */
double count_rounding(const allocation_table *table, int j)
{
    double n = table->taylor, places = table->of->places, one = table->weight_rounding + 64.0 + 16.0;
    double exponent = places * fabs(table->log_none[j]);
    double powers = n <= places + 1.0 ? n * (2.0 * one + 80.0) : places * (2.0 * one + 200.0) + 200.0 * n;
    double rounding = powers + 2.0 * n + 2.2 * exponent * one;
    if (n > 600.0)
        rounding += 12.0 * n * log(n);
    if (table->of->log_probability < 0.0)
        rounding += 60.0 * (n + exp(table->step * (table->first + j)));
    return 1.05 * rounding + 10.0 * (fabs(table->log_count[j]) + exponent + 700.0);
}

tilted_factor tilt_factor(workspace *space, const allocation_table *table, int reverse, double c, double frequency)
{
    double w = reverse ? -c : 1.0 + c, shape = table->taylor - w, top = -INFINITY, lost = 0.0;
    int nodes = table->nodes;
    tilted_factor result = {.shape = shape, .sign = reverse ? -1.0 : 1.0};
    tilted_round *of = &result.of;
    *of = (tilted_round){.tilt = c, .nodes = nodes};
    of->weight = doubles(space, nodes);
    of->loss = doubles(space, nodes);
    spend(space, 60.0 * nodes);
    double log_shape = log(shape), doubt = 0.0, largest = 0.0;
    for (int j = 0; j < nodes; j++) {
        double u = table->step * (table->first + j);
        of->loss[j] = result.sign * (log_shape - u);
        of->weight[j] = table->log_count[j] - w * u;
        top = larger(top, of->weight[j]);
    }
    if (!isfinite(top))
        decline(space, ROUNDED);
    for (int j = 0; j < nodes; j++) {
        double u = table->step * (table->first + j);
        lost += exp(smaller(table->log_lost[j] - w * u - top, 700.0));
        of->weight[j] = exp(of->weight[j] - top);
    }
    double total = sum(of->weight, nodes);
    for (int j = 0; j < nodes; j++) {
        of->weight[j] /= total;
        if (of->weight[j] == 0.0)
            continue; /* what underflow takes is in log_lost */
        double rounding = U * (count_rounding(table, j) + 4.0 * fabs(top) +
                               4.0 * fabs(w * table->step * (table->first + j)));
        doubt += of->weight[j] * rounding;
        largest = larger(largest, of->weight[j] > 1e-30 ? rounding : 0.0);
        of->centre += of->weight[j] * of->loss[j];
    }
    double proved = allocation_step_error(table, shape, frequency);
    proved = log_add(proved, allocation_place_error(table, shape));
    of->log_moment = top + log(total * table->step) + log_factorial(table->taylor) - log_gamma(shape);
    proved = log_add(proved, allocation_range_error(table, w, of->log_moment - 0.1));
    double relative = exp(proved) + 1.01 * lost / total;
    if (!(relative < 1e-3 && largest < 1e-4)) {
        if (frequency > 0.0)
            decline(space, relative < 1e-3 ? ROUNDED : NODES);
        relative = INFINITY; /* no Chernoff bound at this tilt */
    }
    for (int j = 0; j < nodes; j++) {
        if (of->weight[j] == 0.0)
            continue;
        double distance = fabs(of->loss[j] - of->centre);
        double rounding = U * (count_rounding(table, j) + 4.0 * fabs(top) +
                               4.0 * fabs(w * table->step * (table->first + j)) + 64.0 + 20.0);
        of->first_order_error += of->weight[j] * ((rounding + doubt) * distance + 8.0 * U * (fabs(of->loss[j]) + log_shape));
        of->variance += of->weight[j] * distance * distance;
    }
    /* An error of the points moves log p_n by |n - lambda X| times it, and lambda X is Gamma(a) distributed. */
    double of_points = 1.1 * U * table->point_rounding * sqrt(w * w + shape);
    of->first_order_error = 1.02 * (of->first_order_error + 2.0 * of_points * sqrt(of->variance));
    of->constant_error = 2.1 * relative;
    double n = table->taylor;
    of->log_moment_error = 1.02 * (doubt + of_points + relative) + log_gamma_error(n + 1.0) + log_gamma_error(shape) +
                           U * (100.0 + 8.0 * fabs(top));
    double inverse = 1.0 / shape;
    result.mean = of->centre - result.sign * inverse * (0.5 + inverse / 12.0);
    result.loss_variance = larger(of->variance - inverse * (1.0 + inverse * (0.5 + inverse / 6.0)), 1e-9 * of->variance);
    return result;
}

/* N(s, 1) against N(0, 1): under the tilted law the loss is N((c + 1/2) s^2, s^2), log G = c (1 + c) s^2 / 2 (S-36). */
static tilted_factor tilt_gaussian(const allocation *of, double c)
{
    double square = of->shift * of->shift, mean = (c + 0.5) * square, log_moment = 0.5 * c * (1.0 + c) * square;
    tilted_round round = {.tilt = c, .log_moment = log_moment, .log_moment_error = 8.0 * U * fabs(log_moment), .centre = mean,
                          .variance = square, .first_order_error = 8.0 * U * fabs(mean)};
    return (tilted_factor){.of = round, .mean = mean, .loss_variance = square, .rate = 0.5 * square * (1.0 - 1e-14)};
}

/* G of the coin, from log G of its factors. */
static void join_products(const allocation_law *law, const tilted_factor *factor, double *log_moment, double *error,
                          double *share, double *mean, double *variance)
{
    double top = -INFINITY, total = 0.0;
    *error = *mean = *variance = 0.0;
    for (int b = 0; b < law->products; b++) {
        double exponent = law->log_weight[b];
        for (int f = 0; f < law->factors; f++)
            exponent += law->times[b * law->factors + f] * factor[f].of.log_moment;
        share[b] = exponent;
        top = larger(top, exponent);
    }
    for (int b = 0; b < law->products; b++)
        total += share[b] = exp(share[b] - top);
    for (int b = 0; b < law->products; b++) {
        double one = 0.0, first = 0.0, second = 0.0, size = 0.0;
        share[b] /= total;
        for (int f = 0; f < law->factors; f++) {
            double times = law->times[b * law->factors + f];
            if (times == 0.0)
                continue;
            one += times * factor[f].of.log_moment_error;
            size += times * fabs(factor[f].of.log_moment);
            first += times * factor[f].mean;
            second += times * factor[f].loss_variance;
        }
        one += U * (4.0 * law->factors * size + 8.0 * fabs(law->log_weight[b]));
        *error = larger(*error, one);
        *mean += share[b] * first;
        *variance += share[b] * (second + first * first);
    }
    *variance = larger(*variance - *mean * *mean, 1e-12 * *variance);
    *log_moment = top + log(total);
    if (law->products > 1)
        *error += U * (2.0 * law->products + 40.0 + 4.0 * fabs(top));
    *error += 4.0 * U * fabs(*log_moment);
}

/* Tables good for every tilt between the two, for Chernoff's bounds and the search for a saddle. */
allocation_scan scan_allocations(workspace *space, const round_law *law, double smallest, double largest)
{
    const allocation_law *of = law->allocated;
    allocation_scan result = {.table = allocate(space, of->factors * sizeof(allocation_table)),
                              .axis = allocate(space, of->factors * sizeof(transform))};
    for (int f = 0; f < of->factors; f++) {
        if (of->factor[f].layered || of->factor[f].atoms != NULL || of->factor[f].curve != NULL)
            continue;
        if (of->factor[f].is_cut) {
            result.axis[f] = transform_on_axis(space, &of->factor[f], 1.02 * (1.0 + largest));
            continue;
        }
        double low = of->reverse ? -largest : 1.0 + smallest, high = of->reverse ? -smallest : 1.0 + largest;
        double n = ceil(larger(high, 0.0) + SMALLEST_SHAPE + 2.0);
        if (!(n < 1e6))
            decline(space, NODES);
        result.table[f] = is_gaussian(&of->factor[f])
                              ? (allocation_table){.of = &of->factor[f]}
                              : tabulate_allocation(space, &of->factor[f], (int)n, low, high, 0.0, LOG_COARSE_TABLE);
    }
    return result;
}

void allocation_moment(workspace *space, const allocation_scan *tables, const round_law *law, double c, double *log,
                       double *upper, double *mean, double *variance)
{
    const allocation_law *of = law->allocated;
    tilted_factor *factor = allocate(space, of->factors * sizeof(tilted_factor));
    double *share = doubles(space, of->products), error;
    for (int f = 0; f < of->factors; f++) {
        if (of->factor[f].atoms != NULL) {
            factor[f] = tilt_atoms(space, of->factor[f].atoms, c, 0);
        } else if (of->factor[f].curve != NULL) {
            factor[f] = tilt_curve(space, of->factor[f].curve, c, 0);
        } else if (of->factor[f].layered) {
            factor[f] = tilt_layered(space, &of->factor[f], c);
        } else if (of->factor[f].is_cut) {
            spend(space, 500.0 * tables->axis[f].terms);
            factor[f] = tilt_concentrated(&tables->axis[f], c);
        } else {
            factor[f] = is_gaussian(&of->factor[f]) ? tilt_gaussian(&of->factor[f], c)
                                                    : tilt_factor(space, &tables->table[f], of->reverse, c, 0.0);
        }
    }
    join_products(of, factor, log, &error, share, mean, variance);
    *upper = *log + error;
}

/* A round under its tilted law. Errors of the samples are multiplied by |Gamma(a) / Gamma(a - is)| = e^{s^2 / (2 a)} or
 * so, and by the rest of the composition: a is chosen such that the product is no longer than that rest, `slowness` being
 * the variance of a Gaussian which would decay as all rounds do. */
tilted_round tilt_allocations(workspace *space, const round_law *law, double c, double frequency, double slowness,
                              double log_tolerance)
{
    const allocation_law *of = law->allocated;
    tilted_round result = {.law = law, .tilt = c};
    tilted_allocation *parts = allocate(space, sizeof(tilted_allocation));
    result.allocated = parts;
    parts->factor = allocate(space, of->factors * sizeof(tilted_factor));
    parts->share = doubles(space, of->products);
    parts->mu = doubles(space, of->products);
    parts->log_share = doubles(space, of->products);
    double w = of->reverse ? -c : 1.0 + c;
    for (int f = 0; f < of->factors; f++) {
        const allocation *one = &of->factor[f];
        if (is_gaussian(one)) {
            parts->factor[f] = tilt_gaussian(one, c);
            continue;
        }
        if (one->atoms != NULL) {
            parts->factor[f] = tilt_atoms(space, one->atoms, c, 1);
            result.nodes += one->atoms->size;
            continue;
        }
        if (one->curve != NULL) {
            parts->factor[f] = tilt_curve(space, one->curve, c, 1);
            result.nodes += one->curve->nodes;
            continue;
        }
        double own = one->log_probability == 0.0 ? one->shift * one->shift / one->places : 0.0;
        if (one->is_cut) {
            parts->factor[f] = (tilted_factor){.rate = 0.5 * own * (1.0 - 1e-14)};
            add_line(space, one, c, frequency, log_tolerance, &parts->factor[f]);
            result.nodes += parts->factor[f].of.nodes;
            continue;
        }
        double shape = 1.0 / (larger(0.7 * slowness - own, 0.0) + 0.25 * slowness);
        double n = ceil(larger(larger(shape, SMALLEST_SHAPE) + w, 0.0));
        int squares = n > one->places + 1.0 && one->places > FEW_PLACES;
        int turns = n > (squares ? MANY_TO_SQUARE : MANY_TERMS);
        if (turns)
            n = ceil(larger(larger(smaller(TERMS_PER_FREQUENCY * frequency, MOST_ON_A_RAY), SMALLEST_SHAPE) + w, 0.0));
        if (!(n < 1e6))
            decline(space, NODES);
        allocation_table table = tabulate_allocation(space, one, (int)n, w, w, turns ? 0.0 : frequency, log_tolerance);
        parts->factor[f] = tilt_factor(space, &table, of->reverse, c, turns ? 0.0 : frequency);
        if (turns)
            add_rays(space, one, (int)n, w, frequency, log_tolerance, &parts->factor[f]);
        parts->factor[f].rate = 0.5 * own * (1.0 - 1e-14);
        result.nodes += table.nodes;
    }
    double error;
    join_products(of, parts->factor, &result.log_moment, &error, parts->share, &parts->mean, &parts->variance);
    result.log_moment_error = error;
    parts->share_error = of->products > 1 ? 2.0 * error : 0.0;
    if (!(error < 1e-3))
        decline(space, ROUNDED);
    for (int b = 0; b < of->products; b++) {
        double centre = 0.0;
        for (int f = 0; f < of->factors; f++)
            centre += of->times[b * of->factors + f] * parts->factor[f].of.centre;
        result.centre += parts->share[b] * centre;
        parts->mu[b] = allocation_mu(of, b);
        parts->log_share[b] = of->products == 1 ? 0.0 : log(parts->share[b] * (1.0 + parts->share_error)) + 1e-12;
    }
    return result;
}
