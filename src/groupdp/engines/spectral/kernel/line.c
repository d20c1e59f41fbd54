/* The characteristic function of one branch by nodes on a line off the real axis (S-51, S-52).
 *
 *     G(c + is) = int phi chi A^{1+z} B^{-z} du over Im u = d
 *
 * For s >= 0 the modulus of the integrand is largest on the axis itself, but for what the tilt makes of it, and so is the
 * error of the trapezoid rule between the axis and Im u = 2 d: as few nodes serve high frequencies as low ones.
 */
#include "arithmetic.h"
#include "spectral.h"

/* Both sides' terms turn by at most this on Im u = 2 d: their logarithms are the principal ones. */
#define LARGEST_TURN (0.98 * PI)
/* The integrand may grow by e to this between the axis and Im u = 2 d; a quarter of it remains on the line itself, where
 * roundings count so much more. */
#define LARGEST_GROWTH 12.0
#define STRIPS 24
#define NARROWER 0.85
#define LARGEST_ERROR 5e-3
/* Weights below e to this, with exponents right to so much, are below e^-460, chi included (S-70). */
#define LOST_EXPONENT -600.0
#define MUCH 100.0
#define LOST 1e-199
/* The step of the sums for the normal tail, its nodes, and the real part from which no pole lies within the strip. */
#define TAIL_STEP 0.45
#define TAIL_NODES 16
#define BEYOND_POLES 6.5
#define TAIL_NEGLIGIBLE 7.5

static double growth_at(const branch *of, double strip)
{
    return 0.5 * stiffness_of(of) * strip * strip * (1.0 + 16.0 * U);
}

/* The line that allows the longest step, and the step, if that is shorter than the grid's; 0 if there is none. */
int plan_line(quadrature *grid, double tilt, double log_tolerance, double *low, double *high)
{
    const branch *of = grid->of;
    double strip = LARGEST_TURN / larger(largest_shift(&of->right), largest_shift(&of->left)), best = 0.0;
    strip = smaller(strip, sqrt(2.0 * LARGEST_GROWTH / stiffness_of(of)));
    strip_line axis = {.tilt = tilt};
    double size = log_sum_over(grid, &axis, 0, grid->cells.size, 0.0);
    for (int i = 0; i < STRIPS; i++, strip *= NARROWER) {
        strip_line line = line_at(of, tilt, strip, 0.0);
        double growth = growth_at(of, strip) + larger(log_over_line(grid, &line) - size, 0.0);
        double step = PI * strip / (2.0 + growth - log_tolerance);
        if (growth > LARGEST_GROWTH)
            continue;
        if (step < best)
            break;
        best = step;
        grid->line = 0.5 * strip;
    }
    if (!(best > 0.0))
        return 0;
    grid->step = smaller(grid->step, shortened(best));
    strip_line line = line_at(of, tilt, grid->line, 0.0);
    narrow_to(grid, &line, log_tolerance, low, high);
    return 1;
}

/* log of a bound on |trapezoid - G(c + is)| / G(c) for all s >= 0, with nodes on the line (S-51). */
double log_line_error(const quadrature *grid, double tilt, double log_moment)
{
    const branch *of = grid->of;
    double distance = grid->line, decay = 2.0 * PI * distance / grid->step * (1.0 - 8.0 * U);
    strip_line line = line_at(of, tilt, distance, 0.0), far = line_at(of, tilt, 2.0 * distance, 0.0);
    double growth = growth_at(of, 2.0 * distance), both = log_add(log_moment + 0.01, log_over_line(grid, &far) + growth);
    double value = both - decay - (decay < 40.0 ? log1p(-exp(-decay)) : 0.0);
    value = log_add(value, log_strip_tails(grid, &line) + growth_at(of, distance));
    if (of->thin.is_cut)
        value = log_add(value, log(2.0 * distance) + log_at_end(grid, &far) + growth);
    return value - log_moment + 0.7;
}

/* erfc(x + iy) / 2 for x, y >= 0: e^{-z^2} times a trapezoid sum over t of e^{-t^2} / (z^2 + t^2), and the residue at the
 * pole t = iz, with nodes at least a quarter of a step away from it. Returns a bound on the error (S-52). */
static double upper_tail(double x, double y, double *real, double *imaginary)
{
    double place = y / TAIL_STEP, offset = fabs(place - floor(place + 0.5)) < 0.25 ? 0.5 : 0.0;
    double sum_real = 0.0, sum_imaginary = 0.0, size = 0.0, modulus = hypot(x, y);
    for (int n = 0; n < TAIL_NODES; n++) {
        /* (z - it)(z + it) */
        double t = (n + offset) * TAIL_STEP, minus = y - t, plus = y + t;
        double a = x * x - minus * plus, b = x * (minus + plus), square = (x * x + minus * minus) * (x * x + plus * plus);
        double weight = (n == 0 && offset == 0.0 ? 1.0 : 2.0) * exp(-t * t) / square;
        sum_real += weight * a;
        sum_imaginary -= weight * b;
        size += weight * (x * x + fabs(minus) * plus + b);
    }
    /* times (step z / pi) e^{-z^2} / 2 */
    double factor = 0.5 * TAIL_STEP / PI * exp((y - x) * (y + x)), angle = -2.0 * x * y;
    double p = factor * (x * sum_real - y * sum_imaginary), q = factor * (x * sum_imaginary + y * sum_real);
    *real = p * cos(angle) - q * sin(angle);
    *imaginary = p * sin(angle) + q * cos(angle);
    double error = factor * modulus * (U * (360.0 + 24.0 * modulus * modulus) * size) + 1e-17 * (1.0 + modulus) * factor;
    if (x < BEYOND_POLES) { /* -1 / (e^w - 1), or 1 / (e^w + 1), w = 2 pi z / step */
        double sign = offset == 0.0 ? -1.0 : 1.0, turn = 2.0 * PI / TAIL_STEP * y, scale = exp(2.0 * PI / TAIL_STEP * x);
        double c = scale * cos(turn) + sign, s = scale * sin(turn), square = c * c + s * s;
        *real += sign * c / square;
        *imaginary -= sign * s / square;
        error += U * (60.0 + 120.0 * modulus) * (scale + 1.0) / square;
    }
    return error;
}

/* erfc(x + iy) / 2 for y >= 0, and a bound on its error. */
double normal_tail_off_axis(double x, double y, double *real, double *imaginary)
{
    if (x >= 0.0)
        return upper_tail(x, y, real, imaginary);
    *real = 1.0;
    *imaginary = 0.0;
    if (x < -TAIL_NEGLIGIBLE)
        return exp((y + x) * (y - x) + 1e-9);
    /* 1 - erfc(-z) / 2, -z = -x - iy */
    double error = upper_tail(-x, y, real, imaginary);
    *real = 1.0 - *real;
    return error + U * (1.0 + fabs(*real));
}

/* chi(u + id), and a bound on its error. With both edges ahead of u, the tails below them are subtracted. */
static double keep_off_axis(const thinning *thin, double u, double d, double *real, double *imaginary)
{
    double scale = 0.70710678118654752440 / thin->width, y = d * scale, x = (u - thin->edge) * scale;
    double a, b, below, error, rate;
    if (!thin->has_lower) {
        error = normal_tail_off_axis(x, y, real, imaginary);
    } else {
        below = (u - thin->lower) * scale;
        if (below < 0.0) { /* erfc(-z') - erfc(-z''), both conjugates */
            error = normal_tail_off_axis(-below, y, real, imaginary) + normal_tail_off_axis(-x, y, &a, &b);
            *imaginary = -*imaginary;
            b = -b;
        } else {
            error = normal_tail_off_axis(x, y, real, imaginary) + normal_tail_off_axis(below, y, &a, &b);
        }
        *real -= a;
        *imaginary -= b;
        error += 2.0 * U * (fabs(*real) + fabs(a) + fabs(*imaginary) + fabs(b));
        rate = exp((y + below) * (y - below));
        error += 8.0 * U * rate * (fabs(below) + y);
    }
    /* z itself is right to 6 U, and the tail changes at a rate of |e^{-z^2}| / sqrt(pi). */
    rate = exp((y + x) * (y - x));
    return error + 8.0 * U * rate * (fabs(x) + y);
}

/* log R(v + id) of one side, 0 <= m_i d < pi, and a bound on the error of both parts together. */
static double log_off_axis(const side *law, const double *less, const double *sine, double v, double d, double *real,
                           double *imaginary)
{
    double x = 0.0, y = 0.0, size = 0.0, doubt = 0.0;
    for (int i = 0; i < law->size; i++) {
        double m = law->shift[i], p = law->p[i], exponent = m * v - 0.5 * m * m;
        if (!(m > 0.0))
            continue;
        double more = expm1(exponent), factor = 1.0 + more, most = larger(factor, 1.0);
        x += p * (more + factor * less[i]); /* e^e cos(theta) - 1 */
        y += p * (factor * sine[i]);
        size += p * (fabs(more) + most * (sine[i] - less[i]));
        doubt += p * most * (10.0 * (m * fabs(v) + 0.5 * m * m) + 6.0 * m * d);
    }
    double square = x * x + y * y, error;
    if (square < 0.25) { /* R next to 1: from R - 1 */
        error = U * (doubt + (law->size + 32.0) * size);
        *real = 0.5 * log1p(2.0 * x + square);
        *imaginary = atan2(y, 1.0 + x);
        return 1.01 * error / hypot(1.0 + x, y) + U * (14.0 * (2.0 * fabs(x) + square) + 10.0 * (fabs(*real) + *imaginary));
    }
    double top = -INFINITY;
    for (int i = 0; i < law->size; i++)
        top = larger(top, law->shift[i] * v - 0.5 * law->shift[i] * law->shift[i]);
    x = y = size = doubt = 0.0;
    for (int i = 0; i < law->size; i++) {
        double m = law->shift[i], term = law->p[i] * exp(m * v - 0.5 * m * m - top);
        x += term * (1.0 + less[i]);
        y += term * sine[i];
        size += term;
        doubt += term * (10.0 * (m * fabs(v) + 0.5 * m * m) + 6.0 * m * d + 2.0 * fabs(top));
    }
    error = U * (doubt + (law->size + 40.0) * size);
    double modulus = hypot(x, y);
    *real = top + log(modulus);
    *imaginary = atan2(y, x);
    return 1.01 * error / modulus + U * (12.0 + 10.0 * (fabs(*real) + *imaginary + fabs(top)));
}

/* cos(m d) - 1 and sin(m d) of every shift. */
static double *turns_of(workspace *space, const side *law, double d)
{
    double *result = doubles(space, 2 * (size_t)law->size);
    for (int i = 0; i < law->size; i++) {
        double half = sin(0.5 * law->shift[i] * d);
        result[i] = -2.0 * half * half;
        result[law->size + i] = sin(law->shift[i] * d);
    }
    return result;
}

line_table tabulate_line(workspace *space, const quadrature *grid, double c, double log_moment)
{
    const branch *of = grid->of;
    int nodes = grid->table.nodes;
    double d = grid->line, log_step = log(grid->step), constant = log_step - HALF_LOG_2PI + 0.5 * d * d - log_moment;
    line_table line = {.weight = doubles(space, nodes), .weight_imaginary = doubles(space, nodes),
                       .loss = doubles(space, nodes), .loss_imaginary = doubles(space, nodes),
                       .weight_error = doubles(space, nodes), .loss_error = doubles(space, nodes)};
    double *right = turns_of(space, &of->right, d), *left = turns_of(space, &of->left, d);
    spend(space, 30.0 * nodes * (of->right.size + of->left.size + (of->thin.thinned ? 2.0 * TAIL_NODES : 0.0)));
    for (int j = 0; j < nodes; j++) {
        double u = grid->table.u[j], a = 0.0, a_turn = 0.0, b = 0.0, b_turn = 0.0, a_error = 0.0, b_error = 0.0;
        if (!is_zero(&of->right))
            a_error = log_off_axis(&of->right, right, right + of->right.size, u, d, &a, &a_turn);
        if (!is_zero(&of->left)) /* B(u + id) is the conjugate of R(-u + id) */
            b_error = log_off_axis(&of->left, left, left + of->left.size, -u, d, &b, &b_turn);
        double psi = a - b, psi_turn = a_turn + b_turn, size = fabs(psi) + psi_turn;
        double psi_error = a_error + b_error + 2.0 * U * size;
        double exponent = (constant - 0.5 * u * u) + (a + c * psi), turn = (a_turn + c * psi_turn) - u * d;
        double doubt = a_error + c * psi_error + U * (4.0 * fabs(log_step) + 32.0);
        doubt += 6.0 * U * (0.5 * u * u + 0.5 * d * d + fabs(u) * d + fabs(a) + a_turn + c * size + fabs(log_moment));
        line.loss[j] = psi;
        line.loss_imaginary[j] = psi_turn;
        line.loss_error[j] = psi_error;
        if (exponent < LOST_EXPONENT && doubt < MUCH) { /* S-70 */
            line.weight[j] = line.weight_imaginary[j] = 0.0;
            line.weight_error[j] = LOST;
            continue;
        }
        if (!(doubt <= LARGEST_ERROR))
            decline(space, ROUNDED);
        double modulus = exp(exponent), x = modulus * cos(turn), y = modulus * sin(turn), p = 1.0, q = 0.0, error = 0.0;
        if (of->thin.thinned)
            error = keep_off_axis(&of->thin, u, d, &p, &q);
        line.weight[j] = x * p - y * q;
        line.weight_imaginary[j] = x * q + y * p;
        line.weight_error[j] = 1.01 * modulus * ((doubt + 8.0 * U) * hypot(p, q) + error) + 1e-300;
    }
    return line;
}
