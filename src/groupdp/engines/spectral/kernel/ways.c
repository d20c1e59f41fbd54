/* The ways to epsilon and log delta: on a contour through the saddle, by a search, beside closed forms for large losses. */
#include "arithmetic.h"
#include "spectral.h"

/* Other ways are tried until bounds are this narrow, relative to epsilon itself. */
#define SETTLED 1e-8
#define ENOUGH_ALLOCATED 1e-6
/* An edge this narrow makes for tens of thousands of nodes: closed forms for large losses are tried first. */
#define NARROW_EDGE 0.01
/* A tilted law so many times wider than the loss makes for a contour that is too long, or whose rounding is too much for
 * narrow bounds: closed forms for large losses are tried first. No effect on validity. */
#define TOO_HEAVY 24.0
/* Of the loss's deviation: the epsilon in place of 0. */
#define INSTEAD_OF_ZERO 1e-3
/* Below this log delta a short contour with everything kept is tried before closed forms for large losses. */
#define FAR_OUT -50.0
/* Single large places whose part of delta is larger than this, as a logarithm, are left to closed forms first. */
#define LARGE_PLACES -9.0
/* A coin of so many products takes long to discard from: a contour of everything comes first, and may be wider. */
#define MANY_PRODUCTS 16
/* Characteristic functions of fewer places than this are short: a contour of everything comes first. */
#define MANY_PLACES 1500.0

/* Runs one way; 0 where it declined. The memory it took is given back. */
int attempt(workspace *space, way_of_answering *way, course *along)
{
    jmp_buf *outer = space->declined, here;
    bookmark place = mark(space);
    int finished = 0;
    space->declined = &here;
    if (setjmp(here) == 0) {
        way(space, along);
        finished = 1;
    }
    space->declined = outer;
    rewind_to(space, place);
    return finished;
}

static void keep_narrower(course *along, answer found)
{
    double width = found.upper - found.lower, before = along->best.upper - along->best.lower;
    if (width < before || (found.lower == -INFINITY && found.upper == -INFINITY) ||
        (!(before < INFINITY) && found.upper < along->best.upper))
        along->best = found;
}

/* The bounds that a contour gives at the epsilon asked for, kept if they are the narrowest so far. */
static void keep_contour_of(course *along, const prepared *problem, const contour *path)
{
    const job *work = along->work;
    answer found = {.nodes = path->nodes, .samples = path->samples, .evaluations = 1}, before = along->best;
    corrected(problem, path, work->argument, &found.lower, &found.upper);
    keep_narrower(along, found);
    if (work->near != NULL && (along->best.lower != before.lower || along->best.upper != before.upper))
        keep_contour(work, problem, path);
    along->settled = along->best.upper - along->best.lower <= NARROW * larger(1.0, fabs(along->best.upper));
}

int acceptable(const answer *found, double most)
{
    if (found->lower == -INFINITY && found->upper == -INFINITY)
        return 1;
    double width = found->upper - found->lower;
    return isfinite(found->upper) && isfinite(found->lower) && width <= most * larger(1.0, fabs(found->upper));
}

/* Whether a tilt of the size expected piles mass up just before an edge: such a composition is heavy-tailed, or nearly. */
static int thinned_narrowly(const prepared *problem)
{
    for (int j = 0; j < problem->rounds; j++)
        for (int b = 0; b < problem->round[j].branches; b++) {
            const thinning *thin = &problem->round[j].branch[b].thin;
            if (thin->thinned && thin->width < NARROW_EDGE)
                return 1;
        }
    return 0;
}

/* About the epsilon of many small losses with this deviation, mu: delta is about mu phi(z) / z^2 at mu z. */
static double epsilon_of_small_losses(double deviation, double log_delta)
{
    double least = -log_delta + smaller(log(deviation), 0.0) - HALF_LOG_2PI, square = larger(2.0 * least, 0.0);
    for (int i = 0; i < 4; i++)
        square = larger(2.0 * (least - log(larger(square, 1.0))), 0.0);
    return deviation * sqrt(square) + 0.5 * deviation * deviation;
}

static int has_many_products(const prepared *problem)
{
    for (int j = 0; j < problem->rounds; j++)
        if (problem->round[j].allocated != NULL && problem->round[j].allocated->products >= MANY_PRODUCTS)
            return 1;
    return 0;
}

static int has_many_places(const prepared *problem)
{
    for (int j = 0; j < problem->rounds; j++) {
        const allocation_law *of = problem->round[j].allocated;
        for (int f = 0; of != NULL && f < of->factors; f++)
            if (of->factor[f].places >= MANY_PLACES)
                return 1;
    }
    return 0;
}

/* Whether single large places of allocations matter for delta, whose characteristic functions are long; `epsilon` becomes
 * that of the others, about. */
static int has_large_places(workspace *space, const prepared *problem, double log_delta, double *epsilon)
{
    double variance = 0.0, total = 0.0;
    if (has_many_products(problem) || !has_many_places(problem))
        return 0;
    for (int j = 0; j < problem->rounds; j++)
        if (problem->round[j].allocated != NULL)
            variance += problem->round[j].count * variance_of_small_places(space, problem->round[j].allocated);
    if (!(variance > 0.0))
        return 0;
    *epsilon = epsilon_of_small_losses(sqrt(variance), log_delta);
    for (int j = 0; j < problem->rounds; j++)
        if (problem->round[j].allocated != NULL)
            total += problem->round[j].count * delta_of_large_places(problem->round[j].allocated, *epsilon);
    return log(total) > log_delta + LARGE_PLACES;
}

/* On a contour through the saddle that is found. */
static void certify_directly(workspace *space, course *along)
{
    answer found = {.lower = 0.0};
    along->settled = certified_epsilon(space, along->problem, along->at, along->work->argument, &found);
    /* A contour planned for a larger epsilon, and so for a smaller delta: its width is rounding, and another has it too. */
    if (along->problem->allocates && along->at->epsilon >= found.upper && acceptable(&found, ACCEPTABLE))
        along->settled = 1;
    if (along->problem->allocates && acceptable(&found, has_many_products(along->problem) ? ENOUGH_ALLOCATED : SETTLED))
        along->settled = 1;
    if (along->heavy && found.upper - found.lower <= SETTLED * found.upper) /* what a search would be content with */
        along->settled = 1;
    keep_narrower(along, found);
}

void epsilon_directly(workspace *space, course *along)
{
    job *work = along->work;
    begin(space, PREPARE);
    space->lower_tilt = 0;
    prepared problem = prepare(space, work->rounds, work->whole, work->argument);
    int first = !along->insists && !along->last;
    double epsilon = epsilon_of_small_losses(problem.deviation, work->argument);
    if (first && (thinned_narrowly(&problem) || has_large_places(space, &problem, work->argument, &epsilon))) {
        along->heavy = 1;
        along->ceiling = INFINITY;
        along->start = epsilon;
        return;
    }
    begin(space, SCAN);
    saddle at = saddle_for_delta(space, &problem, work->argument);
    along->start = at.epsilon;
    along->ceiling = chernoff_ceiling(space, &problem, &at.found, work->argument);
    along->scanned = 1;
    along->heavy = heavy_tailed(&problem, &at) || (at.exploded && !problem.cuts && problem.deviation < SMALL_DEVIATION);
    int heavy = along->heavy && at.epsilon > 0.0;
    if (heavy && !along->last && (problem.allocates || at.deviation > TOO_HEAVY * problem.deviation))
        return;
    along->problem = &problem;
    along->at = &at;
    /* all digits if that is a short contour; of heavy tails a short one alone */
    space->brief = (heavy && !along->last) || (space->few && !along->roughly);
    int done = attempt(space, certify_directly, along);
    if (!done && space->brief && !heavy && space->reason != WORK) {
        space->brief = 0;
        done = attempt(space, certify_directly, along);
    }
    if (!done && problem.allocates && space->reason == NODES) {
        space->lower_tilt = 1;
        at = saddle_for_delta(space, &problem, work->argument);
        done = attempt(space, certify_directly, along);
        space->lower_tilt = 0;
    }
    if (!done)
        decline(space, space->reason);
    begin(space, STAGES);
}

/* With the law of every allocation on nodes of its loss; planned anew where the root is. */
void epsilon_by_curves(workspace *space, course *along)
{
    job *work = along->work;
    prepared problem = trim_uncut(space, work->rounds, work->whole, work->argument);
    attach_curves(space, &problem, work->argument);
    saddle at = saddle_for_delta(space, &problem, work->argument);
    along->problem = &problem;
    along->at = &at;
    for (int i = 0; i < 2 && at.epsilon > 0.0 && !along->settled; i++) {
        certify_directly(space, along);
        along->settled = acceptable(&along->best, SETTLED);
        if (along->settled || !(along->best.root > 0.0))
            break;
        at = saddle_for_epsilon(space, &problem, along->best.root);
        at.log_delta = work->argument;
    }
    along->problem = NULL;
    along->at = NULL;
}

void epsilon_by_search(workspace *space, course *along)
{
    job *work = along->work;
    double start = along->start, low = along->best.lower, high = along->best.upper;
    if (isfinite(high) && low > 0.0 && (high < 1.1 * low || !(start > low && start < high)))
        start = 0.5 * (low + high);
    answer found = search_epsilon(space, work->rounds, work->whole, work->argument, start, along->ceiling, along->way,
                                  !along->scanned, &along->nearly);
    keep_narrower(along, found);
    along->settled = isfinite(found.upper) &&
                     found.upper - found.lower <= (space->allocates ? ENOUGH_ALLOCATED : SETTLED) * found.upper;
    begin(space, STAGES);
}

void ceiling_by_chernoff(workspace *space, course *along)
{
    job *work = along->work;
    prepared problem = prepare(space, work->rounds, work->whole, work->argument);
    saddle at = saddle_alone_for_delta(space, &problem, work->argument);
    along->best.upper = chernoff_ceiling(space, &problem, &at.found, work->argument);
    along->scanned = 1; /* whatever may be declined from here on */
    if (!(along->best.upper < work->enough)) {
        extend_around(space, &at);
        along->best.upper = chernoff_ceiling(space, &problem, &at.found, work->argument);
        double closer = coarse_ceiling(space, &problem, &at, work->argument);
        if (closer < along->best.upper)
            along->best.upper = closer;
    }
}

void log_delta_directly(workspace *space, course *along)
{
    job *work = along->work;
    double assumed = -60.0;
    bookmark place = mark(space);
    for (int tries = 0; tries < 8; tries++) {
        rewind_to(space, place);
        prepared problem = prepare(space, work->rounds, work->whole, assumed);
        if (work->argument >= problem.largest_loss) {
            along->best = (answer){.lower = -INFINITY, .upper = -INFINITY};
            along->settled = 1;
            return;
        }
        saddle at = saddle_for_epsilon(space, &problem, work->argument);
        along->heavy = heavy_tailed(&problem, &at);
        if (along->heavy && !along->insists && space->few)
            return;
        space->brief = along->heavy && !along->insists; /* a short contour is tried at once, a long one last */
        double left_out = larger(problem.log_dropped, log(problem.shift));
        if (left_out == -INFINITY || assumed <= at.log_delta + 1.0) {
            contour path = fine_contour(space, &problem, &at);
            keep_contour_of(along, &problem, &path);
            return;
        }
        assumed = at.log_delta - 10.0;
    }
}

void log_delta_by_search(workspace *space, course *along)
{
    job *work = along->work;
    prepared problem;
    double at = work->argument;
    if (at == 0.0) /* closed forms for large losses need an epsilon above 0; one next to it serves */
        at = INSTEAD_OF_ZERO * trim(space, work->rounds, work->whole, -60.0).deviation;
    contour path = search_contour(space, work->rounds, work->whole, at, work->near == NULL ? AT_HAND : AHEAD, along->way,
                                  &problem);
    keep_contour_of(along, &problem, &path);
}

/* Far out, with every shift and outcome kept: the tilted law is not wide, and no edge is needed. */
void log_delta_far_out(workspace *space, course *along)
{
    job *work = along->work;
    prepared problem = trim(space, work->rounds, work->whole, -INFINITY);
    saddle at = saddle_far_out(space, &problem, work->argument);
    if (space->brief && !(at.log_delta < FAR_OUT))
        decline(space, STEPS);
    contour path = fine_contour(space, &problem, &at);
    keep_contour_of(along, &problem, &path);
}

/* The same for rounds that are seldom of consequence, beside their small losses (S-50). */
void log_delta_beside_small(workspace *space, course *along)
{
    job *work = along->work;
    prepared problem = trim(space, work->rounds, work->whole, -INFINITY);
    saddle at = saddle_far_out(space, &problem, work->argument);
    if (space->brief && !(at.log_delta < FAR_OUT))
        decline(space, STEPS);
    space->few = 1;
    contour path = build_remainder(space, &problem, &at, LOG_NEAR);
    keep_contour_of(along, &problem, &path);
}
