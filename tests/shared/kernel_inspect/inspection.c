/* What the tests look at: the quantities that the answers rest on, each with the bound that is claimed for it. Every
 * function returns None where the core declines. */
#include "view.h"

#include <math.h>

/* Nodes as many as a table can have; 0 with a Python error set otherwise. */
static int sound(double step, double first, int nodes)
{
    int fine = nodes > 0 && step > 0.0 && isfinite(step) && isfinite(first);
    if (!fine)
        PyErr_SetString(PyExc_ValueError, "a table must have a positive step and at least one node");
    return fine;
}

static PyObject *look_at_table(view *at)
{
    branch_table t = tabulate(&at->space, first_branch(at), at->a, at->b, at->nodes);
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:N}", "psi", list_of(t.psi, t.nodes), "slope",
                         list_of(t.slope, t.nodes), "psi_error", list_of(t.psi_error, t.nodes), "log_a",
                         list_of(t.right.log, t.nodes), "log_a_error", list_of(t.right.log_error, t.nodes), "mean_a",
                         list_of(t.right.mean, t.nodes), "log_b", list_of(t.left.log, t.nodes), "log_b_error",
                         list_of(t.left.log_error, t.nodes), "mean_b", list_of(t.left.mean, t.nodes));
}

static PyObject *table(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddi", &composition, &at.a, &at.b, &at.nodes) || !sound(at.a, at.b, at.nodes))
        return NULL;
    return shown(&at, composition, NULL, look_at_table);
}

static PyObject *look_at_slope_errors(view *at)
{
    branch *of = first_branch(at);
    return Py_BuildValue("dd", slope_error(&of->right, at->a), slope_error(&of->left, at->a));
}

static PyObject *slope_errors(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Od", &composition, &at.a))
        return NULL;
    return shown(&at, composition, NULL, look_at_slope_errors);
}

static PyObject *look_at_variances(view *at)
{
    branch *of = first_branch(at);
    return Py_BuildValue("dd", of->right.variance, of->left.variance);
}

static PyObject *variances(PyObject *Py_UNUSED(module), PyObject *composition)
{
    view at = {.rounds = 0};
    return shown(&at, composition, NULL, look_at_variances);
}

static PyObject *look_at_quadrature(view *at)
{
    branch *of = first_branch(at);
    double tilt = at->c;
    if (at->b > 0.0)
        of->thin = (thinning){.thinned = 1, .edge = at->a, .width = at->b, .log_discarded = -INFINITY};
    if (at->f > 0.0) {
        of->thin.is_cut = 1;
        of->thin.cut = at->f;
    }
    quadrature grid = plan(&at->space, of, tilt, tilt, at->d, at->e, 1);
    double total = 0.0, excess, error;
    for (int j = 0; j < grid.table.nodes; j++)
        total += exp(grid.log_weight[j] + grid.table.right.log[j] + tilt * grid.table.psi[j]);
    excess_moment(&grid, tilt, &excess, &error);
    int n = grid.table.nodes;
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:i}", "u", list_of(grid.table.u, n),
                         "psi", list_of(grid.table.psi, n), "log_a", list_of(grid.table.right.log, n), "psi_error",
                         list_of(grid.table.psi_error, n), "log_a_error", list_of(grid.table.right.log_error, n),
                         "log_weight", list_of(grid.log_weight, n), "log_error", log_error(&grid, tilt, log(total), at->d),
                         "log_tails", log_tails(&grid, tilt), "right_error", log_error(&grid, 0.0, 0.0, 0.0),
                         "left_error", log_error(&grid, -1.0, 0.0, 0.0), "identity_error", identity_error(&grid, tilt),
                         "excess", excess, "excess_error", error, "strip", grid.strip, "end", grid.end, "cells", grid.cells.size);
}

static PyObject *quadrature_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddddd|d", &composition, &at.a, &at.b, &at.c, &at.d, &at.e, &at.f))
        return NULL;
    return shown(&at, composition, NULL, look_at_quadrature);
}

static PyObject *look_at_tails(view *at)
{
    branch *of = first_branch(at);
    if (at->e > 0.0)
        of->thin = (thinning){.thinned = 1, .edge = at->d, .width = at->e, .log_discarded = -INFINITY};
    quadrature grid = {.of = of, .step = at->a, .table = tabulate(&at->space, of, at->a, at->b, at->nodes)};
    return PyFloat_FromDouble(at->c < 0.0 ? log_tails_of_left(&grid) : log_tails(&grid, at->c));
}

static PyObject *tails(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddid|dd", &composition, &at.a, &at.b, &at.nodes, &at.c, &at.d, &at.e) ||
        !sound(at.a, at.b, at.nodes))
        return NULL;
    return shown(&at, composition, NULL, look_at_tails);
}

static PyObject *look_at_tilted(view *at)
{
    if (at->f > 0.0)
        first_branch(at)->thin = (thinning){.thinned = 1, .edge = at->e, .width = at->f, .log_discarded = at->g,
                                            .has_lower = at->lower > 0.0, .lower = at->lower, .is_cut = at->cut > 0.0,
                                            .cut = at->cut};
    at->whole[0].lost = at->d;
    tilted_round found = tilt_round(&at->space, &at->whole[0], at->a, at->b, at->c);
    decay bound = certify(&at->space, &found, 128, 1);
    add_lines(&at->space, &found, &bound);
    double *levels = doubles(&at->space, at->count + 1);
    for (int i = 0; i < at->count; i++)
        levels[i] = log_decay(&bound, at->values[i]);
    int turned = found.weight_imaginary != NULL ? found.nodes : 0; /* nodes off the axis, if any */
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:d,s:N,s:N,s:N,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:N}", "weight_imaginary",
                         list_of(found.weight_imaginary, turned), "loss_imaginary", list_of(found.loss_imaginary, turned), "widths",
                         list_of(bound.width, bound.rectangles), "masses", list_of(bound.mass, bound.rectangles),
                         "on_grids", bound.on_grids, "weight", list_of(found.weight, found.nodes), "loss", list_of(found.loss, found.nodes), "omega",
                         list_of(found.omega, at->whole[0].gaussians), "centre", found.centre, "variance",
                         found.variance, "log_moment", found.log_moment, "log_moment_error", found.log_moment_error,
                         "first_order_error", found.first_order_error, "second_order_error", found.second_order_error,
                         "constant_error", found.constant_error, "decay", list_of(levels, at->count));
}

static PyObject *tilted(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition, *frequencies;
    if (!PyArg_ParseTuple(arguments, "OdddO!|dddddd", &composition, &at.a, &at.b, &at.c, &PyList_Type, &frequencies,
                          &at.d, &at.e, &at.f, &at.g, &at.lower, &at.cut))
        return NULL;
    return shown(&at, composition, frequencies, look_at_tilted);
}

static PyObject *look_at_characteristic(view *at)
{
    int samples = at->nodes;
    contour path = {.tilt = at->a, .step = at->b, .samples = samples};
    tilted_round found = tilt_round(&at->space, &at->whole[0], at->a, at->b * samples, at->c);
    double *log_error_of = doubles(&at->space, samples), *log_largest = doubles(&at->space, samples);
    path.frequency = doubles(&at->space, samples);
    path.real = doubles(&at->space, samples);
    path.imaginary = doubles(&at->space, samples);
    for (int i = 0; i < samples; i++) {
        path.frequency[i] = path.step * i;
        path.real[i] = path.imaginary[i] = log_error_of[i] = log_largest[i] = 0.0;
    }
    double *real = doubles(&at->space, samples), *imaginary = doubles(&at->space, samples);
    if (found.allocated != NULL) {
        add_allocations(&at->space, &found, 1, &path, log_error_of, log_largest);
    } else {
        sample_round(&at->space, &found, &path, real, imaginary);
        add_characteristic(&found, found.law->count, 1, real, imaginary, &path, log_error_of, log_largest);
    }
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:d}", "log_modulus", list_of(path.real, samples), "angle",
                         list_of(path.imaginary, samples), "log_error", list_of(log_error_of, samples), "log_largest",
                         list_of(log_largest, samples), "centre", found.centre);
}

static PyObject *characteristic(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Odddi", &composition, &at.a, &at.b, &at.c, &at.nodes) ||
        !sound(at.b, 0.0, at.nodes))
        return NULL;
    return shown(&at, composition, NULL, look_at_characteristic);
}

static PyObject *look_at_scan(view *at)
{
    prepared problem = {.rounds = at->rounds, .round = at->whole, .log_dropped = -INFINITY};
    scan found = scan_at(&at->space, &problem, at->values, at->count);
    return Py_BuildValue("{s:N,s:N,s:N}", "tilt", list_of(found.tilt, found.size), "k", list_of(found.k, found.size),
                         "level", list_of(found.level, found.size));
}

static PyObject *scanned(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition, *tilts;
    if (!PyArg_ParseTuple(arguments, "OO!", &composition, &PyList_Type, &tilts))
        return NULL;
    return shown(&at, composition, tilts, look_at_scan);
}

/* What is left out of the first round, and what is charged for it. */
static PyObject *look_at_prepared(view *at)
{
    prepared problem = prepare(&at->space, at->rounds, at->whole, at->a);
    const round_law *law = &problem.round[0];
    int first = law->branches > 0;
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:i,s:i,s:i,s:i,s:d,s:d,s:d,s:d,s:d}", "log_dropped", problem.log_dropped,
                         "shift", problem.shift, "largest_loss", problem.largest_loss, "lost", law->lost, "branches",
                         law->branches, "gaussians", law->gaussians, "right", first ? law->branch[0].right.size : 0,
                         "left", first ? law->branch[0].left.size : 0, "edge",
                         first && law->branch[0].thin.thinned ? law->branch[0].thin.edge : INFINITY, "width",
                         first && law->branch[0].thin.thinned ? law->branch[0].thin.width : 0.0, "log_discarded",
                         first && law->branch[0].thin.thinned ? law->branch[0].thin.log_discarded : -INFINITY, "mean",
                         problem.mean, "deviation", problem.deviation);
}

static PyObject *prepared_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Od", &composition, &at.a))
        return NULL;
    return shown(&at, composition, NULL, look_at_prepared);
}

static PyObject *look_at_discarded(view *at)
{
    prepared problem = prepare_near(&at->space, at->rounds, at->whole, at->a, at->b, AT_HAND, WIDE_EDGE);
    const discarded_part *part = &problem.discarded;
    const round_law *law = &problem.round[0];
    PyObject *branches = PyList_New(0);
    for (int b = 0; branches != NULL && b < law->branches; b++) {
        const thinning *thin = &law->branch[b].thin;
        PyObject *one = Py_BuildValue("ddddd", thin->thinned ? thin->edge : INFINITY, thin->width,
                                      thin->log_eta, thin->log_zeta, thin->relative_error);
        if (one == NULL || PyList_Append(branches, one) != 0)
            Py_CLEAR(branches);
        Py_XDECREF(one);
    }
    double log_least, log_most;
    bound_discarded(part, at->c > 0.0 ? at->c : at->b, &log_least, &log_most);
    return Py_BuildValue("{s:N,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "branches", branches, "log_p", part->log_p,
                         "p_error", part->p_error, "log_q", part->log_q, "q_error", part->q_error, "log_least",
                         log_least, "log_most", log_most, "log_remainder", part->log_remainder, "farthest",
                         part->farthest);
}

static PyObject *discarded(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Odd|d", &composition, &at.a, &at.b, &at.c))
        return NULL;
    return shown(&at, composition, NULL, look_at_discarded);
}

/* The contour at one epsilon, with what its bounds are made of. */
static PyObject *look_at_contour(view *at)
{
    prepared problem = prepare(&at->space, at->rounds, at->whole, at->b);
    saddle near = saddle_for_epsilon(&at->space, &problem, at->a);
    contour path = build(&at->space, &problem, &near, at->c);
    double lower, upper, certain_lower, certain_upper, logarithm, slope;
    contour_log_delta(&path, at->a, &lower, &upper);
    contour_slope(&path, at->a, &logarithm, &slope);
    if (at->d > 0.0) { /* as if so much had been left out */
        problem.shift = at->d;
        problem.log_dropped = at->e;
    }
    corrected(&problem, &path, at->a, &certain_lower, &certain_upper);
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:i,s:N,s:N}", "logarithm",
                         logarithm, "error_plain", path.error_plain, "error_angle", path.error_angle,
                         "error_frequency", path.error_frequency, "centre_size", path.centre_size, "tilt", path.tilt, "log_scale",
                         path.log_scale, "log_scale_error", path.log_scale_error, "period", path.period, "step",
                         path.step, "log_truncation", path.log_truncation, "log_alias",
                         log_alias(&path.found, path.tilt, at->a, path.period, path.alias), "lower", lower, "upper",
                         upper, "corrected_lower", certain_lower, "corrected_upper", certain_upper, "samples",
                         path.samples, "tilts", list_of(path.found.tilt, path.found.size), "levels",
                         list_of(path.found.level, path.found.size));
}

static PyObject *contour_at(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddd|dd", &composition, &at.a, &at.b, &at.c, &at.d, &at.e))
        return NULL;
    return shown(&at, composition, NULL, look_at_contour);
}

static PyObject *look_at_thinning(view *at)
{
    thinning thin = discard(&first_branch(at)->right, at->a, at->b);
    return Py_BuildValue("ddd", thin.edge, thin.log_discarded, steepness(&thin, at->c, at->c));
}

static PyObject *thinned(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddd", &composition, &at.a, &at.b, &at.c))
        return NULL;
    return shown(&at, composition, NULL, look_at_thinning);
}

static PyObject *normal_cdf(PyObject *Py_UNUSED(module), PyObject *argument)
{
    double t = PyFloat_AsDouble(argument);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(log_normal_cdf(t));
}

PyMethodDef inspection[] = {
    {"table", table, METH_VARARGS, "table(composition, step, first, nodes): the first branch on nodes (S-15)."},
    {"slope_errors", slope_errors, METH_VARARGS, "slope_errors(composition, u): of both sides (S-16)."},
    {"variances", variances, METH_O, "variances(composition): bounds on the posterior variances of both sides (S-27)."},
    {"quadrature", quadrature_of, METH_VARARGS,
     "quadrature(composition, edge, width, tilt, frequency, log_tolerance, cut=0): one branch's, thinned where the width "
     "is positive, cut off where the cut is, with its error (S-7, S-8, S-9, S-37) and the small-loss sum (S-23)."},
    {"tails", tails, METH_VARARGS,
     "tails(composition, step, first, nodes, tilt, edge=0, width=0): what the nodes leave out; tilt -1 for E[B]."},
    {"tilted", tilted, METH_VARARGS,
     "tilted(composition, tilt, frequency, log_tolerance, frequencies, lost=0, edge=0, width=0, log_discarded=0, lower=0, "
     "cut=0): a tilted round (S-17, S-18) and the decay of its characteristic function (S-22, S-40); of a coin that has "
     "lost branches, or of a branch that is thinned, at a lower edge too, and cut off."},
    {"characteristic", characteristic, METH_VARARGS,
     "characteristic(composition, tilt, step, log_tolerance, samples): T log phi with its error (S-19, S-20)."},
    {"scan", scanned, METH_VARARGS, "scan(composition, tilts): K and the Chernoff levels (S-5, S-24)."},
    {"prepared", prepared_of, METH_VARARGS, "prepared(composition, log_delta): what is left out (S-10 to S-13)."},
    {"discarded", discarded, METH_VARARGS,
     "discarded(composition, log_delta, epsilon, at=epsilon): prepared for one epsilon, bounded at another (S-14)."},
    {"contour", contour_at, METH_VARARGS,
     "contour(composition, epsilon, log_delta, log_planned, shift=0, log_dropped=0): its bounds (S-4 to S-6, S-21), also as "
     "if so much had been left out (S-10 to S-13)."},
    {"thinning", thinned, METH_VARARGS, "thinning(composition, width, log_budget, u): edge, log_discarded, steepness at u."},
    {"log_normal_cdf", normal_cdf, METH_O, "log Phi(t)."},
    {NULL, NULL, 0, NULL},
};
