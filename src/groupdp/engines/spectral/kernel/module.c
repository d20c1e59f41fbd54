/* groupdp.engines.spectral._kernel: what Python sees. Every function returns None where it declines. */
#include "phases.h"

#include <math.h>

enum question { EPSILON, LOG_DELTA, CEILING };

typedef struct {
    enum question question;
    enum direction direction;
    double argument, enough;
    int phases;
    round_law *whole;
    int answered;
    answer found;
} job;

static int solve(workspace *space, job *work)
{
    if (setjmp(space->declined) != 0 || !isfinite(work->argument))
        return work->answered;
    if (work->question == LOG_DELTA) {
        double assumed = -60.0;
        for (int tries = 0; tries < 8; tries++) {
            prepared problem = prepare(space, work->phases, work->whole, work->direction, assumed);
            if (work->argument >= problem.largest_loss)
                decline(space);
            saddle at = saddle_for_epsilon(space, &problem, work->argument);
            if (heavy_tailed(&problem, &at)) {
                work->found = search_log_delta(space, work->phases, work->whole, work->argument);
                return 1;
            }
            if (problem.log_dropped == -INFINITY || assumed <= at.log_delta + 1.0) {
                work->found = certified_log_delta(space, &problem, &at, work->argument, NARROW);
                return 1;
            }
            assumed = at.log_delta - 10.0;
        }
        return 0;
    }
    begin(space, PREPARE);
    prepared problem = prepare(space, work->phases, work->whole, work->direction, work->argument);
    begin(space, SCAN);
    saddle at = saddle_for_delta(space, &problem, work->argument);
    if (work->question == EPSILON) {
        answer found = {.lower = 0.0};
        if (!heavy_tailed(&problem, &at) && certified_epsilon(space, &problem, &at, work->argument, &found)) {
            work->found = found;
        } else if (work->direction == REMOVE) {
            double ceiling = chernoff_ceiling(space, &problem, &at.found, work->argument);
            work->found = search_epsilon(space, work->phases, work->whole, work->argument, at.epsilon, ceiling);
        } else {
            decline(space);
        }
        begin(space, STAGES);
        return 1;
    }
    work->found.upper = chernoff_ceiling(space, &problem, &at.found, work->argument);
    work->answered = 1; /* whatever may be declined from here on */
    if (!(work->found.upper < work->enough)) {
        double closer = coarse_ceiling(space, &problem, &at, work->argument);
        if (closer < work->found.upper)
            work->found.upper = closer;
    }
    return 1;
}

static PyObject *answered(PyObject *arguments, enum question question)
{
    PyObject *composition;
    int adding;
    job work = {.question = question};
    if (!PyArg_ParseTuple(arguments, question == CEILING ? "Opdd" : "Opd", &composition, &adding, &work.argument,
                          &work.enough))
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

/* Seconds that epsilon() spends in each stage. */
static PyObject *stages(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *composition;
    int adding;
    job work = {.question = EPSILON};
    if (!PyArg_ParseTuple(arguments, "Opd", &composition, &adding, &work.argument))
        return NULL;
    work.direction = adding ? ADD : REMOVE;
    double seconds[STAGES] = {0.0};
    workspace space;
    take(&space);
    int status = read_phases(&space, composition, &work.phases, &work.whole);
    if (status == 1) {
        space.seconds = seconds;
        space.since = 0.0;
        status = solve(&space, &work);
    }
    release(&space);
    if (status < 0)
        return NULL;
    if (status == 0)
        Py_RETURN_NONE;
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "prepare", seconds[PREPARE], "scan", seconds[SCAN],
                         "reach", seconds[REACH], "tilt", seconds[TILT], "decay", seconds[DECAY], "period",
                         seconds[PERIOD], "samples", seconds[SAMPLES], "root", seconds[ROOT]);
}

static PyMethodDef functions[] = {
    {"epsilon", epsilon, METH_VARARGS,
     "epsilon(composition, adding, log_delta): (lower, upper, nodes, samples, evaluations) or None."},
    {"log_delta", log_delta, METH_VARARGS,
     "log_delta(composition, adding, epsilon): (lower, upper, nodes, samples, evaluations) or None."},
    {"epsilon_ceiling", ceiling, METH_VARARGS,
     "epsilon_ceiling(composition, adding, log_delta, enough): a rigorous upper bound, the better one if the first is "
     "not below `enough`; or None."},
    {"stages", stages, METH_VARARGS,
     "stages(composition, adding, log_delta): seconds in each stage of epsilon, or None."},
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
