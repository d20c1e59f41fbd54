/* What the tests look at: the quantities that the answers rest on, each with the bound that is claimed for it. */
#include "phases.h"

#include <math.h>

static PyObject *list_of(const double *values, int count)
{
    PyObject *list = PyList_New(count);
    for (int i = 0; list != NULL && i < count; i++) {
        PyObject *value = PyFloat_FromDouble(values[i]);
        if (value == NULL) {
            Py_DECREF(list);
            return NULL;
        }
        PyList_SET_ITEM(list, i, value);
    }
    return list;
}

/* Nodes as many as a table can have; 0 with a Python error set otherwise. */
static int sound(double step, double first, int nodes)
{
    int fine = nodes > 0 && step > 0.0 && isfinite(step) && isfinite(first);
    if (!fine)
        PyErr_SetString(PyExc_ValueError, "a table must have a positive step and at least one node");
    return fine;
}

/* The first phase of a composition, thinned where a width above 0 is given; 0 with a Python error set otherwise. */
static int read_one(workspace *space, PyObject *phase, double edge, double width, round_law *law)
{
    PyObject *composition = PyTuple_Pack(1, phase);
    if (composition == NULL)
        return 0;
    int number;
    round_law *whole;
    int status = read_phases(space, composition, &number, &whole);
    Py_DECREF(composition);
    if (status != 1) {
        if (status == 0)
            PyErr_SetString(PyExc_ValueError, "declined");
        return 0;
    }
    *law = whole[0];
    if (width > 0.0)
        law->thin = (thinning){.thinned = 1, .edge = edge, .width = width};
    return 1;
}

/* table(phase, step, first, nodes): (psi, slope, excess, psi_error, excess_error) at the multiples of step. */
static PyObject *table(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *phase, *result = NULL;
    double step, first;
    int nodes;
    if (!PyArg_ParseTuple(arguments, "Oddi", &phase, &step, &first, &nodes) || !sound(step, first, nodes))
        return NULL;
    workspace space;
    round_law law;
    take(&space);
    if (read_one(&space, phase, 0.0, 0.0, &law)) {
        if (setjmp(space.declined) != 0) {
            release(&space);
            Py_RETURN_NONE;
        }
        ratio_table found = tabulate(&space, &law, step, first, nodes);
        result = Py_BuildValue("NNNNN", list_of(found.psi, nodes), list_of(found.slope, nodes),
                               list_of(found.excess, nodes), list_of(found.psi_error, nodes),
                               list_of(found.excess_error, nodes));
    }
    release(&space);
    return result;
}

/* quadrature(phase, edge, width, exponent, frequency, log_tolerance): (psi, log_weight, log_error for its sum). */
static PyObject *planned(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *phase, *result = NULL;
    double edge, width, exponent, frequency, log_tolerance;
    if (!PyArg_ParseTuple(arguments, "Oddddd", &phase, &edge, &width, &exponent, &frequency, &log_tolerance))
        return NULL;
    workspace space;
    round_law law;
    take(&space);
    if (read_one(&space, phase, edge, width, &law)) {
        if (setjmp(space.declined) != 0) {
            release(&space);
            Py_RETURN_NONE;
        }
        quadrature grid = plan(&space, &law, exponent, exponent, frequency, log_tolerance, 0);
        double total = 0.0;
        for (int j = 0; j < grid.table.nodes; j++)
            total += exp(grid.log_weight[j] + exponent * grid.table.psi[j]);
        result = Py_BuildValue("NNd", list_of(grid.table.psi, grid.table.nodes),
                               list_of(grid.log_weight, grid.table.nodes),
                               log_error(&grid, exponent, log(total), frequency));
    }
    release(&space);
    return result;
}

/* tails(phase, step, first, nodes, exponent): log of a bound on the trapezoid sum outside of the nodes. */
static PyObject *tails(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *phase, *result = NULL;
    double step, first, exponent;
    int nodes;
    if (!PyArg_ParseTuple(arguments, "Oddid", &phase, &step, &first, &nodes, &exponent) ||
        !sound(step, first, nodes))
        return NULL;
    workspace space;
    round_law law;
    take(&space);
    if (read_one(&space, phase, 0.0, 0.0, &law)) {
        if (setjmp(space.declined) != 0) {
            release(&space);
            Py_RETURN_NONE;
        }
        quadrature grid = {.law = &law, .step = step, .table = tabulate(&space, &law, step, first, nodes)};
        result = PyFloat_FromDouble(log_tails(&grid, exponent));
    }
    release(&space);
    return result;
}

/* tilted(phase, adding, tilt, frequency, log_tolerance, frequencies): (weight, loss, centre, variance, log_moment,
 * log_moment_error, logs of the decay's bound at the frequencies). */
static PyObject *tilted(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *phase, *frequencies, *result = NULL;
    double tilt, frequency, log_tolerance;
    int adding;
    if (!PyArg_ParseTuple(arguments, "OpdddO!", &phase, &adding, &tilt, &frequency, &log_tolerance, &PyList_Type,
                          &frequencies))
        return NULL;
    workspace space;
    round_law law;
    take(&space);
    if (read_one(&space, phase, 0.0, 0.0, &law)) {
        if (setjmp(space.declined) != 0) {
            release(&space);
            Py_RETURN_NONE;
        }
        tilted_round found = tilt_round(&space, &law, adding ? ADD : REMOVE, tilt, frequency, log_tolerance);
        decay bound = certify(&space, &found, 128, 1);
        int count = (int)PyList_GET_SIZE(frequencies);
        double *levels = doubles(&space, count);
        for (int i = 0; i < count; i++)
            levels[i] = log_decay(&bound, PyFloat_AsDouble(PyList_GET_ITEM(frequencies, i)));
        result = Py_BuildValue("NNddddN", list_of(found.weight, found.table.nodes),
                               list_of(found.loss, found.table.nodes), found.centre, found.variance,
                               found.log_moment, found.log_moment_error, list_of(levels, count));
        if (PyErr_Occurred() != NULL) /* a frequency that is no number */
            Py_CLEAR(result);
    }
    release(&space);
    return result;
}

/* discarded(phase, log_delta, epsilon): (edge, width, eta, zeta, relative_error, p, q, least, most, remainder), what is
 * discarded near an epsilon and what that contributes to delta there. */
static PyObject *discarded(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *phase, *result = NULL;
    double log_delta, epsilon;
    if (!PyArg_ParseTuple(arguments, "Odd", &phase, &log_delta, &epsilon))
        return NULL;
    workspace space;
    round_law law;
    take(&space);
    if (read_one(&space, phase, 0.0, 0.0, &law)) {
        if (setjmp(space.declined) != 0) {
            release(&space);
            Py_RETURN_NONE;
        }
        prepared problem = prepare_near(&space, 1, &law, log_delta, epsilon);
        const thinning *thin = &problem.rounds[0].thin;
        double least, most;
        bound_discarded(&problem.discarded, epsilon, &least, &most);
        result = Py_BuildValue("dddddddddd", thin->edge, thin->width, thin->eta, thin->zeta, thin->relative_error,
                               problem.discarded.p, problem.discarded.q, least, most, problem.discarded.remainder);
    }
    release(&space);
    return result;
}

PyMethodDef inspection[] = {
    {"table", table, METH_VARARGS, "For the tests: the likelihood ratio on nodes."},
    {"quadrature", planned, METH_VARARGS, "For the tests: a quadrature and its error."},
    {"tails", tails, METH_VARARGS, "For the tests: what a quadrature leaves out."},
    {"tilted", tilted, METH_VARARGS, "For the tests: a tilted round and the decay of its characteristic function."},
    {"discarded", discarded, METH_VARARGS, "For the tests: what is discarded near an epsilon, and its part of delta."},
    {NULL, NULL, 0, NULL},
};
