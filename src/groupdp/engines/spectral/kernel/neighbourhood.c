/* delta near one epsilon: one contour, good for many evaluations close to where it was planned, each with the same
 * certified bounds as log_delta. Trade-off curves need delta at a dozen neighbouring epsilons at a time. */
#include "arithmetic.h"
#include "spectral.h"

#include <string.h>

double *kept_doubles(workspace *keep, const double *source, int count)
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
        *of_samples[i] = kept_doubles(keep, *of_samples[i], path->samples);
    for (int i = 0; i < 3; i++)
        *of_tilts[i] = kept_doubles(keep, *of_tilts[i], path->found.size);
    path->found.k = path->found.mean = path->found.variance = NULL;
    if (path->next == NULL)
        return;
    contour *next = allocate(keep, sizeof(contour));
    *next = *path->next;
    copy_contour(keep, next);
    path->next = next;
}

void keep_contour(const job *work, const prepared *problem, const contour *path)
{
    rewind_to(work->keep, (bookmark){NULL, 0}); /* in place of one with wider bounds */
    work->near->by_sum = 0;
    work->near->planned = 1;
    work->near->problem = *problem;
    work->near->problem.round = NULL;
    work->near->path = *path;
    copy_contour(work->keep, &work->near->path);
}

int neighbourhood_of(workspace *space, workspace *keep, const job *work, neighbourhood *found)
{
    job asked = *work;
    jmp_buf here;
    *found = (neighbourhood){.exchanged = work->argument < 0.0};
    asked.question = LOG_DELTA;
    asked.near = found;
    asked.keep = keep;
    keep->reason = ANSWERED;
    keep->declined = &here;
    int answered = 0;
    if (setjmp(here) == 0)
        answered = solve(space, &asked);
    space->declined = keep->declined = NULL;
    if (keep->reason != ANSWERED)
        return 0;
    return answered && asked.found.upper == -INFINITY ? -1 : found->planned;
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
    if (at->by_sum) {
        sum_log_delta(&at->sum, epsilon, lower, upper);
    } else if (!at->exchanged) {
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
    if (at->by_sum) {
        sum_slope(&at->sum, epsilon, value, slope);
        return;
    }
    uncorrected(&at->problem, &at->path, at->exchanged ? -epsilon : epsilon, value, slope);
    if (!at->exchanged)
        return;
    /* d/d eps of 1 - e^eps + e^eps delta'(-eps). */
    double factor = exp(epsilon), other = exp(*value), both = factor * other - expm1(epsilon);
    *slope = -factor * (1.0 - other + other * *slope) / both;
    *value = log(both);
}
