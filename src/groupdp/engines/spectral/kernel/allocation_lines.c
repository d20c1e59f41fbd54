/* One concentrated allocation whose places are cut, forward: with w = 1 + c + is, a = c + 2, V(theta) = E[e^{theta X}; cut],
 *
 *     G(w) = Gamma(w + 1) / Y sum_j theta_j^{-w-1} V(theta_j),     theta_j = theta + 2 pi i j / Y,                       (S-45)
 *
 * but for aliases (X + mY)_+^w e^{-theta m Y}. V is computed without powers of series (allocation_laplace.c). */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_ON_A_LINE 50000
/* Terms below e^this are left out. */
#define LEFT_OUT -46.0
#define BISECTIONS 60
/* theta x at the cut, up to which aliases are bounded. */
#define FARTHEST_EXPONENT 300.0
/* Cut places may cost this much (e^-20 of delta). */
#define LOG_CUT -20.0
/* Tables of p_n do well where a place turns e^{i theta x} often, unless losses are tiny; no effect on validity. */
#define MOST_TURNS 450.0
#define TINY_DEVIATION 0.03
/* The frequencies that matter, over the deviation; and, as a logarithm, what the cut's edge may add to a characteristic
 * function: no effect on validity. */
#define FREQUENCIES 7.4
#define FLOOR 28.0

/* Tilts for the aliases, as multiples of theta. */
static const double ASIDE[] = {0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94, 0.97,
                               1.03, 1.06, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0};
#define ASIDES ((int)(sizeof ASIDE / sizeof ASIDE[0]))

/* log of a bound on the probability, under P, that some place's Z exceeds z (S-43). */
double log_cut_off(const allocation *of, double z)
{
    double apart = z - of->shift, present = of->log_probability + (apart > 0.0 ? -LOG_2 - 0.5 * apart * apart : 0.0);
    return log_add(present, log(of->places) - LOG_2 - 0.5 * z * z) + 1e-9;
}

/* Cuts the places of every concentrated factor of a round in which the group leaves, where a composition's loss is small. */
void cut_places(workspace *space, round_law *law, prepared *result, double log_delta)
{
    const allocation_law *whole = law->allocated;
    double frequency = FREQUENCIES / result->deviation;
    if (whole == NULL || whole->reverse || space->uncut || !(result->deviation < SMALL_DEVIATION))
        return;
    allocation *factor = allocate(space, whole->factors * sizeof(allocation));
    for (int f = 0; f < whole->factors; f++) {
        allocation *of = &factor[f];
        double times = 0.0, most = 0.0, z = 4.0;
        *of = whole->factor[f];
        for (int b = 0; b < whole->products; b++) {
            times += exp(whole->log_weight[b]) * whole->times[b * whole->factors + f];
            most = larger(most, whole->times[b * whole->factors + f]);
        }
        double budget = smaller(log_delta, 0.0) + LOG_CUT - log(times * law->count * whole->factors * result->rounds);
        while (z < 36.0 && !(log_cut_off(of, z) <= budget))
            z += 0.03125;
        double jump = allocation_jump(of, z), room = 0.5 * z * z + 1.0 - log(of->places) + log(of->shift * frequency);
        int often = frequency * jump > MOST_TURNS && result->deviation > TINY_DEVIATION;
        if (is_gaussian(of) || of->atoms != NULL || often || !(z < 36.0))
            continue;
        of->is_cut = result->cuts = space->cuts = 1;
        of->cut = z;
        of->largest_tilt = larger(room - FLOOR / (most * law->count), 1.0) / jump;
        result->log_dropped = log_add(result->log_dropped, log_cut_off(of, z) + log(times * law->count) + 1e-9);
    }
    allocation_law *cut = allocate(space, sizeof(allocation_law));
    *cut = *whole;
    cut->factor = factor;
    law->allocated = cut;
}

/* theta with theta E'[X] = a, E' under the law tilted by e^{theta X}. */
static double saddle_theta(const transform *at, double a)
{
    double low = 0.0, high = at->reach;
    for (int i = 0; i < BISECTIONS; i++) {
        double middle = 0.5 * (low + high), first, second;
        transform_slope(at, middle, &first, &second);
        if (middle * first < a)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/* log of a bound on E[X^w; cut], w > 0: x^w <= (w / (e theta))^w e^{theta x} (S-45). */
static double log_moment_bound(const transform *at, double w, double theta)
{
    double log_v, angle, error, power = w * (log(w / theta) - 1.0);
    transform_at(at, theta, 0.0, &log_v, &angle, &error);
    return log_v + error + power + 16.0 * U * (fabs(power) + w + fabs(log_v));
}

/* G(1 + c) for Chernoff's bounds: an upper bound, close where X is concentrated, and about mean and variance of the loss. */
tilted_factor tilt_concentrated(const transform *at, double c)
{
    double w = 1.0 + c, theta = saddle_theta(at, w), first, second;
    double upper = log_moment_bound(at, w, theta);
    transform_slope(at, theta, &first, &second);
    double ratio = w * second / (first * first), variance = second / (first * first) / (1.0 + ratio);
    tilted_round round = {.tilt = c, .log_moment = upper, .centre = log(first), .variance = variance};
    return (tilted_factor){.of = round, .sign = 1.0, .mean = log(first), .loss_variance = variance};
}

/* log Gamma(a) - a log theta, and a bound on its error. */
static double log_gamma_power(double a, double theta, double *error)
{
    double lower = 0.0, b = a;
    for (; b < SMALLEST_SHAPE; b += 1.0)
        lower += log(b);
    double y = 1.0 / (b * b), power = a * log(a / theta), aside = b > a ? (b - 0.5) * log(b) - a * log(a) : -0.5 * log(b);
    double series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / b;
    *error = U * (24.0 * (fabs(power) + a) + 16.0 * (fabs(lower) + b + (b > a ? b * log(b) + a * fabs(log(a)) : log(b))) + 40.0);
    return power - b + aside + HALF_LOG_2PI + series - lower;
}

/* log Gamma(a + is) - log Gamma(a) - is log a: minus its real part, its imaginary part, and the sizes of the parts. */
static void turned_gamma(double a, double s, double *real, double *imaginary, double *size)
{
    double less = 0.0, turn = 0.0, b = a, parts = 0.0;
    for (; b < SMALLEST_SHAPE; b += 1.0) {
        double one = 0.5 * log1p(s / b * (s / b)), angle = atan2(s, b);
        less += one;
        turn += angle;
        parts += one + angle;
    }
    gamma_ratio(b, s, real, imaginary, size);
    *real += less;
    *imaginary -= turn;
    if (b > a) {
        *imaginary += s * log(b / a);
        *size += parts + s * (log(b / a) + 1.0);
    }
}

/* log of a bound on |V(theta + i tau)| / V(theta) for every tau >= T, from log V(theta): by a line off the axis of Z, and
 * e^{-x} <= 1 - x + x^2 / 2 (S-45). */
static double log_fall(const allocation *of, double theta, double log_first, double last)
{
    static const double HEIGHTS[] = {0.5, 0.65, 0.8, 0.9, 1.0, 1.1, 1.3, 1.6, 2.0};
    double s = of->shift, unit = exp(of->log_probability) / of->places, best = 0.0;
    double one = unit * exp(log_normal_cdf(of->cut - s)), two = unit * unit * exp(s * s + log_normal_cdf(of->cut - 2.0 * s));
    double edge = exp(theta * allocation_jump(of, of->cut) - 0.5 * of->cut * of->cut);
    for (int i = 0; i < (int)(sizeof HEIGHTS / sizeof HEIGHTS[0]); i++) {
        /* The best rate is about M / E[L^2]: beyond the frequencies where it is a Gaussian's, the line stays lower. */
        double y = HEIGHTS[i] * smaller(last * s / of->places, one / (two * last * s));
        double rate = last * sin(s * y) - theta * cos(s * y);
        if (!(s * y < 1.5 && rate > 0.0))
            continue;
        double inside = -rate * one * (1.0 - 1e-12) + 0.5 * rate * rate * two * (1.0 + 1e-12) + 0.4 * y * edge;
        double level = of->places * (0.5 * y * y + log1p(inside)) - theta * expm1(of->log_probability) - log_first;
        best = smaller(best, level + 1e-9 * (1.0 + fabs(level) + fabs(log_first) + of->places * y * y) + 0.01);
    }
    return best;
}

/* log of a bound on the terms beyond tau = T, both ends, times e^{-gamma} (S-45). */
static double log_line_beyond(const line *of, double s, double gamma, double last)
{
    double a = of->shape, theta = of->theta, y = last / theta;
    double fall = last * (a * last - s * theta) / (theta * theta + last * last);
    if (!(fall > 2.0))
        return INFINITY;
    double level = -0.5 * a * log1p(y * y) + s * atan2(last, theta) - gamma;
    return of->log_fall + level + log(2.0 * last / (of->step * (fall - 1.0))) + 0.01 + 1e-9 * (a + s);
}

/* log of a bound on the aliases (S-45); `log_level` has log V + w log(w / (e theta')) of the tilts aside. */
static double log_line_aliases(const line *of, const double *log_level, double period)
{
    double left = INFINITY, right = INFINITY;
    for (int i = 0; i < ASIDES; i++) {
        double x = fabs(ASIDE[i] - 1.0) * of->theta * period * (1.0 - 1e-14), level = log_level[i] - x - log(-expm1(-x));
        if (ASIDE[i] < 1.0)
            left = smaller(left, level);
        else
            right = smaller(right, level);
    }
    return log_add(left, right) + 1e-9;
}

/* phi(s) e^{-is centre} times D(0), and a bound on the error of this (S-45). */
static void sum_line(const line *of, double s, double *real, double *imaginary, double *error)
{
    double gamma, turn, size, x = 0.0, y = 0.0, wrong = 0.0, a = of->shape, all = 0.0;
    turned_gamma(a, s, &gamma, &turn, &size);
    for (int j = 0; j < of->nodes; j++)
        for (int side = 1; side >= (j > 0 ? -1 : 1); side -= 2) {
            double angle = side * of->angle[j], exponent = of->log_term[j] + s * angle - gamma;
            if (exponent < LEFT_OUT)
                continue;
            double phase = side * of->phase[j] - s * of->log_distance[j] + turn, level = exp(exponent);
            x += level * cos(phase);
            y += level * sin(phase);
            all += level;
            wrong += level * (of->error[j] + U * 16.0 * (s * (of->angle[j] + of->log_distance[j])));
        }
    *real = x;
    *imaginary = y;
    double common = U * (60.0 + 40.0 * size + 2.0 * of->nodes + 16.0 * s * (fabs(of->centre) + 1.0));
    *error = 1.02 * (wrong + all * common) + of->nodes * 2.1 * exp(LEFT_OUT) +
             exp(log_line_beyond(of, s, gamma, of->step * (of->nodes - 1.0)));
}

/* The line for one tilt and all frequencies up to the one given. */
void add_line(workspace *space, const allocation *of, double c, double frequency, double log_tolerance,
              tilted_factor *factor)
{
    double a = c + 2.0, w = c + 1.0, jump = allocation_jump(of, of->cut), log_level[ASIDES], first, second, error;
    double farthest = smaller(4.01 * a, larger(FARTHEST_EXPONENT / jump, of->layered ? 0.0 : 1.01 * a));
    transform axis = transform_on_axis(space, of, farthest);
    line *one = allocate(space, sizeof(line));
    *one = (line){.shape = a, .theta = saddle_theta(&axis, a)};
    double theta = one->theta;
    if (!(theta < 0.99 * farthest))
        decline(space, ALIASES);
    for (int i = 0; i < ASIDES; i++)
        log_level[i] = ASIDE[i] * theta <= farthest ? log_moment_bound(&axis, w, ASIDE[i] * theta) : INFINITY;
    transform_slope(&axis, theta, &first, &second);
    double bound = log_moment_bound(&axis, w, theta), ratio = w * second / (first * first);
    double period = sqrt(60.0 / a), expected = bound - 0.5 * log1p(ratio);
    while (!(log_line_aliases(one, log_level, period) <= expected + log_tolerance - 1.0)) {
        period *= 1.05;
        if (!(period < 1e4))
            decline(space, ALIASES);
    }
    one->step = shortened(2.0 * PI / period);
    double gamma, turn, size, last = larger(1.05 * frequency, 4.0 * sqrt(a)) * theta / a;
    turned_gamma(a, frequency, &gamma, &turn, &size);
    double log_first, angle;
    transform_at(&axis, theta, 0.0, &log_first, &angle, &error);
    log_first -= error;
    one->log_fall = log_fall(of, theta, log_first, last);
    while (!(log_line_beyond(one, frequency, gamma, last) <= log_tolerance - 1.0 && log_line_beyond(one, 0.0, 0.0, last) <= log_tolerance - 1.0)) {
        last *= 1.03;
        if (!(last < MOST_ON_A_LINE * one->step))
            decline(space, NODES);
        one->log_fall = log_fall(of, theta, log_first, last);
    }
    double nodes = ceil(last / one->step) + 1.0;
    if (!(nodes <= MOST_ON_A_LINE))
        decline(space, NODES);
    one->nodes = (int)nodes;
    last = one->step * (nodes - 1.0);
    one->log_fall = log_fall(of, theta, log_first, last);
    transform off = transform_off_axis(space, of, theta, hypot(theta, last) * (1.0 + 1e-12), log_tolerance - 3.0);
    double **columns[] = {&one->log_term, &one->log_distance, &one->angle, &one->phase, &one->error};
    for (int i = 0; i < 5; i++)
        *columns[i] = doubles(space, one->nodes);
    spend(space, nodes * (8.0 * off.terms + 60.0 * off.nodes + 100.0));
    for (int j = 0; j < one->nodes; j++) {
        double tau = one->step * j, y = tau / theta, log_v, distance = 0.5 * log1p(y * y), turned = atan2(tau, theta);
        transform_at(&off, theta, tau, &log_v, &angle, &error);
        if (j == 0)
            log_first = log_v;
        if (!(error < 1e-3))
            decline(space, ROUNDED);
        one->log_term[j] = log_v - log_first - a * distance;
        one->log_distance[j] = distance;
        one->angle[j] = turned;
        one->phase[j] = angle - a * turned;
        one->error[j] = 1.01 * error + U * (16.0 * a * (distance + turned) + 8.0 * (fabs(log_v) + fabs(log_first) + fabs(angle)));
    }
    one->centre = log(a / theta);
    double real, imaginary, wrong, power = log_gamma_power(a, theta, &error);
    sum_line(one, 0.0, &real, &imaginary, &wrong);
    one->total = real;
    tilted_round *round = &factor->of;
    *round = (tilted_round){.tilt = c, .nodes = one->nodes, .centre = one->centre};
    round->log_moment = power + log_first + log(real * one->step / (2.0 * PI));
    one->alias = exp(log_line_aliases(one, log_level, 2.0 * PI / one->step * (1.0 - 1e-14)) - round->log_moment + 0.1);
    double relative = wrong / real + one->alias;
    if (!(relative < 1e-3))
        decline(space, ROUNDED);
    one->relative = 1.02 * relative;
    round->log_moment_error = one->relative + error + U * (60.0 + 8.0 * (fabs(power) + fabs(log_first)));
    round->variance = second / (first * first) / (1.0 + ratio);
    factor->line = one;
    factor->shape = a;
    factor->sign = 1.0;
    factor->mean = round->centre;
    factor->loss_variance = round->variance;
    if (of->log_probability == 0.0) { /* S-46 */
        double cut = of->cut, at_cut = log(2.0 * of->places / of->shift) - 0.5 * cut * cut - HALF_LOG_2PI;
        double by_power = theta * jump + bound, by_layer = w * log1p(jump) + larger(round->log_moment, 0.0); /* S-92 */
        factor->log_floor = at_cut + smaller(by_power, by_layer) + LOG_2 - round->log_moment + 0.1 + 1e-12 * cut * cut;
    }
}

/* phi(s) e^{-is centre} of a factor with a line, and a bound on its error. */
void sample_line(const tilted_factor *factor, double s, double *real, double *imaginary, double *error)
{
    const line *of = factor->line;
    double x, y, wrong;
    sum_line(of, s, &x, &y, &wrong);
    *real = x / of->total;
    *imaginary = y / of->total;
    *error = 1.02 * (wrong / of->total + of->alias + hypot(*real, *imaginary) * of->relative);
}

/* log of a bound on |phi| at every frequency beyond s: of one factor (S-35, S-46). */
double log_factor_decay(const tilted_factor *factor, double s)
{
    double plain = -s * s * factor->rate;
    return factor->line == NULL || factor->rate == 0.0 ? plain : smaller(log_add(plain, factor->log_floor - log(s)) + 1e-9, 0.0);
}
