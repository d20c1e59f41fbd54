/* K(c) = sum_j T_j log G_j on a set of tilts. Only `level` is used in proofs (S-24); the rest chooses the contour, and a
 * poor choice costs width, never validity. */
#include "arithmetic.h"
#include "spectral.h"

#define LARGEST_TILT 1e17
/* With more rounds than this, K is summed from second-order terms. */
#define MANY_ROUNDS 1e5
/* Terms of a moment this far below the largest are left out: 150 000 of them are below the slack of 1e-12. */
#define FAR_BELOW -45.0

/* log of c^c / (1 + c)^{1 + c}, written so that large c does not cancel, and rounded up: delta(eps) <= kappa(c)
 * e^{K(c) - c eps}. */
static double log_kappa(double tilt) { return (-tilt * log1p(1.0 / tilt) - log1p(tilt)) * (1.0 - 24.0 * U); }

/* The trapezoid sum of phi chi A^{1+c} B^{-c} of one branch. */
static moment branch_moment_of(const quadrature *grid, double c)
{
    const double *psi = grid->table.psi, *log_a = grid->table.right.log, *log_weight = grid->log_weight;
    double top = -INFINITY, total = 0.0, first = 0.0, second = 0.0;
    for (int j = 0; j < grid->table.nodes; j++)
        top = larger(top, log_a[j] + c * psi[j] + log_weight[j]);
    for (int j = 0; j < grid->table.nodes; j++) {
        double distance = log_a[j] + c * psi[j] + log_weight[j] - top;
        if (distance < FAR_BELOW)
            continue;
        double term = exp(distance);
        total += term;
        first += term * psi[j];
        second += term * psi[j] * psi[j];
    }
    moment found = {.log = top + log(total), .mean = first / total, .upper = INFINITY};
    found.variance = larger(second / total - found.mean * found.mean, 1e-30 * second / total);
    return found;
}

/* log G and its upper bound from second-order terms, where the loss is small (S-23). */
static void refine_small_loss(const quadrature *grid, double tilt, double log_relative, moment *found)
{
    if (!(found->log < 0.5 && log_relative < -1.0) || grid->of->thin.has_lower)
        return;
    double excess, error;
    excess_moment(grid, tilt, &excess, &error);
    double trapezoid = exp(log_relative + found->log) + identity_error(grid, tilt);
    const thinning *thin = &grid->of->thin;
    if (thin->exact) { /* E[chi A] + c E[chi (A - B)] = 1 + c zeta - (1 + c) eta */
        double less = (1.0 + tilt) * exp(thin->log_eta), more = tilt * exp(thin->log_zeta);
        excess += more - less;
        trapezoid += (less + more) * (thin->relative_error + 1e-12) + (1.0 + tilt) * 1e-300;
        trapezoid += thin->is_cut ? (1.0 + 2.0 * tilt) * exp(log_keep(thin, thin->cut) + 1e-9) : 0.0; /* S-38 */
    } else if (thin->thinned || thin->is_cut) {
        trapezoid += 2.0 * (1.0 + tilt) * exp(thin->log_discarded);
    }
    double most = excess + 1.01 * (error + trapezoid);
    if (!(isfinite(most) && excess > -0.5))
        return;
    found->log = log1p(excess);
    found->upper = log1p(most);
    found->upper += 1e-12 * fabs(found->upper);
}

/* One round at one tilt: its branches' moments joined by the coin (S-18, S-24). */
static moment round_moment(workspace *space, const scanner *by, int i, double tilt, double *logs)
{
    const round_law *law = &by->problem->round[i];
    double half = 0.5 * tilt * (tilt + 1.0), top = -INFINITY, upper_top = -INFINITY;
    int parts = law->branches + law->gaussians;
    moment *found = (moment *)logs;
    if (law->allocated != NULL) {
        allocation_moment(space, &by->allocated[i], law, tilt, &found->log, &found->upper, &found->mean,
                          &found->variance);
        return *found;
    }
    spend(space, 20.0 * law->gaussians);
    for (int b = 0; b < law->branches; b++) {
        const quadrature *grid = &by->grids[i][b];
        spend(space, 20.0 * (grid->table.nodes + grid->of->right.size));
        found[b] = branch_moment_of(grid, tilt);
        double log_relative = log_error(grid, tilt, found[b].log, 0.0);
        if (log_relative < -1.0) {
            /* Rounding: that of Psi times the exponent, of the weight (its normal tail included), and of the sum. */
            double slack = (1.0 + tilt) * by->psi_doubt[i][b] + 32.0 * U * by->weight_size[i][b];
            slack += (grid->table.nodes + 10.0) * U + 1e-12;
            found[b].upper = found[b].log + slack - log1p(-exp(log_relative));
        }
        if (law->count > MANY_ROUNDS)
            refine_small_loss(grid, tilt, log_relative, &found[b]);
    }
    if (parts == 1 && law->branches == 1 && law->lost == 0.0)
        return found[0];
    for (int b = 0; b < law->gaussians; b++) {
        double square = law->mu[b] * law->mu[b], v = half * square;
        found[law->branches + b] = (moment){v, v * (1.0 + 24.0 * U), (tilt + 0.5) * square, square};
    }
    if (parts == 1 && law->lost == 0.0)
        return found[0];
    /* With many rounds of small losses log G is summed from G - 1, as the branches' own are. */
    double excess = -law->lost, upper_excess = -law->lost * (1.0 - 1e-9), total = 0.0, upper_total = 0.0;
    double size = law->lost;
    for (int b = 0; b < parts; b++) {
        double log_weight = b < law->branches ? law->branch[b].log_weight : law->gaussian_log_weight[b - law->branches];
        double w = exp(log_weight), beyond = expm1(found[b].upper);
        excess += w * expm1(found[b].log);
        size += w * fabs(beyond);
        upper_excess += w * beyond * (1.0 + copysign(1e-13 * (1.0 + fabs(log_weight)), beyond));
        found[b].log += log_weight;
        found[b].upper += log_weight + 1e-14 * (1.0 + fabs(log_weight) + fabs(found[b].upper));
        top = larger(top, found[b].log);
        upper_top = larger(upper_top, found[b].upper);
    }
    moment joint = {.upper = upper_top};
    for (int b = 0; b < parts; b++) {
        double term = exp(found[b].log - top);
        total += term;
        upper_total += exp(found[b].upper - upper_top);
        joint.mean += term * found[b].mean;
        joint.variance += term * (found[b].variance + found[b].mean * found[b].mean);
    }
    joint.mean /= total;
    joint.variance = larger(joint.variance / total - joint.mean * joint.mean, 1e-30 * joint.variance / total);
    joint.log = top + log(total);
    joint.upper = upper_top + log(upper_total) + 1e-12;
    if (isfinite(upper_excess) && joint.log < 0.5 && upper_excess > -0.5) {
        joint.log = log1p(excess);
        joint.upper = smaller(joint.upper, log1p(upper_excess) + 1e-12 * size + 1e-300);
    }
    return joint;
}

static moment moment_of(workspace *space, const scanner *by, int i, double tilt)
{
    const round_law *law = &by->problem->round[i];
    bookmark place = mark(space);
    double *logs = doubles(space, (size_t)(law->branches + law->gaussians + 1) * sizeof(moment) / sizeof(double));
    moment one = round_moment(space, by, i, tilt, logs);
    rewind_to(space, place);
    return one;
}

/* The parts' moments at one tilt, computed once. */
static const moment *moments_of_parts(workspace *space, parts_scan *parts, double tilt)
{
    int rounds = parts->problem.rounds, row = 0;
    while (row < parts->size && parts->tilt[row] != tilt)
        row++;
    if (row == parts->size) {
        if (row == MOST_TILTS)
            decline(space, ALIASES);
        for (int i = 0; i < rounds; i++)
            parts->at[row * rounds + i] = moment_of(space, &parts->by, i, tilt);
        parts->tilt[parts->size++] = tilt;
    }
    return parts->at + row * rounds;
}

/* K, K', K'' and the Chernoff bound at one tilt, put in its place among the others: its position. */
int add_tilt(workspace *space, const scanner *by, scan *found, double tilt)
{
    double k = 0.0, mean = 0.0, variance = 0.0, upper = 0.0;
    const moment *of_parts = by->parts != NULL ? moments_of_parts(space, by->parts, tilt) : NULL;
    for (int i = 0; i < found->size && of_parts != NULL; i++)
        if (found->tilt[i] == tilt)
            return i;
    for (int i = 0; i < (of_parts != NULL ? by->parts->problem.rounds : by->problem->rounds); i++) {
        double count = of_parts != NULL ? by->times[i] : by->problem->round[i].count;
        if (!(count > 0.0))
            continue;
        moment one = of_parts != NULL ? of_parts[i] : moment_of(space, by, i, tilt);
        k += count * one.log;
        mean += count * one.mean;
        variance += count * one.variance;
        upper += count * one.upper;
    }
    upper += 1e-12 * fabs(upper);
    if (found->size == found->room)
        decline(space, ALIASES);
    int at = found->size++;
    for (; at > 0 && found->tilt[at - 1] > tilt; at--) {
        found->tilt[at] = found->tilt[at - 1];
        found->k[at] = found->k[at - 1];
        found->mean[at] = found->mean[at - 1];
        found->variance[at] = found->variance[at - 1];
        found->level[at] = found->level[at - 1];
    }
    found->tilt[at] = tilt;
    found->k[at] = k;
    found->mean[at] = mean;
    found->variance[at] = variance;
    found->level[at] = log_kappa(tilt) + upper;
    found->level[at] += 2.0 * U * fabs(found->level[at]);
    return at;
}

static scan empty_scan(workspace *space)
{
    scan found = {.room = MOST_TILTS};
    double **columns[] = {&found.tilt, &found.k, &found.mean, &found.variance, &found.level};
    for (int i = 0; i < 5; i++)
        *columns[i] = doubles(space, MOST_TILTS);
    return found;
}

/* Quadratures good for every tilt up to `largest`. */
saddle start_scan(workspace *space, const prepared *problem, double largest)
{
    if (!(largest <= LARGEST_TILT))
        decline(space, ALIASES);
    saddle at = {.by = {.problem = problem, .largest = largest}};
    scanner *by = &at.by;
    by->grids = allocate(space, problem->rounds * sizeof(quadrature *));
    by->psi_doubt = allocate(space, problem->rounds * sizeof(double *));
    by->weight_size = allocate(space, problem->rounds * sizeof(double *));
    by->allocated = allocate(space, problem->rounds * sizeof(allocation_scan));
    for (int i = 0; i < problem->rounds; i++) {
        const round_law *law = &problem->round[i];
        if (law->allocated == NULL)
            continue;
        largest = largest_allocation_tilt(law->allocated, by->largest);
        by->limited |= largest < by->largest;
        by->largest = largest;
    }
    for (int i = 0; i < problem->rounds; i++) {
        const round_law *law = &problem->round[i];
        /* Relative error of G well below 1 / T: it enters K multiplied by T. */
        double log_tolerance = -12.0 - log(law->count) - log1p(largest);
        if (law->allocated != NULL)
            by->allocated[i] = scan_allocations(space, law, largest * SMALLEST_SHARE, largest);
        by->grids[i] = allocate(space, (law->branches + 1) * sizeof(quadrature));
        by->psi_doubt[i] = doubles(space, law->branches + 1);
        by->weight_size[i] = doubles(space, law->branches + 1);
        for (int b = 0; b < law->branches; b++) {
            by->grids[i][b] = plan(space, &law->branch[b], largest * SMALLEST_SHARE, largest, 0.0, log_tolerance,
                                   law->count > MANY_ROUNDS);
            const quadrature *grid = &by->grids[i][b];
            const branch_table *table = &grid->table;
            double doubt = 0.0, size = 0.0;
            for (int j = 0; j < table->nodes; j++) {
                double error = larger(table->psi_error[j], table->right.log_error[j]);
                doubt = larger(doubt, error + 4.0 * U * (fabs(table->psi[j]) + fabs(table->right.log[j])));
                size = larger(size, fabs(grid->log_weight[j]));
            }
            by->psi_doubt[i][b] = doubt;
            by->weight_size[i][b] = size;
        }
    }
    at.found = empty_scan(space);
    for (int i = 0; i < problem->rounds; i++)
        if (problem->round[i].allocated != NULL && problem->round[i].allocated->factor[0].atoms != NULL)
            at.found.above += problem->round[i].count * MOST_ABOVE_ONE;
    return at;
}

/* Quadratures of all parts, good for every tilt up to `largest`; moments are computed when they are asked for. */
void scan_parts(workspace *space, parts_scan *parts, double largest)
{
    parts->by = start_scan(space, &parts->problem, largest).by;
    parts->size = 0;
    parts->tilt = doubles(space, MOST_TILTS);
    parts->at = allocate(space, (size_t)MOST_TILTS * parts->problem.rounds * sizeof(moment));
}

/* A scan of a composition of parts, with all tilts that are known. */
saddle start_scan_of_parts(workspace *space, parts_scan *parts, const double *times)
{
    saddle at = {.by = parts->by, .found = empty_scan(space)};
    at.by.parts = parts;
    at.by.times = times;
    for (int i = 0; i < parts->size; i++)
        add_tilt(space, &at.by, &at.found, parts->tilt[i]);
    return at;
}

/* log of Chernoff's bound on a composition of parts; part i stands for itself and the next one where `with_next` says so. */
double log_chernoff_of_parts(const parts_scan *parts, const double *times, const int *with_next, double epsilon)
{
    int rounds = parts->problem.rounds;
    double best = 0.0;
    for (int row = 0; row < parts->size; row++) {
        const moment *at = parts->at + row * rounds;
        double upper = 0.0, tilt = parts->tilt[row];
        for (int i = 0; i < rounds; i++) {
            double one = with_next[i] ? log_add(at[i].upper, at[i + 1].upper) : at[i].upper;
            one += with_next[i] ? 1e-14 * (1.0 + fabs(at[i].upper) + fabs(at[i + 1].upper)) : 0.0;
            upper += times[i] > 0.0 ? times[i] * one : 0.0;
        }
        upper += log_kappa(tilt) + 1e-12 * fabs(upper);
        if (isfinite(upper))
            best = smaller(best, upper + 2.0 * U * fabs(upper) - tilt * epsilon * (1.0 - 4.0 * U));
    }
    return best + 1e-9;
}

/* Chernoff: delta(epsilon) <= e^log_delta at (and beyond) this epsilon, rigorously. */
double epsilon_ceiling(const scan *found, double log_delta)
{
    double best = INFINITY;
    for (int i = 0; i < found->size; i++)
        best = smaller(best, (found->level[i] - log_delta + 1e-9) / found->tilt[i]);
    return best + 1e-12 * fabs(best);
}

/* Mean and standard deviation of the composed loss under P, roughly. */
void loss_scale(workspace *space, prepared *problem)
{
    double mean = 0.0, variance = 0.0;
    bookmark place = mark(space);
    for (int i = 0; i < problem->rounds; i++) {
        const round_law *law = &problem->round[i];
        double first = 0.0, second = 0.0, weights = 0.0;
        if (law->allocated != NULL) {
            double one = allocation_variance(law->allocated);
            mean += 0.5 * law->count * one;
            variance += law->count * one;
            continue;
        }
        for (int b = 0; b < law->branches; b++) {
            quadrature grid = plan(space, &law->branch[b], 0.0, 0.0, 0.0, -12.0, 0);
            const double *psi = grid.table.psi, *log_a = grid.table.right.log;
            double total = 0.0, one = 0.0, other = 0.0, w = law->branch[b].weight;
            for (int j = 0; j < grid.table.nodes; j++) {
                double weight = exp(grid.log_weight[j] + log_a[j]);
                total += weight;
                one += weight * psi[j];
            }
            one /= total;
            for (int j = 0; j < grid.table.nodes; j++)
                other += exp(grid.log_weight[j] + log_a[j]) * (psi[j] - one) * (psi[j] - one);
            weights += w;
            first += w * one;
            second += w * (other / total + one * one);
        }
        for (int b = 0; b < law->gaussians; b++) {
            double w = exp(law->gaussian_log_weight[b]), square = law->mu[b] * law->mu[b];
            weights += w;
            first += w * 0.5 * square;
            second += w * (square + 0.25 * square * square);
        }
        first /= weights;
        mean += law->count * first;
        variance += law->count * larger(second / weights - first * first, 1e-12 * second / weights);
    }
    rewind_to(space, place);
    problem->mean = mean;
    problem->deviation = sqrt(variance);
    if (!(problem->deviation > 1e-140))
        decline(space, SHIFTS);
}

/* For the tests: K and its Chernoff level at the tilts given. */
scan scan_at(workspace *space, const prepared *problem, const double *tilts, int count)
{
    double largest = 0.0;
    for (int i = 0; i < count; i++)
        largest = larger(largest, tilts[i]);
    saddle at = start_scan(space, problem, largest);
    for (int i = 0; i < count && i < MOST_TILTS; i++)
        add_tilt(space, &at.by, &at.found, tilts[i]);
    return at.found;
}
