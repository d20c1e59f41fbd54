/* How far a contour reaches: where what lies beyond is negligible (S-6, S-50). */
#include "arithmetic.h"
#include "spectral.h"

/* An estimate of the reach beyond so many times that of a Gaussian is not trusted. */
#define TRUSTED 60.0

/* `level` and log of prod D_r^{T_r}, D_r a bound on |phi_r| beyond the frequency; of prod (p_r + D_r)^{T_r} - prod p_r^{T_r}
 * where small losses have the shares p_r, and D_r is about all others (S-50). */
double log_decay_of_all(const decay *decays, int rounds, double frequency, double level)
{
    double more = 0.0, size = 0.0;
    for (int i = 0; i < rounds; i++) {
        const decay *one = &decays[i];
        if (!(one->small > 0.0)) {
            level += log_decay(one, frequency);
            continue;
        }
        double log_small = log(one->small), log_ratio = log_decay(one, frequency) / one->count - log_small;
        double ratio = exp(larger(smaller(log_ratio, 700.0), -700.0));
        level += one->count * log_small;
        more += one->count * log1p(ratio);
        size += one->count * fabs(log_small);
    }
    if (size == 0.0 && more == 0.0)
        return level;
    /* log(e^x - 1), and the roundings of both sums. */
    return level + (more > 1.0 ? more + log1p(-exp(-more)) : log(expm1(more))) + 1e-13 * (size + more) + 1e-12;
}

static double truncation_level(const decay *decays, int rounds, double frequency)
{
    return log_decay_of_all(decays, rounds, frequency, -log(PI * frequency));
}

/* The smallest frequency S (to 2 per cent) with prod B(S)^T / (pi S) below e^goal; infinite if there is none near. By the
 * chord in log S, its end moved up by 1 per cent so that it lands on the right side. */
double choose_truncation(const decay *decays, int rounds, double reach, double goal)
{
    double low = 0.5 * reach, high = 1.2 * reach, factor = 1.4, above = INFINITY, below, level;
    for (; !((below = truncation_level(decays, rounds, high)) <= goal); high *= factor, factor *= 1.4) {
        low = high;
        above = below;
        if (!(high < 1e8 * reach))
            return INFINITY;
    }
    for (int tries = 0; high > 1.02 * low; tries++) {
        double share = above < INFINITY && tries % 3 != 2 ? (above - goal) / (above - below) : 0.5;
        double next = smaller(larger(1.01 * low * pow(high / low, share), 1.019 * low), high / 1.019);
        if ((level = truncation_level(decays, rounds, next)) <= goal) {
            high = next;
            below = level;
        } else {
            low = next;
            above = level;
        }
    }
    return high;
}

/* The shares of a round of allocations, and log G, from the tables of the scan. */
static double rough_allocations(workspace *space, const allocation_scan *tables, tilted_round *rough)
{
    const allocation_law *of = rough->law->allocated;
    tilted_allocation *parts = allocate(space, sizeof(tilted_allocation));
    double log_moment, upper, mean, variance;
    *parts = (tilted_allocation){.mu = doubles(space, of->products), .log_share = doubles(space, of->products)};
    for (int b = 0; b < of->products; b++) {
        parts->mu[b] = allocation_mu(of, b);
        parts->log_share[b] = of->log_weight[b];
    }
    rough->allocated = parts;
    allocation_moment(space, tables, rough->law, rough->tilt, &log_moment, &upper, &mean, &variance);
    return log_moment;
}

/* How far the contour will have to reach, from the coarse grids of the scan. A poor answer costs time only. */
double expected_reach(workspace *space, const saddle *at, double reach, double log_planned)
{
    const prepared *problem = at->by.problem;
    decay *decays = allocate(space, problem->rounds * sizeof(decay));
    tilted_round *all_of = allocate(space, problem->rounds * sizeof(tilted_round));
    double log_scale = 0.0, c = at->tilt, half = 0.5 * c * (c + 1.0);
    for (int i = 0; i < problem->rounds; i++) {
        const round_law *law = &problem->round[i];
        tilted_round rough = {.law = law, .tilt = c, .branches = law->branches};
        if (law->allocated != NULL) {
            log_scale += law->count * rough_allocations(space, &at->by.allocated[i], &rough);
            decays[i] = certify(space, &rough, 64, 0);
            all_of[i] = rough;
            continue;
        }
        rough.branch = allocate(space, (law->branches + 1) * sizeof(tilted_branch));
        rough.omega = doubles(space, law->gaussians + 1);
        rough.gaussian_error = doubles(space, law->gaussians + 1);
        double top = -INFINITY, all = 0.0;
        for (int b = 0; b < law->branches; b++) {
            const quadrature *grid = &at->by.grids[i][b];
            double *weight = doubles(space, grid->table.nodes), log_weight = law->branch[b].log_weight;
            for (int j = 0; j < grid->table.nodes; j++) {
                weight[j] = log_weight + grid->table.right.log[j] + c * grid->table.psi[j] + grid->log_weight[j];
                top = larger(top, weight[j]);
            }
            rough.branch[b] = (tilted_branch){.grid = *grid, .weight = weight};
        }
        for (int b = 0; b < law->gaussians; b++) {
            rough.omega[b] = law->gaussian_log_weight[b] + half * law->mu[b] * law->mu[b];
            rough.gaussian_error[b] = 0.0;
            top = larger(top, rough.omega[b]);
        }
        for (int b = 0; b < law->branches; b++) {
            tilted_branch *part = &rough.branch[b];
            for (int j = 0; j < part->grid.table.nodes; j++)
                part->weight[j] = exp(part->weight[j] - top);
            part->share = sum(part->weight, part->grid.table.nodes);
            part->log_moment = top + log(part->share) - law->branch[b].log_weight;
            all += part->share;
        }
        for (int b = 0; b < law->gaussians; b++)
            all += rough.omega[b] = exp(rough.omega[b] - top);
        for (int b = 0; b < law->branches; b++) {
            rough.branch[b].share /= all;
            for (int j = 0; j < rough.branch[b].grid.table.nodes; j++)
                rough.branch[b].weight[j] /= all;
        }
        for (int b = 0; b < law->gaussians; b++)
            rough.omega[b] /= all;
        log_scale += law->count * (top + log(all));
        decays[i] = certify(space, &rough, 64, 0);
        all_of[i] = rough;
    }
    double goal = at->log_delta - (log_scale - at->tilt * at->epsilon) + log_planned;
    double found = choose_truncation(decays, problem->rounds, reach, goal);
    if ((space->few || found > LINES_BEYOND * reach) && !problem->allocates) {
        for (int i = 0; i < problem->rounds; i++)
            add_lines(space, &all_of[i], &decays[i]);
        found = choose_truncation(decays, problem->rounds, reach, goal);
    }
    if (found > TRUSTED * reach && !problem->allocates) /* too coarse a grid to tell, with few rounds */
        return 3.5 * reach;
    return problem->allocates ? 1.02 * found : larger(1.15 * found, 1.2 * reach);
}

/* K'' between the tilts of a scan. */
double interpolated_variance(const scan *found, double tilt)
{
    int i = 1;
    while (i < found->size - 1 && found->tilt[i] < tilt)
        i++;
    double share = (tilt - found->tilt[i - 1]) / (found->tilt[i] - found->tilt[i - 1]);
    share = smaller(larger(share, 0.0), 1.0);
    return (1.0 - share) * found->variance[i - 1] + share * found->variance[i];
}

/* K(c) and the centre of a term, with their errors, and how far its contour has to reach. */
static void place_term(workspace *space, const prepared *problem, const tilted_round *tilted, const decay *decays,
                       double log_planned, sampled_term *term)
{
    contour *path = &term->path;
    double scale = 0.0, lost = 0.0, centre_lost = 0.0, rounding = 0.0;
    decay *own = allocate(space, problem->rounds * sizeof(decay));
    int rounds = 0;
    *path = (contour){.tilt = term->at->tilt, .log_rest = -INFINITY};
    for (int i = 0; i < problem->rounds; i++) {
        double count = term->times[i];
        if (!(count > 0.0))
            continue;
        own[rounds] = decays[i];
        own[rounds++].count = count;
        add_compensated(&scale, &lost, count * tilted[i].log_moment);
        path->log_scale_error += 1.01 * count * tilted[i].log_moment_error;
        rounding += U * fabs(count * tilted[i].log_moment);
        /* To 2 U of its size: an error of the centre moves epsilon, and 4 U is what is charged for it. */
        add_compensated(&path->centre, &centre_lost, count * tilted[i].centre);
        path->centre_size += count * fabs(tilted[i].centre);
    }
    path->log_scale = scale + lost;
    path->centre += centre_lost;
    /* Each product's rounding, and that of their sum. */
    path->log_scale_error += 4.0 * U * fabs(path->log_scale) + rounding;
    path->centre_size *= 1.0 + rounds * U;
    /* The trapezoid sum is of this size, relative to e^{K(c) - c eps}. */
    double size = term->at->log_delta - (path->log_scale - path->tilt * term->at->epsilon);
    double deviation = sqrt(interpolated_variance(&term->at->found, path->tilt));
    term->decays = own;
    term->rounds = rounds;
    term->reach = choose_truncation(own, rounds, sqrt(-2.0 * log_planned) / deviation, size + log_planned);
}

/* How far the longest contour of the terms has to reach. */
double reach_of_terms(workspace *space, const prepared *problem, const tilted_round *tilted, decay *decays,
                      double log_planned, sampled_term *term, int terms)
{
    double deviation = sqrt(interpolated_variance(&term[0].at->found, term[0].at->tilt));
    for (int lines = space->few;; lines = 1) {
        double reach = 0.0;
        for (int i = 0; lines && i < problem->rounds; i++)
            add_lines(space, &tilted[i], &decays[i]);
        for (int t = 0; t < terms; t++) {
            place_term(space, problem, tilted, decays, log_planned, &term[t]);
            reach = larger(reach, term[t].reach);
        }
        if (lines || !(reach > LINES_BEYOND * sqrt(-2.0 * log_planned) / deviation))
            return reach;
    }
}
