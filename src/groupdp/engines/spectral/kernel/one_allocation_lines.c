/* delta of one allocation from the transform of X itself, on a line: of whole places where the group joins (S-81), and of cut
 * places where it leaves (S-82). */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_ON_ONE_LINE 1500
/* Tables of p_n take less time than longer ones of whole places. */
#define MOST_JOINING 1000
#define PULLS 32
/* A tilt whose terms are e^this of delta costs digits. */
#define LOG_WASTE 5.0
/* Errors relative to delta, and of a place's transform: the plan's, no effect on validity. */
#define LOG_GOAL -28.0
#define LOG_PLACE -44.0
/* Of theta x at the cut. */
#define LARGEST_AT_CUT 390.0

/* Tilts behind the aliases on the far side, as multiples of the line's. */
static const double ASIDE[] = {1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0};
#define ASIDES ((int)(sizeof ASIDE / sizeof ASIDE[0]))
/* Lines tried, as multiples of the saddle. */
static const double LOWER[] = {1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2};

/* sum_{m >= 1} (1 + m Y) e^{-m tilt Y}. */
static double first_aliases(double tilt, double period)
{
    double x = tilt * period * (1.0 - 1e-14), q = exp(-x), rest = -expm1(-x);
    return 1.01 * (q / rest + period * q / (rest * rest));
}

/* log of the bound on the aliases beyond, for w. */
double log_far_aliases(const exponential_sum *at, double w)
{
    double best = INFINITY;
    for (int i = 0; i < at->asides; i++) {
        double x = (at->aside[i] - at->tilt) * at->period * (1.0 - 1e-14), pull = at->aside[i] * w;
        double level = at->log_aside[i] - pull - x - log(-expm1(-x)) + 1e-9 + 16.0 * U * (fabs(pull) + fabs(at->log_aside[i]));
        best = smaller(best, level);
    }
    return best;
}

/* The shortest period at which no alias exceeds e^goal at w. */
static double shortest_period(exponential_sum *at, double w, double goal)
{
    for (at->period = 12.0 / at->tilt; at->period < 4e3 / at->tilt; at->period *= 1.06)
        if (log(first_aliases(at->tilt, at->period)) <= goal && log_far_aliases(at, w) <= goal)
            return at->period;
    return INFINITY;
}

/* log of a bound on |E[e^{-(c + it) X}]| for every t >= last, from the line Im Z = -y: at the cut the density times e^{-c x} is
 * e^`log_edge`, and x at least `jump` (S-81, S-82). */
double log_far_out(const place_line *at, double c, double last, double y, double log_edge, double jump)
{
    double s = at->of->shift, rate = c * cos(s * y) + last * sin(s * y);
    if (!(y > 0.0 && s * y <= 1.5 && rate > 0.0))
        return INFINITY;
    place_value there = place_at(at, rate * (1.0 - 1e-14), 0.0);
    double none = smaller(1.0 - there.psi + there.psi_error, there.phi + there.phi_error);
    none += smaller(y, 0.5 * PI / (last * jump * s)) * exp(log_edge) * 1.01;
    double level = at->of->places * (0.5 * y * y + log(none));
    return level + 1e-9 * (1.0 + fabs(level));
}

/* The frequency beyond which nothing matters: the truncation is then at most e^goal. */
static double farthest_frequency(const place_line *at, exponential_sum *found, double start, double log_total, double log_edge,
                                 double jump, double goal)
{
    double c = found->sign > 0.0 ? -found->tilt : found->tilt, s = at->of->shift, best = INFINITY;
    double y = smaller(start * s / at->of->places, 1.4 / s), square = found->tilt * found->tilt;
    for (int i = 1; i <= 14; i++) {
        double turn = 0.1 * i / s, level = log_far_out(at, c, start, turn, log_edge, jump);
        if (level < best) {
            best = level;
            y = turn;
        }
    }
    for (double last = start; last * found->period < 6.0 * MOST_ON_ONE_LINE; last *= 1.06) {
        double at_y = log_far_out(at, c, last, y, log_edge, jump), higher = log_far_out(at, c, last, 1.07 * y, log_edge, jump);
        double lower = log_far_out(at, c, last, 0.95 * y, log_edge, jump);
        y *= higher < at_y ? 1.07 : lower < at_y ? 0.95 : 1.0;
        double level = smaller(at_y, smaller(higher, lower)) - log_total + log(square * found->period / (PI * last));
        if (level <= goal) {
            found->truncation = exp(level + 1e-9);
            return last;
        }
    }
    return INFINITY;
}

/* Room for the coefficients. */
static void make_room(workspace *space, exponential_sum *at)
{
    double **columns[] = {&at->along, &at->across, &at->real, &at->imaginary};
    for (int i = 0; i < 4; i++)
        *columns[i] = doubles(space, at->nodes);
}

/* One coefficient: e^{log_modulus - log_first} e^{i turn} / lambda^2 at the frequency t, relative to e^{log_scale}. */
static void add_coefficient(exponential_sum *at, int j, double t, double log_less, double turn, double error)
{
    double y = t / at->tilt, level = (j > 0 ? 2.0 : 1.0) * exp(log_less - log1p(y * y));
    double phase = turn - at->base * at->sign * t - 2.0 * atan(y);
    at->along[j] = at->tilt;
    at->across[j] = t;
    at->real[j] = level * cos(phase);
    at->imaginary[j] = level * sin(phase);
    at->doubt += level * (1.01 * error + U * (60.0 + 10.0 * fabs(log_less) + 6.0 * (fabs(turn) + at->base * t)));
    at->places += level;
    at->turns += level * t;
}

/* Where the group joins: E[(b - X)_+], b = e^-eps (S-81). */
typedef struct {
    const place_line *line;
    double log_total, slope, curvature; /* K(c), -K'(c), K''(c): the last two only guide */
} log_transform;

static log_transform transform_of(const place_line *at, double c)
{
    log_transform found = {.line = at};
    double places = at->of->places, turn, error, value[3], apart = 1e-3;
    for (int i = 0; i < 3; i++) {
        log_place_at(at, c * (1.0 + (i - 1) * apart), 0.0, &value[i], &turn, &error);
        value[i] *= places;
    }
    found.log_total = value[1];
    found.slope = (value[0] - value[2]) / (2.0 * apart * c);
    found.curvature = larger((value[0] - 2.0 * value[1] + value[2]) / (apart * apart * c * c), 1e-300);
    return found;
}

/* The line's tilt, with the epsilon or the log delta that belongs to it. */
static double joining_saddle(const place_line *at, int by_loss, double value, double *epsilon, double *log_delta)
{
    double low = -3.0, high = 45.0, c = 1.0;
    for (int i = 0; i < 26; i++) {
        double middle = 0.5 * (low + high);
        c = exp(middle);
        log_transform here = transform_of(at, c);
        double b = here.slope + 2.0 / c, curved = here.curvature + 2.0 / (c * c);
        *epsilon = -log(b);
        *log_delta = here.log_total + c * b - log(b) - 2.0 * log(c) - 0.5 * log(2.0 * PI * curved);
        int more = by_loss ? *epsilon < value : *log_delta > value;
        if (more && here.log_total > -700.0 * at->of->places)
            low = middle;
        else
            high = middle;
    }
    return c;
}

/* At `share` of the saddle's tilt. */
exponential_sum joining_line(workspace *space, const allocation *of, int by_loss, double value, double *epsilon, double share)
{
    double s = of->shift, strip = smaller(1.2, PI / (4.0 * s)), log_delta;
    double least = by_loss ? -60.0 : value, small = least / of->places - smaller(sqrt(-2.0 * least / of->places) / s, 600.0);
    place_line *line = allocate(space, sizeof(place_line));
    *line = line_of_place(space, of, s * strip, strip, -sqrt(2.0 * (46.0 - small)) - 1.0, s + 10.0, LOG_PLACE + small);
    exponential_sum found = {.of = of, .sign = -1.0, .cut = INFINITY};
    found.tilt = share * joining_saddle(line, by_loss, value, epsilon, &log_delta);
    found.base = *epsilon < 0.7 ? 1.0 : 0.0;
    log_transform here = transform_of(line, found.tilt);
    double goal = log_delta - *epsilon + LOG_GOAL, w = found.base > 0.0 ? -expm1(-*epsilon) : -exp(-*epsilon), turn, error;
    double *level = doubles(space, ASIDES), *aside = doubles(space, ASIDES);
    for (int i = 0; i < ASIDES; i++) {
        double c = aside[i] = ASIDE[i] * found.tilt;
        log_place_at(line, c, 0.0, &level[i], &turn, &error);
        level[i] = of->places * (level[i] + error) + found.base * c - 1.0 - log(c);
        level[i] += 16.0 * U * (of->places * fabs(level[i]) + c + 8.0);
        if (!isfinite(level[i]))
            level[i] = INFINITY;
    }
    found.aside = aside;
    found.log_aside = level;
    found.asides = ASIDES;
    if (!(shortest_period(&found, w, goal) < INFINITY))
        decline(space, ALIASES);
    double step = shortened(2.0 * PI / found.period), start = 5.0 / sqrt(here.curvature);
    found.period = 2.0 * PI / step;
    found.first_alias = first_aliases(found.tilt, found.period);
    double last = farthest_frequency(line, &found, start, here.log_total, -INFINITY, 1.0, LOG_GOAL);
    found.nodes = last / step < MOST_JOINING ? (int)ceil(last / step) + 1 : 0;
    if (found.nodes == 0)
        decline(space, STEPS);
    make_room(space, &found);
    spend(space, 60.0 * found.nodes * line->points);
    double log_first = 0.0;
    for (int j = 0; j < found.nodes; j++) {
        double t = step * j, log_modulus;
        log_place_at(line, hypot(found.tilt, t), atan2(t, found.tilt), &log_modulus, &turn, &error);
        if (!(error < 1e-3))
            decline(space, ROUNDED);
        if (j == 0) {
            log_first = log_modulus;
            found.scale_error = of->places * (error + 10.0 * U * fabs(log_first));
            found.log_scale = of->places * log_first + found.base * found.tilt - 2.0 * log(found.tilt) - log(found.period);
            found.scale_error += U * (40.0 + 8.0 * (of->places * fabs(log_first) + found.tilt + fabs(found.log_scale)));
        }
        error = (j > 0 ? error : 0.0) + 12.0 * U * (fabs(log_modulus) + fabs(log_first) + fabs(turn));
        add_coefficient(&found, j, t, of->places * (log_modulus - log_first), of->places * turn, of->places * error);
    }
    return found;
}

/* Where the group leaves: E[(X - a)_+; no place beyond the cut], a = e^eps (S-82). */
static double leaving_saddle(const transform *axis, int by_loss, double value, double *epsilon, double *log_delta)
{
    double low = log(axis->reach) - 30.0, high = log(axis->reach) - 1e-9, theta = 0.0;
    for (int i = 0; i < 45; i++) {
        double middle = 0.5 * (low + high), first, second, log_v, turn, error;
        theta = exp(middle);
        transform_slope(axis, theta, &first, &second);
        transform_at(axis, theta, 0.0, &log_v, &turn, &error);
        double a = first - 2.0 / theta, curved = second + 2.0 / (theta * theta);
        *epsilon = a > 0.0 ? log(a) : -INFINITY;
        *log_delta = log_v - theta * a - 2.0 * log(theta) - 0.5 * log(2.0 * PI * curved);
        if (by_loss ? *epsilon < value : *log_delta > value)
            low = middle;
        else
            high = middle;
    }
    return theta;
}

/* log of a bound on E[(a - X)_+; some place beyond the cut] for w = a - 1 (S-83). */
double log_short_of(const exponential_sum *from, double w)
{
    const allocation *of = from->of;
    double best = 0.0, gap = w + 1.0 - allocation_jump(of, from->cut) * (1.0 - 1e-12);
    if (!(gap > 0.0))
        return -INFINITY;
    for (int i = 0; i < from->pulls; i++)
        best = smaller(best, from->pull[i] * gap * (1.0 + 1e-14) + from->log_pull[i]);
    return best + log(of->places) + log_normal_cdf(-from->cut) + log1p(gap) + 1e-9 * (1.0 + fabs(best));
}

exponential_sum leaving_line(workspace *space, const allocation *whole, int by_loss, double value, double target, double around,
                             double *epsilon)
{
    double s = whole->shift, log_delta, strip = smaller(1.2, PI / (4.0 * s)), turn, error;
    allocation *of = allocate(space, sizeof(allocation));
    *of = *whole;
    of->is_cut = 1;
    exponential_sum found = {.of = of, .sign = 1.0, .base = 1.0, .pulls = PULLS};
    place_line line = line_of_place(space, whole, s * strip, strip, -10.5, s + 10.0, LOG_PLACE);
    double *pull = doubles(space, PULLS), *log_pull = doubles(space, PULLS), c = 0.5;
    for (int i = 0; i < PULLS; i++, c *= 1.6) {
        pull[i] = c;
        log_place_at(&line, c, 0.0, &log_pull[i], &turn, &error);
        log_pull[i] = error < 0.5 ? (whole->places - 1.0) * (log_pull[i] + error) - 1.0 - log(c) + 1e-9 : INFINITY;
    }
    found.pull = pull;
    found.log_pull = log_pull;
    double enough = s + 1.0, log_unit = -log(of->places) - 0.5 * s * s, whole_jump = (log(around) - log_unit) / s;
    for (found.cut = enough; enough < 37.0 && found.cut < whole_jump; found.cut = of->cut = enough += 0.0625)
        if (smaller(log_short_of(&found, around - 1.0), log_cut_off(whole, enough)) <= target + LOG_GOAL - 1.0)
            break;
    of->cut = found.cut = smaller(enough, whole_jump + 1e-9);
    if (!(of->cut >= s))
        decline(space, NODES);
    double jump = allocation_jump(of, of->cut), reach = LARGEST_AT_CUT / jump, goal, w;
    transform axis = transform_on_axis(space, of, reach);
    double saddle = leaving_saddle(&axis, by_loss, value, epsilon, &log_delta), best = INFINITY, tilt = 0.0, log_v;
    if (!(*epsilon > 0.0))
        *epsilon = by_loss ? value : 0.0;
    goal = target + LOG_GOAL;
    w = expm1(*epsilon);
    double *level = doubles(space, ASIDES), *aside = doubles(space, ASIDES);
    found.aside = aside;
    found.log_aside = level;
    for (int k = 0; k <= (int)(sizeof LOWER / sizeof LOWER[0]); k++) {
        found.tilt = k < (int)(sizeof LOWER / sizeof LOWER[0]) ? LOWER[k] * saddle : tilt;
        for (found.asides = 0; found.asides < ASIDES && ASIDE[found.asides] * found.tilt <= reach; found.asides++) {
            double theta = aside[found.asides] = ASIDE[found.asides] * found.tilt;
            transform_at(&axis, theta, 0.0, &log_v, &turn, &error);
            level[found.asides] = log_v + error - theta - 1.0 - log(theta) + 16.0 * U * (fabs(log_v) + theta + 8.0);
        }
        transform_at(&axis, found.tilt, 0.0, &log_v, &turn, &error);
        double period = found.tilt > 0.0 ? shortest_period(&found, w, goal) : INFINITY;
        double waste = log_v - found.tilt * (1.0 + w) - 2.0 * log(found.tilt) - log(period) - target;
        double price = period * exp(larger(waste - LOG_WASTE, 0.0));
        if (price < best) {
            best = price;
            tilt = found.tilt;
        }
    }
    best = shortest_period(&found, w, goal);
    if (!(best < INFINITY))
        decline(space, ALIASES);
    double step = shortened(2.0 * PI / best), log_first = 0.0, first, second;
    found.period = 2.0 * PI / step;
    found.first_alias = first_aliases(found.tilt, found.period);
    transform_slope(&axis, found.tilt, &first, &second);
    transform_at(&axis, found.tilt, 0.0, &log_v, &turn, &error);
    double log_edge = found.tilt * jump - 0.5 * of->cut * of->cut - HALF_LOG_2PI + 1e-9 * (1.0 + of->cut * of->cut);
    double last = farthest_frequency(&line, &found, 5.0 / sqrt(second), log_v - error, log_edge, jump * (1.0 - 1e-9), LOG_GOAL);
    found.nodes = last / step < MOST_ON_ONE_LINE ? (int)ceil(last / step) + 1 : 0;
    if (found.nodes == 0)
        decline(space, STEPS);
    make_room(space, &found);
    transform off = transform_off_axis(space, of, found.tilt, hypot(found.tilt, step * found.nodes) * (1.0 + 1e-12), -34.0);
    spend(space, found.nodes * (8.0 * off.terms + 60.0 * off.nodes + 100.0));
    for (int j = 0; j < found.nodes; j++) {
        double t = step * j;
        transform_at(&off, found.tilt, t, &log_v, &turn, &error);
        if (!(error < 1e-3))
            decline(space, ROUNDED);
        if (j == 0) {
            log_first = log_v;
            found.log_scale = log_v - found.tilt - 2.0 * log(found.tilt) - log(found.period);
            found.scale_error = error + U * (40.0 + 8.0 * (fabs(log_v) + found.tilt + fabs(found.log_scale)));
        }
        error = (j > 0 ? error : 0.0) + 12.0 * U * (fabs(log_v) + fabs(log_first) + fabs(turn));
        add_coefficient(&found, j, t, log_v - log_first, turn, error);
    }
    return found;
}
