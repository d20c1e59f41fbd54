/* Outcomes whose loss alone exceeds epsilon, discarded, with their part of delta in closed form (S-14).
 *
 * With D the event that some round's outcome is discarded (each u with probability 1 - chi(u), independently), P' and
 * Q' what is kept, and L the loss:
 *
 *     H(P^T, Q^T) = H(P'^T, Q'^T) + int_D (dP - e^eps dQ)_+,
 *     int_D (dP - e^eps dQ)_+ = P(D) - e^eps Q(D) + int_D (e^eps dQ - dP)_+,
 *
 * and the last integral is at most the sum over the rounds of e^eps E_Q[(1 - chi(U)) delta_rev(Psi(U) - eps)],
 * delta_rev the curve of the other rounds with P and Q exchanged. It is next to nothing where losses are discarded that
 * the other rounds will not make up for. So what is rare and large, which a contour would have to be long for, is left
 * to closed forms.
 */
#include "arithmetic.h"
#include "spectral.h"

/* log delta_rev beyond the loss that is discarded. */
#define LOG_UNLIKELY -30.0
/* What is discarded from below that loss, relative to delta. */
#define LOG_STRAY -28.0
#define NARROWEST 0.02
#define WIDEST 0.1
#define FARTHEST 1e4
/* Probabilities below this are not discarded: they would come close to the smallest double. */
#define SMALLEST_DISCARDED 1e-290
#define MOST_CONVERTED 64

/* log R(v) of a side and its posterior mean; the error of the logarithm is below the last argument. */
static double log_of(const side *law, double v, double *mean, double *error)
{
    double top = -INFINITY, total = 0.0, first = 0.0, largest = largest_shift(law), rarest = 0.0;
    for (int i = 0; i < law->size; i++) {
        top = larger(top, law->log_p[i] + law->shift[i] * v - 0.5 * law->shift[i] * law->shift[i]);
        rarest = larger(rarest, fabs(law->log_p[i]));
    }
    for (int i = 0; i < law->size; i++) {
        double term = exp(law->log_p[i] + law->shift[i] * v - 0.5 * law->shift[i] * law->shift[i] - top);
        total += term;
        first += term * law->shift[i];
    }
    *mean = first / total;
    *error = U * (law->size + 40.0 + 20.0 * (largest * fabs(v) + 0.5 * largest * largest + rarest + fabs(top)));
    return top + log(total);
}

static double psi_of(const branch *of, double u, double *slope, double *error)
{
    double mean_a, mean_b, error_a, error_b;
    double log_a = log_of(&of->right, u, &mean_a, &error_a), log_b = log_of(&of->left, -u, &mean_b, &error_b);
    *slope = mean_a + mean_b;
    *error = error_a + error_b + 2.0 * U * (fabs(log_a) + fabs(log_b));
    return log_a - log_b;
}

/* Where Psi reaches a loss: from above, to 1e-9; infinite if it does not, in reach. */
static double reaching(workspace *space, const branch *of, double loss)
{
    double low = -FARTHEST, high = FARTHEST, slope, error;
    spend(space, 50.0 * 40.0 * (of->right.size + of->left.size));
    if (!(psi_of(of, high, &slope, &error) > loss))
        return INFINITY;
    while (high - low > 1e-9) {
        double middle = 0.5 * (low + high);
        if (psi_of(of, middle, &slope, &error) > loss)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* log of a bound on Q(U <= u, U + w Z >= b). For a component N(-y, 1) of Q, {U' <= u + y, U' + w Z >= b + y} is convex:
 * with r its distance from the origin its probability is at most Phi(-r) <= e^{-r^2 / 2} / 2. The nearest point is the
 * foot of the second constraint, if that is within the first, and the corner otherwise. */
static double log_stray(const side *left, double u, const thinning *thin)
{
    double width = thin->width, actual = (thin->edge - u) / width, total = -INFINITY;
    for (int j = 0; j < left->size; j++) {
        double at = u + left->shift[j], edge = thin->edge + left->shift[j], inside = larger(at, 0.0);
        double square = inside * inside + actual * actual;
        if (edge <= at * (1.0 + width * width) * (1.0 + 1e-12))
            square = smaller(square, edge * edge / (1.0 + width * width));
        total = log_add(total, left->log_p[j] - LOG_2 - 0.5 * square * (1.0 - 1e-12));
    }
    return total + 1e-9;
}

/* The thinning of one branch, and what it adds to the remainder; none where next to nothing would be discarded. */
static void discard_beyond(workspace *space, branch *of, double loss, double log_rarity, double tilt, double count,
                           discarded_part *part, double unlikely)
{
    double slope, error, u = reaching(space, of, loss);
    if (!(u < FARTHEST))
        return;
    double psi_below = psi_of(of, u, &slope, &error) - error;
    double distance = sqrt(larger(2.0 * log_rarity - u * u, 4.0));
    /* Beyond the edge phi A^{1+c} B^{-c} still rises at this rate: the cut is to stop it within two deviations. */
    double width = smaller(larger(0.5 / larger((1.0 + tilt) * slope - u, 1.0), NARROWEST), WIDEST);
    thinning thin = {.thinned = 1, .exact = 1, .edge = u + distance * width, .width = width};
    double spread = sqrt(1.0 + width * width) * 1.41421356237309504880, farthest = 0.0;
    for (int i = 0; i < of->right.size; i++) {
        double z = (thin.edge - of->right.shift[i]) / spread;
        thin.eta += of->right.p[i] * 0.5 * erfc(z);
        farthest = larger(farthest, fabs(z));
    }
    for (int j = 0; j < of->left.size; j++) {
        double z = (thin.edge + of->left.shift[j]) / spread;
        thin.zeta += of->left.p[j] * 0.5 * erfc(z);
        farthest = larger(farthest, j == 0 ? fabs(z) : 0.0);
    }
    if (!(thin.zeta * of->weight >= SMALLEST_DISCARDED && thin.eta * of->weight >= SMALLEST_DISCARDED))
        return;
    /* erfc's argument is right to 14 U times the farthest (a shift to 4 U of itself), and erfc changes at a relative
     * rate of at most 2 |z| + 2; and the sum. Components of the left side that are farther than the nearest add less
     * than their share of it, with the same relative error up to where they are below SMALLEST_DISCARDED. */
    for (int j = 0; j < of->left.size; j++) {
        double z = (thin.edge + of->left.shift[j]) / spread;
        if (of->left.p[j] * 0.5 * erfc(z) > 1e-20 * thin.zeta)
            farthest = larger(farthest, fabs(z));
    }
    thin.relative_error = U * (of->right.size + of->left.size + 40.0 + 48.0 * (farthest * farthest + 1.0));
    thin.log_discarded = log(larger(thin.eta, thin.zeta)) + 1e-6;
    /* The difference may be far smaller than what is subtracted: its rounding is that of the two. */
    part->farthest = smaller(part->farthest, psi_below - unlikely - 4.0 * U * (fabs(psi_below) + unlikely));
    double remainder = log_add(log_stray(&of->left, u, &thin), log(thin.zeta) + LOG_UNLIKELY) + 1e-9;
    part->log_remainder = log_add(part->log_remainder, log(count) + of->log_weight + remainder);
    of->thin = thin;
}

/* Gaussian branches whose outcomes beyond the loss matter become branches with a quadrature, to be thinned. */
static void convert_gaussians(workspace *space, round_law *law, double loss, double log_budget)
{
    branch *all = allocate(space, (law->branches + MOST_CONVERTED + 1) * sizeof(branch));
    double *mu = doubles(space, law->gaussians + 1), *log_weight = doubles(space, law->gaussians + 1);
    int kept = 0, before = law->branches;
    for (int b = 0; b < law->branches; b++)
        all[b] = law->branch[b];
    for (int b = 0; b < law->gaussians; b++) {
        double one = law->mu[b], reached = one > 0.0 ? loss / one + 0.5 * one : INFINITY;
        double beyond = log(law->count) + law->gaussian_log_weight[b] + log_normal_cdf(one - reached);
        if (beyond > log_budget && law->branches < before + MOST_CONVERTED) {
            double *content = doubles(space, 3), *zero = doubles(space, 3);
            content[0] = one;
            content[1] = zero[1] = 1.0;
            content[2] = zero[2] = zero[0] = 0.0;
            all[law->branches++] = (branch){.right = {1, content, content + 1, content + 2},
                                            .left = {1, zero, zero + 1, zero + 2},
                                            .weight = exp(law->gaussian_log_weight[b]),
                                            .log_weight = law->gaussian_log_weight[b]};
            continue;
        }
        mu[kept] = one;
        log_weight[kept++] = law->gaussian_log_weight[b];
    }
    law->branch = all;
    law->gaussians = kept;
    law->mu = mu;
    law->gaussian_log_weight = log_weight;
}

/* P and Q exchanged, u -> -u: only what a Chernoff bound needs. */
static prepared reversed(workspace *space, const prepared *problem)
{
    prepared result = *problem;
    result.round = allocate(space, problem->rounds * sizeof(round_law));
    for (int j = 0; j < problem->rounds; j++) {
        round_law *law = &result.round[j];
        *law = problem->round[j];
        law->branch = allocate(space, (law->branches + 1) * sizeof(branch));
        for (int b = 0; b < law->branches; b++) {
            law->branch[b] = problem->round[j].branch[b];
            law->branch[b].right = problem->round[j].branch[b].left;
            law->branch[b].left = problem->round[j].branch[b].right;
        }
    }
    loss_scale(space, &result);
    return result;
}

/* A composition made ready for an epsilon that is nearly known. */
prepared prepare_near(workspace *space, int rounds, const round_law *whole, double log_delta, double epsilon)
{
    prepared result = trim(space, rounds, whole, log_delta);
    if (!(epsilon > 0.0 && epsilon < 600.0))
        decline(space, RARE_LOSSES);
    prepared exchanged = reversed(space, &result);
    saddle at = saddle_for_delta(space, &exchanged, LOG_UNLIKELY);
    double unlikely = larger(epsilon_ceiling(&at.found, LOG_UNLIKELY), 0.0); /* delta_rev <= e^-30 from here on */
    discarded_part *part = &result.discarded;
    *part = (discarded_part){.exact = 1, .farthest = INFINITY, .log_remainder = -INFINITY};
    double total = 0.0, kept_p = 0.0, kept_q = 0.0, p_error = 0.0, q_error = 0.0, lost = 0.0;
    for (int j = 0; j < rounds; j++)
        total += result.round[j].count;
    double log_rarity = log(total) + epsilon - log_delta - LOG_STRAY, loss = 1.001 * epsilon + unlikely;
    double tilt = smaller(0.6 * -log_delta / epsilon, sqrt(-2.0 * log_delta) / result.deviation);
    for (int j = 0; j < rounds; j++) {
        round_law *law = &result.round[j];
        double eta = 0.0, zeta = 0.0, eta_error = 0.0, zeta_error = 0.0;
        convert_gaussians(space, law, loss, log_delta + LOG_STRAY);
        for (int b = 0; b < law->branches; b++) {
            branch *of = &law->branch[b];
            discard_beyond(space, of, loss, log_rarity, tilt, law->count, part, unlikely);
            if (!of->thin.thinned)
                continue;
            double relative = of->thin.relative_error + U * (16.0 + 8.0 * fabs(of->log_weight) + law->branches);
            eta += of->weight * of->thin.eta;
            zeta += of->weight * of->thin.zeta;
            eta_error += of->weight * of->thin.eta * relative;
            zeta_error += of->weight * of->thin.zeta * relative;
        }
        kept_p += law->count * log1p(-eta);
        kept_q += law->count * log1p(-zeta);
        p_error += law->count * eta_error;
        q_error += law->count * zeta_error;
        lost += law->count * law->lost;
    }
    part->p = -expm1(kept_p);
    part->q = -expm1(kept_q);
    /* 1 - prod (1 - eta)^T moves by at most the sum of T times the errors; branches left out take at most their
     * probability off every factor, a relative change of at most 4 sum T lost; the rest is rounding. */
    part->p_error = 1.01 * p_error + ((rounds + 40.0) * U + 4.0 * lost) * part->p;
    part->q_error = 1.01 * q_error + ((rounds + 40.0) * U + 4.0 * lost) * part->q;
    if (!(part->p < 0.5 && lost < 0.01 && part->p_error < part->p + 1e-300))
        decline(space, RARE_LOSSES);
    return result;
}

/* Bounds on what the discarded outcomes contribute to delta(epsilon). */
void bound_discarded(const discarded_part *part, double epsilon, double *least, double *most)
{
    double factor = exp(epsilon), below = factor * (1.0 - 1e-14), above = factor * (1.0 + 1e-14);
    double remainder = exp(epsilon + part->log_remainder) * (1.0 + 1e-9) + 1e-300;
    double rounding = 8.0 * U * (part->p + above * part->q + remainder);
    *least = larger(part->p - part->p_error - above * (part->q + part->q_error) - rounding, 0.0);
    *most = part->p + part->p_error;
    if (epsilon <= part->farthest)
        *most = smaller(*most, larger(*most - below * (part->q - part->q_error) + remainder, *least));
    *most += rounding;
}
