/* How large phi chi A^{1+z} B^{-z} is off the real axis, cell by cell (S-37).
 *
 * S-7 bounds arg A by the largest shift everywhere. Where a shift is rare, A hardly turns at the outcomes that matter,
 * and a step chosen for the largest shift would be thousands of times too short. Here arg A(u + iy) is at most
 * |y| xbar(u) / m, m a bound on |A(u + iy)| / A(u), and the integral over the line is a sum over cells.
 */
#include "arithmetic.h"
#include "spectral.h"

/* Cells are this wide, or as wide as the thinning if that is less, and at most so many. */
#define CELL 0.06
#define MOST_CELLS 2500
/* With a thinning narrower than this, cells are as narrow only next to its edges, and so many widths before them. */
#define NARROW_CELL 0.05
#define INSIDE 9.0
/* Strips tried. */
#define STRIPS 17
#define NARROWER 0.5
/* How far the ends may be looked for; a range that is long makes for a narrower strip. */
#define FARTHEST 400.0
#define LONG 50.0
#define HALVINGS 8
/* Entries of a line that bounds the decay, and the least of them. */
#define LINE_ENTRIES 150
#define LEAST_MASS -300.0

/* log of a bound on phi chi on [a, b]: chi falls, and phi is largest next to 0. */
static double log_density_on(const branch *of, double a, double b)
{
    double nearest = a > 0.0 ? a : b < 0.0 ? b : 0.0;
    double value = -0.5 * nearest * nearest * (1.0 - 8.0 * U) - HALF_LOG_2PI;
    return value + (of->thin.thinned ? log_keep_most(&of->thin, a, b) : 0.0);
}

/* The next edge after `at`: as far as the thinning is wide next to its edges, where chi changes, and CELL elsewhere. */
static double next_edge(const thinning *thin, double at, double high)
{
    double width = thin->width, to = at + CELL, inside = INSIDE * width;
    double outside = larger(BEYOND_THE_EDGE * width, thin->is_cut ? thin->cut - thin->edge : 0.0) + 2.0 * width;
    double first[2] = {thin->edge - inside, thin->lower - outside}, last[2] = {thin->edge + outside, thin->lower + inside};
    for (int i = 0; i < (thin->has_lower ? 2 : 1); i++) {
        if (at >= first[i] && at < last[i])
            return smaller(at + width, high);
        if (at < first[i])
            to = smaller(to, first[i]);
    }
    return smaller(to, high);
}

/* Edges from `low` to `high`, with both sides' logarithms and means there. */
strip_cells cells_between(workspace *space, const branch *of, double low, double high)
{
    strip_cells cells = {.size = 0};
    if (of->thin.thinned && of->thin.width < NARROW_CELL) {
        for (double at = low; at < high && cells.size <= MOST_CELLS; cells.size++)
            at = next_edge(&of->thin, at, high);
    }
    int even = cells.size == 0 || cells.size > MOST_CELLS;
    if (even) {
        double width = of->thin.thinned ? smaller(CELL, of->thin.width) : CELL;
        int size = (int)smaller(ceil((high - low) / width), MOST_CELLS);
        cells.size = size < 1 ? 1 : size;
    } else {
        cells.each = doubles(space, cells.size);
    }
    cells.width = (high - low) / cells.size * (1.0 + 4.0 * U);
    cells.edge = doubles(space, cells.size + 1);
    cells.log_density = doubles(space, cells.size);
    cells.edge[0] = low;
    for (int j = 0; j <= cells.size && even; j++)
        cells.edge[j] = j == cells.size ? high : low + (high - low) * ((double)j / cells.size);
    for (int j = 0; j < cells.size && !even; j++) {
        cells.edge[j + 1] = next_edge(&of->thin, cells.edge[j], high);
        cells.each[j] = (cells.edge[j + 1] - cells.edge[j]) * (1.0 + 4.0 * U);
    }
    cells.right = tabulate_side(space, &of->right, 0, cells.edge, cells.size + 1);
    cells.left = tabulate_side(space, &of->left, 1, cells.edge, cells.size + 1);
    for (int j = 0; j < cells.size; j++)
        cells.log_density[j] = log_density_on(of, cells.edge[j], cells.edge[j + 1]);
    double reach = larger(fabs(low), fabs(high));
    cells.doubt = 2.0 * larger(slope_error(&of->right, reach), slope_error(&of->left, reach)) + 8.0 * U;
    if (!(cells.doubt < 0.01))
        decline(space, ROUNDED);
    return cells;
}

/* How much less than 1 |R(v + iy)| / R(v) is at most, |y| <= d, where the posterior mean is at most `mean`: the real part
 * of E[e^{iym}] is at least 1 - d^2 E[m^2] / 2. */
static double less_than_one(const side *law, const strip_line *line, double mean, double everywhere)
{
    return smaller(0.5 * line->strip * line->strip * largest_shift(law) * mean * (1.0 + 16.0 * U), everywhere);
}

/* What lies off the axis adds to log(phi chi A^{1+c} B^{-c}), where the means are at most these. */
static double turn_at(const branch *of, const strip_line *line, double right_mean, double left_mean)
{
    double of_right = right_mean > 0.0 ? less_than_one(&of->right, line, right_mean, line->right) : 0.0;
    double of_left = left_mean > 0.0 ? less_than_one(&of->left, line, left_mean, line->left) : 0.0;
    double rate = smaller(right_mean / (1.0 - of_right), line->right_most), growth = 0.0;
    rate += smaller(left_mean / (1.0 - of_left), line->left_most);
    if (of_left > 0.0 && line->tilt > 0.0)
        growth = -line->tilt * log1p(-of_left);
    return (growth + line->frequency * line->strip * rate) * (1.0 + 64.0 * U);
}

strip_line line_at(const branch *of, double tilt, double strip, double frequency)
{
    return (strip_line){.tilt = tilt, .strip = strip, .frequency = frequency,
                        .right = -expm1(log_modulus(&of->right, strip)) * (1.0 + 32.0 * U),
                        .left = -expm1(log_modulus(&of->left, strip)) * (1.0 + 32.0 * U),
                        .right_most = largest_shift(&of->right) + largest_turn(&of->right, strip) / strip,
                        .left_most = largest_shift(&of->left) + largest_turn(&of->left, strip) / strip};
}

/* log of a bound on phi chi A^{1+c} B^{-c} e^{turn} in cell j. A^{1+c} B^{-c} increases; A's mean increases and B's
 * decreases. */
static double log_most_in(const branch *of, const strip_cells *cells, const strip_line *line, int j)
{
    double c = line->tilt, log_a = cells->right.log[j + 1], log_b = cells->left.log[j + 1];
    double value = cells->log_density[j] + ((1.0 + c) * log_a - c * log_b);
    value += (1.0 + c) * (cells->right.log_error[j + 1] + 4.0 * U * fabs(log_a));
    value += c * (cells->left.log_error[j + 1] + 4.0 * U * fabs(log_b)) + 32.0 * U * fabs(cells->log_density[j]);
    if (line->strip > 0.0)
        value += turn_at(of, line, cells->right.mean[j + 1] * (1.0 + cells->doubt),
                         cells->left.mean[j] * (1.0 + cells->doubt));
    return value;
}

/* log of a bound on the integral over u <= edge[0]: Phi(t) <= e^{-t^2 / 2} for t < 0; A falls, and so does 1 / B. */
static double log_below(const branch *of, const strip_cells *cells, const strip_line *line)
{
    double c = line->tilt, t = cells->edge[0], log_a = cells->right.log[0], log_b = cells->left.log[0];
    double value = (1.0 + c) * log_a - c * log_b - (t < 0.0 ? 0.5 * t * t * (1.0 - 8.0 * U) : 0.0);
    value += (1.0 + c) * (cells->right.log_error[0] + 4.0 * U * fabs(log_a));
    value += c * (cells->left.log_error[0] + 4.0 * U * fabs(log_b));
    if (of->thin.has_lower) /* chi rises */
        value += log_normal_cdf((t - of->thin.lower) / of->thin.width) * (1.0 - 64.0 * U);
    if (line->strip > 0.0)
        value += turn_at(of, line, cells->right.mean[0] * (1.0 + cells->doubt), largest_shift(&of->left));
    return value;
}

/* The same over u >= edge[size], where outcomes are not cut off: S-8's line with the largest shift. */
static double log_above(const quadrature *grid, const strip_cells *cells, const strip_line *line)
{
    const branch *of = grid->of;
    int end = cells->size;
    double c = line->tilt, u = cells->edge[end], log_a = cells->right.log[end], log_b = cells->left.log[end];
    double mean = cells->left.mean[end] * (1.0 + cells->doubt), value = (1.0 + c) * log_a - c * log_b;
    value += (1.0 + c) * (cells->right.log_error[end] + 4.0 * U * fabs(log_a));
    value += c * (cells->left.log_error[end] + 4.0 * U * fabs(log_b));
    if (line->strip > 0.0)
        value += turn_at(of, line, largest_shift(&of->right), mean);
    double slope = ((1.0 + c) * largest_shift(&of->right) + c * mean) * (1.0 + 16.0 * U);
    return log_beyond(grid, value, slope, u, 1.0);
}

/* log of e^{top_j} summed over some cells, each times its width and `extra`. */
double log_sum_over(const quadrature *grid, const strip_line *line, int first, int last, double extra)
{
    const strip_cells *cells = &grid->cells;
    double top = -INFINITY, total = 0.0;
    for (int j = first; j < last; j++) {
        double value = log_most_in(grid->of, cells, line, j), factor = cells->each == NULL ? 1.0 : cells->each[j] + extra;
        if (value > top) {
            total = total * exp(top - value) + factor;
            top = value;
        } else if (!(value <= top - 60.0)) { /* what is left out is below the slack; a NaN is not */
            total += exp(value - top) * factor;
        }
    }
    total *= cells->each == NULL ? cells->width + extra : 1.0;
    return first < last ? top + log(total) + 1e-9 : -INFINITY;
}

/* log of a bound on the integral of phi chi A^{1+c} B^{-c} e^{turn} over the line (S-37). */
double log_over_line(const quadrature *grid, const strip_line *line)
{
    double all = log_sum_over(grid, line, 0, grid->cells.size, 0.0);
    all = log_add(all, log_below(grid->of, &grid->cells, line));
    if (!grid->of->thin.is_cut)
        all = log_add(all, log_above(grid, &grid->cells, line));
    return all;
}

/* log of a bound on phi chi A^{1+c} B^{-c} e^{turn} at the cut. */
double log_at_end(const quadrature *grid, const strip_line *line)
{
    const strip_cells *cells = &grid->cells;
    int j = cells->size - 1;
    while (j > 0 && cells->edge[j] > grid->end)
        j--;
    return log_most_in(grid->of, cells, line, j);
}

/* log of the error of the trapezoid rule with step h, not relative to anything (S-37). */
double log_strip_error(const quadrature *grid, double tilt, double frequency)
{
    const branch *of = grid->of;
    double strip = grid->strip, growth = 0.5 * stiffness_of(of) * strip * strip * (1.0 + 16.0 * U);
    strip_line line = line_at(of, tilt, strip, frequency);
    double decay = 2.0 * PI * strip / grid->step * (1.0 - 8.0 * U);
    double value = LOG_2 + growth + log_over_line(grid, &line) - decay - (decay < 40.0 ? log1p(-exp(-decay)) : 0.0);
    if (of->thin.is_cut) { /* the two ends of the lines, from the axis to the strip's edges */
        strip_line axis = {.tilt = tilt};
        double on_axis = log_at_end(grid, &axis), off_axis = log_at_end(grid, &line) + growth - decay;
        value = log_add(value, log(2.0 * strip) + larger(on_axis, off_axis));
    }
    return value + 1e-9;
}

/* The line Im u = d on which e^{is Psi} falls, cell by cell (S-40): masses relative to G, and rates. Cells are joined. */
decay_line line_decay(workspace *space, const tilted_branch *part, double c, double strip)
{
    const quadrature *grid = &part->grid;
    const branch *of = grid->of;
    const strip_cells *cells = &grid->cells;
    double x_most = largest_shift(&of->right), y_most = largest_shift(&of->left), before = 1.0 - cells->doubt;
    double x_kept = larger(1.0 - strip * strip * x_most * x_most / 6.0, 0.0) * before;
    double y_kept = larger(1.0 - strip * strip * y_most * y_most / 6.0, 0.0) * before;
    double constant = 0.5 * stiffness_of(of) * strip * strip - part->log_moment + 0.02;
    strip_line line = line_at(of, c, strip, 0.0), axis = {.tilt = c};
    int joined = cells->size / LINE_ENTRIES + 1, entries = (cells->size + joined - 1) / joined + 2;
    decay_line result = {.log_mass = doubles(space, entries), .rate = doubles(space, entries)};
    for (int first = 0; first < cells->size; first += joined) {
        int last = first + joined < cells->size ? first + joined : cells->size;
        double mass = log_sum_over(grid, &line, first, last, 0.0) + constant;
        if (mass < LEAST_MASS)
            mass = LEAST_MASS;
        result.log_mass[result.entries] = mass;
        result.rate[result.entries++] = strip * (x_kept * cells->right.mean[first] + y_kept * cells->left.mean[last]);
    }
    double rest = log_below(of, cells, &line);
    if (!of->thin.is_cut) {
        rest = log_add(rest, log_above(grid, cells, &line));
    } else {
        rest = log_add(rest, log(strip) + larger(log_at_end(grid, &axis), log_at_end(grid, &line)));
    }
    result.log_mass[result.entries] = larger(rest + constant, LEAST_MASS);
    result.rate[result.entries++] = 0.0;
    return result;
}

/* log of a bound on what the nodes leave out of the trapezoid sum over all of them, on the axis or on a line off it. */
double log_strip_tails(const quadrature *grid, const strip_line *line)
{
    const strip_cells *cells = &grid->cells;
    const branch_table *table = &grid->table;
    int low = 0, high = cells->size;
    while (low < cells->size && cells->edge[low] < table->u[0])
        low++;
    while (high > 0 && cells->edge[high] > table->u[table->nodes - 1])
        high--;
    /* At most width / h + 1 nodes lie in a cell, and h Phi'(u) summed over nodes below one is at most Phi + h phi. */
    double step = grid->step;
    double all = log_add(log_sum_over(grid, line, 0, low, step), log_sum_over(grid, line, high, cells->size, step));
    all = log_add(all, log_below(grid->of, cells, line) + log1p(grid->step));
    if (!grid->of->thin.is_cut)
        all = log_add(all, log_above(grid, cells, line));
    return all + 1e-9;
}

/* The first and the last edge between which all but e^log_tolerance of the sum lies, for one tilt. */
void narrow_to(const quadrature *grid, const strip_line *line, double log_tolerance, double *low, double *high)
{
    const strip_cells *cells = &grid->cells;
    int first = 0, last = cells->size;
    double most = log_sum_over(grid, line, 0, last, 0.0) - log(cells->width) + log_tolerance - 2.0 - log(cells->size);
    while (first < last - 1 && log_most_in(grid->of, cells, line, first) < most)
        first++;
    while (last > first + 1 && log_most_in(grid->of, cells, line, last - 1) < most)
        last--;
    *low = smaller(*low, cells->edge[first]);
    *high = larger(*high, cells->edge[last]);
}

/* Where phi chi A^{1+c} B^{-c} e^{turn} has become negligible on one side of `from`; only guides. */
static double find_end(const branch *of, const strip_line *line, double from, double direction, double level)
{
    double distance = 0.5;
    for (; distance < FARTHEST; distance *= 1.3) {
        double u = from + direction * distance, log_a, log_b, x, y, unused;
        side_at(&of->right, u, &log_a, &x, &unused);
        side_at(&of->left, -u, &log_b, &y, &unused);
        double value = -0.5 * u * u + (of->thin.thinned ? log_keep(&of->thin, u) : 0.0);
        value += (1.0 + line->tilt) * log_a - line->tilt * log_b;
        value += turn_at(of, line, direction > 0.0 ? largest_shift(&of->right) : x,
                         direction > 0.0 ? y : largest_shift(&of->left));
        if (value < level)
            break;
    }
    return from + direction * distance;
}

/* The step that a strip allows, e^`log_room` being the error allowed. */
static double step_in(const quadrature *grid, const strip_line *in, double log_room)
{
    strip_line line = line_at(grid->of, in->tilt, in->strip, in->frequency);
    double needed = 1.7 + 0.5 * stiffness_of(grid->of) * in->strip * in->strip - log_room;
    return 2.0 * PI * in->strip / (needed + log_over_line(grid, &line));
}

/* Cells, strip and step for the tilts up to `highest`; 0 if the step would not be longer than the one there is and nobody
 * `insists`. The ends in `reach` come with it. */
int plan_strip(workspace *space, quadrature *grid, double lowest, double highest, double frequency, double log_tolerance,
               int insists, const double *first, double *low, double *high)
{
    const branch *of = grid->of;
    double stiffness = stiffness_of(of), best = of->thin.is_cut ? 0.0 : grid->step, chosen = grid->strip;
    double widest = smaller(12.0 / sqrt(stiffness), smaller(widest_strip(&of->right), widest_strip(&of->left)));
    strip_line line, real = {.tilt = highest};
    int is_cut = of->thin.is_cut;
    double room = log_tolerance - 10.0, low_end, high_end = is_cut ? of->thin.cut + margin_of(&of->thin) : INFINITY;
    /* A first table for the size of G; then out to where nothing is left even off the axis. */
    double start = smaller(first[0], -1.0), stop = is_cut ? high_end : larger(first[1], 1.0);
    bookmark place = mark(space);
    if (!(stop - start < FARTHEST))
        return 0;
    grid->cells = cells_between(space, of, start, stop);
    double size = log_sum_over(grid, &real, 0, grid->cells.size, 0.0);
    double smallest = log_sum_over(grid, &(strip_line){.tilt = lowest}, 0, grid->cells.size, 0.0);
    double level = smaller(size, smallest) + room, farthest = smaller(widest, 9.0 / sqrt(stiffness));
    for (int i = 0; i < 2 * HALVINGS; i++, farthest *= 0.5) {
        if (i == HALVINGS) { /* tilts whose moments differ too much for one level */
            if (high_end - low_end < FARTHEST)
                break;
            level = size + room;
            farthest = smaller(widest, 9.0 / sqrt(stiffness));
        }
        line = line_at(of, highest, farthest, frequency);
        low_end = smaller(start, find_end(of, &line, start + 0.5, -1.0, level));
        if (!is_cut)
            high_end = larger(stop, find_end(of, &line, stop - 0.5, 1.0, level));
        if (high_end - low_end < LONG)
            break;
    }
    grid->cells.size = 0;
    rewind_to(space, place);
    if (!(high_end - low_end < FARTHEST))
        return 0;
    grid->cells = cells_between(space, of, low_end, high_end);
    spend(space, 40.0 * STRIPS * grid->cells.size);
    double strip = widest, near;
    for (int i = 0; i < STRIPS; i++, strip *= NARROWER) {
        double step = step_in(grid, &(strip_line){.tilt = highest, .strip = strip, .frequency = frequency}, log_tolerance + size);
        if (step > best) {
            best = step;
            chosen = strip;
        } else if (step < 0.7 * best && (is_cut || best > grid->step)) {
            break; /* past the best */
        }
    }
    near = chosen;
    for (int i = 0; i < 2 && (is_cut || best > grid->step); i++) { /* on both sides of it */
        strip = smaller(i == 0 ? near * 1.4 : near * 0.7, widest);
        double step = step_in(grid, &(strip_line){.tilt = highest, .strip = strip, .frequency = frequency}, log_tolerance + size);
        if (step > best) {
            best = step;
            chosen = strip;
        }
    }
    if (!is_cut && !insists && !(best > 1.5 * grid->step)) {
        grid->cells.size = 0;
        rewind_to(space, place);
        return 0;
    }
    grid->strip = chosen;
    grid->step = shortened(is_cut ? smaller(best, 0.5 * margin_of(&of->thin)) : best);
    *low = INFINITY;
    *high = -INFINITY;
    narrow_to(grid, &(strip_line){.tilt = lowest}, log_tolerance, low, high);
    narrow_to(grid, &real, log_tolerance, low, high);
    return 1;
}
