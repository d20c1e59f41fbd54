/* What a table of p_n leaves out (allocation.c): bounds on the errors of its steps and ranges, relative to G(Re w). */
#include "arithmetic.h"
#include "spectral.h"

#define TILT_BISECTIONS 20
/* Of tilt times loss. */
#define LARGEST_OF_ATOMS 600.0
/* Of w and s, for moments of a single large place within the range of doubles. */
#define LARGEST_PRODUCT 18.0

#define LAYERS 64

/* N(s, 1) against N(0, 1). */
int is_gaussian(const allocation *of) { return of->places == 1.0 && of->log_probability == 0.0; }

/* log Gamma(x) by Stirling's series, x >= 24: the first term left out is below 2e-18 (S-34). */
double log_gamma(double x)
{
    double y = 1.0 / (x * x), log_x = log(x);
    double series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x;
    return (x - 0.5) * log_x - x + HALF_LOG_2PI + series;
}

/* log n!, the product itself where that is exact. */
double log_factorial(int n)
{
    if (n >= 23)
        return log_gamma(n + 1.0);
    double product = 1.0;
    for (int k = 2; k <= n; k++)
        product *= k;
    return log(product);
}

/* log of a bound on the error of the trapezoid rule in log lambda, relative to that of w = Re w (S-29). */
static double log_rate_step_error(double angle, double step, double shape, double frequency)
{
    return 2.0 * LOG_2 - shape * log(cos(angle)) + frequency * angle - 2.0 * PI * angle / step;
}

double allocation_step_error(const allocation_table *table, double shape, double frequency)
{
    double best = INFINITY;
    for (double angle = 0.05; angle <= LARGEST_ANGLE; angle += 0.05)
        best = smaller(best, log_rate_step_error(angle, table->step, shape, frequency));
    return best > -0.7 ? INFINITY : best + 1e-9;
}

/* log of a bound on the error of the trapezoid rule in Z, relative (S-30). */
double allocation_place_error(const allocation_table *table, double shape)
{
    const allocation *of = table->of;
    double best = INFINITY, step = table->place_step;
    for (double angle = 0.05; angle <= LARGEST_ANGLE; angle += 0.05) {
        double d = angle / of->shift;
        double log_one = LOG_2 + 0.5 * d * d - 2.0 * PI * d / step + log(of->places) + 1e-9;
        if (log_one < -1.0)
            best = smaller(best, log_one + 1.3 - shape * log(cos(angle)));
    }
    return best;
}

/* log of a lower bound on G(w): 1 by Jensen, and X^w >= sum_t (p L_t / M)^w for w >= 1. */
static double log_least_moment(const allocation *of, double w)
{
    double log_places = log(of->places);
    double single = log_places + w * (of->log_probability - log_places) + 0.5 * w * (w - 1.0) * of->shift * of->shift;
    return w >= 1.0 && single > 0.0 ? single * (1.0 - 1e-12) - 1e-12 * (w * log_places + 1.0) : 0.0;
}

/* log of a bound on what is left out above z in some place, relative to G(w), for w >= 1 (S-31). */
static double log_above(const allocation *of, double w, double z, double share)
{
    double log_places = log(of->places), beyond = larger(z - w * of->shift, 0.0);
    double one = (1.0 - w) * log(share) + w * (of->log_probability - log_places) +
                 0.5 * w * (w - 1.0) * of->shift * of->shift - 0.5 * beyond * beyond;
    double other = (1.0 - w) * log1p(-share) - 0.5 * z * z;
    return log_places + log_add(log_add(one - log_least_moment(of, w), other), 0.1 - 0.5 * z * z) + 0.4;
}

double log_left_out_above(const allocation *of, double w, double z)
{
    if (w < 1.0) /* X^w decreases */
        return log(of->places) - 0.5 * z * z + 1.1;
    double best = INFINITY;
    for (double share = 0.5; share > 0.001; share *= 0.5)
        best = smaller(best, log_above(of, w, z, share));
    return best + 1e-9 * (1.0 + fabs(best));
}

/* log of a bound on E[Y^-c], Y the mean of M - 1 places: P(Y < 1 - eta) <= e^{-eta^2 / (2 v)} in layers, and beyond the last
 * of them Cauchy and Schwarz with the geometric mean; infinite where there are too few places (S-31). */
static double log_inverse_power(const allocation *of, double c)
{
    double square = of->shift * of->shift, rest = of->places - 1.0, v = exp(smaller(square, 600.0)) / rest;
    double farthest = sqrt(2.0 * v * (c * square + 2.0 * c * c * square / rest)), total = LOG_2;
    if (!(farthest < 0.5))
        return INFINITY;
    for (int i = 0; i < LAYERS; i++) {
        double from = farthest * i / LAYERS, to = farthest * (i + 1) / LAYERS;
        total = log_add(total, -c * log1p(-to) - from * from / (2.0 * v));
    }
    return total + 1e-9 * (1.0 + fabs(total));
}

/* log of a bound on what is left out below -z in some place, relative to G(w) >= e^log_moment (S-31). */
double log_left_out_below(const allocation *of, double w, double z, double log_moment)
{
    double log_places = log(of->places), square = of->shift * of->shift, c = -w;
    if (w >= 1.0) /* X^w increases */
        return log_places - 0.5 * z * z + 1.1;
    if (is_gaussian(of)) { /* Z under the tilted law is N(w s, 1) */
        double distance = larger(z - c * of->shift, 0.0);
        return log_add(-0.5 * distance * distance, -0.5 * z * z) + 1.1;
    }
    /* Without the place, X is at least 1 - p, and at least 1 - 1/M times the geometric mean of the others. */
    double others = INFINITY, absent = c * -log(-expm1(of->log_probability));
    if (of->places > 1.0) {
        double geometric = 0.5 * c * square + 0.5 * c * c * square / (of->places - 1.0);
        others = -c * log1p(-1.0 / of->places) + (c > 0.0 ? smaller(geometric, log_inverse_power(of, c)) : geometric);
    }
    return log_places - 0.5 * z * z + larger(smaller(others, absent) - log_moment, 0.0) + 1.2;
}

/* log of a bound on the nodes beyond log lambda = u, relative to G(w) Gamma(a) / n! (S-32). */
double log_rates_above(const allocation *of, double w, double shape, double step, double u)
{
    double best = INFINITY, square = of->shift * of->shift;
    for (double power = larger(w, 1.0); power < 1e9; power = 1.2 * power + 1.0) {
        double v = power - w, both = shape + power;
        double level = log_gamma(both) - log_gamma(shape) - power * u + 0.5 * v * square + 0.5 * v * v * square / of->places;
        level += log1p(step * sqrt(0.16 * both));
        if (level < best)
            best = level;
        else if (level > best + 50.0)
            break;
    }
    return best - log_least_moment(of, w) + 0.1 + 1e-12 * log_gamma(2.0 * shape);
}

/* log of a bound on the nodes below log lambda = u, relative to G(w) Gamma(a) / n!, if X is at most e^log_most. */
double log_rates_below(double shape, double step, double u, double log_most)
{
    double y = exp(u + log_most);
    if (!(y < shape))
        return INFINITY;
    return shape * (u + log_most) - y - log_gamma(shape) + log(step) - log(-expm1((y - shape) * step)) + 1e-9 * shape;
}

/* The same beyond log lambda = u, if X is at least e^log_least. */
double log_rates_beyond(double shape, double step, double u, double log_least)
{
    double log_y = u + log_least, y = exp(smaller(log_y, 600.0));
    if (!(y > shape))
        return INFINITY;
    return shape * log_y - y - log_gamma(shape) + log(step) - log(-expm1((shape - y) * step)) + 1e-9 * shape;
}

double log_rates_right(const allocation_table *table, double w, double u)
{
    double shape = table->taylor - w;
    return smaller(log_rates_above(table->of, w, shape, table->step, u),
                   log_rates_beyond(shape, table->step, u, table->log_least));
}

double allocation_range_error(const allocation_table *table, double w, double log_moment)
{
    const allocation *of = table->of;
    double shape = table->taylor - w, last = table->step * (table->first + table->nodes - 1), low = table->place_low;
    double error = log_left_out_above(of, w, table->place_high);
    error = log_add(error, log_left_out_below(of, w, low, log_moment));
    error = log_add(error, log_rates_right(table, w, last));
    return log_add(error, log_rates_below(shape, table->step, table->step * table->first, table->log_most)) + 0.1;
}

/* The largest tilt up to the one given at which places within reach of a table are enough, reversed (S-31). */
static double largest_reversed_tilt(const allocation *of, double largest)
{
    double low = 0.0, high = largest, middle = largest;
    for (int i = 0; i < TILT_BISECTIONS; i++, middle = 0.5 * (low + high)) {
        if (log_left_out_below(of, -middle, FARTHEST_PLACE - 0.5, 0.0) <= LOG_COARSE_TABLE - 1.0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Of tilts up to the one given: beyond this moments belong to a single large place, and a table of them would be long. */
double largest_allocation_tilt(const allocation_law *law, double largest)
{
    for (int f = 0; f < law->factors; f++) {
        const allocation *of = &law->factor[f];
        if (is_gaussian(of))
            continue;
        if (of->atoms != NULL) {
            largest = smaller(largest, LARGEST_OF_ATOMS / larger(of->atoms->loss[of->atoms->size - 1], 1e-6));
            continue;
        }
        if (of->curve != NULL) {
            largest = smaller(largest, of->curve->most_tilt);
            continue;
        }
        if (law->reverse) {
            largest = largest_reversed_tilt(of, largest);
            continue;
        }
        if (of->is_cut) {
            largest = smaller(largest, of->largest_tilt);
            continue;
        }
        /* Up to here a single large place is within the range of doubles, or (S-31, halves) far below G. */
        double log_places = log(of->places) - of->log_probability, linear = log_places - LOG_2;
        double inside = linear * linear - 2.0 * of->shift * of->shift * (log_places + 45.0);
        double single = inside > 0.0 ? (linear + sqrt(inside)) / (of->shift * of->shift) : 0.0;
        largest = smaller(largest, larger(LARGEST_PRODUCT / of->shift, single) - 1.0);
    }
    return largest;
}
