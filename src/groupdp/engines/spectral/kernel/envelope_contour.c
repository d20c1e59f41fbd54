/* delta of T rounds of one envelope by a sampled contour (S-112): with G = small + large,
 *
 *     delta(eps) = H(small^T) + H of what (small + large)^T - small^T is the transform of                          (order 1)
 *     delta(eps) = T small^{T-1} R(eps) + the same without the terms of first order in `large`, small the atom      (order 2)
 */
#include "arithmetic.h"
#include "envelope.h"

#define MOST_SERIES 60
#define BLOCK_OF_TURNS 64
/* Bounds are not below this share, and large losses have more of the moment, so that underflow is of no account. */
#define LEAST_SHARE 1e-290
#define LEAST_LARGE 1e-120
/* The rule's errors, and the largest exponent's rounding, may be this share of a moment. */
#define LOG_RULE -43.0
#define LOG_ROUGH_RULE -16.0

double binomial_rest(double g, double f, double times, int order)
{
    if (times < order)
        return 0.0;
    if (!(f > 0.0))
        return order == 0 ? pow(g, times) : 0.0;
    double ratio = f / g;
    if (order == 0 || !(ratio * times < 0.5)) {
        double whole = pow(g + f, times);
        if (order > 0)
            whole -= pow(g, times);
        if (order > 1)
            whole -= times * pow(g, times - 1.0) * f;
        return larger(whole, 0.0);
    }
    double term = 1.0, total = 0.0;
    for (int j = 1; j <= MOST_SERIES && j <= times; j++) {
        term *= ratio * (times - j + 1.0) / j;
        if (j >= order)
            total += term;
    }
    return pow(g, times) * total;
}

double log_kappa_of(double c) { return c > 0.0 ? c * log(c) - (1.0 + c) * log1p(c) + 24.0 * U : 0.0; }

double log_rest_moment(double times, int order, double log_small, double log_large)
{
    double total = log_add(log_small, log_large);
    double rest = binomial_rest(exp(log_small - total), exp(log_large - total), times, order);
    return times * total + log(larger(rest, LEAST_SHARE)) + 1e-9;
}

typedef struct {
    double real, imaginary;
} complex_number;

static complex_number raised(double real, double imaginary, double times)
{
    double modulus = exp(times * log(hypot(real, imaginary))), angle = times * atan2(imaginary, real);
    if (!(modulus > 0.0))
        return (complex_number){0.0, 0.0};
    return (complex_number){modulus * cos(angle), modulus * sin(angle)};
}

static complex_number product(complex_number x, complex_number y)
{
    return (complex_number){x.real * y.real - x.imaginary * y.imaginary, x.real * y.imaginary + x.imaginary * y.real};
}

/* (g + f)^T less its terms of lower order in f, with a bound on what the errors of g and f and rounding do to it. */
static complex_number rest_of(complex_number g, complex_number f, double times, int order, double g_error, double f_error,
                              double *error)
{
    double g_size = hypot(g.real, g.imaginary), f_size = hypot(f.real, f.imaginary);
    double both = hypot(g.real + f.real, g.imaginary + f.imaginary), logs = times * (fabs(log(g_size)) + fabs(log(both)));
    double rounding = U * (60.0 * times + 100.0 + 20.0 * smaller(logs, 1500.0)); /* smaller powers than e^-745 are 0 */
    double g_most = g_size + g_error, f_most = f_size + f_error, moved = g_error + f_error;
    complex_number result = {0.0, 0.0};
    *error = times * (g_error * binomial_rest(g_most, f_most, times - 1.0, order) +
                      f_error * binomial_rest(g_most, f_most, times - 1.0, order - 1));
    if (g_size > 0.0 && f_size / g_size * times < 0.5) {
        double square = g_size * g_size;
        complex_number ratio = {(f.real * g.real + f.imaginary * g.imaginary) / square,
                                (f.imaginary * g.real - f.real * g.imaginary) / square}, term = {1.0, 0.0};
        for (int j = 1; j <= MOST_SERIES && j <= times; j++) {
            term = product(term, ratio);
            term.real *= (times - j + 1.0) / j;
            term.imaginary *= (times - j + 1.0) / j;
            if (j >= order) {
                result.real += term.real;
                result.imaginary += term.imaginary;
            }
        }
        *error += rounding * binomial_rest(g_size, f_size, times, order);
        result = product(raised(g.real, g.imaginary, times), result);
    } else {
        complex_number whole = raised(g.real + f.real, g.imaginary + f.imaginary, times), small = raised(g.real, g.imaginary, times);
        double sizes = pow(both, times) + pow(g_size, times), errors = pow(both + moved, times - 1.0) * moved;
        errors += pow(g_most, times - 1.0) * g_error;
        result = (complex_number){whole.real - small.real, whole.imaginary - small.imaginary};
        if (order > 1) {
            complex_number first = product(raised(g.real, g.imaginary, times - 1.0), f);
            result.real -= times * first.real;
            result.imaginary -= times * first.imaginary;
            sizes += times * pow(g_size, times - 1.0) * f_size;
            errors += pow(g_most, times - 1.0) * f_error + (times - 1.0) * pow(g_most, times - 2.0) * f_most * g_error;
        }
        *error = smaller(*error, times * errors) + rounding * sizes;
    }
    return result;
}

/* What may be wrong with sums over the nodes, as a share of the sum, and the same for each unit of |z| + 1. */
typedef struct {
    double once, by_frequency;
} share;

static void rounding_of(const envelope_table *at, double c, double log_small, double log_large, share *small, share *large)
{
    *small = *large = (share){2.0 * SUMMED + at->weight_error, 0.0};
    for (int n = 0; n < at->points; n++) {
        double above = at->log_mass[n] + (1.0 + c) * at->loss[n], below = at->log_mass[n] - c * at->loss[n];
        double size = U * (8.0 * (fabs(at->log_mass[n]) + (1.0 + c) * at->loss[n]) + 40.0);
        double of_large = at->large[n] * exp(above - log_large), of_small = at->small[n] * exp(above - log_small);
        if (at->at.last > 0.0)
            of_small += exp(below - log_small);
        else
            of_large += exp(below - log_large);
        large->once += of_large * size;
        large->by_frequency += 1.01 * of_large * at->doubt[n];
        small->once += of_small * size;
        small->by_frequency += 1.01 * of_small * at->doubt[n];
    }
}

static double largest_doubt(const envelope_table *at)
{
    double largest = 0.0;
    for (int n = 0; n < at->points; n++)
        largest = larger(largest, at->doubt[n]);
    return largest;
}

/* Upper bounds on the moments at a tilt, with everything they may be wrong by. */
static void most_moments(const envelope_table *at, double c, double *log_small, double *log_large)
{
    double small_error, large_error, room = 1e-9 + (1.0 + c) * largest_doubt(at) + at->weight_error;
    envelope_moments(at, c, log_small, log_large);
    rule_errors(at, c, 0.0, &small_error, &large_error);
    double split = log_split(at, PARTLY_SMALL, c), beyond = log_split(at, PARTLY_BEYOND, c);
    *log_small = (at->at.last > 0.0 ? log_add(*log_small, log_add(small_error, split)) : *log_small) + room;
    *log_large = log_add(*log_large, log_add(large_error, log_add(split, beyond))) + room;
}

static const double FOR_THE_REST[] = {1.2, 1.6, 2.2, 3.0, 5.0, 9.0};

static void bound_asides(const envelope_table *at, const envelope_plan *plan, envelope_contour *to)
{
    double log_small, log_large, goal = plan->log_delta - 40.0;
    most_moments(at, 0.0, &log_small, &log_large);
    to->log_whole = smaller(log_rest_moment(to->times, to->order, log_small, log_large), 0.0);
    for (int i = 0; i < 2; i++) {
        double c = to->aside[i] = plan->aside[i];
        if (!(c > 0.0))
            continue;
        most_moments(at, c, &log_small, &log_large);
        to->log_aside[i] = log_kappa_of(c) + log_rest_moment(to->times, to->order, log_small, log_large);
    }
    to->log_rest = -INFINITY;
    to->rest_from = to->order == 1 ? plan->rest_from : 0.0;
    if (to->order == 2 || to->times * at->at.last * (1.0 + 1e-7) <= plan->rest_from)
        return;
    to->log_rest = INFINITY;
    for (int i = 0; i < (int)(sizeof FOR_THE_REST / sizeof FOR_THE_REST[0]) && to->log_rest > goal; i++) {
        double c = to->tilt * FOR_THE_REST[i];
        most_moments(at, c, &log_small, &log_large);
        to->log_rest = smaller(to->log_rest, log_kappa_of(c) + to->times * log_small - c * plan->rest_from + 1e-9);
    }
}

/* Outcomes that are not on the contour: P(D) and Q(D), D that some round has one (and, where rounds with one loss other than 0
 * are in closed form, another such round). */
static void bound_beyond(const envelope_table *at, const envelope_plan *plan, envelope_contour *to)
{
    double log_p, log_q, once = 0.0;
    masses_beyond(at, &log_p, &log_q);
    if (!(at->at.near < INFINITY))
        return;
    double eta = exp(log_p), zeta = exp(log_q), relative = 4.0 * SUMMED + at->weight_error + 2.0 * largest_doubt(at) + 20.0 * U * to->times + 1e-12;
    if (to->order == 2)
        once = to->times * pow(to->of->atom, to->times - 1.0);
    double of_power = once * U * (100.0 + 20.0 * to->times * (1.0 - log(to->of->atom))); /* what the atom's power is wrong by */
    to->p_beyond = -expm1(to->times * log1p(-eta)) - once * eta;
    to->q_beyond = -expm1(to->times * log1p(-zeta)) - once * zeta;
    to->p_error = to->times * (exp(log_beyond_error(at, 0)) + exp(log_split(at, PARTLY_BEYOND, 0.0)) + relative * eta) + of_power * eta;
    to->q_error = to->times * (exp(log_beyond_error(at, 1)) + exp(log_split(at, PARTLY_BEYOND, -1.0)) + relative * zeta) + of_power * zeta;
    double log_small, log_large, log_delta_there = 0.0;
    for (int i = 0; i < 3; i++) {
        double c = to->tilt * (0.6 + 0.25 * i);
        most_moments(at, c, &log_small, &log_large);
        double level = log_kappa_of(c) + to->times * larger(log_add(log_small, log_large), 0.0) - c * (at->at.near - 1.02 * plan->epsilon);
        log_delta_there = smaller(log_delta_there, level + 1e-9);
    }
    to->rest_beyond = smaller(exp(log_delta_there) + exp(to->log_lost) + to->times * eta + to->p_error, 1.0) * to->times * zeta * (1.0 + 1e-6);
    to->rest_beyond += to->q_error;
    to->until = 1.02 * plan->epsilon;
}

envelope_contour contour_of_envelope(workspace *space, const envelope *of, double times, const envelope_plan *plan)
{
    envelope_contour path = {.of = of, .times = times, .tilt = plan->tilt, .order = plan->order, .log_lost = of->log_lost, .until = INFINITY};
    path.step = 2.0 * PI / plan->period;
    path.period = plan->period;
    path.samples = plan->samples;
    double reach = path.step * plan->samples, c = path.tilt, log_small, log_large, small_rule, large_rule;
    double goal = plan->roughly ? LOG_ROUGH_RULE : LOG_RULE;
    envelope_table at = tabulate_envelope(space, of, plan->at, c, reach, (rule_goals){plan->log_small + goal, plan->log_large + goal, plan->log_beyond + goal});
    path.nodes = at.points;
    envelope_moments(&at, c, &log_small, &log_large);
    rule_errors(&at, c, reach, &small_rule, &large_rule);
    double total = log_add(log_small, log_large), top = 0.0;
    share small_rounding, large_rounding;
    rounding_of(&at, c, log_small, log_large, &small_rounding, &large_rounding);
    path.log_scale = times * total;
    path.scale_error = 8.0 * U * (1.0 + fabs(path.log_scale));
    bound_asides(&at, plan, &path);
    int n = 2 * at.points, points = at.points;
    for (int i = 0; i < at.panels; i++)
        top = larger(top, at.panel[i].loss_high);
    double *position = doubles(space, n), *large = doubles(space, n), *small = doubles(space, n);
    for (int i = 0; i < points; i++) {
        double above = exp(at.log_mass[i] + (1.0 + c) * at.loss[i] - total), below = exp(at.log_mass[i] - c * at.loss[i] - total);
        position[i] = at.loss[i] / plan->period;
        position[points + i] = -at.loss[i] / plan->period;
        large[i] = at.large[i] * above;
        small[i] = at.small[i] * above;
        large[points + i] = at.at.last > 0.0 ? 0.0 : below;
        small[points + i] = at.at.last > 0.0 ? below : 0.0;
    }
    double f_whole = exp(log_large - total), g_whole = exp(log_small - total), atom = exp(log(of->atom) - total);
    double f_rule = exp(large_rule - total), g_rule = at.at.last > 0.0 ? exp(small_rule - total) : 0.0;
    double split = exp(log_split(&at, PARTLY_SMALL, c) - total);
    f_rule += split + exp(log_split(&at, PARTLY_BEYOND, c) - total);
    g_rule += at.at.last > 0.0 ? split : 0.0;
    double placed = U * (4.0 * top + 2.0 * plan->period), unit = f_whole / larger(g_whole, 1e-300);
    if (!(f_whole > LEAST_LARGE))
        decline(space, ROUNDED);
    for (int i = 0; i < n; i++)
        small[i] *= unit; /* alike, for the rounding of their common transform */
    double *f_real = doubles(space, 4 * ((size_t)path.samples + 1)), *f_turned = f_real + path.samples + 1;
    double *g_real = f_turned + path.samples + 1, *g_turned = g_real + path.samples + 1;
    double transform_error = 2.0 * exponential_sums(space, n, position, large, small, path.samples, f_real, f_turned, g_real, g_turned);
    path.real = doubles(space, path.samples + 1);
    path.imaginary = doubles(space, path.samples + 1);
    for (int j = 0; j <= path.samples; j++) {
        double s = j * path.step, error, far = 2.0 + c + s, weight = (j == 0 ? 1.0 : 2.0) / plan->period;
        complex_number g = {g_real[j] / unit + atom, g_turned[j] / unit}, f = {f_real[j], f_turned[j]};
        double f_error = f_whole * (large_rounding.once + far * (large_rounding.by_frequency + placed) + transform_error) + f_rule;
        double g_error = at.at.last > 0.0 ? g_whole * (small_rounding.once + far * (small_rounding.by_frequency + placed) + transform_error) + g_rule : atom * 60.0 * U * (1.0 + fabs(total));
        complex_number rest = rest_of(g, f, times, plan->order, g_error, f_error, &error);
        double x = c + (c * c - s * s), y = s * (1.0 + 2.0 * c), square = x * x + y * y, size = weight / sqrt(square);
        complex_number turned = product(rest, (complex_number){weight * x / square, -weight * y / square});
        path.real[j] = turned.real;
        path.imaginary[j] = turned.imaginary;
        double modulus = size * hypot(rest.real, rest.imaginary);
        path.error += size * error;
        path.moduli += modulus;
        path.moduli_by_frequency += modulus * s;
    }
    path.most = times * top * (1.0 + 1e-9);
    envelope_decay fall = decay_of(&at, c);
    bound_beyond(&at, plan, &path);
    double f_beyond = smaller(f_whole + f_rule, exp(fall.log_scale - total) * decayed(&fall, reach)) * 1.001;
    path.log_truncation = log(larger(binomial_rest(g_whole * (1.0 + 1e-9) + g_rule, f_beyond, times, plan->order), LEAST_SHARE) / (PI * reach)) + 1e-9;
    return path;
}

/* log of a bound on the aliases at eps + m Y, m other than 0. */
static double log_aliases(const envelope_contour *from, double epsilon)
{
    double left = from->log_whole - log(expm1(smaller(from->tilt * from->period, 700.0))), right = -INFINITY;
    if (from->aside[0] > 0.0)
        left = smaller(left, from->log_aside[0] - from->aside[0] * epsilon -
                                 log(expm1(smaller((from->tilt - from->aside[0]) * from->period, 700.0))));
    if (epsilon + from->period <= from->most)
        right = from->log_aside[1] - from->aside[1] * epsilon -
                log(expm1(smaller((from->aside[1] - from->tilt) * from->period, 700.0)));
    return log_add(left, right) + 1e-9;
}

void delta_of_envelope(const envelope_contour *from, double epsilon, double *value, double *lower, double *upper, double *rate)
{
    double turn_real[BLOCK_OF_TURNS], turn_imaginary[BLOCK_OF_TURNS], sum = 0.0, slope = 0.0, lost = 0.0;
    for (int i = 0; i < BLOCK_OF_TURNS; i++) {
        turn_real[i] = cos(i * from->step * epsilon);
        turn_imaginary[i] = sin(i * from->step * epsilon);
    }
    for (int start = 0; start <= from->samples; start += BLOCK_OF_TURNS) {
        double angle = start * from->step * epsilon, cosine = cos(angle), sine = sin(angle), part = 0.0;
        for (int i = 0; i < BLOCK_OF_TURNS && start + i <= from->samples; i++) {
            double x = cosine * turn_real[i] - sine * turn_imaginary[i], y = cosine * turn_imaginary[i] + sine * turn_real[i];
            double a = from->real[start + i], b = from->imaginary[start + i];
            part += a * x + b * y;
            slope += (start + i) * (a * y - b * x);
        }
        add_compensated(&sum, &lost, part);
    }
    sum += lost;
    double scale = exp(from->log_scale - from->tilt * epsilon), room = from->scale_error + U * (40.0 + 8.0 * (fabs(from->log_scale) + from->tilt * epsilon));
    double wrong = scale * (from->error + from->moduli * 200.0 * U + from->moduli_by_frequency * 8.0 * U * epsilon) * 1.001;
    wrong += scale * fabs(sum) * room + exp(from->log_scale - from->tilt * epsilon + from->log_truncation);
    double one = 0.0, one_error = 0.0, one_rate = 0.0, alias = exp(log_aliases(from, epsilon));
    *rate = scale * (from->tilt * sum + from->step * slope);
    if (from->order == 2) {
        double ways = from->times * pow(from->of->atom, from->times - 1.0);
        one = ways * one_envelope_round(from->of, epsilon, &one_error, &one_rate);
        one_error = ways * one_error + one * U * (100.0 + 20.0 * from->times * (1.0 - log(from->of->atom)));
        *rate += ways * one_rate;
    }
    double factor = from->until < INFINITY ? exp(epsilon) : 0.0, beyond = larger(from->p_beyond - factor * from->q_beyond, 0.0);
    double beyond_error = from->p_error + factor * from->q_error;
    *rate += factor * from->q_beyond;
    *value = scale * sum + one + beyond;
    *rate /= *value;
    *lower = (*value - wrong - one_error - beyond_error - alias) * (1.0 - 8.0 * U);
    *upper = INFINITY;
    if (epsilon >= from->rest_from && epsilon <= from->until)
        *upper = (*value + wrong + one_error + beyond_error + factor * from->rest_beyond + exp(from->log_rest) + exp(from->log_lost)) * (1.0 + 8.0 * U);
    if (!(epsilon > 0.0))
        *lower = -INFINITY;
}
