/* Rounds that are seldom of consequence: one contour for what is left beside small losses (S-50).
 *
 * An outcome is small if u + w Z <= edge. With small parts of a round's two measures,
 *
 *     delta(eps) = H(small^T) + R(eps),      R(eps) = 1 / (2 pi i) int e^{-eps z} k(z) (G^T - G_small^T) dz .
 *
 * Small losses do not reach epsilon: Chernoff's bound on H(small^T) is next to nothing. Their characteristic function,
 * which hardly decays, drops out of the difference, and the contour ends where all others have decayed.
 */
#include "arithmetic.h"
#include "spectral.h"

/* H(small^T) may be this much (e^-34) of delta. */
#define LOG_REST -34.0
/* The edge's width, in units of the distance in which a rare loss grows by a factor e. */
#define EDGE 0.4
/* Losses at the edge that are tried, and tilts for Chernoff's bound as multiples of the contour's. */
static const double LOSSES[] = {3.0, 2.0, 1.2, 0.7, 0.4, 0.2, 0.1, 0.05};
static const double MULTIPLES[] = {1.2, 1.5, 2.0, 3.0, 4.0};

/* One round's small part, and the round with a branch for its small part and one for the rest, the former first; 0 if a
 * loss is out of reach. */
static int part_round(workspace *space, const round_law *law, double loss, round_law *small, round_law *parts)
{
    if (law->branches == 0 || law->gaussians > 0 || law->allocated != NULL || law->lost > 0.0)
        decline(space, RARE_LOSSES);
    *small = *parts = *law;
    small->branch = allocate(space, law->branches * sizeof(branch));
    parts->branch = allocate(space, 2 * law->branches * sizeof(branch));
    parts->branches = 2 * law->branches;
    for (int b = 0; b < law->branches; b++) {
        branch below = law->branch[b], above = law->branch[b];
        double shift = larger(largest_shift(&below.right), largest_shift(&below.left));
        thinning *thin = &below.thin;
        *thin = (thinning){.thinned = 1, .exact = 1, .edge = reaching(space, &below, loss)};
        thin->width = smaller(EDGE / shift, 1.0);
        if (!(thin->edge < INFINITY))
            return 0;
        thin->log_eta = log_beyond_edge(&below.right, thin, 1.0, &thin->relative_error);
        thin->log_zeta = log_beyond_edge(&below.left, thin, -1.0, &thin->relative_error);
        thin->log_discarded = larger(thin->log_eta, thin->log_zeta) + 1e-6;
        above.thin = (thinning){.thinned = 1, .has_lower = 1, .lower = thin->edge, .edge = INFINITY, .width = thin->width};
        small->branch[b] = parts->branch[b] = below;
        parts->branch[law->branches + b] = above;
    }
    return 1;
}

/* log of Chernoff's bound on what small losses alone have beyond epsilon. */
static double log_small_alone(workspace *space, const prepared *small, double tilt, double epsilon)
{
    int last = sizeof MULTIPLES / sizeof MULTIPLES[0];
    saddle at = start_scan(space, small, tilt * MULTIPLES[last - 1]);
    for (int i = 0; i < last; i++)
        add_tilt(space, &at.by, &at.found, tilt * MULTIPLES[i]);
    return log_chernoff(&at.found, epsilon);
}

contour build_remainder(workspace *space, const prepared *problem, saddle *at, double log_planned)
{
    prepared small = *problem, parts = *problem;
    int *smaller_ones = allocate(space, problem->rounds * sizeof(int));
    small.round = allocate(space, problem->rounds * sizeof(round_law));
    parts.round = allocate(space, problem->rounds * sizeof(round_law));
    for (int r = 0; r < problem->rounds; r++)
        smaller_ones[r] = problem->round[r].branches;
    bookmark place = mark(space);
    for (int i = 0; i < (int)(sizeof LOSSES / sizeof LOSSES[0]); i++) {
        rewind_to(space, place);
        int parted = LOSSES[i] < at->epsilon;
        for (int r = 0; parted && r < problem->rounds; r++)
            parted = part_round(space, &problem->round[r], LOSSES[i], &small.round[r], &parts.round[r]);
        if (!parted)
            continue;
        double rest_from = NEARLY * at->epsilon, rest = log_small_alone(space, &small, at->tilt, rest_from);
        if (!(rest < at->log_delta + LOG_REST))
            continue;
        contour path = build_beside(space, &parts, at, log_planned, smaller_ones);
        path.log_rest = rest;
        path.rest_from = rest_from;
        return path;
    }
    decline(space, RARE_LOSSES);
    return (contour){.samples = 0};
}
