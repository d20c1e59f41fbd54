/* One allocation at high frequencies. On the ray lambda = e^{u - i theta} / cos theta
 *
 *     G(w + is) = n! / Gamma(a - is) cos(theta)^{is - a} e^{-(s + ia) theta} sum_j step e^{-(w + is) u_j} q_n(u_j),    (S-41)
 *
 * q_n being p_n with x turned: terms x^k e^{-x} e^{i x tan theta} / k!, no larger than those of p_n. With theta near
 * atan(s / a) what Gamma takes away the ray gives back, and n is of the order of s instead of its square. */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_RAYS 64
/* By how much a ray may exceed the best one's error, as a logarithm. */
#define OFF_THE_SADDLE 2.5
#define ANGLE_STEP 0.02
/* Exponents of coefficients are kept below this. */
#define LARGEST_EXPONENT 500.0
#define RAY_SUM 160.0

/* log of A(theta, s) = cos(theta)^{-a} e^{-s theta} |Gamma(a) / Gamma(a - is)|: what errors of the terms grow by. */
double log_ray_growth(double a, double s, double angle)
{
    double real, imaginary, size;
    gamma_ratio(a, s, &real, &imaginary, &size);
    return real - a * log(cos(angle)) - s * angle;
}

/* log of a bound on the error of the trapezoid rule along the ray: lines off it by beta are rays, too (S-41). */
double ray_step_error(double a, double s, double angle, double step)
{
    double best = INFINITY, room = 0.5 * PI - angle;
    for (double share = 0.05; share < 0.96; share += 0.05) {
        double beta = share * room, quotient = -2.0 * PI * beta / step;
        double growth = log_add(log_ray_growth(a, s, angle + beta), log_ray_growth(a, s, angle - beta));
        if (quotient < -1.0)
            best = smaller(best, growth + quotient + 0.5);
    }
    return best + 1e-9 * (1.0 + fabs(best));
}

/* log of a bound on the error of the trapezoid rule in Z, relative to the sum of the terms' sizes (S-30 on a ray). */
double ray_place_error(const allocation *of, double a, double angle, double step)
{
    double best = INFINITY, room = 0.5 * PI - angle;
    for (double share = 0.05; share < 0.96; share += 0.05) {
        double d = share * room / of->shift;
        double log_one = LOG_2 + 0.5 * d * d - 2.0 * PI * d / step + log(of->places) + 1e-9;
        if (log_one < -1.0)
            best = smaller(best, log_one + 1.3 - a * log(cos(angle + share * room) / cos(angle)));
    }
    return best;
}

/* The angle of the ray for frequencies from s on, and how far it serves. */
static void choose_angle(double a, double s, double *angle, double *end)
{
    double best = atan2(s, a), next = best;
    while (next < 0.5 * PI - 0.5 * a / (s + a) &&
           log_ray_growth(a, s, next) < log_ray_growth(a, s, best) + OFF_THE_SADDLE)
        next += ANGLE_STEP * (0.5 * PI - next);
    *angle = next;
    double last = larger(s, a * tan(next));
    for (double more = last; log_ray_growth(a, more, next) < log_ray_growth(a, more, atan2(more, a)) + OFF_THE_SADDLE;
         more *= 1.02)
        last = more;
    *end = last;
}

/* Steps in u and in Z, the latter dividing the former, and the ranges of both as for p_n. */
static void choose_steps(const allocation *of, double a, const ray *one, double log_tolerance, double *step, double *fine)
{
    double room = 0.5 * PI - one->angle, best = 0.0, place = 0.0;
    for (double share = 0.1; share < 0.96; share += 0.05) {
        double beta = share * room, need = -INFINITY, d = beta / of->shift;
        for (int end = 0; end < 2; end++)
            for (int side = -1; side <= 1; side += 2)
                need = larger(need, log_ray_growth(a, end ? one->end : one->start, one->angle + side * beta));
        best = larger(best, 2.0 * PI * beta / (3.0 - log_tolerance + larger(need, 0.0)));
        double lost = -a * log(cos(one->angle + beta) / cos(one->angle));
        place = larger(place, 2.0 * PI * d / (5.0 - log_tolerance + log(of->places) + 0.5 * d * d + lost));
    }
    *step = best;
    *fine = larger(ceil(best / (of->shift * smaller(place, 1.0))), 1.0);
}

/* sum over the window of weight times two sequences. */
WIDE static void windowed_pair(const double *weight, const double *x, const double *y, const window *at, double *real,
                               double *imaginary)
{
    int count = at->high - at->low + 1;
    *real = dot(weight + at->low, x + at->low, count);
    *imaginary = dot(weight + at->low, y + at->low, count);
}

/* log of a bound on p_m(rate), m <= n: Chernoff's for a Poisson variable, E[e^{-eta X}] <= e^{-eta + eta^2 v / 2} (S-42). */
static double log_likeliest(const allocation *of, int n, double rate)
{
    double v = exp(smaller(of->shift * of->shift, 600.0)) / of->places, eta = rate - n;
    if (!(eta > 0.0 && eta * v <= 1.0))
        return 0.0;
    double level = (n > 0 ? n * log(rate / n) : 0.0) - eta + 0.5 * eta * eta * v;
    return smaller(level + 1e-12 * (rate + n * fabs(log(rate))), 0.0);
}

/* e^{-w u} q_n(u) on all nodes, times e^{-top}, and the largest relative error of rounding (S-42). */
static void tabulate_turned(workspace *space, const allocation_table *table, ray *one, double w, const double *weight,
                            int places, int fine, double offset, int lowest)
{
    const allocation *of = table->of;
    int n = table->taylor, nodes = table->nodes, recurrent = n <= of->places + 1.0;
    double grain = table->step / fine, absent = -expm1(of->log_probability), slope = tan(one->angle);
    double all = (double)fine * (nodes - 1.0) + places;
    spend(space, (double)nodes * n * 200.0 + 6.0 * nodes * places + all * (0.75 * n + 200.0));
    spend(space, (double)nodes * n * n * (recurrent ? 3.0 : 4.0 * log2(of->places) + 4.0));
    int points = (int)all;
    double *weighted[6], *x = doubles(space, points), *f = doubles(space, points), *cosine = doubles(space, points);
    double *sine = doubles(space, points), *lost = doubles(space, points), *turned = doubles(space, points);
    double *sizes = doubles(space, points);
    for (int i = 0; i < points; i++) {
        x[i] = exp(grain * (fine * table->first + lowest + i) + offset);
        f[i] = exp(-x[i]);
        double turn = x[i] * slope, half = sin(0.5 * turn);
        cosine[i] = f[i] * cos(turn);
        sine[i] = f[i] * sin(turn);
        lost[i] = -expm1(-x[i]) + 2.0 * f[i] * half * half;
        turned[i] = sine[i];
        sizes[i] = hypot(lost[i], turned[i]);
    }
    window *at = allocate(space, nodes * sizeof(window));
    size_t row = (size_t)n + 1;
    for (int i = 0; i < 6; i++)
        weighted[i] = i < 2 ? doubles(space, nodes * row) : doubles(space, row);
    double *multiple = doubles(space, row), *log_size = doubles(space, nodes);
    double *phase = doubles(space, nodes);
    at[0] = (window){0, 0, 0};
    for (int j = 0; j < nodes; j++) {
        size_t from = (size_t)fine * j;
        weighted[0][j * row] = dot(weight, cosine + from, places);
        weighted[1][j * row] = dot(weight, sine + from, places);
    }
    for (int k = 1; k <= n; k++) {
        multiple[k] = (of->places + 1.0) * k;
        raise_power(f, x, k, points);
        raise_power(cosine, x, k, points);
        raise_power(sine, x, k, points);
        double terms = 0.0;
        for (int j = 0; j < nodes; j++) {
            size_t from = (size_t)fine * j;
            if (k == 1 && j > 0)
                at[j] = moved(&at[j - 1], fine);
            windowed(weight, f + from, places, &at[j]);
            windowed_pair(weight, cosine + from, sine + from, &at[j], &weighted[0][j * row + k],
                          &weighted[1][j * row + k]);
            terms += at[j].high - at[j].low + 1.0;
        }
        spend(space, larger(0.75 * terms - 200.0 * nodes, 0.0));
    }
    double top = -INFINITY, worst = 0.0, underflow = -INFINITY;
    for (int j = 0; j < nodes; j++) {
        size_t from = (size_t)fine * j;
        double u = table->step * (table->first + j), rate = exp(u), rho = absent * rate;
        double *real = weighted[2], *imaginary = weighted[3], *g = weighted[4], *h = weighted[5];
        double missing = dot(weight, lost + from, places), skew = dot(weight, turned + from, places), re, im, size;
        if (hypot(missing, skew) < 0.5) {
            re = 1.0 - missing;
            im = skew;
            size = dot(weight, sizes + from, places) / hypot(re, im);
            double both = missing * missing + skew * skew - 2.0 * missing;
            log_size[j] = 0.5 * log1p(both);
        } else {
            re = weighted[0][j * row];
            im = weighted[1][j * row];
            size = 1.0; /* relative to the sum of the terms' sizes */
            log_size[j] = log(hypot(re, im));
        }
        double square = re * re + im * im, angle = atan2(im, re), exponent = of->places * size;
        if (!(square > 1e-280))
            decline(space, ROUNDED);
        double log_none = log_size[j], large = of->places * fabs(log_none) + rho;
        int halvings = 0;
        for (; large * ldexp(1.0, -halvings) > LARGEST_EXPONENT; halvings++)
            ;
        if (!((double)halvings * n < 980.0))
            decline(space, ROUNDED);
        for (int k = 0; k <= n; k++) {
            double v = weighted[0][j * row + k], y = weighted[1][j * row + k];
            real[k] = ldexp((v * re + y * im) / square, -halvings * k);
            imaginary[k] = ldexp((y * re - v * im) / square, -halvings * k);
        }
        real[0] = 1.0;
        imaginary[0] = 0.0;
        double less = ldexp(rho, -halvings);
        if (recurrent)
            turned_recurrence(real, imaginary, multiple, n, less, g, h);
        else
            turned_squaring(space, real, imaginary, of->places, n, less, g, h);
        double modulus = hypot(g[0], h[0]), back = LOG_2 * halvings * n;
        if (!isfinite(modulus))
            decline(space, ROUNDED);
        log_size[j] = log(larger(modulus, 1e-300)) + back + of->places * log_size[j] - rho - w * u;
        phase[j] = atan2(h[0], g[0]) + of->places * angle + rho * slope;
        top = larger(top, log_size[j]);
        double powers = recurrent ? n * (2.0 * RAY_SUM + 160.0) : of->places * (2.0 * RAY_SUM + 300.0) + 300.0 * n;
        double rounding = powers + 2.0 * n + 2.2 * exponent * RAY_SUM + 60.0 * (rho / cos(one->angle) + n);
        rounding += 10.0 * (fabs(log_size[j]) + large + fabs(of->places * angle) + rho * slope + fabs(w * u) + back + 700.0);
        worst = larger(worst, 1.05 * rounding);
        double log_one = larger(LOG_2 * (halvings * n - 990.0), -LOG_2 * 1060.0 - log_none); /* of a coefficient */
        underflow = log_add(underflow, log_one - log_none - w * u + log_likeliest(of, n, rate));
    }
    one->log_underflow = underflow + 2.0 * log(n + 1.0) + log(of->places + 1.0) + log(table->step);
    one->top = top;
    one->rounding = worst;
    for (int j = 0; j < nodes; j++) {
        double level = table->step * exp(log_size[j] - top);
        one->u[j] = table->step * (table->first + j);
        one->real[j] = level * cos(phase[j]);
        one->imaginary[j] = level * sin(phase[j]);
    }
}

/* A ray with its nodes; log_total is log of the sum of e^{-w u} p_n(u) over the real axis, times the step. */
static void make_ray(workspace *space, const allocation *of, int n, double w, double log_moment, double log_total,
                     double log_tolerance, ray *one)
{
    double a = n - w, step, fine;
    choose_steps(of, a, one, log_tolerance, &step, &fine);
    allocation_table table = {.of = of, .taylor = n};
    int places, low;
    double *weight = place_weights(space, &table, step, fine, w, w, log_tolerance - 5.0, &places, &low);
    one->step = table.step;
    one->nodes = table.nodes;
    one->u = doubles(space, table.nodes);
    one->real = doubles(space, table.nodes);
    one->imaginary = doubles(space, table.nodes);
    bookmark here = mark(space);
    double offset = of->log_probability - log(of->places) - 0.5 * of->shift * of->shift;
    tabulate_turned(space, &table, one, w, weight, places, (int)fine, offset, -low);
    rewind_to(space, here);
    /* Relative to the sum of the terms' sizes, which is that of p_n (S-41, S-42). */
    double proved = ray_place_error(of, a, one->angle, table.place_step);
    proved = log_add(proved, allocation_range_error(&table, w, log_moment - 0.1));
    proved = log_add(proved, one->log_underflow - log_total);
    if (n > 0) /* where e^{-x} underflows, lambda X is large */
        proved = log_add(proved, log_rates_beyond(a, table.step, log(LARGEST_POINT), 0.0) + 1.0);
    double of_points = 1.1 * U * (table.point_rounding + 16.0) * (sqrt(w * w + a) + a * tan(one->angle));
    double farthest = larger(fabs(one->u[0]), fabs(one->u[table.nodes - 1]));
    one->error = 1.02 * (exp(proved) + U * (one->rounding + 400.0) + of_points);
    one->phase_error = 16.0 * U * (farthest + 1.0);
    if (!(one->error < 1e-4))
        decline(space, one->error < INFINITY && exp(proved) < 1e-4 ? ROUNDED : NODES);
}

/* Rays for all frequencies up to the one given. */
void add_rays(workspace *space, const allocation *of, int n, double w, double frequency, double log_tolerance,
              tilted_factor *factor)
{
    factor->log_total = factor->of.log_moment - log_factorial(n) + log_gamma(n - w);
    factor->ray = allocate(space, MOST_RAYS * sizeof(ray));
    double a = n - w;
    for (double s = 0.0; s <= frequency; factor->rays++) {
        if (factor->rays == MOST_RAYS)
            decline(space, NODES);
        ray *one = &factor->ray[factor->rays];
        *one = (ray){.start = s};
        choose_angle(a, s, &one->angle, &one->end);
        one->end = smaller(larger(one->end, 1.0001 * s + 1e-3 * a), 1.01 * frequency + 1e-3 * a);
        make_ray(space, of, n, w, factor->of.log_moment, factor->log_total, log_tolerance, one);
        s = one->end;
    }
}

/* phi(s) e^{-is centre} of a factor with rays, and a bound on its error (S-41, S-42). */
void sample_rays(workspace *space, const tilted_factor *factor, double s, double *real, double *imaginary, double *error)
{
    int i = 0;
    while (i + 1 < factor->rays && s > factor->ray[i].end)
        i++;
    const ray *one = &factor->ray[i];
    double a = factor->shape, gamma, turn, size, centre = factor->sign * factor->of.centre;
    bookmark here = mark(space);
    double *cosine = doubles(space, one->nodes), *sine = doubles(space, one->nodes);
    gamma_ratio(a, s, &gamma, &turn, &size);
    double log_cosine = log(cos(one->angle)), log_a = log(a);
    for (int j = 0; j < one->nodes; j++) {
        double angle = s * (one->u[j] - log_a - log_cosine + centre);
        cosine[j] = cos(angle);
        sine[j] = sin(angle);
    }
    double x = dot(one->real, cosine, one->nodes) + dot(one->imaginary, sine, one->nodes);
    double y = dot(one->imaginary, cosine, one->nodes) - dot(one->real, sine, one->nodes);
    rewind_to(space, here);
    double exponent = gamma - a * log_cosine - s * one->angle, level = exp(exponent + one->top - factor->log_total);
    double rest = turn - a * one->angle, growth = exp(exponent);
    *real = level * (x * cos(rest) - y * sin(rest));
    *imaginary = level * (x * sin(rest) + y * cos(rest));
    double phases = one->phase_error + 16.0 * U * (fabs(log_a) + fabs(log_cosine) + fabs(centre));
    double scale = U * (100.0 + 40.0 * size + 8.0 * (a * (fabs(log_cosine) + one->angle) + s * one->angle) +
                        8.0 * (fabs(one->top) + fabs(factor->log_total))) + factor->of.log_moment_error;
    *error = 1.05 * growth * (one->error + s * phases + scale) +
             1.02 * exp(ray_step_error(a, s, one->angle, one->step));
}
