/* G(c) = E[chi A^{1+c} B^{-c}] of one branch by the trapezoid rule: step, range, and the proved error of both. */
#include "arithmetic.h"
#include "spectral.h"

#define LARGEST_QUADRATURE 150000
#define LARGEST_TABLE 30000000
#define LARGEST_EXPONENT 1e12
#define EXACT_MULTIPLES 0x1p32
#define ROOT_2PI 2.50662827463100050242
#define STRIPS 50
/* Where S-7 has the integrand grow by more than e to this, and takes more than so many nodes, cells are tried (S-37): to
 * plan them costs as much as hundreds of nodes. */
#define OSCILLATION 25.0
#define MANY_NODES 400.0
/* So many nodes are worth planning cells at any rate. */
#define TOO_MANY_NODES 2500.0
/* With more nodes than this on the axis, and less than this share of them off it, those for frequencies above 0 leave it
 * (S-51). */
#define LINE_ABOVE 800.0
#define LINE_SHARE 0.7

typedef struct {
    double low, high;
} range;

/* The curvature of -log(phi chi) beyond the edge of the thinning, 1 without. */
double stiffness_of(const branch *of)
{
    return of->thin.thinned ? 1.0 + 1.0 / (of->thin.width * of->thin.width) : 1.0;
}

/* By the span of the shifts up to this part of where that says nothing, by their variance beyond (S-7). */
#define WITHIN 0.98

static int by_span(const side *law, double strip) { return span_of(law) * strip <= WITHIN * PI; }

/* The widest strip in which a side is known to have no zero. */
double widest_strip(const side *law)
{
    double span = span_of(law);
    return span > 0.0 ? WITHIN * larger(PI / span, sqrt(2.0 / law->variance)) : INFINITY;
}

/* log(cos(A)) without the rounding of 1: the exponents that multiply it may be as large as 1e17. */
static double log_cosine(double angle)
{
    double sine = sin(angle);
    return 0.5 * log1p(-sine * sine);
}

/* log of a lower bound on |B(u + id)| / B(u). */
double log_modulus(const side *law, double strip)
{
    return by_span(law, strip) ? log_cosine(0.5 * span_of(law) * strip) : log1p(-0.5 * law->variance * strip * strip);
}

/* How far arg R(v + id) can lie outside of [m_min d, m_max d]. */
double largest_turn(const side *law, double strip)
{
    return by_span(law, strip) ? 0.0 : 0.25 * PI * law->variance * strip * strip;
}

/* log of (M_+ + M_-) / (e^{2 pi d / h} - 1) / G(c), for all frequencies up to the one given (S-7). For c = -1 this is
 * about E[B]: no power of B is negative. */
static double log_discretisation_error(const quadrature *grid, double tilt, double frequency)
{
    const branch *of = grid->of;
    double strip = grid->strip, growth = 0.5 * stiffness_of(of) * strip * strip;
    if (tilt > 0.0)
        growth -= tilt * log_modulus(&of->left, strip);
    growth += frequency * (largest_turn(&of->right, strip) + largest_turn(&of->left, strip));
    double lines = log_add(0.0, frequency * (largest_shift(&of->right) + largest_shift(&of->left)) * strip);
    double decay = 2.0 * PI * strip / grid->step;
    double value = growth + (lines - decay - (decay < 40.0 ? log1p(-exp(-decay)) : 0.0));
    if (!of->thin.is_cut)
        return value;
    /* E[B], whose lines end at the cut (S-37): there B <= e^{-m u} for the shift m that makes the most of it. */
    double end = grid->end, most = end < 0.0 ? -end * largest_shift(&of->left) : 0.0;
    double on_axis = most - 0.5 * end * end + (of->thin.thinned ? log_keep(&of->thin, end) : 0.0) + 1e-9;
    return log_add(value, log(2.0 * strip) + on_axis + larger(growth - decay, 0.0));
}

/* The strip that allows the largest step; and by how much, in logarithm, tilt and frequency may have grown there. */
static double choose_step(quadrature *grid, double tilt, double frequency, double log_tolerance)
{
    const branch *of = grid->of;
    double stiffness = stiffness_of(of), best = 0.0, both = largest_shift(&of->right) + largest_shift(&of->left);
    double widest = smaller(12.0 / sqrt(stiffness), smaller(widest_strip(&of->right), widest_strip(&of->left)));
    for (int i = 0; i < STRIPS; i++) {
        double strip = widest * (0.02 + 0.98 * i / (STRIPS - 1));
        double needed = 0.5 * stiffness * strip * strip + frequency * both * strip + 1.0 - log_tolerance;
        needed += frequency * (largest_turn(&of->right, strip) + largest_turn(&of->left, strip));
        if (tilt > 0.0)
            needed -= tilt * log_modulus(&of->left, strip);
        double step = 2.0 * PI * strip / needed;
        if (step > best) {
            best = step;
            grid->strip = strip;
        }
    }
    grid->step = shortened(best);
    return frequency * both * grid->strip - tilt * log_modulus(&of->left, grid->strip);
}

/* Where offset + c ybar(u) + pull (edge - u) = u, ybar the posterior mean of the left side's shift, which decreases:
 * bisection with Newton steps. Only guides. */
double concave_peak(const side *left, double tilt, double offset, double pull, double edge, double start)
{
    double stiffness = 1.0 + pull, constant = offset + pull * edge;
    double low = (constant + tilt * left->shift[0]) / stiffness;
    double high = (constant + tilt * largest_shift(left)) / stiffness;
    if (!(high > low + 0.05))
        return high;
    double u = start > low && start < high ? start : 0.5 * (low + high);
    for (int i = 0; i < 60; i++) {
        double log_b, mean, variance;
        side_at(left, -u, &log_b, &mean, &variance);
        double value = constant + tilt * mean - stiffness * u;
        if (value > 0.0)
            low = u;
        else
            high = u;
        double next = u + value / (tilt * variance + stiffness);
        if (!(low < next && next < high))
            next = 0.5 * (low + high);
        if (fabs(next - u) < 0.05)
            return next;
        u = next;
    }
    return u;
}

/* The slope of log(A^{1+c} B^{-c}) lies between those of the extreme shifts. */
static range range_by_slope(const branch *of, double lowest, double highest, double log_tolerance)
{
    double room = 2.0 - log_tolerance, steepest = (1.0 + highest) * largest_shift(&of->right);
    double bottom = (1.0 + lowest) * of->right.shift[0] + lowest * of->left.shift[0];
    steepest += highest * largest_shift(&of->left);
    int has_edge = of->thin.thinned && of->thin.edge < INFINITY;
    if (has_edge)
        bottom = smaller(bottom, of->thin.edge); /* beyond the edge there is nothing to peak */
    range result = {bottom - sqrt(2.0 * room), steepest + sqrt(2.0 * room)};
    if (has_edge) {
        /* From the edge on, log(phi chi A^{1+c} B^{-c}) rises at most like (steepest - edge) t - stiffness t^2 / 2. */
        double stiffness = stiffness_of(of), excess = steepest - of->thin.edge;
        double beyond = (excess + sqrt(excess * excess + 2.0 * stiffness * room)) / stiffness;
        result.high = smaller(result.high, of->thin.edge + beyond);
    }
    return result;
}

/* sum t_i^a <= (sum t_i)^a <= n^{a-1} sum t_i^a for the terms t_i of A and a = 1 + c >= 1, where
 * log(t_i^a B^{-c} phi chi) is concave: each of them has one peak. */
static range range_by_power_mean(workspace *space, const branch *of, double tilt, double log_tolerance)
{
    const side *right = &of->right, *left = &of->left;
    int size = right->size, plain = is_zero(left);
    double *crest = doubles(space, size), *peak = doubles(space, size), *rise = doubles(space, size);
    double a = 1.0 + tilt, highest = -INFINITY, edge = of->thin.edge, at = -INFINITY;
    double inverse = of->thin.thinned ? 1.0 / (of->thin.width * of->thin.width) : 0.0;
    spend(space, plain ? 20.0 * size : 60.0 * (double)size * left->size);
    for (int i = 0; i < size; i++) {
        double slope = a * right->shift[i], log_b = 0.0, mean = 0.0, variance;
        at = plain ? slope : concave_peak(left, tilt, slope, 0.0, 0.0, at);
        double pull = of->thin.thinned && at > edge ? inverse : 0.0;
        if (pull > 0.0)
            at = plain ? (slope + edge * pull) / (1.0 + pull) : concave_peak(left, tilt, slope, pull, edge, edge);
        if (!plain)
            side_at(left, -at, &log_b, &mean, &variance);
        peak[i] = at;
        rise[i] = larger(slope + tilt * mean - at, 0.0); /* with which it still rises to the left of the peak */
        crest[i] = a * (right->log_p[i] - 0.5 * right->shift[i] * right->shift[i]) + slope * at - tilt * log_b -
                   0.5 * at * at - 0.5 * pull * (at - edge) * (at - edge);
        highest = larger(highest, crest[i]);
    }
    range result = {INFINITY, -INFINITY};
    for (int i = 0; i < size; i++) {
        double room = crest[i] - highest + tilt * log(size) + 2.0 - log_tolerance;
        if (!(room > 0.0))
            continue;
        double stiffness = of->thin.thinned && peak[i] > edge ? 1.0 + inverse : 1.0;
        double g = stiffness > 1.0 ? rise[i] : 0.0;
        result.low = smaller(result.low, peak[i] + g - sqrt(g * g + 2.0 * room));
        result.high = larger(result.high, peak[i] + sqrt(2.0 * room / stiffness));
    }
    return result;
}

/* Where phi chi A^{1+c} B^{-c} is not negligible, for the tilts in between. */
static range range_of(workspace *space, const branch *of, double lowest, double highest, double log_tolerance)
{
    range slopes = range_by_slope(of, lowest, highest, log_tolerance);
    range powers = range_by_power_mean(space, of, lowest, log_tolerance);
    if (highest > lowest) {
        range more = range_by_power_mean(space, of, highest, log_tolerance);
        powers = (range){smaller(powers.low, more.low), larger(powers.high, more.high)};
    }
    return (range){larger(slopes.low, powers.low), smaller(slopes.high, powers.high)};
}

/* Where phi chi B is not negligible. */
static range range_of_left(const branch *of, double log_tolerance)
{
    const side *left = &of->left;
    range result = {INFINITY, -INFINITY};
    for (int j = 0; j < left->size; j++) {
        double room = left->log_p[j] + 2.0 - log_tolerance, away = sqrt(2.0 * larger(room, 0.0));
        if (room > 0.0) {
            result.low = smaller(result.low, -left->shift[j] - away);
            result.high = larger(result.high, -left->shift[j] + away);
        }
    }
    return result;
}

branch_table tabulate(workspace *space, const branch *of, double step, double first, int nodes)
{
    branch_table table = {.nodes = nodes, .u = doubles(space, nodes)};
    for (int j = 0; j < nodes; j++)
        table.u[j] = step * (first + j);
    table.right = tabulate_side(space, &of->right, 0, table.u, nodes);
    table.left = tabulate_side(space, &of->left, 1, table.u, nodes);
    if (is_zero(&of->left)) {
        table.psi = table.right.log;
        table.slope = table.right.mean;
        table.psi_error = table.right.log_error;
        return table;
    }
    table.psi = doubles(space, nodes);
    if (is_zero(&of->right)) {
        for (int j = 0; j < nodes; j++)
            table.psi[j] = -table.left.log[j];
        table.slope = table.left.mean;
        table.psi_error = table.left.log_error;
        return table;
    }
    table.slope = doubles(space, nodes);
    table.psi_error = doubles(space, nodes);
    for (int j = 0; j < nodes; j++) {
        table.psi[j] = table.right.log[j] - table.left.log[j];
        table.slope[j] = table.right.mean[j] + table.left.mean[j];
        table.psi_error[j] = (table.right.log_error[j] + table.left.log_error[j]) * (1.0 + 4.0 * U);
        table.psi_error[j] += 2.0 * U * fabs(table.psi[j]);
    }
    return table;
}

/* Step and range for `plan`, and the number of nodes; with `on_line` those for frequencies above 0 lie off the axis, and
 * the number is infinite where that is not possible. */
static double lay_out(workspace *space, quadrature *grid, double lowest, double highest, double frequency,
                      double log_tolerance, int with_identity, int on_line, double *first)
{
    const branch *of = grid->of;
    double on_axis = on_line ? 0.0 : frequency, oscillation = choose_step(grid, highest, on_axis, log_tolerance);
    range reach = range_of(space, of, lowest, highest, log_tolerance), one;
    int by_cells = 0, insists = space->few || on_line;
    double length = (reach.high - reach.low) / grid->step;
    int is_long = (oscillation > OSCILLATION && length > MANY_NODES) || length > TOO_MANY_NODES;
    if (of->thin.is_cut || is_long || (insists && frequency > 0.0)) {
        one = range_of(space, of, 0.0, 0.0, log_tolerance);
        by_cells = plan_strip(space, grid, lowest, highest, on_axis, log_tolerance, insists,
                              (double[]){smaller(reach.low, one.low), larger(reach.high, one.high)}, &reach.low, &reach.high);
        if (of->thin.is_cut && !by_cells)
            decline(space, NODES);
    }
    if (on_line && !(by_cells && plan_line(grid, highest, log_tolerance, &reach.low, &reach.high)))
        return INFINITY;
    if (with_identity) {
        one = range_of(space, of, 0.0, 0.0, log_tolerance);
        range other = range_of_left(of, log_tolerance);
        reach.low = smaller(reach.low, smaller(one.low, other.low));
        reach.high = larger(reach.high, larger(one.high, other.high));
    }
    if (of->thin.is_cut) { /* halfway between two nodes, for a contour at the cut or before it, for a scan beyond it */
        double nodes_to = of->thin.cut / grid->step + 0.5;
        grid->end = ((frequency > 0.0 ? floor(nodes_to) : ceil(nodes_to)) - 0.5) * grid->step;
        reach.high = smaller(reach.high, grid->end - 0.5 * grid->step);
    }
    double farthest = larger(-reach.low, reach.high);
    double shift = larger(largest_shift(&of->right), largest_shift(&of->left));
    double exponent = larger(farthest * farthest, shift * (farthest + shift));
    if (!(reach.low < reach.high && exponent <= LARGEST_EXPONENT))
        decline(space, ROUNDED);
    if (!(farthest <= EXACT_MULTIPLES * grid->step))
        return INFINITY;
    *first = floor(reach.low / grid->step);
    return ceil(reach.high / grid->step) - *first + 1.0;
}

/* A grid on which every tilt in between has relative error about e^log_tolerance; `with_identity` also covers E[A] and
 * E[B], for sums that use E[A] = E[B] = 1. */
quadrature plan(workspace *space, const branch *of, double lowest, double highest, double frequency,
                double log_tolerance, int with_identity)
{
    quadrature grid = {.of = of};
    double first, count = lay_out(space, &grid, lowest, highest, frequency, log_tolerance, with_identity, 0, &first);
    /* Where a cut decides on the step, it does so off the axis as well. */
    int by_cut = of->thin.is_cut && grid.step > 0.5 * LINE_SHARE * margin_of(&of->thin);
    if (frequency > 0.0 && count > LINE_ABOVE && !by_cut && !space->plain && !space->far) {
        quadrature other = {.of = of};
        double start, fewer = lay_out(space, &other, lowest, highest, frequency, log_tolerance, with_identity, 1, &start);
        if (fewer < LINE_SHARE * count) {
            grid = other;
            count = fewer;
            first = start;
        }
    }
    if (!(count <= (space->brief ? BRIEF_QUADRATURE : LARGEST_QUADRATURE) && count * (of->right.size + of->left.size) <= LARGEST_TABLE))
        decline(space, NODES);
    int nodes = (int)count;
    grid.table = tabulate(space, of, grid.step, first, nodes);
    grid.log_weight = doubles(space, nodes);
    double constant = log(grid.step) - HALF_LOG_2PI;
    for (int j = 0; j < nodes; j++) {
        double u = grid.table.u[j];
        grid.log_weight[j] = constant - 0.5 * u * u + (of->thin.thinned ? log_keep(&of->thin, u) : 0.0);
    }
    return grid;
}

/* log of (integral + h maximum) over the value at the end, for a Gaussian of deviation 1 / root; rounded up. */
static double log_gaussian_sum(double distance, double slope, double root, double step)
{
    double integral = (distance > 0.0 ? 0.5 : 1.0) * ROOT_2PI / root, inside = smaller(distance, 0.0);
    return log(integral + step) + 0.5 * inside * inside + 8.0 * U * fabs(inside * slope);
}

/* log of a bound on h sum phi chi e^{log_factor + slope (u - end)} over the nodes beyond `end`, on one side of it. */
double log_beyond(const quadrature *grid, double log_factor, double slope, double end, double direction)
{
    const thinning *thin = &grid->of->thin;
    double value = log_factor - 0.5 * end * end * (1.0 - 8.0 * U) - HALF_LOG_2PI;
    double plain = value + log_gaussian_sum(direction * (end - slope), slope, 1.0, grid->step);
    if (!thin->thinned || direction < 0.0 || end < thin->edge)
        return plain;
    double inverse = 1.0 / (thin->width * thin->width), root = sqrt(1.0 + inverse), past = end - thin->edge;
    double distance = (end - slope + inverse * past) / root;
    double thinned = value - 0.5 * inverse * past * past * (1.0 - 8.0 * U) - LOG_2;
    return smaller(plain, thinned + log_gaussian_sum(distance, slope, root, grid->step));
}

/* log of a bound on the part of the infinite trapezoid sum of phi chi A^{1+c} B^{-c}, c >= 0, outside the nodes. */
double log_tails(const quadrature *grid, double tilt)
{
    const side *right = &grid->of->right, *left = &grid->of->left;
    const branch_table *table = &grid->table;
    double both = -INFINITY, a = 1.0 + tilt, log_size = log(right->size);
    for (int on_right = 0; on_right <= 1; on_right++) {
        int end = on_right ? table->nodes - 1 : 0;
        double u = table->u[end], direction = on_right ? 1.0 : -1.0;
        /* S-8: log A is convex with slopes between the extreme shifts; -log B is concave and lies below its tangent.
         * Both slopes are rounded to the safe side. */
        double doubt = 1e-9 + larger(slope_error(right, u), slope_error(left, u)), safe = 1.0 + direction * doubt;
        double extreme = on_right ? largest_shift(right) : right->shift[0];
        double tangent = tilt * table->left.mean[end] * safe;
        double from_left = -tilt * table->left.log[end];
        double left_rounding = tilt * (table->left.log_error[end] + 2.0 * U * fabs(table->left.log[end]));
        double rounding = a * (table->right.log_error[end] + 2.0 * U * fabs(table->right.log[end])) + left_rounding;
        double bound = log_beyond(grid, a * table->right.log[end] + from_left + rounding, a * extreme * safe + tangent,
                                  u, direction);
        if (right->size > 1) {
            /* S-9: A^a <= n^{a-1} sum_i t_i^a. */
            double parts = -INFINITY;
            for (int i = 0; i < right->size; i++) {
                double m = right->shift[i], log_p = right->log_p[i];
                double term = a * (log_p + m * u - 0.5 * m * m) + tilt * log_size + from_left + left_rounding;
                term += 16.0 * U * (a * (fabs(log_p) + m * fabs(u) + 0.5 * m * m) + tilt * log_size + fabs(from_left));
                term = log_beyond(grid, term, a * m + tangent, u, direction);
                if (!(term <= parts - 60.0)) /* what is left out is below the slack at the end; a NaN is not */
                    parts = log_add(parts, term);
            }
            bound = smaller(bound, parts);
        }
        both = log_add(both, bound);
    }
    return both + 1e-9;
}

/* The same for phi chi B: a sum of exponentials. */
double log_tails_of_left(const quadrature *grid)
{
    const side *left = &grid->of->left;
    double both = -INFINITY;
    for (int on_right = 0; on_right <= 1; on_right++) {
        double u = grid->table.u[on_right ? grid->table.nodes - 1 : 0];
        for (int j = 0; j < left->size; j++) {
            double m = left->shift[j], log_p = left->log_p[j];
            double term = log_p - m * u - 0.5 * m * m + 16.0 * U * (fabs(log_p) + m * fabs(u) + 0.5 * m * m);
            term = log_beyond(grid, term, -m, u, on_right ? 1.0 : -1.0);
            if (!(term <= both - 60.0))
                both = log_add(both, term);
        }
    }
    return both + 1e-9;
}

/* log of a bound on |trapezoid - G(c + i s)| / G(c) for all |s| <= frequency; `log_moment` is that of the sum. The
 * tilt -1 stands for E[B]. */
double log_error(const quadrature *grid, double tilt, double log_moment, double frequency)
{
    /* Relative to the trapezoid sum; 0.7 > log 2 turns that into relative to G where it is below 1/2. */
    if (grid->cells.size > 0 && tilt >= 0.0)
        return log_add(log_strip_error(grid, tilt, frequency), log_strip_tails(grid, &(strip_line){.tilt = tilt})) -
               log_moment + 0.7;
    double tails = (tilt < 0.0 ? log_tails_of_left(grid) : log_tails(grid, tilt)) - log_moment;
    return log_add(log_discretisation_error(grid, tilt, frequency), tails) + 0.7;
}
