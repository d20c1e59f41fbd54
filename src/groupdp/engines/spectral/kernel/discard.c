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
/* The same where middling losses are told from small ones, in units of the distance in which a loss grows by a factor e:
 * a narrow edge makes for a long contour, a wide one for middling losses on very different scales. */
#define WHILE_IT_GROWS 0.03
#define FARTHEST 1e4
#define LARGEST_EPSILON 1e5
/* A loss below this part of epsilon is small beside it. */
#define BESIDE 0.05
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

double psi_of(const branch *of, double u, double *slope, double *error)
{
    double mean_a, mean_b, error_a, error_b;
    double log_a = log_of(&of->right, u, &mean_a, &error_a), log_b = log_of(&of->left, -u, &mean_b, &error_b);
    *slope = mean_a + mean_b;
    *error = error_a + error_b + 2.0 * U * (fabs(log_a) + fabs(log_b));
    return log_a - log_b;
}

/* Where Psi reaches a loss: from above, to 1e-9; infinite if it does not, in reach. */
double reaching(workspace *space, const branch *of, double loss)
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

/* log of sum_i p_i Phi((s m_i - b) / sqrt(1 + w^2)), the probability discarded under one side's law; in logarithms, since
 * it may be below the smallest double. `relative` becomes at least the relative error of it. */
double log_beyond_edge(const side *law, const thinning *thin, double sign, double *relative)
{
    double spread = sqrt(1.0 + thin->width * thin->width), total = -INFINITY, farthest = 0.0;
    for (int i = 0; i < law->size; i++)
        total = log_add(total, law->log_p[i] + log_normal_cdf((sign * law->shift[i] - thin->edge) / spread));
    for (int i = 0; i < law->size; i++) {
        double z = (sign * law->shift[i] - thin->edge) / spread;
        if (law->log_p[i] + log_normal_cdf(z) > total - 50.0) /* n e^-50 is far below the rounding of the sum */
            farthest = larger(farthest, 0.5 * z * z + fabs(law->log_p[i]));
    }
    /* z is right to 5 U |z| + 4 U m; log Phi changes at a rate of at most |z| + 1, is computed to 20 U (1 + |log Phi|), and
     * |log Phi| <= z^2 / 2 + log(|z| + 1) + 1: together 30 U (z^2 / 2 + 4) at most, and 4 U m (|z| + 1); each addition of logarithms rounds to 20 U + 2 U of the sum. */
    double shift = largest_shift(law), depth = farthest + fabs(total) + 4.0;
    *relative = larger(*relative, U * (law->size * (40.0 + 2.0 * fabs(total)) + 40.0 * depth +
                                       30.0 * shift * sqrt(2.0 * depth)));
    return total;
}

/* The thinning of one branch, and what it adds to the remainder; none where the loss is out of reach. */
static void discard_beyond(workspace *space, branch *of, double loss, double log_rarity, double tilt, double count,
                           discarded_part *part, double unlikely, double widest)
{
    double slope, error, u = reaching(space, of, loss);
    if (!(u < FARTHEST))
        return;
    double psi_below = psi_of(of, u, &slope, &error) - error;
    double distance = sqrt(larger(2.0 * log_rarity - u * u, 4.0));
    /* Beyond the edge phi A^{1+c} B^{-c} still rises at this rate: the cut is to stop it within two deviations. */
    double narrowest = widest == SPLIT_EDGE ? WHILE_IT_GROWS * psi_below / slope : NARROWEST;
    double width = smaller(larger(0.2 / larger((1.0 + tilt) * slope - u, 1.0), narrowest), widest);
    thinning thin = {.thinned = 1, .exact = 1, .edge = u + distance * width, .width = width};
    thin.log_eta = log_beyond_edge(&of->right, &thin, 1.0, &thin.relative_error);
    thin.log_zeta = log_beyond_edge(&of->left, &thin, -1.0, &thin.relative_error);
    thin.log_discarded = larger(thin.log_eta, thin.log_zeta) + 1e-6;
    thin.is_cut = !space->plain;
    thin.cut = thin.edge + part->beyond * width;
    /* The difference may be far smaller than what is subtracted: its rounding is that of the two. */
    part->farthest = smaller(part->farthest, psi_below - unlikely - 4.0 * U * (fabs(psi_below) + unlikely));
    /* Branches left out make the other rounds' curve at most 1 + 2e-10 times smaller than without this round. */
    double remainder = log_add(log_stray(&of->left, u, &thin), thin.log_zeta + LOG_UNLIKELY) + 1e-9;
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
    return result;
}

/* log of -log(1 - x), and of 1 - e^-x, from log x. */
static double log_of_one_minus(double log_x) { return log_x < -40.0 ? log_x : log(-log1p(-exp(log_x))); }
static double log_of_probability(double log_x) { return log_x < -40.0 ? log_x : log(-expm1(-exp(log_x))); }

/* About the delta of single large losses alone; only guides. */
double delta_of_large_losses(workspace *space, int rounds, const round_law *whole, double epsilon)
{
    double total = 0.0, slope, error;
    for (int j = 0; j < rounds; j++) {
        for (int b = 0; b < whole[j].branches; b++) {
            const branch *of = &whole[j].branch[b];
            double u = reaching(space, of, epsilon), part = 0.0;
            if (!(u < FARTHEST))
                continue;
            double factor = exp(smaller(psi_of(of, u, &slope, &error), 700.0));
            for (int n = 0; n < of->right.size; n++)
                part += of->right.p[n] * exp(log_normal_cdf(of->right.shift[n] - u));
            for (int n = 0; n < of->left.size; n++)
                part -= factor * of->left.p[n] * exp(log_normal_cdf(-of->left.shift[n] - u));
            total += whole[j].count * of->weight * larger(part, 0.0);
        }
        total += whole[j].allocated != NULL ? whole[j].count * delta_of_large_places(whole[j].allocated, epsilon) : 0.0;
        for (int b = 0; b < whole[j].gaussians; b++) {
            double mu = whole[j].mu[b], u = epsilon / mu;
            if (mu > 0.0)
                total += whole[j].count * exp(whole[j].gaussian_log_weight[b]) *
                         (exp(log_normal_cdf(0.5 * mu - u)) - exp(epsilon + log_normal_cdf(-0.5 * mu - u)));
        }
    }
    return total;
}

/* About -d log delta / d epsilon of them. */
double rate_of_large_losses(workspace *space, int rounds, const round_law *whole, double epsilon)
{
    double before = delta_of_large_losses(space, rounds, whole, 0.98 * epsilon);
    return 50.0 * log(before / delta_of_large_losses(space, rounds, whole, epsilon)) / epsilon;
}

/* About the epsilon at which they have this delta: where to begin. */
double epsilon_of_large_losses(workspace *space, int rounds, const round_law *whole, double log_delta, double ceiling)
{
    double low = log(ceiling) - 60.0, high = log(ceiling), delta = exp(log_delta);
    for (int i = 0; i < 22; i++) {
        double middle = 0.5 * (low + high);
        if (delta_of_large_losses(space, rounds, whole, exp(middle)) > delta)
            low = middle;
        else
            high = middle;
    }
    return exp(high);
}

/* delta_rev <= e^-30 from this loss on: where it is 0 (S-3) if that is small beside epsilon, else by Chernoff. */
static double unlikely_loss(workspace *space, const prepared *problem, double epsilon)
{
    double largest = 0.0;
    if (problem->allocates) {
        space->unlikely = isnan(space->unlikely) ? unlikely_among_allocations(space, problem) : space->unlikely;
        return space->unlikely;
    }
    prepared exchanged = reversed(space, problem);
    for (int j = 0; j < exchanged.rounds; j++)
        largest += exchanged.round[j].count * largest_loss_of(&exchanged.round[j]);
    largest *= 1.0 + 1e-14 + exchanged.rounds * 4.0 * U;
    if (largest < BESIDE * epsilon)
        return largest;
    if (isnan(space->unlikely)) { /* the same for every epsilon */
        loss_scale(space, &exchanged);
        saddle at = saddle_for_delta(space, &exchanged, LOG_UNLIKELY);
        space->unlikely = smaller(larger(epsilon_ceiling(&at.found, LOG_UNLIKELY), 0.0), largest);
    }
    return space->unlikely;
}

/* A composition made ready for an epsilon that is nearly known. */
prepared prepare_near(workspace *space, int rounds, const round_law *whole, double log_delta, double epsilon,
                      double ahead, double widest)
{
    prepared result = trim_uncut(space, rounds, whole, log_delta);
    if (!(epsilon > 0.0 && epsilon < LARGEST_EPSILON) || (result.allocates && widest == SPLIT_EDGE))
        decline(space, RARE_LOSSES);
    if (space->reversed != whole || space->reversed_log_delta != log_delta)
        space->unlikely = NAN;
    space->reversed = whole;
    space->reversed_log_delta = log_delta;
    double unlikely = unlikely_loss(space, &result, epsilon);
    if (!(unlikely < LARGEST_EPSILON))
        decline(space, RARE_LOSSES);
    discarded_part *part = &result.discarded;
    *part = (discarded_part){.exact = 1, .farthest = INFINITY, .log_remainder = -INFINITY};
    double total = 0.0, p_error = 0.0, q_error = 0.0, lost = 0.0;
    part->log_p = part->log_q = -INFINITY;
    for (int j = 0; j < rounds; j++)
        total += result.round[j].count;
    /* A width before the cut outcomes are kept with at most e^{-(beyond - 1)^2 / 2}. */
    part->beyond = larger(BEYOND_THE_EDGE, 1.0 + sqrt(2.0 * larger(log(total) - log_delta - LOG_STRAY, 0.0)));
    double log_rarity = log(total) + epsilon - log_delta - LOG_STRAY, loss = epsilon + unlikely + ahead * larger(epsilon, unlikely);
    double tilt = smaller(0.6 * -log_delta / epsilon, sqrt(-2.0 * log_delta) / result.deviation);
    for (int j = 0; j < rounds; j++) {
        round_law *law = &result.round[j];
        double log_eta = -INFINITY, log_zeta = -INFINITY, relative = 0.0;
        if (law->allocated != NULL)
            discard_places(space, law, loss, unlikely, &result, &log_eta, &log_zeta, &relative);
        convert_gaussians(space, law, loss, log_delta + LOG_STRAY);
        for (int b = 0; b < law->branches; b++) {
            branch *of = &law->branch[b];
            discard_beyond(space, of, loss, log_rarity, tilt, law->count, part, unlikely, widest);
            if (!of->thin.thinned)
                continue;
            if (of->thin.is_cut)
                result.log_dropped = log_add(result.log_dropped, log(law->count) + of->log_weight + 1e-6 +
                                                                     log_keep(&of->thin, of->thin.cut - margin_of(&of->thin)));
            relative = larger(relative, of->thin.relative_error + U * (16.0 + 8.0 * fabs(of->log_weight)));
            log_eta = log_add(log_eta, of->log_weight + of->thin.log_eta);
            log_zeta = log_add(log_zeta, of->log_weight + of->thin.log_zeta);
        }
        /* Each addition of logarithms rounds to 20 U + 2 U of the sum; so do the products with T. */
        double additions = U * (law->branches + 4.0), of_count = 8.0 * (fabs(log(law->count)) + 1.0);
        if (log_eta > -INFINITY)
            p_error = larger(p_error, relative + additions * (20.0 + of_count + 2.0 * fabs(log_eta)));
        if (log_zeta > -INFINITY)
            q_error = larger(q_error, relative + additions * (20.0 + of_count + 2.0 * fabs(log_zeta)));
        part->log_p = log_add(part->log_p, log(law->count) + log_of_one_minus(log_eta));
        part->log_q = log_add(part->log_q, log(law->count) + log_of_one_minus(log_zeta));
        lost += law->count * law->lost;
    }
    /* 1 - prod (1 - eta)^T from sum -T log(1 - eta): relative errors of the eta become those of the sum and of p. Branches
     * left out take at most their probability off every factor, a relative change of at most 4 sum T lost. */
    double size = part->log_p > -INFINITY ? fabs(part->log_p) + fabs(part->log_q) : 0.0;
    part->log_p = log_of_probability(part->log_p);
    part->log_q = log_of_probability(part->log_q);
    double of_sums = U * (rounds + 8.0) * (20.0 + 2.0 * size) + 4.0 * lost;
    part->p_error = 1.05 * p_error + of_sums;
    part->q_error = 1.05 * q_error + of_sums;
    if (!(part->log_p < -LOG_2 && lost < 1e-10 && part->p_error < 0.01 && part->q_error < 0.01))
        decline(space, RARE_LOSSES);
    if (result.allocates)
        loss_scale(space, &result);
    return result;
}

/* Bounds on the logarithm of what the discarded outcomes contribute to delta(epsilon): p - e^eps q and a remainder, each
 * relative to p. */
void bound_discarded(const discarded_part *part, double epsilon, double *log_least, double *log_most)
{
    *log_least = *log_most = -INFINITY;
    if (part->log_p == -INFINITY)
        return;
    /* Of the exponents below: four roundings of at most the largest of their terms. */
    double size = fabs(epsilon) + fabs(part->log_p) + fabs(part->log_q), doubt = 8.0 * U * (size + 4.0);
    double q = exp(smaller(epsilon + part->log_q - part->log_p, 700.0));
    double remainder = exp(smaller(epsilon + part->log_remainder - part->log_p + 1e-9, 700.0));
    double least = 1.0 - part->p_error - q * (1.0 + part->q_error + doubt) - 16.0 * U * (1.0 + q);
    double most = 1.0 + part->p_error;
    if (epsilon <= part->farthest)
        most = smaller(most, most - q * (1.0 - part->q_error - doubt) + remainder);
    most = larger(most, least) + 16.0 * U * (1.0 + q);
    *log_least = least > 0.0 ? part->log_p + log(least) - doubt : -INFINITY;
    *log_most = part->log_p + log(larger(most, 0.0)) + doubt;
}
