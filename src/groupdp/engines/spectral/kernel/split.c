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
/* What has no contour may add this much (e^-34) to delta, or e^-7 of the errors planned for the others if that is more. */
#define LOG_REST -34.0
#define BELOW_PLANNED 7.0
/* The rest is bounded for epsilons from this part of the one planned for. */
#define NEARLY 0.98
/* Between the edges: so many widths at least. */
#define APART 10.0
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
    contour *last;
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
        double width = thin->width, edge = reaching(space, small, loss) - before * width;
        if (!(edge < thin->edge - APART * width))
            return 0;
        branch *middling = &result->middling.branch[result->middling.branches++];
        *middling = law->branch[b];
        middling->thin.has_lower = 1;
        middling->thin.lower = edge;
        middling->thin.exact = 0;
        weight += middling->weight;
        thin->edge = edge;
        thin->cut = edge + BEYOND_THE_EDGE * width;
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

/* The rounds of one term: j of each kind are middling, the others small, or anything that is kept. */
static prepared rounds_of(workspace *space, const split *all, const prepared *problem, const int *j, int kept)
{
    prepared one = *problem;
    one.round = allocate(space, 2 * all->kinds * sizeof(round_law));
    one.rounds = 0;
    one.discarded = (discarded_part){.exact = 0};
    one.log_dropped = -INFINITY;
    one.shift = 0.0;
    for (int i = 0; i < all->kinds; i++) {
        const kind *of = &all->of[i];
        if (j[i] > 0) {
            one.round[one.rounds] = of->middling;
            one.round[one.rounds++].count = j[i];
        }
        if (of->kept.count > j[i]) {
            one.round[one.rounds] = kept ? of->kept : of->small;
            one.round[one.rounds++].count = of->kept.count - j[i];
        }
    }
    loss_scale(space, &one);
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

/* One term: its contour, or Chernoff's bound on it if that is next to nothing. */
static void add_term(workspace *space, split *all, const prepared *problem, const int *j)
{
    double log_count = 0.0, most = 0.0, negligible = log_negligible(all);
    int middling = 0;
    for (int i = 0; i < all->kinds; i++) {
        log_count += log_choose(all->of[i].kept.count, j[i]);
        most += all->of[i].kept.count * all->of[i].largest;
        middling += j[i];
    }
    if (middling == 0 && most * (1.0 + 8.0 * (all->kinds + 1.0) * U) < all->rest_from)
        return; /* small losses alone never reach epsilon; the sum is rounded up */
    prepared *one = allocate(space, sizeof(prepared));
    *one = rounds_of(space, all, problem, j, 0);
    saddle at = saddle_for_epsilon(space, one, all->epsilon);
    double bound = log_chernoff(&at.found, all->rest_from) + log_count + 1e-9;
    if (bound < negligible) {
        add_rest(all, bound);
        return;
    }
    if (all->terms++ >= MOST_TERMS)
        decline(space, WORK);
    at.log_delta = all->log_delta - log_count;
    contour *path = allocate(space, sizeof(contour));
    *path = build(space, one, &at, all->log_planned);
    path->log_count = log_count;
    /* Two roundings for each factor, 8 U for each logarithm, one for each sum. */
    path->count_error = U * (4.0 * middling + 16.0 * log_count + 16.0);
    path->next = all->last;
    all->last = path;
}

/* log of a bound on all terms with at least so many middling losses: those of some rounds, and anything of the others. */
static double log_more(workspace *space, const split *all, const prepared *problem, const int *j)
{
    double log_count = 0.0;
    bookmark place = mark(space);
    for (int i = 0; i < all->kinds; i++)
        log_count += log_choose(all->of[i].kept.count, j[i]);
    prepared one = rounds_of(space, all, problem, j, 1);
    saddle at = saddle_for_epsilon(space, &one, all->epsilon);
    double bound = log_chernoff(&at.found, all->rest_from) + log_count + 1e-9;
    rewind_to(space, place);
    return bound;
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
            *total = log_add(*total, log_more(space, all, problem, j)) + 1e-12;
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
            *before = BEYOND_THE_EDGE;
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
    if (all.last == NULL)
        decline(space, TOO_WIDE);
    contour head = *all.last;
    head.log_rest = all.log_rest;
    head.rest_from = all.rest_from;
    return head;
}
