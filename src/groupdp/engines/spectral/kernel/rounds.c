/* A composition made ready for a given size of delta: what is too rare to change it is left out, at a price. */
#include "arithmetic.h"
#include "spectral.h"

#define SMALLEST_SHIFT 1e-290
#define SMALLEST_GAUSSIAN 1e-140
#define LARGEST_SHIFT 1e7
#define SMALLEST_ALLOCATED 1e-4
#define LARGEST_ALLOCATED 30.0
/* Dropped shifts and branches, and discarded outcomes, may cost this much (e^-36) of delta, each. */
#define LOG_TRIM -36.0
/* Products of allocations may cost this much more (e^-23 of delta): each takes a table. */
#define RARE_PRODUCTS 13.0
/* and this much where no answer was found so (e^-14), in the end and for Chernoff's bound (e^-7) */
#define MORE_PRODUCTS 22.0
#define MOST_PRODUCTS 29.0
#define NARROWEST_THINNING 1e-3
#define THINNED_ABOVE -20.0
#define FEW 64.0
/* Outcomes are cut off where the integrand at so many times the tilt expected is below this. */
#define WELL_BEYOND 1.5
#define LOG_NOTHING -60.0

double log_normal_cdf(double t)
{
    if (t >= 9.0)
        return 0.0;
    if (t > 0.0)
        return log1p(-0.5 * erfc(t * 0.70710678118654752440));
    if (t >= -35.0)
        return log(0.5 * erfc(-t * 0.70710678118654752440));
    /* 1 - y + 3 y^2 - ...: alternating, the first term left out is below 3e-17 at |t| = 35. */
    double y = 1.0 / (t * t);
    double series = -y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y * (1.0 - 9.0 * y * (1.0 - 11.0 * y)))));
    return -0.5 * t * t - HALF_LOG_2PI - log(-t) + log1p(series);
}

/* log of Phi(a) - Phi(b), a at least 8 above b: one of them is next to 0, or both next to 1. */
static double log_between(double a, double b)
{
    double log_a = log_normal_cdf(a + b > 0.0 ? -b : a), log_b = log_normal_cdf(a + b > 0.0 ? -a : b);
    return log_a + log1p(-exp(log_b - log_a));
}

double log_keep(const thinning *thin, double u)
{
    double a = (thin->edge - u) / thin->width;
    return thin->has_lower ? log_between(a, (thin->lower - u) / thin->width) : log_normal_cdf(a);
}

/* The largest log chi on [a, b], or more: chi falls, and rises at a lower edge. */
double log_keep_most(const thinning *thin, double a, double b)
{
    double falling = log_normal_cdf((thin->edge - a) / thin->width);
    return thin->has_lower ? smaller(falling, log_normal_cdf((b - thin->lower) / thin->width)) : falling;
}

/* phi(t) / Phi(-t), or a little more: below 1e-18 at t = -9. */
static double hazard(double t) { return t < -9.1 ? 1e-18 : exp(-0.5 * t * t - HALF_LOG_2PI - log_normal_cdf(-t)); }

/* |d log chi / du| between two outcomes, or a little more: at the edge it increases in u, at a lower edge it decreases, and
 * chi is at least 0.999 of what it is with one of them alone. */
double steepness(const thinning *thin, double first, double last)
{
    double upper = hazard((last - thin->edge) / thin->width) / thin->width;
    return thin->has_lower ? 1.002 * (upper + hazard((thin->lower - first) / thin->width) / thin->width) : upper;
}

/* Keeps the smallest shifts, drops at most e^log_budget of probability: a law stochastically dominated by the true one
 * (S-10, S-11). */
static side trimmed(workspace *space, const side *whole, double log_budget, double *log_dropped)
{
    int keep = whole->size;
    double tail = -INFINITY;
    *log_dropped = -INFINITY;
    while (keep > 1) {
        if (keep == 2 && whole->shift[0] == 0.0)
            break; /* one component that differs from the plain Gaussian stays */
        /* The rounding of accumulated logarithms is far below this slack. */
        double with_it = log_add(tail, whole->log_p[keep - 1]);
        if (with_it + 1e-6 > log_budget)
            break;
        tail = with_it;
        *log_dropped = tail + 1e-6;
        keep--;
    }
    side result = *whole;
    result.size = keep;
    if (*log_dropped > -INFINITY) {
        double *p = doubles(space, keep), *log_p = doubles(space, keep);
        double shift = log1p(-exp(*log_dropped)), factor = exp(-shift);
        for (int i = 0; i < keep; i++) {
            p[i] = whole->p[i] * factor;
            log_p[i] = whole->log_p[i] - shift;
        }
        result.p = p;
        result.log_p = log_p;
    }
    return result;
}

/* The lowest edge that discards at most e^log_budget, each component an equal share: Phi(-z) <= e^{-z^2/2} / 2. */
thinning discard(const side *right, double width, double log_budget)
{
    double spread = sqrt(1.0 + width * width), edge = -INFINITY, discarded = -INFINITY;
    for (int i = 0; i < right->size; i++) {
        double room = right->log_p[i] + log(right->size) - log_budget - LOG_2;
        edge = larger(edge, right->shift[i] + spread * sqrt(2.0 * larger(room, 0.0)));
    }
    for (int i = 0; i < right->size; i++) {
        double z = (edge - right->shift[i]) / spread;
        discarded = log_add(discarded, right->log_p[i] - LOG_2 - 0.5 * z * z);
    }
    return (thinning){.thinned = 1, .edge = edge, .width = width, .log_discarded = discarded + 1e-6};
}

/* Thinned if a tilt of the size expected would pile mass up beyond anything that matters. */
static void thin_out(branch *of, double tilt, double log_budget, int may_cut)
{
    const side *right = &of->right, *left = &of->left;
    double a = 1.0 + tilt, beyond = -INFINITY, steepest = a * largest_shift(right) + tilt * largest_shift(left);
    double width = smaller(larger(3.0 / steepest, NARROWEST_THINNING), 1.0), log_b = 0.0, mean, variance;
    thinning thin = discard(right, width, log_budget);
    double at = -INFINITY;
    for (int i = 0; i < right->size; i++) {
        double slope = a * right->shift[i];
        at = is_zero(left) ? slope : concave_peak(left, tilt, slope, 0.0, 0.0, at);
        double where = larger(at, thin.edge);
        if (!is_zero(left))
            side_at(left, -where, &log_b, &mean, &variance);
        double level = a * (right->log_p[i] - 0.5 * right->shift[i] * right->shift[i]) + slope * where;
        beyond = larger(beyond, level - 0.5 * where * where - tilt * log_b);
    }
    if (!(beyond > THINNED_ABOVE))
        return;
    of->thin = thin;
    if (!may_cut)
        return;
    /* Where nothing is left even of the tilted law, outcomes are cut off at once (S-38). */
    thinning cut = discard(right, 0.0, log_budget);
    double c = WELL_BEYOND * tilt, log_a;
    side_at(right, cut.edge, &log_a, &mean, &variance);
    side_at(left, -cut.edge, &log_b, &mean, &variance);
    if ((1.0 + c) * log_a - c * log_b - 0.5 * cut.edge * cut.edge < LOG_NOTHING)
        of->thin = (thinning){.is_cut = 1, .cut = cut.edge + 0.25, .log_discarded = cut.log_discarded};
}

/* The shifts of one side within the limits; `finest` becomes the smallest positive one met so far. */
static void check_side(workspace *space, const side *law, double *finest)
{
    if (is_zero(law))
        return;
    double smallest = law->shift[0] > 0.0 || law->size == 1 ? law->shift[0] : law->shift[1];
    if (!(smallest >= SMALLEST_SHIFT && largest_shift(law) <= LARGEST_SHIFT))
        decline(space, SHIFTS);
    *finest = smaller(*finest, smallest);
}

/* Reversed, and if it is possible that nobody takes part: X >= 1 - p in every factor. */
static double largest_allocation_loss(const allocation_law *law)
{
    double largest = 0.0;
    for (int b = 0; b < law->products && law->reverse; b++) {
        double loss = 0.0;
        for (int f = 0; f < law->factors; f++)
            if (law->times[b * law->factors + f] > 0.0)
                loss -= law->times[b * law->factors + f] * log(-expm1(law->factor[f].log_probability));
        largest = larger(largest, loss * (1.0 + 1e-13));
    }
    return law->reverse ? largest : INFINITY;
}

/* The largest loss of one round, infinite if there is none (S-3). */
double largest_loss_of(const round_law *law)
{
    double largest = 0.0;
    if (law->allocated != NULL)
        return largest_allocation_loss(law->allocated);
    for (int b = 0; b < law->branches; b++) {
        const branch *of = &law->branch[b];
        int bounded = is_zero(&of->right) && of->left.shift[0] == 0.0;
        largest = larger(largest, bounded ? -of->left.log_p[0] : INFINITY);
    }
    for (int b = 0; b < law->gaussians; b++)
        if (law->mu[b] > 0.0)
            largest = INFINITY;
    return largest;
}

/* Whether each product of a coin is left out: it is rarer than e^log_least, or one of those with the largest losses that
 * together are rarer than e^log_most. */
static int *rare_products(workspace *space, const allocation_law *law, double log_least, double log_most)
{
    int *rare = allocate(space, law->products * sizeof(int));
    double *size = doubles(space, law->products), low = 0.0, high = 0.0;
    for (int b = 0; b < law->products; b++) {
        size[b] = log_second_moment(law, b);
        high = larger(high, size[b]);
    }
    high += 1.0;
    for (int i = 0; i < 50; i++) {
        double middle = 0.5 * (low + high), total = 0.0;
        for (int b = 0; b < law->products; b++)
            total += size[b] >= middle ? exp(law->log_weight[b]) : 0.0;
        *(total <= exp(log_most) ? &high : &low) = middle;
    }
    for (int b = 0; b < law->products; b++)
        rare[b] = !(law->log_weight[b] >= log_least && size[b] < high);
    return rare;
}

/* A coin over allocations without its rare products, and without factors that are in none of the others. */
static const allocation_law *trim_products(workspace *space, const allocation_law *whole, const int *rare, double *lost)
{
    int *kept = allocate(space, whole->factors * sizeof(int)), factors = 0, products = 0;
    allocation *factor = allocate(space, whole->factors * sizeof(allocation));
    double *log_weight = doubles(space, whole->products);
    double *times = doubles(space, (size_t)whole->products * whole->factors);
    for (int f = 0; f < whole->factors; f++) {
        int used = 0;
        for (int b = 0; b < whole->products && !used; b++)
            used = !rare[b] && whole->times[b * whole->factors + f] > 0.0;
        if (used) {
            kept[factors] = f;
            factor[factors++] = whole->factor[f];
        }
    }
    for (int b = 0; b < whole->products; b++) {
        if (rare[b]) {
            *lost += exp(whole->log_weight[b]);
            continue;
        }
        for (int f = 0; f < factors; f++)
            times[products * factors + f] = whole->times[b * whole->factors + kept[f]];
        log_weight[products++] = whole->log_weight[b];
    }
    if (factors == 0)
        decline(space, SHIFTS);
    allocation_law *law = allocate(space, sizeof(allocation_law));
    *law = (allocation_law){.factors = factors, .products = products, .reverse = whole->reverse, .factor = factor,
                            .times = times, .log_weight = log_weight};
    return law;
}

/* One round without its rare branches and shifts; what that costs is added to the composition's. */
static round_law trim_round(workspace *space, const round_law *whole, prepared *result)
{
    round_law law = {.count = whole->count, .allocated = whole->allocated};
    law.branch = allocate(space, (whole->branches + 1) * sizeof(branch));
    double *mu = doubles(space, whole->gaussians + 1), *log_weight = doubles(space, whole->gaussians + 1);
    int parts = whole->branches + whole->gaussians;
    double budget = result->log_budget, of_branches = budget - log(larger(parts, 1.0)), worst = 0.0, lost = 0.0;
    for (int b = 0; b < whole->branches; b++) {
        branch of = whole->branch[b];
        if (parts > 1 && of.log_weight < of_branches) {
            lost += of.weight;
            continue;
        }
        double right_dropped, left_dropped;
        of.right = trimmed(space, &whole->branch[b].right, budget, &right_dropped);
        of.left = trimmed(space, &whole->branch[b].left, budget, &left_dropped);
        result->log_dropped = log_add(result->log_dropped, right_dropped + of.log_weight + log(law.count));
        worst = larger(worst, 2.0 * exp(left_dropped)); /* -log(1 - eta) <= 2 eta for eta <= 1/2 (S-11) */
        bound_spread(space, &of);
        law.branch[law.branches++] = of;
    }
    for (int b = 0; b < whole->gaussians; b++) {
        if (parts > 1 && whole->gaussian_log_weight[b] < of_branches) {
            lost += exp(whole->gaussian_log_weight[b]);
            continue;
        }
        mu[law.gaussians] = whole->mu[b];
        log_weight[law.gaussians++] = whole->gaussian_log_weight[b];
    }
    if (whole->allocated != NULL && whole->allocated->products > 1) {
        double least = budget + RARE_PRODUCTS - log(whole->allocated->products);
        double most = space->coarse == 0 ? -INFINITY : budget + (space->coarse == 1 ? MORE_PRODUCTS : MOST_PRODUCTS);
        law.allocated = trim_products(space, whole->allocated, rare_products(space, whole->allocated, least, most), &lost);
        space->coins = 1;
    }
    if (whole->allocated != NULL && whole->allocated->factor[0].atoms != NULL) /* S-94 */
        result->log_dropped = log_add(result->log_dropped, whole->allocated->factor[0].atoms->log_lost + log(law.count) + 1e-9);
    law.mu = mu;
    law.gaussian_log_weight = log_weight;
    law.lost = lost;
    if (lost > 0.0) /* S-12 */
        result->log_dropped = log_add(result->log_dropped, log(lost) + 1e-9 + log(law.count));
    result->shift += law.count * worst * (1.0 + 1e-9);
    return law;
}

/* The rounds, trimmed for a delta of e^log_delta; places of allocations are whole. */
prepared trim_uncut(workspace *space, int rounds, const round_law *whole, double log_delta)
{
    double total = 0.0, finest = INFINITY, ceiling = 0.0;
    for (int j = 0; j < rounds; j++) {
        const round_law *law = &whole[j];
        for (int b = 0; b < law->branches; b++) {
            check_side(space, &law->branch[b].right, &finest);
            check_side(space, &law->branch[b].left, &finest);
        }
        for (int b = 0; b < law->gaussians; b++) {
            if (!(law->mu[b] == 0.0 || (law->mu[b] >= SMALLEST_GAUSSIAN && law->mu[b] <= LARGEST_SHIFT)))
                decline(space, SHIFTS);
            if (law->mu[b] > 0.0)
                finest = smaller(finest, law->mu[b]);
        }
        for (int f = 0; law->allocated != NULL && f < law->allocated->factors; f++) {
            const allocation *of = &law->allocated->factor[f];
            if (!(of->shift >= SMALLEST_ALLOCATED && of->shift <= (is_gaussian(of) ? LARGEST_SHIFT : LARGEST_ALLOCATED)))
                decline(space, SHIFTS);
            finest = smaller(finest, of->shift);
        }
        total += law->count;
        ceiling += law->count * largest_loss_of(law);
    }
    prepared result = {.rounds = rounds, .log_dropped = -INFINITY};
    /* Losses as small as the finest shift move delta's scale in epsilon accordingly. */
    result.log_budget = smaller(log_delta, 0.0) - log(total) + LOG_TRIM - 2.0 * larger(0.0, -log(finest));
    result.round = allocate(space, rounds * sizeof(round_law));
    for (int j = 0; j < rounds; j++)
        result.round[j] = trim_round(space, &whole[j], &result);
    for (int j = 0; j < rounds; j++)
        result.allocates |= whole[j].allocated != NULL;
    space->allocates = result.allocates;
    space->few = total <= FEW && !space->plain;
    /* The sum of positive terms, rounded up. */
    result.largest_loss = ceiling * (1.0 + 1e-14 + rounds * 4.0 * U);
    loss_scale(space, &result);
    return result;
}

prepared trim(workspace *space, int rounds, const round_law *whole, double log_delta)
{
    prepared result = trim_uncut(space, rounds, whole, log_delta);
    for (int j = 0; j < rounds; j++)
        cut_places(space, &result.round[j], &result, log_delta);
    return result;
}

prepared prepare(workspace *space, int rounds, const round_law *whole, double log_delta)
{
    prepared result = trim(space, rounds, whole, log_delta);
    double tilt = (sqrt(2.0 * larger(-log_delta, 0.0)) + 1.0) / result.deviation;
    for (int j = 0; j < rounds; j++) {
        round_law *law = &result.round[j];
        for (int b = 0; b < law->branches; b++) {
            branch *of = &law->branch[b];
            thin_out(of, tilt, result.log_budget, !space->plain);
            if (of->thin.thinned || of->thin.is_cut)
                result.log_dropped =
                    log_add(result.log_dropped, of->thin.log_discarded + of->log_weight + log(law->count));
        }
    }
    return result;
}
