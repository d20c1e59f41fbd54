/* The questions, and which of the ways of root.c answers them. */
#include "arithmetic.h"
#include "spectral.h"

/* Bounds that are not narrow are given if they are this narrow, relative to max(1, |answer|); wider ones are declined.
 */
#define ACCEPTABLE 1e-6
/* Other ways are tried until bounds are this narrow, relative to epsilon itself. */
#define SETTLED 1e-8
/* The same with allocations, which the lattice engine answers to 1e-3. */
#define ACCEPTABLE_ALLOCATED 1e-3
/* An edge this narrow makes for tens of thousands of nodes: closed forms for large losses are tried first. */
#define NARROW_EDGE 0.01

/* Below this log delta a short contour with everything kept is tried before closed forms for large losses. */
#define FAR_OUT -100.0

/* What one way of answering leaves for the next. */
typedef struct {
    job *work;
    int settled, heavy, scanned, insists, roughly, last;
    enum way way;
    double start, ceiling;
    near_root nearly;
    answer best;
} course;

typedef void way_of_answering(workspace *, course *);

/* Runs one way; 0 where it declined. The memory it took is given back. */
static int attempt(workspace *space, way_of_answering *way, course *along)
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

static int acceptable(const answer *found, double most)
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

static void epsilon_directly(workspace *space, course *along)
{
    job *work = along->work;
    begin(space, PREPARE);
    prepared problem = prepare(space, work->rounds, work->whole, work->argument);
    if (!along->insists && !along->last && thinned_narrowly(&problem)) {
        along->heavy = 1;
        along->ceiling = INFINITY;
        return;
    }
    begin(space, SCAN);
    saddle at = saddle_for_delta(space, &problem, work->argument);
    along->start = at.epsilon;
    along->ceiling = chernoff_ceiling(space, &problem, &at.found, work->argument);
    along->scanned = 1;
    along->heavy = heavy_tailed(&problem, &at) || (at.exploded && !problem.cuts && problem.deviation < SMALL_DEVIATION);
    int heavy = along->heavy && at.epsilon > 0.0;
    if (heavy && problem.allocates && !along->last)
        return;
    answer found = {.lower = 0.0};
    /* all digits if that is a short contour; of heavy tails a short one alone */
    space->brief = (heavy && !along->last) || (space->few && !along->roughly);
    along->settled = certified_epsilon(space, &problem, &at, work->argument, &found);
    /* A contour planned for a larger epsilon, and so for a smaller delta: its width is rounding, and another has it too. */
    if (problem.allocates && at.epsilon >= found.upper && acceptable(&found, ACCEPTABLE))
        along->settled = 1;
    keep_narrower(along, found);
    begin(space, STAGES);
}

static void epsilon_by_search(workspace *space, course *along)
{
    job *work = along->work;
    double start = along->start, low = along->best.lower, high = along->best.upper;
    if (isfinite(high) && low > 0.0 && (high < 1.1 * low || !(start > low && start < high)))
        start = 0.5 * (low + high);
    answer found = search_epsilon(space, work->rounds, work->whole, work->argument, start, along->ceiling, along->way,
                                  &along->nearly);
    keep_narrower(along, found);
    along->settled = isfinite(found.upper) && found.upper - found.lower <= SETTLED * found.upper;
    begin(space, STAGES);
}

static void ceiling_by_chernoff(workspace *space, course *along)
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

static void log_delta_directly(workspace *space, course *along)
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
            keep_narrower(along, certified_log_delta(space, &problem, &at, work->argument));
            along->settled = along->best.upper - along->best.lower <= NARROW * larger(1.0, fabs(along->best.upper));
            return;
        }
        assumed = at.log_delta - 10.0;
    }
}

static void log_delta_by_search(workspace *space, course *along)
{
    job *work = along->work;
    keep_narrower(along, search_log_delta(space, work->rounds, work->whole, work->argument, along->way));
    along->settled = along->best.upper - along->best.lower <= NARROW * larger(1.0, fabs(along->best.upper));
}

/* Far out, with every shift and outcome kept: the tilted law is not wide, and no edge is needed. */
static void log_delta_far_out(workspace *space, course *along)
{
    job *work = along->work;
    prepared problem = trim(space, work->rounds, work->whole, -INFINITY);
    saddle at = saddle_far_out(space, &problem, work->argument);
    if (space->brief && !(at.log_delta < FAR_OUT))
        decline(space, STEPS);
    keep_narrower(along, certified_log_delta(space, &problem, &at, work->argument));
    along->settled = along->best.upper - along->best.lower <= NARROW * larger(1.0, fabs(along->best.upper));
}

/* The same for rounds that are seldom of consequence, beside their small losses (S-50). */
static void log_delta_beside_small(workspace *space, course *along)
{
    job *work = along->work;
    prepared problem = trim(space, work->rounds, work->whole, -INFINITY);
    saddle at = saddle_far_out(space, &problem, work->argument);
    if (space->brief && !(at.log_delta < FAR_OUT))
        decline(space, STEPS);
    space->few = 1;
    contour path = build_remainder(space, &problem, &at, LOG_NEAR);
    answer found = {.nodes = path.nodes, .samples = path.samples, .evaluations = 1};
    corrected(&problem, &path, work->argument, &found.lower, &found.upper);
    keep_narrower(along, found);
    along->settled = along->best.upper - along->best.lower <= NARROW * larger(1.0, fabs(along->best.upper));
}

/* P and Q exchanged. */
round_law *exchanged(workspace *space, const job *work)
{
    round_law *result = allocate(space, work->rounds * sizeof(round_law));
    for (int j = 0; j < work->rounds; j++) {
        result[j] = work->whole[j];
        result[j].branch = allocate(space, (result[j].branches + 1) * sizeof(branch));
        if (result[j].allocated != NULL) {
            allocation_law *turned = allocate(space, sizeof(allocation_law));
            *turned = *result[j].allocated;
            turned->reverse = !turned->reverse;
            result[j].allocated = turned;
        }
        for (int b = 0; b < result[j].branches; b++) {
            result[j].branch[b] = work->whole[j].branch[b];
            result[j].branch[b].right = work->whole[j].branch[b].left;
            result[j].branch[b].left = work->whole[j].branch[b].right;
        }
    }
    return result;
}

/* log of 1 - e^eps + e^eps delta', delta' the curve with P and Q exchanged at -eps (S-26); moved outward. For eps > 0 two
 * positive terms are subtracted, and their rounding is charged. */
double log_from_exchanged(double epsilon, double log_exchanged, double direction)
{
    double kept = exp(epsilon) * -expm1(log_exchanged); /* e^eps (1 - delta') */
    if (epsilon <= 0.0) {
        double value = kept < 0.5 ? log1p(-kept) : log(exp(epsilon + log_exchanged) - expm1(epsilon));
        return smaller(value + direction * 1e-14 * fabs(value), 0.0);
    }
    double plus = exp(epsilon + log_exchanged), minus = expm1(epsilon);
    double rest = larger(plus - minus + direction * 1e-13 * (1.0 + epsilon) * (plus + minus), 0.0);
    return smaller(log(rest) + direction * 1e-14, 0.0);
}

/* Whether bounds are narrow enough to be given. */
static int given(const workspace *space, const answer *found)
{
    return acceptable(found, space->allocates ? ACCEPTABLE_ALLOCATED : ACCEPTABLE);
}

/* The ways in the order in which they are tried: short contours first. */
static const struct {
    enum way way;
    int brief;
} ORDER[] = {{NEAR, 1}, {SPLIT, 0}, {NEAR, 0}, {WHOLE, 0}};

static void ask_far_out(workspace *space, course *along, int brief)
{
    space->far = 1;
    space->brief = brief;
    attempt(space, log_delta_far_out, along);
    if (!along->settled && space->reason != WORK)
        attempt(space, log_delta_beside_small, along);
    space->far = space->brief = 0;
}

static void ask_log_delta(workspace *space, course *along)
{
    attempt(space, log_delta_directly, along);
    if (!along->settled && space->reason != WORK)
        ask_far_out(space, along, 1);
    space->brief = 0;
    for (int i = 0; i < 3 && !along->settled && space->reason != WORK; i++) {
        along->way = ORDER[i].way;
        space->brief = ORDER[i].brief;
        attempt(space, log_delta_by_search, along);
        space->brief = 0;
    }
    along->insists = 1;
    if (!along->settled && along->heavy && space->reason != WORK && !given(space, &along->best))
        attempt(space, log_delta_directly, along);
    if (!along->settled && space->reason != WORK && !given(space, &along->best))
        ask_far_out(space, along, 0);
    if (along->settled || given(space, &along->best))
        return;
    /* Without cuts and lines off the axis: the last ways have as much work of their own, whatever the others took. */
    space->work = 0.0;
    space->plain = 1;
    along->way = NEAR;
    attempt(space, log_delta_by_search, along);
    if (!given(space, &along->best) && along->heavy && space->reason != WORK)
        attempt(space, log_delta_directly, along);
    space->plain = 0;
}

static void log_delta_below_zero(workspace *space, course *along)
{
    job turned = *along->work, *work = along->work;
    turned.whole = exchanged(space, work);
    turned.argument = -work->argument;
    course other = {.work = &turned, .best = {.lower = -INFINITY, .upper = INFINITY}};
    ask_log_delta(space, &other);
    if (other.best.upper == INFINITY)
        decline(space, space->reason);
    along->best = other.best;
    along->best.lower = log_from_exchanged(work->argument, other.best.lower, -1.0);
    along->best.upper = log_from_exchanged(work->argument, other.best.upper, 1.0);
}

static int solve_once(workspace *space, job *work)
{
    course along = {.work = work, .best = {.lower = -INFINITY, .upper = INFINITY}};
    space->reason = ANSWERED;
    space->work = 0.0;
    if (!isfinite(work->argument)) {
        space->reason = NO_NUMBER;
        return 0;
    }
    if (work->question == CEILING) {
        attempt(space, ceiling_by_chernoff, &along);
        work->found = along.best;
        if (along.scanned && !(along.best.upper >= 0.0))
            space->reason = CONTRADICTION;
        return along.scanned && along.best.upper >= 0.0;
    }
    if (work->question == EPSILON) {
        int done = attempt(space, epsilon_directly, &along);
        if (!done && space->brief && !along.heavy) {
            space->brief = 0;
            along.roughly = 1;
            attempt(space, epsilon_directly, &along);
        }
        space->brief = 0;
        along.roughly = 1;
        for (int i = 0; i < 4 && (along.scanned || along.heavy) && !along.settled && space->reason != WORK; i++) {
            if (ORDER[i].way == WHOLE && !along.scanned) {
                along.insists = 1;
                attempt(space, epsilon_directly, &along);
                if (!along.scanned || along.settled)
                    break;
            }
            along.way = ORDER[i].way;
            space->brief = ORDER[i].brief;
            attempt(space, epsilon_by_search, &along);
            space->brief = 0;
        }
        if (!along.settled && along.heavy && !given(space, &along.best)) {
            space->work = 0.0; /* a long contour comes last, and has as much work of its own */
            along.last = 1;
            attempt(space, epsilon_directly, &along);
        }
    } else if (work->argument < 0.0) {
        attempt(space, log_delta_below_zero, &along);
    } else {
        ask_log_delta(space, &along);
    }
    work->found = along.best;
    if (!(along.best.lower <= along.best.upper)) {
        space->reason = CONTRADICTION;
        return 0;
    }
    if (given(space, &along.best))
        return 1;
    if (space->reason == ANSWERED || along.best.upper < INFINITY)
        space->reason = TOO_WIDE;
    return 0;
}

/* Where places were cut in vain, whole ones are tried. */
int solve(workspace *space, job *work)
{
    space->cuts = space->uncut = 0;
    int done = solve_once(space, work);
    if (done || !space->cuts || work->question == CEILING)
        return done;
    answer before = work->found;
    space->uncut = 1;
    done = solve_once(space, work);
    if (!done && before.upper - before.lower < work->found.upper - work->found.lower)
        work->found = before;
    return done;
}
