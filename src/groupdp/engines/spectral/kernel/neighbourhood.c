/* delta near one epsilon: one contour, good for many evaluations close to where it was planned, each with the same
 * certified bounds as log_delta. Trade-off curves need delta at a dozen neighbouring epsilons at a time. */
#include "arithmetic.h"
#include "spectral.h"

#include <string.h>

typedef struct {
    const job *work;
    double epsilon, log_delta;
    neighbourhood *found;
    int answered;
} request;

static double *copied(workspace *keep, const double *source, int count)
{
    double *result = doubles(keep, count);
    memcpy(result, source, (size_t)count * sizeof(double));
    return result;
}

/* What later evaluations need, in memory of its own. */
static void copy_contour(workspace *keep, contour *path)
{
    double **of_samples[] = {&path->frequency, &path->real, &path->imaginary, &path->kernel_real,
                             &path->kernel_imaginary};
    double **of_tilts[] = {&path->alias, &path->found.tilt, &path->found.level};
    for (int i = 0; i < 5; i++)
        *of_samples[i] = copied(keep, *of_samples[i], path->samples);
    for (int i = 0; i < 3; i++)
        *of_tilts[i] = copied(keep, *of_tilts[i], path->found.size);
    path->found.k = path->found.mean = path->found.variance = NULL;
}

static void plan_contour(workspace *space, workspace *keep, request *asked)
{
    const job *work = asked->work;
    neighbourhood *found = asked->found;
    const round_law *whole = work->whole;
    double epsilon = asked->epsilon, assumed = smaller(asked->log_delta, -1.0);
    found->exchanged = epsilon < 0.0;
    if (found->exchanged) {
        whole = exchanged(space, work);
        epsilon = -epsilon;
        assumed = -60.0;
    }
    saddle at;
    bookmark place = mark(space);
    for (int tries = 0; tries < 8; tries++) {
        rewind_to(space, place);
        found->problem = prepare(space, work->rounds, whole, assumed);
        if (epsilon >= found->problem.largest_loss) {
            asked->answered = -1;
            return;
        }
        at = saddle_for_epsilon(space, &found->problem, epsilon);
        if (assumed <= at.log_delta + 1.0)
            break;
        assumed = at.log_delta - 10.0;
    }
    found->path = build(space, &found->problem, &at, found->problem.allocates ? LOG_ALLOCATED : LOG_FINE);
    copy_contour(keep, &found->path);
    found->problem.round = NULL;
    asked->answered = 1;
}

int neighbourhood_of(workspace *space, workspace *keep, const job *work, double log_delta, neighbourhood *found)
{
    request asked = {.work = work, .epsilon = work->argument, .log_delta = log_delta, .found = found};
    jmp_buf here;
    space->reason = keep->reason = ANSWERED;
    space->declined = keep->declined = &here;
    if (!isfinite(work->argument)) {
        space->reason = NO_NUMBER;
        return 0;
    }
    if (setjmp(here) == 0)
        plan_contour(space, keep, &asked);
    space->declined = keep->declined = NULL;
    return asked.answered;
}

/* Sides in the wrong order, or none: nothing is known but that delta is at most 1. */
static void require_order(double *lower, double *upper)
{
    if (*lower <= *upper)
        return;
    *lower = -INFINITY;
    *upper = 0.0;
}

void neighbourhood_log_delta(const neighbourhood *at, double epsilon, double *lower, double *upper)
{
    if (!at->exchanged) {
        corrected(&at->problem, &at->path, epsilon, lower, upper);
    } else {
        corrected(&at->problem, &at->path, -epsilon, lower, upper);
        *lower = log_from_exchanged(epsilon, *lower, -1.0);
        *upper = log_from_exchanged(epsilon, *upper, 1.0);
    }
    require_order(lower, upper);
}

/* log delta and its derivative, to many digits but without a claim. */
void neighbourhood_slope(const neighbourhood *at, double epsilon, double *value, double *slope)
{
    uncorrected(&at->problem, &at->path, at->exchanged ? -epsilon : epsilon, value, slope);
    if (!at->exchanged)
        return;
    /* d/d eps of 1 - e^eps + e^eps delta'(-eps). */
    double factor = exp(epsilon), other = exp(*value), both = factor * other - expm1(epsilon);
    *slope = -factor * (1.0 - other + other * *slope) / both;
    *value = log(both);
}
