/* The law of one allocation in which everybody takes part, of a group that joins, as its hockey stick H(l) = E[(1 - e^l X)_+] on
 * nodes of the loss l: with Y lognormal, of mean 1 and log-variance t^2 = s^2 / M, and K its hockey stick,
 *
 *     G(1 + z) = e^{z (1 + z) t^2 / 2} + z (1 + z) sum_j h e^{z l_j} (H(l_j) - K(l_j))                                (S-95)
 *
 * but for bounded errors, for every tilt and frequency at once. H comes from lines (S-81), whose errors are known. */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_ON_A_CURVE 6000
/* Tables of p_n are short for fewer places to each round, and for smaller tilts; no effect on validity. */
#define LEAST_PLACES 1200.0
#define LEAST_TILT 15.0
/* Of the step, in units of 1 / t, and what the ends may cost, as a logarithm; no effect on validity. */
#define DECAYED 7.9
#define LOG_ENDS -33.0
/* The tilt of the line for losses next to 0 and below, relative to the saddle of the loss 0; and the lines for larger losses. */
#define LOW_LINE 0.3
#define LINES_OF_A_CURVE 4
#define MOST_CELLS 2000
#define BOUNDED 40
#define LOG_PLACE -44.0

/* The hockey stick of Y, and a bound on its rounding error. */
static double of_lognormal(double t, double l, double *error)
{
    double u = -l / t + 0.5 * t, log_p = log_normal_cdf(u), log_q = log_normal_cdf(u - t), p = exp(log_p), q = exp(l + log_q);
    *error = U * ((40.0 + 20.0 * fabs(log_p) + 8.0 * (u * u + 1.0)) * p + (40.0 + 20.0 * fabs(log_q) + 8.0 * (u * u + t * t + 1.0)) * q);
    return p - q;
}

/* log of a bound on E[(X - a)_+] (S-96). */
double log_call(const allocation *of, double a)
{
    static const double SHARES[] = {0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0}, PULLS[] = {1.0, 3.0, 6.0, 10.0, 16.0, 25.0, 40.0, 60.0};
    double s = of->shift, half_square = 0.5 * exp(s * s) / of->places, best = 0.0, gap = a - 1.0;
    for (int i = 0; gap > 0.0 && i < (int)(sizeof SHARES / sizeof SHARES[0]); i++) {
        double x = SHARES[i] * gap, z = (log(x) + log(of->places)) / s + 0.5 * s, rest = INFINITY;
        double some = log_add(log_normal_cdf(s - z), log(of->places) + log_normal_cdf(-z));
        for (int j = 0; j < (int)(sizeof PULLS / sizeof PULLS[0]); j++) {
            double theta = PULLS[j] / gap, grown = theta * theta * half_square * exp(smaller(theta * x, 700.0));
            rest = smaller(rest, grown - PULLS[j] - 1.0 - log(theta));
        }
        best = smaller(best, log_add(some, rest) + 1e-9 * (1.0 + z * z));
    }
    return best;
}

/* Tilts, and logarithms of bounds on E[e^{-c X}] / (e c). */
typedef struct {
    double tilt[BOUNDED], level[BOUNDED];
} pulls;

static pulls pulls_of(workspace *space, const allocation *of)
{
    pulls found;
    double s = of->shift, strip = smaller(1.2, PI / (4.0 * s)), c = 0.5, turn, error;
    place_line line = line_of_place(space, of, s * strip, strip, -14.0, s + 10.0, LOG_PLACE);
    spend(space, 60.0 * BOUNDED * line.points);
    for (int i = 0; i < BOUNDED; i++, c *= 1.4) {
        found.tilt[i] = c;
        log_place_at(&line, c, 0.0, &found.level[i], &turn, &error);
        found.level[i] = error < 0.5 ? of->places * (found.level[i] + error) - 1.0 - log(c) + 1e-9 : INFINITY;
    }
    return found;
}

/* log of a bound on E[(b - X)_+] (S-81). */
static double log_put(const pulls *from, double b)
{
    double best = log(b);
    for (int i = 0; i < BOUNDED; i++)
        best = smaller(best, from->level[i] + from->tilt[i] * b);
    return best + 1e-9 * (1.0 + fabs(best));
}

/* log of a bound on the hockey stick of X; Y is X with the geometric mean of its places, and X is at least that (S-96). */
static double log_stick(const curve *at, const pulls *from, double l)
{
    double z = (l - 0.5 * at->of->shift * at->of->shift) / sqrt(at->square);
    return smaller(l + log_put(from, exp(-l)), log_normal_cdf(-z) + 1e-9 * (1.0 + z * z));
}

/* Cells of losses beyond the nodes, each with a bound on the sum over it at the tilt 0. */
static void cover_large_losses(workspace *space, curve *at, const pulls *from, double high)
{
    double l = high, half_square = 0.5 * at->of->shift * at->of->shift;
    at->high = high;
    at->cell_end = doubles(space, MOST_CELLS);
    at->cell_log = doubles(space, MOST_CELLS);
    for (at->cells = 0; at->cells < MOST_CELLS; at->cells++) {
        double level = log_stick(at, from, l), slope = (l - half_square) / at->square, z = slope * sqrt(at->square);
        double mean = log_normal_cdf(-z) + 1e-9 * (1.0 + z * z);
        double wide = larger(0.3, -0.5 * (level + at->most_tilt * l + 45.0)) / at->most_tilt;
        if (mean + at->most_tilt * l < -100.0 && slope > at->most_tilt + 2.0) { /* a geometric series from here on */
            at->cell_end[at->cells] = l;
            at->cell_log[at->cells++] = mean + log(at->step + 1.0);
            return;
        }
        at->cell_end[at->cells] = l + wide;
        at->cell_log[at->cells] = level + log(wide + at->step);
        l += wide;
    }
    decline(space, NODES);
}

/* log of a bound on what the losses beyond both ends add to the sum at a tilt (S-96). */
double log_curve_ends(const curve *at, double c)
{
    double total = at->log_low + c * at->low + log(at->step + 1.0 / c), t = sqrt(at->square), z = at->high / t - 0.5 * t;
    double gap = (z / t) * (1.0 - 1e-12) - c;
    for (int i = 0; i < at->cells; i++)
        total = log_add(total, at->cell_log[i] + c * at->cell_end[i]);
    if (!(gap > 0.0))
        return INFINITY;
    total = log_add(total, c * at->high + log_normal_cdf(-z) + log(at->step + 1.0 / gap));
    return total + 1e-9 * (1.0 + fabs(total) + z * z);
}

/* About the deviation of X. */
static double deviation_of(const allocation *of) { return sqrt(expm1(smaller(of->shift * of->shift, 600.0)) / of->places); }

/* The hockey stick at a loss, by all lines that are of use there, and not below (1 - e^l)_+ (S-96). */
static void bound_stick(const allocation *of, const exponential_sum *line, double l, double wide, double *least, double *most)
{
    double less = larger(-expm1(l), 0.0);
    sum_delta(&line[0], l, least, most);
    *least = larger(*least, less * (1.0 - 16.0 * U));
    if (l < 0.0)
        *most = smaller(*most, (less + exp(l + log_call(of, exp(-l)))) * (1.0 + 32.0 * U));
    for (int i = 1; i <= LINES_OF_A_CURVE && l > -2.0 * wide; i++) {
        double low, high;
        sum_delta(&line[i], l, &low, &high);
        *least = larger(*least, low);
        *most = smaller(*most, high);
    }
}

/* The curve for tilts up to the one given, and frequencies up to another; `typical` is a loss that matters. */
curve *curve_of(workspace *space, const allocation *of, double most_tilt, double frequency, double typical)
{
    curve *at = allocate(space, sizeof(curve));
    double t = of->shift / sqrt(of->places), wide = deviation_of(of), epsilon, nodes = 0.0;
    exponential_sum line[LINES_OF_A_CURVE + 1];
    if (!(of->log_probability == 0.0 && wide < 1.0))
        decline(space, NODES);
    pulls from = pulls_of(space, of);
    *at = (curve){.of = of, .square = t * t, .most_tilt = most_tilt};
    at->step = shortened(2.0 * PI / (frequency + DECAYED / t));
    for (int i = 0; i <= LINES_OF_A_CURVE; i++) { /* small X, at the tilts that they have */
        line[i] = joining_line(space, of, 1, 0.6 * i * typical, &epsilon, i > 0 ? 1.0 : LOW_LINE);
        nodes += line[i].nodes;
    }
    double goal = LOG_ENDS - log(most_tilt * (1.0 + most_tilt)), grown = 0.4 * most_tilt * most_tilt * wide * wide;
    for (at->low = -6.0 * wide; at->low > -40.0; at->low *= 1.1) {
        double other = at->low + log_normal_cdf(at->low / t + 0.5 * t);
        at->log_low = log_add(log_call(of, exp(-at->low)) + at->low, other) + 1e-9 * (1.0 + at->low * at->low / (t * t));
        if (at->log_low + 0.5 * most_tilt * at->low <= goal)
            break;
    }
    bookmark place = mark(space);
    for (double high = typical + 4.0 * wide; high < 50.0; high *= 1.05) {
        rewind_to(space, place);
        if (log_stick(at, &from, high) + most_tilt * high > goal + grown)
            continue;
        cover_large_losses(space, at, &from, high);
        if (log_curve_ends(at, most_tilt) <= goal + grown + 1.0)
            break;
    }
    at->first = floor(at->low / at->step);
    at->nodes = (int)smaller(ceil(at->high / at->step) - at->first + 1.0, MOST_ON_A_CURVE + 1.0);
    if (!(at->nodes <= MOST_ON_A_CURVE))
        decline(space, NODES);
    at->value = doubles(space, at->nodes);
    at->doubt = doubles(space, at->nodes);
    spend(space, at->nodes * 40.0 * nodes);
    for (int j = 0; j < at->nodes; j++) {
        double l = at->step * (at->first + j), least, most, wrong, other = of_lognormal(t, l, &wrong);
        bound_stick(of, line, l, wide, &least, &most);
        at->value[j] = at->step * (0.5 * (least + most) - other);
        at->doubt[j] = at->step * (0.5 * (most - least) + wrong) * 1.01 + 4.0 * U * fabs(at->value[j]);
    }
    return at;
}

/* z (1 + z) at z = c + is. */
static void twice(double c, double s, double *x, double *y)
{
    *x = c * (1.0 + c) - s * s;
    *y = s * (1.0 + 2.0 * c);
}

/* What the step adds to G at c + is, |s| up to a frequency, G and its like for Y together being `size` (S-95). */
static double of_step(const curve *at, double c, double s, double size)
{
    double beside = 2.0 * PI / at->step - s, exponent = 0.5 * beside * beside * at->square, x, y;
    twice(c, s, &x, &y);
    return exponent > 12.0 ? 2.2 * size * hypot(x, y) * exp(-exponent) / (beside * beside) : INFINITY;
}

/* One allocation under its tilted law; with weights, if samples are to be taken. */
tilted_factor tilt_curve(workspace *space, const curve *at, double c, int samples)
{
    double top = larger(c * at->step * at->first, c * at->step * (at->first + at->nodes - 1.0)), sum = 0.0, first = 0.0;
    double second = 0.0, doubt = 0.0, lost = 0.0, size = 0.0, half = 0.5 * at->square, twin = c * (1.0 + c);
    double *weight = samples ? doubles(space, at->nodes) : NULL;
    spend(space, 30.0 * at->nodes);
    top = smaller(top, 600.0);
    for (int j = 0; j < at->nodes; j++) {
        double l = at->step * (at->first + j), level = exp(c * l - top), term = level * at->value[j];
        add_compensated(&sum, &lost, term);
        first += l * term;
        second += l * l * term;
        size += fabs(term) * (60.0 + 8.0 * (fabs(c * l) + top));
        doubt += level * at->doubt[j];
        if (weight != NULL)
            weight[j] = term;
    }
    sum += lost;
    double other = exp(half * twin - top), whole = other + twin * sum, rounding = 16.0 * U * (half * twin + top + 4.0) * other;
    doubt = 1.01 * doubt + exp(log_curve_ends(at, c) - top) + U * size;
    double wrong = twin * doubt + rounding;
    wrong += of_step(at, c, 0.0, whole + wrong + 2.0 * other);
    double relative = wrong / whole;
    double slope = (1.0 + 2.0 * c) * (half * other + sum) + twin * first;
    double bend = at->square * other + half * half * (1.0 + 2.0 * c) * (1.0 + 2.0 * c) * other + 2.0 * sum +
                  2.0 * (1.0 + 2.0 * c) * first + twin * second;
    tilted_factor result = {.sign = 1.0, .curve = at};
    result.mean = slope / whole;
    result.loss_variance = larger(bend / whole - result.mean * result.mean, 0.01 * at->square);
    result.rate = half * (1.0 - 1e-14);
    tilted_round *round = &result.of;
    *round = (tilted_round){.tilt = c, .log_moment = top + log(whole), .centre = result.mean, .variance = result.loss_variance};
    round->log_moment_error = whole > 0.0 ? 1.01 * log1p(relative) + 16.0 * U * (1.0 + top) : INFINITY;
    if (samples) {
        if (!(relative < 1e-3))
            decline(space, ROUNDED);
        round->nodes = at->nodes;
        round->weight = weight;
        round->loss = doubles(space, at->nodes);
        for (int j = 0; j < at->nodes; j++) {
            weight[j] /= whole;
            round->loss[j] = at->step * (at->first + j);
        }
        round->constant_error = 1.02 * doubt / whole;
        result.log_total = log(other / whole);
        result.relative = relative;
    }
    return result;
}

/* log of the characteristic function on the contour's frequencies, without its centre; bounds on the error of that, and on the
 * logarithm of the modulus (S-97). */
void sample_curve(workspace *space, const tilted_factor *factor, const contour *path, double *real, double *imaginary,
                  double *log_error_of, double *log_largest)
{
    const curve *at = factor->curve;
    const tilted_round *of = &factor->of;
    double c = of->tilt, half = 0.5 * at->square, all = 0.0, distance = 0.0, square = 0.0, total = 0.0, lost = 0.0, sizes = 0.0;
    double share = exp(factor->log_total), n = at->nodes + 60.0;
    for (int i = 0; i < path->samples; i++)
        real[i] = imaginary[i] = 0.0;
    sample_nodes(space, of, path, real, imaginary);
    for (int j = 0; j < at->nodes; j++) {
        double size = fabs(of->weight[j]), away = fabs(of->loss[j] - of->centre);
        add_compensated(&total, &lost, of->weight[j]);
        all += size;
        distance += size * away;
        square += size * away * away;
        sizes += size * (fabs(of->loss[j]) + fabs(of->centre));
    }
    total += lost;
    for (int i = 0; i < path->samples; i++) {
        double s = path->frequency[i], x, y, d = real[i] + total, e = imaginary[i], turn, level, error;
        twice(c, s, &x, &y);
        level = share * exp(-half * s * s);
        turn = s * (half * (1.0 + 2.0 * c) - of->centre);
        double p = level * cos(turn) + (x * d - y * e), q = level * sin(turn) + (x * e + y * d), twin = hypot(x, y);
        error = U * (230.0 * s * distance + 3.0 * n * smaller(0.25 * s * s * square, 4.0 * all) + (100.0 + n) * all + 4.0 * s * sizes);
        error = twin * (error + of->constant_error + 20.0 * U * hypot(d, e));
        error += level * U * (80.0 + 16.0 * (half * (s * s + c * (1.0 + c))) + 8.0 * s * (half * (1.0 + 2.0 * c) + fabs(of->centre)));
        double modulus = hypot(p, q);
        error += of_step(at, c, s, 1.02 * (1.0 + share)) + modulus * (1.02 * factor->relative + 20.0 * U);
        double log_modulus = log(larger(modulus, 1e-15)), angle = atan2(q, p);
        if (modulus < 1e-15)
            error += 2e-15;
        double beside = error * exp(-log_modulus), rounding = 64.0 * U * (fabs(log_modulus) + fabs(angle));
        real[i] = log_modulus;
        imaginary[i] = angle;
        log_error_of[i] = rounding - log1p(-smaller(beside, 1.0 - 1e-12));
        log_largest[i] = smaller(log_modulus + rounding + log1p(beside) * (1.0 + ELEMENTARY), -s * s * factor->rate);
    }
}

/* Gives every allocation of a group that joins its curve; declined if there is none, or if tables are short. */
void attach_curves(workspace *space, prepared *problem, double log_delta)
{
    double root = sqrt(2.0 * larger(-log_delta, 0.0)), tilt = root / problem->deviation, rate = 0.0, places = 0.0, times = 0.0;
    int some = 0;
    for (int j = 0; j < problem->rounds; j++) {
        const allocation_law *law = problem->round[j].allocated;
        if (law == NULL || !law->reverse || law->products > 1)
            decline(space, NODES);
        rate += problem->round[j].count * allocation_mu(law, 0) * allocation_mu(law, 0);
        times += problem->round[j].count;
        places = larger(places, law->factor[0].places);
    }
    if (!(tilt >= LEAST_TILT && places >= LEAST_PLACES * times))
        decline(space, NODES);
    double frequency = sqrt(60.0 / larger(rate, 1e-300)), most_tilt = 1.3 * tilt + 5.0 / problem->deviation;
    for (int j = 0; j < problem->rounds; j++) {
        const allocation_law *whole = problem->round[j].allocated;
        allocation *factor = allocate(space, whole->factors * sizeof(allocation));
        allocation_law *law = allocate(space, sizeof(allocation_law));
        *law = *whole;
        law->factor = factor;
        for (int f = 0; f < whole->factors; f++) {
            factor[f] = whole->factor[f];
            if (is_gaussian(&factor[f]))
                continue;
            double own = deviation_of(&factor[f]);
            factor[f].curve = curve_of(space, &whole->factor[f], most_tilt, frequency, tilt * own * own);
            some = 1;
        }
        problem->round[j].allocated = law;
    }
    problem->curves = some;
    if (!some)
        decline(space, NODES);
}
