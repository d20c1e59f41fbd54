/* Large places of random allocations, discarded where their loss alone exceeds epsilon (S-14, S-93): what the discarded
 * outcomes contribute has a closed form, and what is kept has no long contour. */
#include "arithmetic.h"
#include "spectral.h"

#define LAYERS 80
/* What lies beyond the last layer is below e^this. */
#define LOG_BEYOND -16.0
#define LARGEST_LOG 600.0
/* A place that is cut, from above, between layers of this width (S-92). */
#define LAYER 0.04
/* (1 + c) x at the inner cut; no effect on validity. */
#define INNER 1.5
/* log delta_rev beyond the loss that is discarded. */
#define LOG_UNLIKELY -30.0
/* What layers may add to all moments of a factor together, and of one; no effect on validity. */
#define MOST_LAYERS 20.0
#define MOST_OF_ONE 0.5
#define LARGEST_LAYERED 1e5
/* Of one place, where the loss of the others is looked at alone. */
#define SMALL_LOSS 0.5
#define TILT_BISECTIONS 26

/* E[X] without one place. */
static double mean_of_others(const allocation *of) { return 1.0 - exp(of->log_probability) / of->places; }

/* log of a bound on E[V^-c; V >= 1 - last], V of mean 1 with this variance and E[e^-tV] <= e^{-t + t^2 second / 2}, by
 * layers below 1 (S-91). */
static double log_by_layers(double c, double variance, double second, double last)
{
    double total = 0.5 * c * (c + 1.0) * variance, before = 0.0;
    for (int i = 0; i < LAYERS; i++) {
        double from = last * i / LAYERS, to = last * (i + 1) / LAYERS, rate = larger(from / second, 1.0 / sqrt(second));
        double below = smaller(0.5 * variance / (sqrt(variance + from * from) + from),
                               exp(0.5 * rate * rate * second - rate * from - 1.0) / rate);
        double power = -(c + 1.0) * log1p(-to), here = expm1(smaller(power, LARGEST_LOG));
        if (!(power < LARGEST_LOG))
            return INFINITY;
        total += c * (here - before) * below;
        before = here;
    }
    return log1p(total * (1.0 + 1e-9));
}

/* log of a bound on E[Y^-c], Y the mean of M - 1 places, or of one (S-91): by the geometric mean, or without the places of Y
 * beyond s + d, which have little part in small values of Y. */
static double log_of_mean(const allocation *of, double c)
{
    static const double KEPT[] = {8.0, 3.0, 2.5, 2.0, 1.5, 1.0};
    double s = of->shift, square = smaller(s * s, 600.0), rest = larger(of->places - 1.0, 1.0);
    double best = 0.5 * c * square + 0.5 * c * c * square / rest, beyond = c * square + 2.0 * c * c * square / rest;
    for (int i = 0; i < (int)(sizeof KEPT / sizeof KEPT[0]); i++) {
        double mean = exp(log_normal_cdf(KEPT[i])) * (1.0 - 1e-12);
        double ratio = exp(square + log_normal_cdf(KEPT[i] - s)) / (mean * mean) * (1.0 + 1e-12);
        double second = ratio / rest, variance = larger(ratio - 1.0 + 1e-9, 1e-3 * square) / rest;
        double last = sqrt(2.0 * second * (beyond - 2.0 * LOG_BEYOND));
        if (last < 0.95)
            best = smaller(best, log_add(log_by_layers(c, variance, second, last) - c * log(mean), LOG_BEYOND));
    }
    return best * (1.0 + 1e-12) + 1e-15;
}

/* log of a bound on E[X^-c], and on that of X without one of its places over its mean (S-91). */
double log_inverse_moment(const allocation *of, double c)
{
    double p = exp(of->log_probability), mean = log_of_mean(of, c), absent = INFINITY;
    if (p < 1.0)
        absent = -c * log1p(-p) * (1.0 + 1e-12);
    double present = mean < LARGEST_LOG ? log1p(p * expm1(mean)) : mean;
    return smaller(present, absent) + 1e-12 * c * p;
}

/* log of a bound on E_Q[e^{-c L}] of one round's loss (S-91); infinite for rounds of P and Q exchanged. */
static double log_inverse_of_round(const round_law *law, double c)
{
    double total = 0.0, top = 0.0, growth = 0.5 * c * (c + 1.0);
    const allocation_law *of = law->allocated;
    if (of != NULL && of->reverse)
        return INFINITY;
    for (int b = 0; of != NULL && b < of->products; b++) {
        double product = 0.0;
        for (int f = 0; f < of->factors; f++)
            if (of->times[b * of->factors + f] > 0.0)
                product += of->times[b * of->factors + f] *
                           (of->factor[f].atoms != NULL ? log_inverse_of_atoms(of->factor[f].atoms, c) :
                            is_gaussian(&of->factor[f]) ? growth * of->factor[f].shift * of->factor[f].shift
                                                        : log_inverse_moment(&of->factor[f], c));
        top = larger(top, product);
        total += exp(of->log_weight[b]) * expm1(smaller(product, 700.0));
    }
    for (int b = 0; b < law->branches; b++) {
        const side *right = &law->branch[b].right, *left = &law->branch[b].left;
        double one = 0.0;
        for (int i = 0; i < right->size; i++)
            for (int j = 0; j < left->size; j++) {
                double shift = right->shift[i] + left->shift[j];
                one += right->p[i] * left->p[j] * expm1(smaller(growth * shift * shift, 700.0));
            }
        if (is_zero(left) && right->shift[0] == 0.0)
            one = smaller(one, expm1(smaller(-c * right->log_p[0], 700.0)));
        top = larger(top, log1p(one));
        total += law->branch[b].weight * one;
    }
    for (int b = 0; b < law->gaussians; b++) {
        double product = growth * law->mu[b] * law->mu[b];
        top = larger(top, product);
        total += exp(law->gaussian_log_weight[b]) * expm1(smaller(product, 700.0));
    }
    return top < LARGEST_LOG ? log1p(total) + 1e-12 * total / (1.0 + total) : top;
}

/* A loss from which on log delta of the rounds with P and Q exchanged is at most LOG_UNLIKELY, by Chernoff's bound. */
double unlikely_among_allocations(workspace *space, const prepared *problem)
{
    double best = INFINITY, before = INFINITY;
    for (double c = 0.5; c < 1e7; c *= 1.2) {
        double total = 0.0;
        for (int j = 0; j < problem->rounds; j++) {
            const allocation_law *of = problem->round[j].allocated;
            spend(space, 120.0 * LAYERS * (of == NULL ? 1.0 : of->factors * (double)of->products));
            total += problem->round[j].count * log_inverse_of_round(&problem->round[j], c);
        }
        double here = (total * (1.0 + 1e-9) - LOG_UNLIKELY) / c;
        best = smaller(best, here);
        if (!(here < INFINITY) || (here > 3.0 * best && here > before))
            break;
        before = here;
    }
    return best * (1.0 + 1e-12);
}

/* Z at which a place alone makes for this loss, if all others have their mean. */
static double place_of_loss(const allocation *of, double loss)
{
    double x = exp(smaller(loss, 700.0)) - mean_of_others(of);
    return x > 0.0 ? (log(x) + log(of->places) - of->log_probability) / of->shift + 0.5 * of->shift : -INFINITY;
}

/* log of the probability that some place of the factor is beyond z, as -log(1 - .), under Q and under P, and a bound on
 * the relative error of both. */
void beyond_cut(const allocation *of, double z, double *log_q, double *log_p, double *relative)
{
    double log_a = log_normal_cdf(-z), log_b = log_normal_cdf(of->shift - z), a = exp(log_a), b = exp(log_b);
    double none = of->places * -log1p(-a), p = exp(of->log_probability);
    double one = -log1p(-larger(p * (b - a) / (1.0 - a), 0.0));
    *log_q = log(none);
    *log_p = log(none + one);
    double apart = fabs(z) + of->shift + 2.0;
    *relative = U * (400.0 + 60.0 * (fabs(log_a) + fabs(log_b)) + 24.0 * apart * apart + 8.0 * fabs(of->log_probability));
}

/* How often a factor stands in a round, in the mean. */
static double times_of(const allocation_law *law, int f)
{
    double times = 0.0;
    for (int b = 0; b < law->products; b++)
        times += exp(law->log_weight[b]) * law->times[b * law->factors + f];
    return times;
}

/* About the delta of single large places alone, at one epsilon; only a guide. */
double delta_of_large_places(const allocation_law *law, double epsilon)
{
    double total = 0.0;
    for (int f = 0; f < law->factors && !law->reverse; f++) {
        const allocation *of = &law->factor[f];
        double times = times_of(law, f), z = place_of_loss(of, epsilon), a, b;
        if (of->atoms != NULL) {
            total += times * delta_of_large_atoms(of->atoms, epsilon);
            continue;
        }
        if (is_gaussian(of))
            continue;
        a = exp(log_normal_cdf(-z));
        b = exp(log_normal_cdf(of->shift - z));
        total += times * larger(exp(of->log_probability) * (b - a) - expm1(epsilon) * of->places * a, 0.0);
    }
    return total;
}

/* What the layers between an inner cut and the cut add to E[X^w; cut], relative (S-92), and, about, to mean and variance of
 * the loss. */
static double share_of_layers(const allocation *of, double w, double inner, double *mean, double *variance)
{
    double layers = 0.0;
    for (double from = inner, to; from < of->cut; from = to) {
        to = smaller(from + LAYER, of->cut);
        double loss = log1p(allocation_jump(of, to)), tail = log_normal_cdf(-from), next = log_normal_cdf(-to);
        double one = of->places * exp(smaller(tail + w * loss + 1e-9 * (1.0 + w), 700.0)) * -expm1(next - tail - 1e-9);
        layers += one;
        *mean += one * loss;
        *variance += one * loss * loss;
    }
    return layers * (1.0 + 2e-9) / (1.0 - exp(log_normal_cdf(-of->cut)));
}

/* The inner cut for moments of order w: any is valid. */
static double inner_cut(const allocation *of, double w)
{
    double unit = log(of->places) - of->log_probability + 0.5 * of->shift * of->shift;
    return smaller(of->cut, larger((log(INNER / w) + unit) / of->shift, 0.0));
}

/* G(1 + c) for Chernoff's bounds: an upper bound from an inner cut and layers of the largest place beyond it (S-92), and
 * about mean and variance of the loss. */
tilted_factor tilt_layered(workspace *space, const allocation *of, double c)
{
    allocation inner = *of;
    double w = 1.0 + c, mean = 0.0, variance = 0.0;
    inner.cut = inner_cut(of, w);
    spend(space, 200.0 * (of->cut - inner.cut) / LAYER);
    bookmark here = mark(space);
    transform at = transform_on_axis(space, &inner, 1.3 * w);
    tilted_factor result = tilt_concentrated(&at, c);
    rewind_to(space, here);
    double share = share_of_layers(of, w, inner.cut, &mean, &variance), least = larger(result.of.log_moment, 0.0);
    result.of.log_moment = share < 0.9 ? (least - log1p(-share)) * (1.0 + 1e-12) + 1e-12 : INFINITY;
    result.mean += mean;
    result.loss_variance += variance;
    result.of.variance = result.loss_variance;
    return result;
}

/* The largest tilt at which the layers add no more than `most`. */
static double tilt_of_layers(const allocation *of, double most)
{
    double low = 0.0, high = LARGEST_LAYERED, mean = 0.0, variance = 0.0;
    for (int i = 0; i < TILT_BISECTIONS; i++) {
        double middle = i == 0 ? high : 0.5 * (low + high);
        if (share_of_layers(of, 1.0 + middle, inner_cut(of, 1.0 + middle), &mean, &variance) <= most)
            low = middle;
        else
            high = middle;
        if (low == high)
            break;
    }
    return low;
}

/* About the variance of a round's loss without large places, and of losses beyond the same; only a guide. */
double variance_of_small_places(workspace *space, const allocation_law *law)
{
    allocation_law small = *law;
    allocation *factor = allocate(space, law->factors * sizeof(allocation));
    for (int f = 0; f < law->factors; f++) {
        factor[f] = law->factor[f];
        if (factor[f].atoms != NULL || is_gaussian(&factor[f]) || law->reverse)
            continue;
        factor[f].is_cut = 1;
        factor[f].cut = place_of_loss(&factor[f], SMALL_LOSS);
    }
    small.factor = factor;
    return allocation_variance(&small);
}

/* Cuts the places of every factor of a round in which the group leaves beyond the loss (S-93). */
void discard_places(workspace *space, round_law *law, double loss, double unlikely, prepared *result, double *log_eta,
                    double *log_zeta, double *relative)
{
    const allocation_law *whole = law->allocated;
    discarded_part *part = &result->discarded;
    allocation *factor = allocate(space, whole->factors * sizeof(allocation));
    double *log_q = doubles(space, whole->factors), *log_p = doubles(space, whole->factors);
    double *stray = doubles(space, whole->factors), worst = 0.0, most = 0.0;
    for (int f = 0; f < whole->factors; f++) {
        allocation *of = &factor[f];
        *of = whole->factor[f];
        log_q[f] = log_p[f] = -INFINITY;
        stray[f] = 0.0;
        if (is_gaussian(of))
            continue;
        double z = place_of_loss(of, loss), error, first;
        if (of->atoms != NULL) {
            result->cuts = 1;
            discard_atoms(space, of, loss, &log_q[f], &log_p[f], &error, &first);
            worst = larger(worst, error);
            stray[f] = exp(log_q[f]) * (1.0 + 1e-9);
            part->farthest = smaller(part->farthest, first - unlikely - 8.0 * U * (fabs(first) + unlikely));
            continue;
        }
        if (!(z > 0.0))
            decline(space, RARE_LOSSES);
        if (of->log_probability < 0.0) /* its line would not end */
            decline(space, RARE_LOSSES);
        z = smaller(z, FARTHEST_PLACE);
        of->is_cut = of->layered = result->cuts = 1;
        of->cut = z;
        of->largest_tilt = tilt_of_layers(of, smaller(MOST_LAYERS / (law->count * larger(times_of(whole, f), 1e-9)), MOST_OF_ONE));
        beyond_cut(of, z, &log_q[f], &log_p[f], &error);
        worst = larger(worst, error);
        stray[f] = of->places * exp(log_normal_cdf(-z)) * (1.0 + 1e-9);
        /* The loss of a place at the cut, rounded down. */
        double jump = allocation_jump(of, z), least = log(mean_of_others(of) + jump * (1.0 - 1e-9)) - 1e-12;
        part->farthest = smaller(part->farthest, least - unlikely - 8.0 * U * (fabs(least) + unlikely));
    }
    for (int b = 0; b < whole->products; b++) {
        double kept_p = 0.0, kept_q = 0.0, strays = 0.0;
        for (int f = 0; f < whole->factors; f++) {
            double times = whole->times[b * whole->factors + f];
            if (!(times > 0.0))
                continue;
            kept_p += times * exp(log_p[f]);
            kept_q += times * exp(log_q[f]);
            strays += times * stray[f];
        }
        most = larger(most, strays);
        *log_eta = log_add(*log_eta, whole->log_weight[b] + log(-expm1(-kept_p)));
        *log_zeta = log_add(*log_zeta, whole->log_weight[b] + log(-expm1(-kept_q)));
    }
    *relative = larger(*relative, worst + U * (64.0 + 8.0 * whole->factors + 22.0 * whole->products));
    part->log_remainder = log_add(part->log_remainder, log(law->count) + log(most) + LOG_UNLIKELY + 1e-9);
    allocation_law *cut = allocate(space, sizeof(allocation_law));
    *cut = *whole;
    cut->factor = factor;
    law->allocated = cut;
}
