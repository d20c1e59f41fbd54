/* What the tests look at in allocations: tables of p_n and the bound of every error, each on its own (S-29 to S-35). */
#include "view.h"

static const allocation *first_factor(view *at)
{
    if (at->whole[0].allocated == NULL)
        decline(&at->space, SHIFTS);
    return &at->whole[0].allocated->factor[0];
}

/* The table for one w, its error bounds, and log G(w) with its error. */
static PyObject *look_at_allocation(view *at)
{
    double w = at->a;
    allocation_table table =
        tabulate_allocation(&at->space, first_factor(at), at->nodes, w, w, at->b, at->c);
    int reverse = at->whole[0].allocated->reverse;
    tilted_factor found = tilt_factor(&at->space, &table, reverse, reverse ? -w : w - 1.0, at->b);
    double *rounding = doubles(&at->space, table.nodes), shape = table.taylor - w;
    for (int j = 0; j < table.nodes; j++)
        rounding[j] = count_rounding(&table, j);
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:N,s:N,s:N}", "step", table.step, "first",
                         table.first, "place_step", table.place_step, "place_low", table.place_low, "place_high",
                         table.place_high, "point_rounding", table.point_rounding, "log_step_error",
                         allocation_step_error(&table, shape, at->b), "log_place_error",
                         allocation_place_error(&table, shape), "log_range_error",
                         allocation_range_error(&table, w, found.of.log_moment - 0.1), "log_moment",
                         found.of.log_moment, "log_moment_error", found.of.log_moment_error, "rate",
                         allocation_mu(at->whole[0].allocated, 0), "log_count", list_of(table.log_count, table.nodes),
                         "log_lost", list_of(table.log_lost, table.nodes), "rounding", list_of(rounding, table.nodes));
}

static PyObject *allocation_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oiddd", &composition, &at.nodes, &at.a, &at.b, &at.c))
        return NULL;
    return shown(&at, composition, NULL, look_at_allocation);
}

static PyObject *look_at_call(view *at) { return PyFloat_FromDouble(log_call(first_factor(at), at->a)); }

static PyObject *call_inspected(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Od", &composition, &at.a))
        return NULL;
    return shown(&at, composition, NULL, look_at_call);
}

/* A curve for tilts up to `a` whose step is that of a frequency `b`, at the tilt and the frequency in the others. */
static PyObject *look_at_curve(view *at)
{
    double tilt = at->c, frequency[2] = {0.0, at->d}, real[2], imaginary[2], wrong[2], most[2];
    curve *found = curve_of(&at->space, first_factor(at), at->a, at->b, at->e);
    tilted_factor tilted = tilt_curve(&at->space, found, tilt, 1);
    contour path = {.samples = 2, .step = at->d, .frequency = frequency};
    sample_curve(&at->space, &tilted, &path, real, imaginary, wrong, most);
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:N,s:N}", "step", found->step, "first", found->first,
                         "log_ends", log_curve_ends(found, tilt), "log_moment", tilted.of.log_moment, "log_moment_error",
                         tilted.of.log_moment_error, "centre", tilted.of.centre, "log_modulus", real[1], "angle", imaginary[1],
                         "log_error", wrong[1], "log_most", most[1], "value", list_of(found->value, found->nodes), "doubt",
                         list_of(found->doubt, found->nodes));
}

static PyObject *curve_inspected(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddddd", &composition, &at.a, &at.b, &at.c, &at.d, &at.e))
        return NULL;
    return shown(&at, composition, NULL, look_at_curve);
}

/* The bounds alone, for steps and ranges that nobody would choose. */
static PyObject *look_at_bounds(view *at)
{
    const allocation *of = first_factor(at);
    double w = at->a, shape = at->nodes - w;
    allocation_table table = {.of = of, .taylor = at->nodes, .step = at->b, .place_step = at->c};
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d}", "log_step_error", allocation_step_error(&table, shape, at->d),
                         "log_place_error", allocation_place_error(&table, shape), "log_above",
                         log_left_out_above(of, w, at->e), "log_below", log_left_out_below(of, w, at->e, 0.0),
                         "log_rates_above", log_rates_above(of, w, shape, at->b, at->f), "log_rates_below",
                         log_rates_below(shape, at->b, at->f, at->g));
}

static PyObject *allocation_bounds(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oiddddddd", &composition, &at.nodes, &at.a, &at.b, &at.c, &at.d, &at.e, &at.f,
                          &at.g))
        return NULL;
    return shown(&at, composition, NULL, look_at_bounds);
}

/* All rays up to a frequency, with what underflow may take and the error of each (S-42). */
static PyObject *look_at_rays(view *at)
{
    double w = at->a;
    int reverse = at->whole[0].allocated != NULL && at->whole[0].allocated->reverse;
    at->space.allocates = 1;
    allocation_table table = tabulate_allocation(&at->space, first_factor(at), at->nodes, w, w, 0.0, at->c);
    tilted_factor found = tilt_factor(&at->space, &table, reverse, reverse ? -w : w - 1.0, 0.0);
    add_rays(&at->space, first_factor(at), at->nodes, w, at->b, at->c, &found);
    double *underflow = doubles(&at->space, found.rays), *error = doubles(&at->space, found.rays);
    for (int i = 0; i < found.rays; i++) {
        underflow[i] = found.ray[i].log_underflow;
        error[i] = found.ray[i].error;
    }
    const ray *first = &found.ray[0];
    return Py_BuildValue("{s:d,s:N,s:N,s:N}", "step", first->step, "u", list_of(first->u, first->nodes),
                         "log_underflow", list_of(underflow, found.rays), "error", list_of(error, found.rays));
}

static PyObject *rays_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oiddd", &composition, &at.nodes, &at.a, &at.b, &at.c))
        return NULL;
    return shown(&at, composition, NULL, look_at_rays);
}

/* log E[e^{theta X}; cut] off the real axis, and its error (S-44). */
static PyObject *look_at_transform(view *at)
{
    allocation of = *first_factor(at);
    of.is_cut = 1;
    of.cut = at->a;
    transform found = transform_off_axis(&at->space, &of, at->b, hypot(at->b, at->d), at->e);
    double log_modulus, angle, error;
    transform_at(&found, at->b, at->c, &log_modulus, &angle, &error);
    return Py_BuildValue("{s:d,s:d,s:d,s:i,s:d}", "log_modulus", log_modulus, "angle", angle, "error", error, "nodes",
                         found.nodes, "log_cut_off", log_cut_off(&of, of.cut));
}

static PyObject *transform_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddddd", &composition, &at.a, &at.b, &at.c, &at.d, &at.e))
        return NULL;
    return shown(&at, composition, NULL, look_at_transform);
}

/* log G(1 + c) of cut places from a line, the characteristic function at one frequency, and their errors (S-45, S-46). */
static PyObject *look_at_line(view *at)
{
    allocation of = *first_factor(at);
    of.is_cut = 1;
    of.cut = at->a;
    double own = of.shift * of.shift / of.places, real, imaginary, error;
    tilted_factor found = {.rate = of.log_probability == 0.0 ? 0.5 * own * (1.0 - 1e-14) : 0.0};
    at->space.allocates = 1;
    add_line(&at->space, &of, at->b, at->d, at->e, &found);
    sample_line(&found, at->c, &real, &imaginary, &error);
    transform axis = transform_on_axis(&at->space, &of, 1.1 * (1.0 + at->b));
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "log_moment", found.of.log_moment, "log_moment_error",
                         found.of.log_moment_error, "centre", found.of.centre, "real", real, "imaginary", imaginary,
                         "error", error, "log_decay", log_factor_decay(&found, at->c), "log_upper",
                         tilt_concentrated(&axis, at->b).of.log_moment);
}

static PyObject *line_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Oddddd", &composition, &at.a, &at.b, &at.c, &at.d, &at.e))
        return NULL;
    return shown(&at, composition, NULL, look_at_line);
}

/* Bounds on E[X^-c] and on E[X^{1 + c}; cut] by layers, and what is beyond the cut under Q and P (S-91 to S-93). */
static PyObject *look_at_rare(view *at)
{
    allocation of = *first_factor(at);
    double log_q, log_p, relative, inverse = log_inverse_moment(&of, at->b);
    of.is_cut = of.layered = 1;
    of.cut = at->a;
    at->space.allocates = 1;
    beyond_cut(&of, of.cut, &log_q, &log_p, &relative);
    double layered = tilt_layered(&at->space, &of, at->b).of.log_moment;
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d}", "log_inverse", inverse, "log_layered", layered, "log_q", log_q,
                         "log_p", log_p, "relative", relative);
}

static PyObject *rare_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    view at = {.rounds = 0};
    PyObject *composition;
    if (!PyArg_ParseTuple(arguments, "Odd", &composition, &at.a, &at.b))
        return NULL;
    return shown(&at, composition, NULL, look_at_rare);
}

static PyObject *gamma_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    double a, s, real, imaginary, size;
    if (!PyArg_ParseTuple(arguments, "dd", &a, &s))
        return NULL;
    gamma_ratio(a, s, &real, &imaginary, &size);
    return Py_BuildValue("dddd", real, imaginary, size, log_gamma(a));
}

PyMethodDef allocations[] = {
    {"allocation", allocation_of, METH_VARARGS,
     "allocation(composition, n, w, frequency, log_tolerance): the table of p_n and its errors (S-29 to S-33)."},
    {"curve", curve_inspected, METH_VARARGS,
     "curve(composition, most_tilt, frequency, tilt, s, typical): one round on nodes of its loss (S-95 to S-97)."},
    {"curve_call", call_inspected, METH_VARARGS, "curve_call(composition, a): log of a bound on E[(X - a)_+] (S-96)."},
    {"allocation_bounds", allocation_bounds, METH_VARARGS,
     "allocation_bounds(composition, n, w, step, place_step, frequency, z, u, log_most): each bound on its own."},
    {"rays", rays_of, METH_VARARGS,
     "rays(composition, n, w, frequency, log_tolerance): nodes of the first ray, underflow and error of all (S-42)."},
    {"transform", transform_of, METH_VARARGS,
     "transform(composition, cut, re, im, largest im, log_tolerance): log E[e^{theta X}; cut] and its error (S-44)."},
    {"line", line_of, METH_VARARGS,
     "line(composition, cut, c, frequency, largest frequency, log_tolerance): moments and decay of cut places (S-45)."},
    {"rare", rare_of, METH_VARARGS,
     "rare(composition, cut, c): bounds on moments, and what is beyond the cut (S-91 to S-93)."},
    {"gamma_ratio", gamma_of, METH_VARARGS,
     "gamma_ratio(a, s): log Gamma(a) - log Gamma(a - is) - is log a, the size of its parts, log Gamma(a) (S-34)."},
    {NULL, NULL, 0, NULL},
};
