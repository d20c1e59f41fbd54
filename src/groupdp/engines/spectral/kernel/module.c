/* groupdp.engines.spectral._kernel: what Python sees.
 *
 * A composition is a sequence of phases (sensitivities, probabilities, log_probabilities, standard_deviation, rounds),
 * the first three as buffers of doubles. Every function returns None where it declines.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "arithmetic.h"
#include "spectral.h"

#define LARGEST_COMPOSITION 100000
#define LARGEST_MIXTURE 1000000

enum question { EPSILON, LOG_DELTA, CEILING };

typedef struct {
    enum question question;
    enum direction direction;
    double argument;
    int phases;
    round_law *whole;
    answer found;
} job;

static int solve(workspace *space, job *work)
{
    if (setjmp(space->declined) != 0)
        return 0;
    if (work->question == LOG_DELTA) {
        double assumed = -60.0;
        for (int tries = 0; tries < 8; tries++) {
            prepared problem = prepare(space, work->phases, work->whole, work->direction, assumed);
            if (work->argument >= problem.largest_loss)
                decline(space);
            saddle at = saddle_for_epsilon(space, &problem, work->argument);
            if (problem.log_dropped == -INFINITY || assumed <= at.log_delta + 1.0) {
                work->found = certified_log_delta(space, &problem, &at, work->argument);
                return 1;
            }
            assumed = at.log_delta - 10.0;
        }
        return 0;
    }
    prepared problem = prepare(space, work->phases, work->whole, work->direction, work->argument);
    saddle at = saddle_for_delta(space, &problem, work->argument);
    if (work->question == EPSILON) {
        work->found = certified_epsilon(space, &problem, &at, work->argument);
        return 1;
    }
    work->found.upper = certified_ceiling(&problem, &at.found, work->argument);
    return !isnan(work->found.upper);
}

/* Copies `count` doubles of a buffer, divided by `unit`. */
static const double *copied(workspace *space, PyObject *source, double unit, Py_ssize_t *count)
{
    Py_buffer view;
    if (PyObject_GetBuffer(source, &view, PyBUF_CONTIG_RO) != 0)
        return NULL;
    double *result = NULL;
    if (view.itemsize == sizeof(double) && view.len > 0 && view.len / view.itemsize <= LARGEST_MIXTURE) {
        *count = view.len / view.itemsize;
        result = doubles(space, *count);
        for (Py_ssize_t i = 0; i < *count; i++)
            result[i] = ((const double *)view.buf)[i] / unit;
    }
    PyBuffer_Release(&view);
    if (result == NULL)
        PyErr_SetString(PyExc_ValueError, "a mixture must be given as buffers of doubles");
    return result;
}

/* 1 if the composition was read, 0 if it is declined, -1 with a Python error set. */
static int read_composition(workspace *space, PyObject *composition, job *work)
{
    if (setjmp(space->declined) != 0)
        return 0;
    PyObject *phases = PySequence_Fast(composition, "a composition must be a sequence");
    if (phases == NULL)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(phases);
    int status = count > 0 && count <= LARGEST_COMPOSITION ? 1 : 0;
    if (status == 1) {
        work->phases = (int)count;
        work->whole = allocate(space, count * sizeof(round_law));
    }
    for (Py_ssize_t i = 0; status == 1 && i < count; i++) {
        PyObject *m, *p, *log_p;
        double deviation, rounds;
        Py_ssize_t size, same, also;
        round_law law = {.log_dropped = -INFINITY};
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(phases, i), "OOOdd", &m, &p, &log_p, &deviation, &rounds) ||
            (law.m = copied(space, m, deviation, &size)) == NULL || (law.p = copied(space, p, 1.0, &same)) == NULL ||
            (law.log_p = copied(space, log_p, 1.0, &also)) == NULL) {
            status = -1;
        } else if (size != same || size != also || !(rounds >= 1.0)) {
            PyErr_SetString(PyExc_ValueError, "a mixture must have as many probabilities as sensitivities");
            status = -1;
        } else {
            law.size = (int)size;
            law.count = rounds;
            work->whole[i] = law;
        }
    }
    Py_DECREF(phases);
    return status;
}

static PyObject *answered(PyObject *arguments, enum question question)
{
    PyObject *composition;
    int adding;
    job work = {.question = question};
    if (!PyArg_ParseTuple(arguments, "Opd", &composition, &adding, &work.argument))
        return NULL;
    work.direction = adding ? ADD : REMOVE;
    workspace space;
    take(&space);
    int status = read_composition(&space, composition, &work);
    if (status == 1) {
        Py_BEGIN_ALLOW_THREADS
        status = solve(&space, &work);
        Py_END_ALLOW_THREADS
    }
    release(&space);
    if (status < 0)
        return NULL;
    if (status == 0)
        Py_RETURN_NONE;
    if (question == CEILING)
        return PyFloat_FromDouble(work.found.upper);
    answer found = work.found;
    return Py_BuildValue("ddiii", found.lower, found.upper, found.nodes, found.samples, found.evaluations);
}

static PyObject *epsilon(PyObject *Py_UNUSED(module), PyObject *arguments) { return answered(arguments, EPSILON); }

static PyObject *log_delta(PyObject *Py_UNUSED(module), PyObject *arguments) { return answered(arguments, LOG_DELTA); }

static PyObject *ceiling(PyObject *Py_UNUSED(module), PyObject *arguments) { return answered(arguments, CEILING); }

static PyMethodDef functions[] = {
    {"epsilon", epsilon, METH_VARARGS,
     "epsilon(composition, adding, log_delta): (lower, upper, nodes, samples, evaluations) or None."},
    {"log_delta", log_delta, METH_VARARGS,
     "log_delta(composition, adding, epsilon): (lower, upper, nodes, samples, evaluations) or None."},
    {"epsilon_ceiling", ceiling, METH_VARARGS,
     "epsilon_ceiling(composition, adding, log_delta): a rigorous upper bound by Chernoff alone, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "groupdp.engines.spectral._kernel",
    .m_doc = "The spectral engine's common case, compiled.",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModule_Create(&module); }
