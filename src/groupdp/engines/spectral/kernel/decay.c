/* How fast the characteristic function of one round's loss falls (S-22).
 *
 *     |phi(s')| <= 1 - sum_r t_r W_r (1 - env(s W_r / 2))   for every s' >= s
 */
#include "arithmetic.h"
#include "spectral.h"

/* Everything here is inequality; this covers all rounding in the sums below. */
#define SHORT_OF (1.0 - 1e-7)
#define LARGEST_NUMBER_OF_PEAKS 12
/* Peaks are peeled until this share of the mass is left, or this many rounds' worth of it. */
#define REST 0.02
#define REST_OF_ALL 0.2
/* The strip of the first line, in deviations of phi chi. */
#define WIDEST_LINE 9.0

/* Cuts off the largest function below `height` that rises to its highest cell and falls after it, and appends its
 * superlevel sets, which are intervals, to the rectangles. */
static void peel(workspace *space, const double *width, double *height, int cells, int rectangles, decay *bound)
{
    int top = 0;
    for (int j = 1; j < cells; j++)
        if (height[j] > height[top])
            top = j;
    double *peak = doubles(space, cells), *widths = doubles(space, cells), *heights = doubles(space, cells);
    peak[top] = height[top];
    for (int j = top - 1; j >= 0; j--)
        peak[j] = smaller(peak[j + 1], height[j]);
    for (int j = top + 1; j < cells; j++)
        peak[j] = smaller(peak[j - 1], height[j]);
    /* From the top outward, always to the higher neighbour: the intervals in order of size. */
    int left = top, right = top, size = 0;
    double total = width[top], level = peak[top];
    while (level > 0.0) {
        double before = left > 0 ? peak[left - 1] : 0.0, after = right < cells - 1 ? peak[right + 1] : 0.0;
        double next = larger(before, after);
        widths[size] = total;
        heights[size++] = level - next;
        if (!(next > 0.0))
            break;
        total += before >= after ? width[--left] : width[++right];
        level = next;
    }
    for (int j = 0; j < cells; j++)
        height[j] -= peak[j];
    /* Fewer rectangles: neighbours in size share the smallest width among them. */
    int parts = size < rectangles ? size : rectangles;
    for (int r = 0; r < parts; r++) {
        int start = (int)((double)size * r / parts), end = (int)((double)size * (r + 1) / parts);
        double sum_of_heights = 0.0;
        for (int j = start; j < end; j++)
            sum_of_heights += heights[j];
        bound->width[bound->rectangles] = widths[start];
        bound->mass[bound->rectangles++] = widths[start] * sum_of_heights;
    }
}

/* A minorant of the density of the loss, constant on the image of each node's cell; without `caution` the density at the
 * nodes itself, for an estimate. */
void minorant(workspace *space, const tilted_branch *part, double c, int caution, double *width, double *height)
{
    const quadrature *grid = &part->grid;
    const branch_table *table = &grid->table;
    const branch *of = grid->of;
    int cells = table->nodes, monotone = is_zero(&of->left) || is_zero(&of->right);
    double span = larger(span_of(&of->right), span_of(&of->left)), h = grid->step, growth = 0.5 * span * h;
    double variance = larger(of->right.variance, of->left.variance);
    double tilted_variance = larger((1.0 + c) * of->right.variance, c * of->left.variance);
    double stretch = expm1(growth), shrink = growth > 1e-9 ? -expm1(-growth) / growth : 1.0 - growth;
    if (monotone) /* Psi' is at least its value at the node on one half of the cell */
        shrink = 0.5 * (1.0 + shrink);
    double reach = larger(fabs(table->u[0]), fabs(table->u[cells - 1]));
    double doubt = larger(slope_error(&of->right, reach), slope_error(&of->left, reach));
    if (!(doubt < 0.01))
        decline(space, ROUNDED);
    for (int j = 0; j < cells; j++) {
        double slope = table->slope[j], u = table->u[j], tilted_slope = table->right.mean[j] + c * slope;
        /* Psi' changes by at most this part of itself within half a cell: by the span, or by the variance. */
        double change = smaller(growth, 0.5 * h * variance / (slope * (1.0 - doubt)));
        double kept = larger(shrink, 1.0 - (monotone ? 0.25 : 0.5) * change);
        width[j] = h * slope * (1.0 - doubt) * SHORT_OF * kept;
        /* A weight may be too large by its error: the heights must stay below the density. */
        height[j] = part->weight[j] / (h * slope) * (1.0 - 1.01 * doubt - part->weight_error);
        if (caution) {
            double more = smaller(tilted_slope * stretch, 0.5 * h * tilted_variance);
            double drift = fabs(tilted_slope - u) + tilted_slope * 2.0 * doubt + more + 0.5 * h;
            if (of->thin.thinned)
                drift += steepness(&of->thin, u - 0.5 * h, u + 0.5 * h);
            height[j] *= exp(-0.5 * h * drift * (1.0 + 1e-9) - change);
        }
        /* Means below the normal doubles have lost their relative accuracy. */
        if (!isfinite(height[j]) || !(slope > 1e-280))
            height[j] = 0.0;
    }
}

/* Rectangles of one branch: its minorant, compressed to so many rectangles per peak. */
static void certify_branch(workspace *space, const tilted_branch *part, double c, int rectangles, int caution,
                           decay *bound)
{
    /* Far out the rounds are many, and what is rare in each of them decides: (1 - mass)^T. */
    double rest = space->far ? smaller(REST, REST_OF_ALL / bound->count) : REST;
    int cells = part->grid.table.nodes;
    double *width = doubles(space, cells), *height = doubles(space, cells), mass = 0.0;
    minorant(space, part, c, caution, width, height);
    for (int j = 0; j < cells; j++)
        mass += part->weight[j];
    for (int i = 0; i < LARGEST_NUMBER_OF_PEAKS; i++) {
        peel(space, width, height, cells, rectangles, bound);
        if (dot(width, height, cells) < rest * mass)
            break;
    }
}

decay certify(workspace *space, const tilted_round *tilted, int rectangles, int caution)
{
    const round_law *law = tilted->law;
    decay bound = {.count = law->count, .gaussians = law->gaussians, .mu = law->mu};
    if (tilted->allocated != NULL) { /* S-35 */
        bound.gaussians = law->allocated->products;
        bound.mu = tilted->allocated->mu;
        bound.log_share = tilted->allocated->log_share;
        bound.allocated = law->allocated;
        bound.factor = tilted->allocated->factor;
        return bound;
    }
    /* Branches share what one of them alone would have. */
    int each = rectangles / (tilted->branches > 0 ? tilted->branches : 1);
    each = each < 16 ? 16 : each;
    size_t room = (size_t)LARGEST_NUMBER_OF_PEAKS * each * (size_t)tilted->branches;
    bound.width = doubles(space, room);
    bound.mass = doubles(space, room);
    bound.log_share = doubles(space, law->gaussians + 1);
    for (int b = 0; b < tilted->branches; b++) {
        bookmark place = mark(space);
        spend(space, 30.0 * tilted->branch[b].grid.table.nodes);
        certify_branch(space, &tilted->branch[b], tilted->tilt, each, caution, &bound);
        rewind_to(space, place);
    }
    double *share = doubles(space, tilted->branches + 1);
    bound.branches = tilted->branches;
    bound.branch_share = share;
    for (int b = 0; b < tilted->branches; b++)
        bound.on_grids += share[b] = tilted->branch[b].share;
    for (int b = 0; b < law->gaussians; b++)
        bound.log_share[b] = log(tilted->omega[b] * (1.0 + tilted->gaussian_error[b])) + 1e-12;
    if (law->gaussians == 1 && tilted->branches == 0)
        bound.log_share[0] = 0.0;
    return bound;
}

/* The same by lines off the real axis as well, where few rounds, or rare losses, decay too slowly by rectangles (S-40). */
void add_lines(workspace *space, const tilted_round *tilted, decay *bound)
{
    int branches = bound->branches;
    const tilted_branch *first = tilted->branch + (tilted->branches - branches);
    bound->line = allocate(space, ((size_t)branches * LINES + 1) * sizeof(decay_line));
    for (int b = 0; b < branches; b++) {
        const tilted_branch *part = first + b;
        double strip = smaller(WIDEST_LINE / sqrt(stiffness_of(part->grid.of)),
                               smaller(widest_strip(&part->grid.of->right), widest_strip(&part->grid.of->left)));
        for (int i = 0; i < LINES; i++, strip *= 0.6) {
            bound->line[b * LINES + i] = (decay_line){.entries = 0};
            /* Where the span does not say so, the sides need not turn the same way everywhere. */
            int turns = largest_turn(&part->grid.of->right, strip) == 0.0 && largest_turn(&part->grid.of->left, strip) == 0.0;
            if (part->grid.cells.size > 0 && turns)
                bound->line[b * LINES + i] = line_decay(space, part, tilted->tilt, strip);
        }
    }
}

/* 1 - env(x), rounded down by at most 1e-9 of itself. */
static double one_minus_envelope(double x)
{
    if (x < 0.1)
        return x * x * (1.0 / 6.0 - x * x / 120.0); /* 1 - sin(x) / x >= x^2 / 6 - x^4 / 120 */
    return x > 0.5 * PI ? 1.0 - 1.0 / x : 1.0 - sin(x) / x;
}

/* log of a bound on |phi(s)| of all branches with a grid, for all s >= frequency, by the best line of each (S-40). */
static double log_by_lines(const decay *bound, double frequency)
{
    double all = -INFINITY;
    for (int b = 0; b < bound->branches; b++) {
        double best = 0.0;
        for (int i = 0; i < LINES; i++) {
            const decay_line *line = &bound->line[b * LINES + i];
            double top = -INFINITY, total = 0.0;
            for (int j = 0; j < line->entries; j++)
                top = larger(top, line->log_mass[j] - frequency * line->rate[j]);
            for (int j = 0; j < line->entries; j++) {
                double below = line->log_mass[j] - frequency * line->rate[j] - top;
                if (!(below < -40.0)) /* the others, at most 152, are below the slack */
                    total += exp(below);
            }
            if (line->entries > 0)
                best = smaller(best, top + log(total) + 1e-9);
        }
        all = log_add(all, log(bound->branch_share[b]) + best) + 1e-12;
    }
    return all;
}

/* log of a bound on |phi(s)| of one product of allocations, for all s >= frequency (S-35, S-46). */
static double log_product_decay(const decay *bound, int product, double frequency)
{
    const allocation_law *law = bound->allocated;
    double total = 0.0;
    for (int f = 0; f < law->factors; f++)
        if (law->times[product * law->factors + f] > 0.0)
            total += law->times[product * law->factors + f] * log_factor_decay(&bound->factor[f], frequency);
    return total * SHORT_OF;
}

/* (number of rounds) * log of a bound on |phi(s)| for all s >= frequency. */
double log_decay(const decay *bound, double frequency)
{
    double captured = 0.0;
    for (int r = 0; r < bound->rectangles; r++)
        captured += bound->mass[r] * one_minus_envelope(0.5 * frequency * bound->width[r]);
    /* |phi| <= sum_b omega_b |phi_b|: what the rectangles leave, and the Gaussian branches' e^{-s^2 mu^2 / 2}. */
    double rest = -INFINITY, square = 0.5 * frequency * frequency * SHORT_OF;
    for (int b = 0; b < bound->gaussians; b++) {
        double falls = bound->factor != NULL ? log_product_decay(bound, b, frequency) : -square * bound->mu[b] * bound->mu[b];
        rest = log_add(rest, bound->log_share[b] + falls);
    }
    if (bound->on_grids > 0.0) {
        double left = larger(bound->on_grids - captured * SHORT_OF, 1e-15), log_left = log(left);
        if (bound->line != NULL)
            log_left = smaller(log_left, log_by_lines(bound, frequency));
        rest = rest == -INFINITY ? log_left : log_add(rest, log_left);
        rest += 1e-14;
    }
    return bound->count * smaller(rest, 0.0);
}
