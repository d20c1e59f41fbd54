/* Which laws are answered for: increasing shifts, probabilities with their logarithms, all of them adding up to 1 (S-28).
 * A NaN fails every test. */
#include "arithmetic.h"
#include "spectral.h"

/* Errors of what is given and of what is computed from it, in U (S-28): a probability 4, a sum 64; a probability from its
 * logarithm 16 + 8 |log p|. */
#define GIVEN 8.0
#define SUMMATION 64.0
#define FROM_LOGARITHM(log_p) (16.0 + 8.0 * fabs(log_p))
/* Below this a probability has lost digits, and its logarithm alone says what it is. */
#define SMALLEST 1e-280
#define LOG_SMALLEST -600.0

static int agree(double p, double log_p)
{
    if (p < SMALLEST)
        return log_p < LOG_SMALLEST;
    return fabs(exp(log_p) - p) <= (GIVEN + FROM_LOGARITHM(log_p)) * U * p;
}

int is_law(const side *law)
{
    double before = -1.0;
    for (int i = 0; i < law->size; i++) {
        double shift = law->shift[i], p = law->p[i], log_p = law->log_p[i];
        if (!(shift > before && shift >= 0.0 && isfinite(shift) && p >= 0.0 && isfinite(log_p) && agree(p, log_p)))
            return 0;
        before = shift;
    }
    return law->size > 0 && fabs(sum(law->p, law->size) - 1.0) <= (GIVEN + SUMMATION) * U;
}

int is_coin(const round_law *law)
{
    double total = 0.0, lost = 0.0, error = 0.0;
    for (int b = 0; b < law->branches + law->gaussians; b++) {
        int mixture = b < law->branches;
        double log_weight = mixture ? law->branch[b].log_weight : law->gaussian_log_weight[b - law->branches];
        double weight = exp(log_weight);
        if (!(isfinite(log_weight) && weight <= 2.0))
            return 0;
        add_compensated(&total, &lost, weight);
        error += weight * FROM_LOGARITHM(log_weight);
    }
    return fabs((total + lost) - 1.0) <= (GIVEN + SUMMATION + error) * U;
}

static int is_count(double x, double least) { return x >= least && x <= 0x1p53 && x == floor(x); }

int is_allocation_law(const allocation_law *law)
{
    for (int f = 0; f < law->factors; f++) {
        const allocation *of = &law->factor[f];
        if (!(is_count(of->places, 1.0) && of->shift > 0.0 && isfinite(of->shift) && of->log_probability <= 0.0 &&
              isfinite(of->log_probability)))
            return 0;
    }
    for (int i = 0; i < law->factors * law->products; i++)
        if (!is_count(law->times[i], 0.0))
            return 0;
    return law->factors > 0 && is_coin(&(round_law){.gaussians = law->products, .gaussian_log_weight = law->log_weight});
}
