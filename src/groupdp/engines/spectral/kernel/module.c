/* groupdp.engines.spectral._kernel: what Python sees. Every function returns None where it declines. */
#include "phases.h"

#include <math.h>

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
    if (setjmp(space->declined) != 0 || !isfinite(work->argument))
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
    int status = read_phases(&space, composition, &work.phases, &work.whole);
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

PyMODINIT_FUNC PyInit__kernel(void)
{
    PyObject *result = PyModule_Create(&module);
    if (result != NULL && PyModule_AddFunctions(result, inspection) != 0) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}
