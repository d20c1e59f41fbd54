/* Outcomes whose loss settles the matter by itself, discarded, with their part of delta in closed form (section 5).
 *
 * With D the event that some round's outcome is discarded (each u with probability 1 - chi(u), independently), P' and
 * Q' what is kept, and L the loss:
 *
 *     H(P^T, Q^T) = H(P'^T, Q'^T) + int_D (dP - e^eps dQ)_+,
 *     int_D (dP - e^eps dQ)_+ = P(D) - e^eps Q(D) + int_D (e^eps dQ - dP)_+,
 *
 * and the last integral is at most the sum over the rounds of E_Q[(1 - chi(u)) delta_add(Psi(u) - eps)] e^eps,
 * delta_add the curve of the other rounds in the add direction. It is next to nothing where losses are discarded that
 * the other rounds will not make up for. So what is rare and large, which a contour would have to be long for, is left
 * to closed forms.
 */
#include "arithmetic.h"
#include "spectral.h"

/* delta_add beyond the loss that is discarded. */
#define LOG_UNLIKELY -30.0
/* What is discarded from below that loss, relative to delta. */
#define LOG_STRAY -28.0
#define NARROWEST 0.02
#define WIDEST 0.1
#define FARTHEST 1e4

/* Psi(u) and its slope; the error of Psi is below the last argument. */
static double psi_of(const round_law *law, double u, double *slope, double *error)
{
    double top = -INFINITY, total = 0.0, first = 0.0, largest = law->m[law->size - 1], rarest = 0.0;
    for (int i = 0; i < law->size; i++) {
        top = larger(top, law->log_p[i] + law->m[i] * u - 0.5 * law->m[i] * law->m[i]);
        rarest = larger(rarest, fabs(law->log_p[i]));
    }
    for (int i = 0; i < law->size; i++) {
        double term = exp(law->log_p[i] + law->m[i] * u - 0.5 * law->m[i] * law->m[i] - top);
        total += term;
        first += term * law->m[i];
    }
    *slope = first / total;
    *error = U * (law->size + 40.0 + 20.0 * (largest * fabs(u) + 0.5 * largest * largest + rarest + fabs(top)));
    return top + log(total);
}

/* Where Psi reaches a loss: from above, to 1e-9. */
static double reaching(workspace *space, const round_law *law, double loss)
{
    double low = -FARTHEST, high = FARTHEST, slope, error;
    if (!(psi_of(law, high, &slope, &error) > loss))
        decline(space);
    while (high - low > 1e-9) {
        double middle = 0.5 * (low + high);
        if (psi_of(law, middle, &slope, &error) > loss)
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* The thinning of one round, and what it adds to the remainder. */
static thinning discard_beyond(workspace *space, const round_law *law, double loss, double log_rarity, double tilt,
                               double *remainder, double *psi_below)
{
    double slope, error, u = reaching(space, law, loss);
    *psi_below = psi_of(law, u, &slope, &error) - error;
    double distance = sqrt(larger(2.0 * log_rarity - u * u, 4.0));
    /* Beyond the edge phi R^a still rises at this rate: the cut is to stop it within two deviations. */
    double width = smaller(larger(0.5 / larger((1.0 + tilt) * slope - u, 1.0), NARROWEST), WIDEST);
    thinning thin = {.thinned = 1, .exact = 1, .edge = u + distance * width, .width = width};
    /* {U <= u, U + w Z >= b} is convex: with r its distance from the origin its probability is at most
     * Phi(-r) <= e^{-r^2 / 2} / 2. The nearest point is the foot of the second constraint, b / (1 + w^2), if that is
     * within the first, and the corner otherwise. */
    double actual = (thin.edge - u) / width, at_u = larger(u, 0.0), square = at_u * at_u + actual * actual;
    if (thin.edge <= u * (1.0 + width * width) * (1.0 + 1e-12))
        square = smaller(square, thin.edge * thin.edge / (1.0 + width * width));
    square *= 1.0 - 1e-12;
    double spread = sqrt(1.0 + width * width) * 1.41421356237309504880, farthest = thin.edge / spread;
    for (int i = 0; i < law->size; i++) {
        double z = (thin.edge - law->m[i]) / spread;
        thin.eta += law->p[i] * 0.5 * erfc(z);
        farthest = larger(farthest, fabs(z));
    }
    thin.zeta = 0.5 * erfc(thin.edge / spread);
    /* erfc's argument is right to 14 U times the farthest (a shift to 4 U of itself), and erfc changes at a relative
     * rate of at most 2 |z| + 2; and the sum. */
    thin.relative_error = U * (law->size + 40.0 + 48.0 * (farthest * farthest + 1.0));
    thin.log_discarded = log(larger(thin.eta, thin.zeta)) + 1e-6;
    *remainder += law->count * (0.5 * exp(-0.5 * square) + thin.zeta * exp(LOG_UNLIKELY)) * (1.0 + 1e-9);
    return thin;
}

/* A composition made ready for an epsilon that is nearly known, in the remove direction. */
prepared prepare_near(workspace *space, int phases, const round_law *whole, double log_delta, double epsilon)
{
    prepared result = trim(space, phases, whole, REMOVE, log_delta);
    if (!(epsilon > 0.0 && epsilon < 600.0))
        decline(space);
    prepared reversed = result;
    reversed.direction = ADD;
    loss_scale(space, &reversed);
    saddle at = saddle_for_delta(space, &reversed, LOG_UNLIKELY);
    double unlikely = larger(epsilon_ceiling(&at.found, LOG_UNLIKELY), 0.0); /* delta_add is below e^-30 from here on */
    discarded_part *part = &result.discarded;
    *part = (discarded_part){.exact = 1, .farthest = INFINITY};
    double total = 0.0, kept_p = 0.0, kept_q = 0.0, p_error = 0.0, q_error = 0.0;
    for (int j = 0; j < phases; j++)
        total += result.rounds[j].count;
    double log_rarity = log(total) + epsilon - log_delta - LOG_STRAY;
    double tilt = smaller(0.6 * -log_delta / epsilon, sqrt(-2.0 * log_delta) / result.deviation);
    for (int j = 0; j < phases; j++) {
        round_law *law = &result.rounds[j];
        double psi_below;
        law->thin = discard_beyond(space, law, 1.001 * epsilon + unlikely, log_rarity, tilt,
                                   &part->remainder, &psi_below);
        /* The difference may be far smaller than what is subtracted: its rounding is that of the two. */
        part->farthest = smaller(part->farthest, psi_below - unlikely - 4.0 * U * (fabs(psi_below) + unlikely));
        kept_p += law->count * log1p(-law->thin.eta);
        kept_q += law->count * log1p(-law->thin.zeta);
        p_error += law->count * law->thin.eta * law->thin.relative_error;
        q_error += law->count * law->thin.zeta * law->thin.relative_error;
    }
    part->p = -expm1(kept_p);
    part->q = -expm1(kept_q);
    /* 1 - prod (1 - eta)^T moves by at most the sum of T times the errors; the rest is rounding. */
    part->p_error = 1.01 * p_error + (phases + 40.0) * U * part->p;
    part->q_error = 1.01 * q_error + (phases + 40.0) * U * part->q;
    if (!(part->p < 0.5 && part->p_error < part->p + 1e-300))
        decline(space);
    return result;
}

/* Bounds on what the discarded outcomes contribute to delta(epsilon). */
void bound_discarded(const discarded_part *part, double epsilon, double *least, double *most)
{
    double factor = exp(epsilon), below = factor * (1.0 - 1e-14), above = factor * (1.0 + 1e-14);
    double rounding = 8.0 * U * (part->p + above * (part->q + part->remainder));
    *least = larger(part->p - part->p_error - above * (part->q + part->q_error) - rounding, 0.0);
    *most = part->p + part->p_error;
    if (epsilon <= part->farthest)
        *most = smaller(*most, larger(*most - below * (part->q - part->q_error) + above * part->remainder, *least));
    *most += rounding;
}
