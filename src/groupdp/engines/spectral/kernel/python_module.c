/* groupdp.engines.spectral._kernel: what Python sees. Where it declines, a function returns the reason as a string. */
#include "python_binding.h"

#include <math.h>
#include <stdlib.h>

static const char *const REASON[REASONS] = {
    [ANSWERED] = "answered",
    [NO_NUMBER] = "argument",
    [SHIFTS] = "shifts",
    [MEMORY] = "memory",
    [WORK] = "work",
    [NODES] = "nodes",
    [STEPS] = "steps",
    [ALIASES] = "aliases",
    [TRUNCATION] = "truncation",
    [ROUNDED] = "rounding",
    [TOO_WIDE] = "width",
    [RARE_LOSSES] = "rare losses",
    [CONTRADICTION] = "contradiction",
};

PyObject *named(enum reason why) { return PyUnicode_FromString(REASON[why]); }

static struct chunk *kept;

void take_kept(workspace *space)
{
    take(space, kept);
    kept = NULL;
}

void release_kept(workspace *space)
{
    struct chunk *memory = release(space);
    if (kept == NULL)
        kept = memory;
    else
        forget(memory);
}

static PyObject *found_or_reason(const workspace *space, const job *work, int status)
{
    if (status == 0)
        return named(space->reason);
    if (work->question == CEILING)
        return PyFloat_FromDouble(work->found.upper);
    answer found = work->found;
    return Py_BuildValue("ddiii", found.lower, found.upper, found.nodes, found.samples, found.evaluations);
}

static PyObject *answered(PyObject *arguments, enum question question)
{
    PyObject *composition, *result = NULL;
    job work = {.question = question};
    if (!PyArg_ParseTuple(arguments, question == CEILING ? "Odd" : "Od", &composition, &work.argument, &work.enough))
        return NULL;
    workspace space;
    take_kept(&space);
    int status = read_composition(&space, composition, &work.rounds, &work.whole);
    if (status == 1) {
        Py_BEGIN_ALLOW_THREADS
        status = solve(&space, &work);
        Py_END_ALLOW_THREADS
    }
    if (status >= 0)
        result = found_or_reason(&space, &work, status);
    release_kept(&space);
    return result;
}

static PyObject *epsilon(PyObject *Py_UNUSED(module), PyObject *arguments) { return answered(arguments, EPSILON); }

static PyObject *log_delta(PyObject *Py_UNUSED(module), PyObject *arguments) { return answered(arguments, LOG_DELTA); }

static PyObject *ceiling(PyObject *Py_UNUSED(module), PyObject *arguments) { return answered(arguments, CEILING); }

/* All answers, in order, without the interpreter's lock. */
static void solve_all(workspace *space, job *jobs, int *status, enum reason *why, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        if (status[i] != 1)
            continue;
        bookmark place = mark(space);
        status[i] = solve(space, &jobs[i]);
        why[i] = space->reason;
        rewind_to(space, place);
    }
}

/* A list of the answers to (composition, log_delta), with `enough` after them for ceilings. */
static PyObject *all_answered(PyObject *questions, enum question question)
{
    PyObject *all = PySequence_Tuple(questions), *result = NULL;
    if (all == NULL)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(all);
    job *jobs = calloc((size_t)count + 1, sizeof(job));
    int *status = calloc((size_t)count + 1, sizeof(int)), failed = jobs == NULL || status == NULL;
    enum reason *why = calloc((size_t)count + 1, sizeof(enum reason));
    workspace space;
    take_kept(&space);
    if (failed || why == NULL)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < count; i++) {
        PyObject *composition, *one = PyTuple_GET_ITEM(all, i);
        if (!PyTuple_Check(one)) {
            PyErr_SetString(PyExc_TypeError, "a question must be a tuple (composition, log_delta)");
            break;
        }
        if (!PyArg_ParseTuple(one, question == CEILING ? "Odd" : "Od", &composition, &jobs[i].argument,
                              &jobs[i].enough))
            break;
        jobs[i].question = question;
        status[i] = read_composition(&space, composition, &jobs[i].rounds, &jobs[i].whole);
        why[i] = space.reason;
    }
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        solve_all(&space, jobs, status, why, count);
        Py_END_ALLOW_THREADS
        result = PyList_New(count);
        for (Py_ssize_t i = 0; result != NULL && i < count; i++) {
            space.reason = why[i];
            PyObject *one = found_or_reason(&space, &jobs[i], status[i]);
            if (one == NULL)
                Py_CLEAR(result);
            else
                PyList_SET_ITEM(result, i, one);
        }
    }
    release_kept(&space);
    free(jobs);
    free(status);
    free(why);
    Py_DECREF(all);
    return result;
}

static PyObject *epsilons(PyObject *Py_UNUSED(module), PyObject *questions)
{
    return all_answered(questions, EPSILON);
}

static PyObject *ceilings(PyObject *Py_UNUSED(module), PyObject *questions) { return all_answered(questions, CEILING); }

/* Seconds that epsilon() spends in each stage. */
static PyObject *stages(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *composition, *result = NULL;
    job work = {.question = EPSILON};
    if (!PyArg_ParseTuple(arguments, "Od", &composition, &work.argument))
        return NULL;
    double seconds[STAGES] = {0.0};
    workspace space;
    take_kept(&space);
    int status = read_composition(&space, composition, &work.rounds, &work.whole);
    if (status == 1) {
        space.seconds = seconds;
        space.since = 0.0;
        status = solve(&space, &work);
    }
    if (status == 0)
        result = named(space.reason);
    if (status == 1)
        result = Py_BuildValue("{s:d,s:d,s:d,s:d,s:d,s:d,s:d,s:d}", "prepare", seconds[PREPARE], "scan", seconds[SCAN],
                               "reach", seconds[REACH], "tilt", seconds[TILT], "decay", seconds[DECAY], "period",
                               seconds[PERIOD], "samples", seconds[SAMPLES], "root", seconds[ROOT]);
    release_kept(&space);
    return result;
}

static PyMethodDef functions[] = {
    {"epsilon", epsilon, METH_VARARGS,
     "epsilon(composition, log_delta): (lower, upper, nodes, samples, evaluations), or why it was declined."},
    {"log_delta", log_delta, METH_VARARGS,
     "log_delta(composition, epsilon): (lower, upper, nodes, samples, evaluations), or why it was declined."},
    {"epsilon_ceiling", ceiling, METH_VARARGS,
     "epsilon_ceiling(composition, log_delta, enough): a rigorous upper bound, the better one if the first is not below "
     "`enough`; or why it was declined."},
    {"epsilons", epsilons, METH_O, "epsilons(questions): what epsilon() returns for each (composition, log_delta)."},
    {"epsilon_ceilings", ceilings, METH_O,
     "epsilon_ceilings(questions): what epsilon_ceiling() returns for each (composition, log_delta, enough)."},
    {"stages", stages, METH_VARARGS,
     "stages(composition, log_delta): seconds in each stage of epsilon, or why it was declined."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "groupdp.engines.spectral._kernel",
    .m_doc = "The spectral engine, compiled.",
    .m_size = 0,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    PyObject *result = PyModule_Create(&module);
    if (result != NULL && PyModule_AddFunctions(result, neighbourhoods) != 0) {
        Py_DECREF(result);
        return NULL;
    }
    return result;
}
