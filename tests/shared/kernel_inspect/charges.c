/* What the tests look at where whole answers cannot show that a charge is missing: cells of a minorant, nodes off the axis,
 * a root with what certifies it, the exchange of P and Q. */
#include "view.h"

#include <math.h>

/* The cells of a tilted branch behind the decay of its characteristic function (S-22). */
static PyObject *look_at_cells(view *at)
{
    branch *of = first_branch(at);
    if (at->b > 0.0)
        of->thin = (thinning){.thinned = 1, .edge = at->a, .width = at->b, .log_discarded = -INFINITY};
    tilted_round found = tilt_round(&at->space, &at->whole[0], at->c, at->d, at->e);
    const tilted_branch *part = &found.branch[0];
    int cells = part->grid.table.nodes;
    double *width = doubles(&at->space, cells), *height = doubles(&at->space, cells);
    minorant(&at->space, part, at->c, 1, width, height);
    return Py_BuildValue("{s:d,s:N,s:N,s:N}", "step", part->grid.step, "u", list_of(part->grid.table.u, cells), "width",
                         list_of(width, cells), "height", list_of(height, cells));
}

static PyObject *cells(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddddd", &composition, &at.a, &at.b, &at.c, &at.d, &at.e))
        return NULL;
    return shown(&at, composition, NULL, look_at_cells);
}

/* Nodes off the real axis: complex weights and losses with their errors, and that of the trapezoid rule (S-51, S-52). */
static PyObject *look_at_line(view *at)
{
    branch *of = first_branch(at);
    of->thin = (thinning){.thinned = at->b > 0.0, .edge = at->a, .width = at->b, .log_discarded = -INFINITY,
                          .has_lower = at->lower > 0.0, .lower = at->lower, .is_cut = at->cut > 0.0, .cut = at->cut};
    quadrature grid = plan(&at->space, of, at->c, at->c, at->d, at->e, 1);
    if (!(grid.line > 0.0))
        decline(&at->space, NODES);
    int nodes = grid.table.nodes;
    double total = 0.0;
    for (int j = 0; j < nodes; j++)
        total += exp(grid.log_weight[j] + grid.table.right.log[j] + at->c * grid.table.psi[j]);
    double log_moment = log(total);
    line_table line = tabulate_line(&at->space, &grid, at->c, log_moment);
    return Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N,s:N,s:d,s:d,s:d,s:d,s:d}", "u", list_of(grid.table.u, nodes), "weight",
                         list_of(line.weight, nodes), "weight_imaginary", list_of(line.weight_imaginary, nodes), "loss",
                         list_of(line.loss, nodes), "loss_imaginary", list_of(line.loss_imaginary, nodes), "weight_error",
                         list_of(line.weight_error, nodes), "loss_error", list_of(line.loss_error, nodes), "log_moment",
                         log_moment, "log_error", log_line_error(&grid, at->c, log_moment), "step", grid.step, "distance",
                         grid.line, "end", grid.end);
}

static PyObject *off_axis(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddddd|dd", &composition, &at.a, &at.b, &at.c, &at.d, &at.e, &at.lower, &at.cut))
        return NULL;
    return shown(&at, composition, NULL, look_at_line);
}

static PyObject *normal_tail(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    double x, y, real, imaginary;
    if (!PyArg_ParseTuple(arguments, "dd", &x, &y))
        return NULL;
    double error = normal_tail_off_axis(x, y, &real, &imaginary);
    return Py_BuildValue("(ddd)", real, imaginary, error);
}

/* Both sides of epsilon on one contour, and the bounds on log delta there that certify them (S-25). */
static PyObject *look_at_root(view *at)
{
    prepared problem = prepare(&at->space, at->rounds, at->whole, at->a);
    saddle near = saddle_for_delta(&at->space, &problem, at->a);
    contour path = build(&at->space, &problem, &near, LOG_FINE);
    answer found = {.lower = 0.0};
    double above, below, unused;
    enclose_root(&at->space, &problem, &path, near.epsilon, at->a, &found);
    corrected(&problem, &path, found.upper, &unused, &above);
    corrected(&problem, &path, found.lower, &below, &unused);
    return Py_BuildValue("{s:d,s:d,s:d,s:d}", "lower", found.lower, "upper", found.upper, "log_delta_at_lower", below,
                         "log_delta_at_upper", above);
}

static PyObject *root(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Od", &composition, &at.a))
        return NULL;
    return shown(&at, composition, NULL, look_at_root);
}

static PyObject *from_exchanged(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    double epsilon, log_exchanged, direction;
    if (!PyArg_ParseTuple(arguments, "ddd", &epsilon, &log_exchanged, &direction))
        return NULL;
    return PyFloat_FromDouble(log_from_exchanged(epsilon, log_exchanged, direction));
}

PyMethodDef charges[] = {
    {"cells", cells, METH_VARARGS,
     "cells(composition, edge, width, tilt, frequency, log_tolerance): widths and heights of a minorant of the density of "
     "the loss (S-22), thinned where the width is positive."},
    {"off_axis", off_axis, METH_VARARGS,
     "off_axis(composition, edge, width, tilt, frequency, log_tolerance, lower=0, cut=0): nodes off the axis (S-51, S-52), "
     "thinned where the width is positive; None where they stay on it."},
    {"normal_tail", normal_tail, METH_VARARGS, "normal_tail(x, y): erfc(x + iy) / 2, both parts, and its error (S-52)."},
    {"root", root, METH_VARARGS, "root(composition, log_delta): both sides of epsilon, with what certifies them (S-25)."},
    {"from_exchanged", from_exchanged, METH_VARARGS,
     "from_exchanged(epsilon, log_exchanged, direction): log(1 - e^eps + e^eps delta'), moved outward (S-26)."},
    {NULL, NULL, 0, NULL},
};
