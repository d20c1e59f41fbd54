/* One round of one allocation: what its answers rest on, each with its bound (S-80 to S-86). */
#include "arithmetic.h"
#include "view.h"

#include <math.h>

static const allocation *only(const view *at) { return &at->whole[0].allocated->factor[0]; }

static PyObject *look_at_place(view *at)
{
    place_line line = line_of_place(&at->space, only(at), at->a, at->b, at->c, at->d, at->e);
    place_value found = place_at(&line, at->f, at->g);
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d}", "psi", found.psi, "psi_turned", found.psi_turned, "psi_error", found.psi_error,
                         "phi", found.phi, "phi_turned", found.phi_turned, "phi_error", found.phi_error);
}

static PyObject *look_at_far_out(view *at)
{
    double s = only(at)->shift, strip = smaller(1.2, PI / (4.0 * s));
    place_line line = line_of_place(&at->space, only(at), s * strip, strip, -12.0, s + 10.0, -60.0);
    return PyFloat_FromDouble(log_far_out(&line, at->a, at->b, at->c, at->d, at->e));
}

static PyObject *look_at_beside(view *at)
{
    return Py_BuildValue("dd", log_jumps_beside(only(at), at->a, at->b, at->c, (int)at->d), log_jumps_below(only(at), at->b, at->c));
}

static PyObject *look_at_jumps(view *at)
{
    exponential_sum found = jumps_alone(&at->space, only(at), at->a, at->b);
    return Py_BuildValue("{s:d,s:d,s:N,s:N,s:N}", "nearest", found.nearest, "left_out", found.left_out, "along",
                         list_of(found.along, found.nodes), "real", list_of(found.real, found.nodes), "error",
                         list_of(found.error, found.nodes));
}

static PyObject *look_at_line(view *at)
{
    double epsilon;
    int joins = at->whole[0].allocated->reverse;
    exponential_sum found = joins ? joining_line(&at->space, only(at), 0, at->a, &epsilon, 1.0)
                                  : leaving_line(&at->space, only(at), 0, at->a, at->a, at->b, &epsilon);
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "tilt", found.tilt, "period", found.period, "base", found.base,
                         "first_alias", found.first_alias, "far", log_far_aliases(&found, at->c), "truncation", found.truncation,
                         "log_scale", found.log_scale, "cut", joins ? INFINITY : found.cut, "short",
                         joins ? -INFINITY : log_short_of(&found, at->c));
}

/* A function of a composition and seven numbers. */
static PyObject *seen(PyObject *arguments, look *function)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "O|ddddddd", &composition, &at.a, &at.b, &at.c, &at.d, &at.e, &at.f, &at.g))
        return NULL;
    return shown(&at, composition, NULL, function);
}

static PyObject *place_of(PyObject *Py_UNUSED(module), PyObject *arguments) { return seen(arguments, look_at_place); }
static PyObject *far_out_of(PyObject *Py_UNUSED(module), PyObject *arguments) { return seen(arguments, look_at_far_out); }
static PyObject *beside_of(PyObject *Py_UNUSED(module), PyObject *arguments) { return seen(arguments, look_at_beside); }
static PyObject *jumps_of(PyObject *Py_UNUSED(module), PyObject *arguments) { return seen(arguments, look_at_jumps); }
static PyObject *one_line_of(PyObject *Py_UNUSED(module), PyObject *arguments) { return seen(arguments, look_at_line); }

static PyObject *jump_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    double s, rho, error;
    if (!PyArg_ParseTuple(arguments, "dd", &s, &rho))
        return NULL;
    double value = jump_of_place(s, rho, &error);
    return Py_BuildValue("dd", value, error);
}

PyMethodDef one_allocations[] = {
    {"place", place_of, METH_VARARGS,
     "place(composition, gamma, strip, low, high, log_tolerance, size, angle): 1 - phi and phi of one place (S-80)."},
    {"far_out", far_out_of, METH_VARARGS,
     "far_out(composition, c, last, y, log_edge, jump): log of a bound on phi^M beyond a frequency (S-81, S-82)."},
    {"beside", beside_of, METH_VARARGS,
     "beside(composition, a, r, turn, k): logs of bounds on the integrand beside the axis, and on all below (S-86)."},
    {"jumps", jumps_of, METH_VARARGS, "jumps(composition, epsilon, log_delta): the plan on the axis (S-84, S-86)."},
    {"one_line", one_line_of, METH_VARARGS,
     "one_line(composition, log_delta, around, w): the plan of a line, and its bounds at w (S-81 to S-83)."},
    {"place_jump", jump_of, METH_VARARGS, "place_jump(s, rho): -Im phi on the axis, and its error (S-85)."},
    {NULL, NULL, 0, NULL},
};
