/* What the tests look at where whole answers cannot show that a charge is missing: cells of a minorant, a root with what
 * certifies it, the exchange of P and Q. */
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
    {"root", root, METH_VARARGS, "root(composition, log_delta): both sides of epsilon, with what certifies them (S-25)."},
    {"from_exchanged", from_exchanged, METH_VARARGS,
     "from_exchanged(epsilon, log_exchanged, direction): log(1 - e^eps + e^eps delta'), moved outward (S-26)."},
    {NULL, NULL, 0, NULL},
};
