/* delta of one allocation that the group leaves, where one large place decides: with lambda = r e^{i pi} on the negative axis,
 *
 *     delta = -(1 / pi) int_0^c e^{-ra} Im E[e^{-lambda X}] / r^2 dr,      a = e^eps,                               (S-84)
 *
 * but for e^{-ca} |E[e^{-lambda X}]| / (2c) at r = c. E[e^{-lambda X}] = (A - iB)^M, B from a parabola of its own (S-85). */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_ON_THE_AXIS 6000
#define LOG_GOAL -28.0
#define LOG_PLACE -48.0
#define LOG_PARABOLA -34.0
/* Moments in the bound on |phi| beside the axis. */
#define MOMENTS 12
/* The table holds from this part of the planned e^eps on. */
#define NEARER 0.88

/* log of the integral of the parabola's integrand over the line Im tau = 1 - m, or its tail beyond `from` (both sides) if that
 * is above 0 (S-85). */
static double log_parabola(double s, double mu, double q, double m, double from)
{
    double height = log(mu) + 2.0 * log(m) + q, narrow = mu - 2.0 / (m * m * s * s), best = INFINITY;
    if (!(height >= 0.0))
        return INFINITY;
    double level = mu * m * m - 0.5 * height * height / (s * s) - log(m);
    for (int i = 0; i < 2; i++) {
        double rate = i ? narrow : mu, lifted = level + (i ? 0.0 : 0.5 * PI * PI / (s * s));
        if (!(rate > 0.0))
            continue;
        best = smaller(best, lifted + (from > 0.0 ? -rate * from * from - log(rate * from) : 0.5 * log(PI / rate)));
    }
    return best + 1e-9 * (1.0 + fabs(best) + mu);
}

/* The crossing of the parabola: where e^x h(x) is least on the real axis; any is valid. */
static double crossing_of(double s, double q)
{
    double mu = 1.0;
    for (int i = 0; i < 60; i++)
        mu = larger((log(mu) + q) / (s * s), 1.0);
    return mu;
}

/* B = -Im phi(rho e^{i pi}) > 0 and a bound on its error (S-85); the error is INFINITY where there is none. */
double jump_of_place(double s, double rho, double *error)
{
    static const double STRIPS[] = {0.08, 0.12, 0.18, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75};
    double q = 0.5 * s * s - log(rho), mu = crossing_of(s, q), plain = log_parabola(s, mu, q, 1.0, 0.0);
    double step = 0.0, log_rule = INFINITY;
    for (int i = 0; i < (int)(sizeof STRIPS / sizeof STRIPS[0]); i++) {
        double d = STRIPS[i], size = log_add(log_parabola(s, mu, q, 1.0 + d, 0.0), log_parabola(s, mu, q, 1.0 - d, 0.0));
        double wide = 2.0 * PI * d / (size - plain - LOG_PARABOLA);
        if (size < INFINITY && wide > step) {
            step = wide;
            log_rule = size - 2.0 * PI * d / wide - log(-expm1(-2.0 * PI * d / wide));
        }
    }
    *error = INFINITY;
    if (!(step > 0.0 && isfinite(plain)))
        return 0.0;
    double last = step;
    while (log_parabola(s, mu, q, 1.0, last) > plain + LOG_PARABOLA)
        last += step;
    double total = 0.0, all = 0.0, wrong = 0.0, square = 2.0 * s * s, log_mu = log(mu);
    int nodes = (int)ceil(last / step);
    for (int j = 0; j <= nodes; j++) {
        double tau = step * j, y = 1.0 + tau * tau, real = log_mu + log1p(tau * tau) + q, turn = 2.0 * atan(tau);
        double exponent = mu * (1.0 - tau * tau) - (real * real - turn * turn) / square - plain;
        double phase = 2.0 * mu * tau - 2.0 * real * turn / square, level = (j > 0 ? 2.0 : 1.0) * exp(exponent) / y;
        total += level * (cos(phase) + tau * sin(phase));
        all += level * (1.0 + tau);
        double parts = mu * y + (real * real + turn * turn + (fabs(real) + turn) * (fabs(q) + fabs(log_mu) + 20.0)) / square;
        wrong += level * (1.0 + tau) * U * (100.0 + 16.0 * parts);
    }
    double scale = exp(plain) / (s * sqrt(2.0 * PI));
    double rule = exp(log_rule - plain) + exp(log_parabola(s, mu, q, 1.0, step * nodes) - plain);
    *error = scale * (1.01 * (step * (wrong + 2.0 * U * nodes * all) + rule) + 40.0 * U * step * all) + 1e-300;
    return scale * step * total;
}

/* log of a bound on |phi(rho e^{i alpha})|, |alpha - pi| or |alpha + pi| at most `turn`, from k moments (S-86). */
static double log_bound_by_moments(double s, double rho, double turn, int k)
{
    double reach = (0.5 * PI + turn) / s, sum = 0.0, term = 1.0;
    for (int i = 0; i < k; i++) {
        sum += term;
        term *= rho * exp(i * s * s) / (i + 1.0);
    }
    double last = log(term) + 0.5 * reach * reach, both = last < 600.0 ? log(sum + exp(last)) : INFINITY;
    return both + 1e-9 * (1.0 + fabs(both));
}

/* The best of them. */
static double log_place_bound(double s, double rho, double turn)
{
    double best = INFINITY;
    for (int k = 1; k <= MOMENTS; k++)
        best = smaller(best, log_bound_by_moments(s, rho, turn, k));
    return best;
}

/* log of a bound on the integrand at log r +- i turn, from k moments; convex in `turn` (S-86). */
double log_jumps_beside(const allocation *of, double a, double r, double turn, int k)
{
    double s = of->shift, rho = r / of->places, q = 0.5 * s * s - log(rho), mu = crossing_of(s, q), height = log(mu) + q;
    double around = PI + turn;
    if (!(height >= 0.0))
        return INFINITY;
    double jump = mu + 0.5 * log(PI / mu) - (height * height - around * around) / (2.0 * s * s) - log(s) - HALF_LOG_2PI;
    double bound = jump - r * a * cos(turn) + (of->places - 1.0) * log_bound_by_moments(s, rho, turn, k) - log(rho);
    return bound + 1e-9 * (1.0 + fabs(bound) + mu + r * a);
}

/* log of a bound on what the sum's end at log r costs, the strip being `turn` wide and the step `step` (S-86). */
static double log_end(const allocation *of, double a, double r, double turn, double step)
{
    double best = INFINITY;
    for (int k = 1; k <= MOMENTS; k++) {
        double beside = log_jumps_beside(of, a, r, turn, k) - 2.0 * PI * turn / step;
        best = smaller(best, larger(log_jumps_beside(of, a, r, 0.0, k), beside));
    }
    return best + log(2.0 * turn) + 1e-9;
}

/* log of a bound on the integral, or sum, of the integrand over all log r below one (S-86). */
double log_jumps_below(const allocation *of, double r, double turn)
{
    double s = of->shift, rho = r / of->places, v = -log(rho), around = PI + turn, middle = 0.5 * s * s;
    if (!(v > middle))
        return INFINITY;
    double level = 1.0 + 0.5 * log(PI) + around * around / (2.0 * s * s) + log_normal_cdf(-(v - middle) / s);
    return level + (of->places - 1.0) * log_place_bound(s, rho, turn) + 1e-9 * (1.0 + fabs(level));
}

/* log of a bound on the integral over a line: cells of log r, in each of which every factor is the larger of its ends. */
static double log_line_beside(const allocation *of, double a, double least, double most, double turn)
{
    int cells = (int)ceil(log(most / least) / 0.1);
    double width = log(most / least) / cells, s = of->shift, total = log_jumps_below(of, least, turn);
    for (int i = 0; i < cells; i++) {
        double low = least * exp(width * i), high = low * exp(width), rho = high / of->places;
        double q = 0.5 * s * s - log(low / of->places);
        double mu = crossing_of(s, q), height = log(mu) + q - width, around = PI + turn;
        if (!(height >= 0.0))
            return INFINITY;
        double jump = mu + 0.5 * log(PI / mu) - (height * height - around * around) / (2.0 * s * s) - log(s) - HALF_LOG_2PI;
        double level = jump - low * a * cos(turn) + (of->places - 1.0) * log_place_bound(s, rho, turn) - log(low / of->places);
        total = log_add(total, level + log(width) + 1e-9 * (1.0 + fabs(level) + mu + high * a));
    }
    return total;
}

/* |phi(r e^{i pi} / M)| and its angle, with bounds on their errors: of the logarithm, and of the angle. */
static int place_on_the_cut(const place_line *at, double r, double *log_modulus, double *angle, double *error,
                            double *angle_error)
{
    double rho = r / at->of->places, wrong, b = jump_of_place(at->of->shift, rho, &wrong);
    place_value here = place_at(at, r, PI);
    double a = 1.0 - here.psi, square = here.psi * here.psi - 2.0 * here.psi + b * b, modulus = hypot(a, b);
    int near = fabs(square) < 0.5;
    *log_modulus = near ? 0.5 * log1p(square) : log(modulus);
    *angle = atan2(b, a);
    *error = 1.02 * (here.psi_error + wrong) / modulus + 60.0 * U * (fabs(here.psi) + b) / modulus;
    *error += near ? 0.0 : 40.0 * U * (1.0 + fabs(*log_modulus));
    *angle_error = 1.02 * (wrong + (here.psi_error + 8.0 * U * fabs(a)) * b / modulus) / modulus + 20.0 * U * *angle;
    return here.psi_error < 0.01 * modulus && wrong < 0.01 * modulus;
}

/* log of the bound on what the axis up to r leaves (S-84). */
static double log_rest(double places, double log_place, double r, double a)
{
    return places * log_place - r * a - log(2.0 * r) + 1e-9 * (1.0 + places * fabs(log_place) + r * a);
}

/* For every epsilon at or beyond `found.nearest`; log_delta is what is expected. */
exponential_sum jumps_alone(workspace *space, const allocation *of, double epsilon, double log_delta)
{
    static const double TURNS[] = {0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.8, 0.95, 1.1};
    double s = of->shift, a = NEARER * exp(epsilon), goal = log_delta + LOG_GOAL, strip = smaller(0.35 * PI / s, 1.0);
    double log_modulus, angle, error, angle_error, most = 30.0 / a, level = INFINITY, least, before;
    exponential_sum found = {.of = of, .sign = 1.0, .cut = INFINITY, .nearest = log(a) + 1e-12};
    if (!(s >= 0.25 && a > 1.0))
        decline(space, TRUNCATION);
    place_line line = line_of_place(space, of, 0.5 * PI + s * strip * (1.0 + 1e-12), strip, -10.5, s + 10.5, LOG_PLACE);
    do { /* S-84 */
        most *= 1.15;
        before = level;
        if (!place_on_the_cut(&line, most, &log_modulus, &angle, &error, &angle_error))
            decline(space, TRUNCATION);
        level = log_rest(of->places, log_modulus + error, most, a);
        spend(space, 60.0 * line.points + 4000.0);
    } while (level > goal && level < before);
    if (!(level <= goal))
        decline(space, TRUNCATION);
    for (int i = 0; i < 12 && log_end(of, a, most, 0.3, 0.05) > goal; i++)
        most *= 1.1;
    if (!place_on_the_cut(&line, most, &log_modulus, &angle, &error, &angle_error))
        decline(space, TRUNCATION);
    level = log_rest(of->places, log_modulus + error, most, a);
    found.left_out = exp(level);
    for (least = 0.1 / a; !(log_jumps_below(of, least, 0.0) <= goal);)
        least *= 0.8;
    double step = 0.0, cost = INFINITY;
    for (int i = 0; i < (int)(sizeof TURNS / sizeof TURNS[0]); i++) {
        double size = log_line_beside(of, a, least, most, TURNS[i]) + LOG_2, wide = 2.0 * PI * TURNS[i] / (size - goal);
        if (!(size < INFINITY && wide > step))
            continue;
        double more = 2.0 * PI * TURNS[i] / wide;
        step = wide;
        cost = log_add(size - more - log(-expm1(-more)), log_end(of, a, most, TURNS[i], wide));
    }
    double nodes = ceil(log(most / least) / step);
    if (!(step > 0.0 && cost <= goal + 3.0 && nodes <= MOST_ON_THE_AXIS))
        decline(space, STEPS);
    found.left_out += (exp(cost) + exp(log_jumps_below(of, most * exp(-step * nodes), 0.0))) / PI * (1.0 + 1e-9);
    found.nodes = (int)nodes;
    double **columns[] = {&found.along, &found.across, &found.real, &found.imaginary, &found.error};
    for (int i = 0; i < 5; i++)
        *columns[i] = doubles(space, found.nodes);
    spend(space, found.nodes * (60.0 * line.points + 4000.0));
    for (int j = 0; j < found.nodes; j++) {
        double r = most * exp(-step * (j + 0.5));
        if (!place_on_the_cut(&line, r, &log_modulus, &angle, &error, &angle_error))
            decline(space, ROUNDED);
        double total = of->places * angle, exponent = of->places * log_modulus - r, size = step / PI * exp(exponent) / r;
        found.along[j] = r;
        found.across[j] = found.imaginary[j] = 0.0;
        found.real[j] = size * sin(total);
        double relative = of->places * error + U * (80.0 + 8.0 * of->places * fabs(log_modulus) + 140.0 * r);
        found.error[j] = 1.01 * size * (fabs(sin(total)) * relative + of->places * angle_error + 12.0 * U * total);
    }
    return found;
}
