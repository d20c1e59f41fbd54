/* Few rounds, or rare ones, with losses on very different scales: one contour for each number of middling losses (S-39).
 *
 * An outcome is small if u + w Z <= lower, large if u + w Z > edge (S-14 knows those), and middling in between. With
 * small and middling parts of a round's two measures,
 *
 *     H(kept^T) = sum_j (T choose j) H(middling^j small^{T-j}),
 *
 * and each term has a tilt of its own. Small losses alone do not reach epsilon; where a middling one is there its law is
 * smooth on its own scale, and the contour need not resolve the others.
 */
#include "arithmetic.h"
#include "spectral.h"

#define MOST_KINDS 4
#define MOST_TERMS 40
#define MOST_MIDDLING 12
/* What has no contour may add this much (e^-34) to delta, or e^-1 of the errors planned for the others if that is more. */
#define LOG_REST -34.0
#define BELOW_PLANNED 1.0
/* Between the edges: so many widths at least. */
#define APART 10.0
/* Terms share a tilt if that makes their errors at most e to this larger. */
#define LARGEST_GROWTH 1.5
/* The lower edge lies so many widths before the loss above which most outcomes are to be middling. */
#define BEFORE_THE_LOSS 4.0

/* Rounds of one kind, as they are and in their two parts. */
typedef struct {
    round_law kept, small, middling;
    double largest; /* loss of a small outcome, infinite where it is not bounded */
} kind;

typedef struct {
    int kinds, terms;
    kind of[MOST_KINDS];
    double epsilon, log_delta, log_planned, log_rest;
    double rest_from; /* the rest is bounded for epsilons from this one on */
    double expected;  /* the tilt of the term before, about */
    parts_scan parts; /* small and middling parts of every kind, one after the other */
    sampled_term *term;
    double log_count[MOST_TERMS]; /* of the ways to choose its rounds */
    int middling[MOST_TERMS];
} split;

static double log_choose(double n, int k)
{
    double ways = 1.0;
    for (int i = 0; i < k; i++)
        ways *= (n - i) / (i + 1.0);
    return log(ways);
}

/* The parts of one kind of rounds at a loss; 0 if the edges are too close. What is small and beyond the cut is lost. */
static int part_kind(workspace *space, const round_law *law, double loss, double before, kind *result, double *log_lost)
{
    *result = (kind){.kept = *law, .small = *law, .middling = *law};
    result->small.branch = allocate(space, (law->branches + 1) * sizeof(branch));
    result->middling.branch = allocate(space, (law->branches + 1) * sizeof(branch));
    result->middling.branches = result->middling.gaussians = 0;
    double weight = 0.0;
    for (int b = 0; b < law->gaussians; b++)
        if (law->mu[b] > 0.0)
            result->largest = INFINITY;
    for (int b = 0; b < law->branches; b++) {
        branch *small = &result->small.branch[b];
        double slope, error;
        *small = law->branch[b];
        if (!small->thin.thinned || !small->thin.exact) {
            result->largest = INFINITY;
            continue;
        }
        thinning *thin = &small->thin;
        double width = thin->width, beyond = (thin->cut - thin->edge) / width, edge = reaching(space, small, loss) - before * width;
        if (!(edge < thin->edge - APART * width))
            return 0;
        branch *middling = &result->middling.branch[result->middling.branches++];
        *middling = law->branch[b];
        middling->thin.has_lower = 1;
        middling->thin.lower = edge;
        middling->thin.exact = 0;
        weight += middling->weight;
        thin->edge = edge;
        thin->cut = edge + beyond * width;
        thin->relative_error = 0.0;
        thin->log_eta = log_beyond_edge(&small->right, thin, 1.0, &thin->relative_error);
        thin->log_zeta = log_beyond_edge(&small->left, thin, -1.0, &thin->relative_error);
        thin->log_discarded = larger(thin->log_eta, thin->log_zeta) + 1e-6;
        result->largest = larger(result->largest, psi_of(small, thin->cut, &slope, &error) + error);
        *log_lost = log_add(*log_lost, log(law->count) + small->log_weight + log_keep(thin, thin->cut - width) + 1e-6);
    }
    if (result->middling.branches == 0)
        return 0;
    if (law->branches + law->gaussians > 1)
        result->middling.lost = larger(1.0 - weight, 1e-300);
    return 1;
}

/* The parts of all kinds, with quadratures for the tilts of a term with one middling loss. */
static void scan_all_parts(workspace *space, split *all, const prepared *problem)
{
    prepared *parts = &all->parts.problem, one = *problem;
    double largest = 0.0;
    *parts = *problem;
    parts->discarded = (discarded_part){.exact = 0};
    parts->log_dropped = -INFINITY;
    parts->shift = 0.0;
    parts->rounds = 2 * all->kinds;
    parts->round = allocate(space, parts->rounds * sizeof(round_law));
    for (int i = 0; i < all->kinds; i++) {
        parts->round[2 * i] = all->of[i].small;
        parts->round[2 * i + 1] = all->of[i].middling;
        parts->round[2 * i + 1].count = 1.0;
        one.rounds = 1;
        one.round = &parts->round[2 * i + 1];
        loss_scale(space, &one);
        double distance = larger(all->epsilon - one.mean, 0.0) / (one.deviation * one.deviation);
        distance = smaller(distance, 500.0 / one.deviation);
        all->expected = distance + 1.0 / one.deviation;
        largest = larger(largest, 2.0 * distance + 24.0 / one.deviation);
    }
    scan_parts(space, &all->parts, largest);
}

/* How often each part occurs in a term: j of each kind are middling, the others small. */
static double *times_of(workspace *space, const split *all, const int *j)
{
    double *times = doubles(space, 2 * all->kinds);
    for (int i = 0; i < all->kinds; i++) {
        times[2 * i] = all->of[i].kept.count - j[i];
        times[2 * i + 1] = j[i];
    }
    return times;
}

/* The term's own rounds, and its scan's quadratures in the same order. */
static prepared rounds_of(workspace *space, const split *all, const prepared *problem, const double *times, scanner *by)
{
    prepared one = *problem;
    int parts = all->parts.problem.rounds;
    one.round = allocate(space, parts * sizeof(round_law));
    one.rounds = 0;
    by->grids = allocate(space, parts * sizeof(quadrature *));
    for (int i = 0; i < parts; i++)
        if (times[i] > 0.0) {
            by->grids[one.rounds] = all->parts.by.grids[i];
            one.round[one.rounds] = all->parts.problem.round[i];
            one.round[one.rounds++].count = times[i];
        }
    return one;
}

/* log of Chernoff's bound on a term, at every epsilon that the rest is bounded for. */
double log_chernoff(const scan *found, double epsilon)
{
    double best = 0.0;
    for (int i = 0; i < found->size; i++)
        best = smaller(best, found->level[i] - found->tilt[i] * epsilon * (1.0 - 4.0 * U));
    return best + 1e-9;
}

static double log_negligible(const split *all)
{
    return all->log_delta + larger(LOG_REST, all->log_planned - BELOW_PLANNED);
}

static void add_rest(split *all, double log_bound) { all->log_rest = log_add(all->log_rest, log_bound) + 1e-12; }

/* The saddle-point approximation of a term, as a contour of one sample that bounds nothing. */
static contour approximated(workspace *space, const saddle *at)
{
    int i = 0;
    while (at->found.tilt[i] != at->tilt)
        i++;
    double c = at->tilt, *one = doubles(space, 5);
    contour path = {.tilt = c, .log_scale = at->found.k[i], .samples = 1, .log_rest = -INFINITY, .found = at->found,
                    .frequency = one, .real = one + 1, .imaginary = one + 2, .kernel_real = one + 3,
                    .kernel_imaginary = one + 4, .log_scale_error = INFINITY};
    path.period = sqrt(2.0 * PI * approximate(&at->found, i).curvature);
    path.real[0] = 1.0;
    path.kernel_real[0] = 1.0 / (c * (1.0 + c));
    path.frequency[0] = path.imaginary[0] = path.kernel_imaginary[0] = 0.0;
    path.alias = doubles(space, at->found.size);
    for (int k = 0; k < at->found.size; k++)
        path.alias[k] = INFINITY;
    return path;
}

/* One term, or Chernoff's bound on it if that is next to nothing. */
static void add_term(workspace *space, split *all, const prepared *problem, const int *j)
{
    double log_count = 0.0, most = 0.0, *times = times_of(space, all, j);
    int middling = 0;
    for (int i = 0; i < all->kinds; i++) {
        log_count += log_choose(all->of[i].kept.count, j[i]);
        most += all->of[i].kept.count * all->of[i].largest;
        middling += j[i];
    }
    if (middling == 0 && most * (1.0 + 8.0 * (all->kinds + 1.0) * U) < all->rest_from)
        return; /* small losses alone never reach epsilon; the sum is rounded up */
    prepared *one = allocate(space, sizeof(prepared));
    saddle *at = allocate(space, sizeof(saddle));
    if (middling == 0) { /* with a tilt far from all others' */
        *one = rounds_of(space, all, problem, times, &(scanner){.problem = NULL});
        loss_scale(space, one);
        *at = saddle_for_epsilon(space, one, all->epsilon);
    } else {
        *at = saddle_of_parts(space, &all->parts, times, all->epsilon, all->expected);
        *one = rounds_of(space, all, problem, times, &at->by);
        at->by.problem = one;
        all->expected = at->tilt;
    }
    double bound = log_chernoff(&at->found, all->rest_from) + log_count + 1e-9;
    if (bound < log_negligible(all)) {
        add_rest(all, bound);
        return;
    }
    if (all->terms == MOST_TERMS)
        decline(space, WORK);
    at->log_delta = all->log_delta - log_count;
    all->log_count[all->terms] = log_count;
    all->middling[all->terms] = middling;
    all->term[all->terms++] = (sampled_term){.at = at, .times = times, .log_bound = bound};
}

/* Whether a term may have the tilt of another: it costs a factor in the errors of its contour. */
static int joins(workspace *space, const sampled_term *first, const sampled_term *other)
{
    double tilt = first->at->tilt, growth = 0.0;
    saddle *at = other->at;
    if (at->by.parts == NULL || first->at->by.parts == NULL)
        return 0;
    int here = add_tilt(space, &at->by, &at->found, tilt);
    growth = at->found.k[here] - tilt * at->epsilon;
    here = add_tilt(space, &at->by, &at->found, at->tilt);
    growth -= at->found.k[here] - at->tilt * at->epsilon;
    return growth < LARGEST_GROWTH + 0.5 * (first->log_bound - other->log_bound);
}

/* The contours of all terms, those of terms with nearly the same tilt from the same samples. */
static contour *sample_terms(workspace *space, split *all)
{
    contour *last = NULL;
    for (int first = 0, next; first < all->terms; first = next) {
        for (next = first + 1; next < all->terms && joins(space, &all->term[first], &all->term[next]); next++)
            all->term[next].at->tilt = all->term[first].at->tilt;
        const prepared *parts = all->term[first].at->by.parts != NULL ? &all->parts.problem : all->term[first].at->by.problem;
        if (all->log_planned == LOG_GUIDE)
            for (int t = first; t < next; t++)
                all->term[t].path = approximated(space, all->term[t].at);
        else
            build_terms(space, parts, &all->term[first], next - first, all->log_planned, NULL);
    }
    for (int t = 0; t < all->terms; t++) {
        contour *path = &all->term[t].path;
        path->log_count = all->log_count[t];
        /* Two roundings for each factor, 8 U for each logarithm, one for each sum. */
        path->count_error = U * (4.0 * all->middling[t] + 16.0 * path->log_count + 16.0);
        path->next = last;
        last = path;
    }
    return last;
}

/* log of a bound on all terms with at least so many middling losses: those of some rounds, and anything of the others. */
static double log_more(workspace *space, const split *all, const int *j)
{
    double log_count = 0.0, *times = times_of(space, all, j);
    int with_next[2 * MOST_KINDS] = {0};
    for (int i = 0; i < all->kinds; i++) {
        log_count += log_choose(all->of[i].kept.count, j[i]);
        with_next[2 * i] = 1;
    }
    return log_chernoff_of_parts(&all->parts, times, with_next, all->rest_from) + log_count + 1e-9;
}

/* All ways to have so many middling losses among the kinds, from kind i on: their contours, or, with `total`, a bound. */
static void choose(workspace *space, split *all, const prepared *problem, int *j, int i, int left, double *total)
{
    if (i >= all->kinds - 1) {
        if (left > all->of[i].kept.count)
            return;
        j[i] = left;
        if (total == NULL)
            add_term(space, all, problem, j);
        else
            *total = log_add(*total, log_more(space, all, j)) + 1e-12;
        return;
    }
    for (j[i] = 0; i < MOST_KINDS && j[i] <= left && j[i] <= all->of[i].kept.count; j[i]++)
        choose(space, all, problem, j, i + 1, left - j[i], total);
}

/* About log P(a round has a loss above this), times the number of rounds; only guides. */
static double log_number_above(workspace *space, const prepared *problem, double loss)
{
    double total = -INFINITY, unused = 0.0;
    for (int r = 0; r < problem->rounds; r++)
        for (int b = 0; b < problem->round[r].branches; b++) {
            const branch *of = &problem->round[r].branch[b];
            thinning at = {.edge = reaching(space, of, loss), .width = 0.0};
            if (at.edge < INFINITY)
                total = log_add(total, log(problem->round[r].count) + of->log_weight +
                                           log_beyond_edge(&of->right, &at, 1.0, &unused));
        }
    return total;
}

/* The share of epsilon above which a loss is middling: the largest for which small losses are not expected to reach epsilon. */
static double choose_share(workspace *space, const prepared *problem, double epsilon, double log_delta, double *before)
{
    double rounds = 0.0, factorial = 0.0;
    for (int r = 0; r < problem->rounds; r++)
        rounds += problem->round[r].count;
    for (double m = 2.0; m < 400.0; m *= 1.4) {
        factorial = m * (log(m) - 1.0);
        double number = log_number_above(space, problem, epsilon / m);
        if (1.03 * rounds <= m) {
            *before = problem->discarded.beyond;
            return NEARLY / (1.02 * rounds);
        }
        if (number > -0.7)
            return 1.4 / m;
        if (m * number - factorial < log_delta + LOG_REST)
            return 1.0 / m;
    }
    return 1.0 / 400.0;
}

contour build_split(workspace *space, prepared *problem, double epsilon, double log_delta, double log_planned)
{
    split all = {.kinds = problem->rounds, .epsilon = epsilon, .log_delta = log_delta, .log_planned = log_planned,
                 .log_rest = -INFINITY, .rest_from = NEARLY * epsilon};
    double rounds = 0.0, before = BEFORE_THE_LOSS, share = choose_share(space, problem, epsilon, log_delta, &before);
    if (!(problem->rounds <= MOST_KINDS && problem->discarded.exact))
        decline(space, RARE_LOSSES);
    for (int i = 0; i < all.kinds; i++) {
        if (!part_kind(space, &problem->round[i], share * epsilon, before, &all.of[i], &problem->log_dropped))
            decline(space, RARE_LOSSES);
        rounds += problem->round[i].count;
    }
    all.term = allocate(space, MOST_TERMS * sizeof(sampled_term));
    scan_all_parts(space, &all, problem);
    int j[MOST_KINDS] = {0};
    for (int middling = 0;; middling++) {
        choose(space, &all, problem, j, 0, middling, NULL);
        if (middling >= rounds)
            break;
        double more = -INFINITY;
        if (middling > 0)
            choose(space, &all, problem, j, 0, middling + 1, &more);
        if (middling > 0 && more < log_negligible(&all)) {
            add_rest(&all, more);
            break;
        }
        if (middling == MOST_MIDDLING)
            decline(space, TOO_WIDE);
    }
    if (all.terms == 0)
        decline(space, TOO_WIDE);
    contour head = *sample_terms(space, &all);
    head.log_rest = all.log_rest;
    head.rest_from = all.rest_from;
    return head;
}
