/* neighbourhood(composition, epsilon): a contour kept in memory, evaluated for many epsilons at a time. */
#include "python_binding.h"

#include <stdlib.h>
#include <string.h>

#define NAME "groupdp.engines.spectral._kernel.neighbourhood"

typedef struct {
    workspace memory;
    neighbourhood at;
} handle;

static void destroy(PyObject *capsule)
{
    handle *here = PyCapsule_GetPointer(capsule, NAME);
    if (here == NULL)
        return;
    forget(release(&here->memory));
    free(here);
}

/* (handle, deviation of the loss, nodes, samples); None where delta is 0; the reason where it is declined. */
static PyObject *planned(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *composition, *result = NULL;
    job work = {.question = LOG_DELTA};
    if (!PyArg_ParseTuple(arguments, "Od", &composition, &work.argument))
        return NULL;
    handle *here = calloc(1, sizeof(handle));
    if (here == NULL)
        return PyErr_NoMemory();
    workspace space;
    take_kept(&space);
    take(&here->memory, NULL);
    here->memory.chunk = 1 << 16; /* dozens of these are kept at a time */
    int status = read_composition(&space, composition, &work.rounds, &work.whole), delta_is_zero = 0;
    if (status == 1) {
        Py_BEGIN_ALLOW_THREADS
        status = neighbourhood_of(&space, &here->memory, &work, &here->at);
        Py_END_ALLOW_THREADS
        delta_is_zero = status == -1;
    }
    if (delta_is_zero)
        result = Py_NewRef(Py_None);
    else if (status == 0)
        result = named(here->memory.reason == ANSWERED ? space.reason : here->memory.reason);
    release_kept(&space);
    if (status == 1) {
        PyObject *capsule = PyCapsule_New(here, NAME, destroy);
        if (capsule != NULL)
            return Py_BuildValue("Ndii", capsule, here->at.problem.deviation, here->at.path.nodes,
                                 here->at.path.samples);
    }
    forget(release(&here->memory));
    free(here);
    return result;
}

static int writable(PyObject *source, Py_buffer *view, Py_ssize_t count)
{
    if (PyObject_GetBuffer(source, view, PyBUF_CONTIG | PyBUF_FORMAT) != 0)
        return 0;
    if (view->format == NULL || strcmp(view->format, "d") != 0 || view->len / (Py_ssize_t)sizeof(double) != count) {
        PyErr_SetString(PyExc_ValueError, "results must be buffers of doubles, as many as epsilons");
        PyBuffer_Release(view);
        return 0;
    }
    return 1;
}

/* evaluate(handle, epsilons, lower, upper, value, slope): fills the last four. */
static PyObject *evaluate(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *capsule, *sources[5];
    if (!PyArg_ParseTuple(arguments, "OOOOOO", &capsule, &sources[0], &sources[1], &sources[2], &sources[3],
                          &sources[4]))
        return NULL;
    const handle *here = PyCapsule_GetPointer(capsule, NAME);
    if (here == NULL)
        return NULL;
    Py_buffer views[5];
    if (PyObject_GetBuffer(sources[0], &views[0], PyBUF_CONTIG_RO | PyBUF_FORMAT) != 0)
        return NULL;
    int held = 1;
    Py_ssize_t count = views[0].len / (Py_ssize_t)sizeof(double);
    if (views[0].format == NULL || strcmp(views[0].format, "d") != 0)
        PyErr_SetString(PyExc_ValueError, "epsilons must be a buffer of doubles");
    while (!PyErr_Occurred() && held < 5 && writable(sources[held], &views[held], count))
        held++;
    if (held == 5) {
        const double *epsilons = views[0].buf;
        double *lower = views[1].buf, *upper = views[2].buf, *value = views[3].buf, *slope = views[4].buf;
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; i < count; i++) {
            neighbourhood_log_delta(&here->at, epsilons[i], &lower[i], &upper[i]);
            neighbourhood_slope(&here->at, epsilons[i], &value[i], &slope[i]);
        }
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < held; i++)
        PyBuffer_Release(&views[i]);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

PyMethodDef neighbourhoods[] = {
    {"neighbourhood", planned, METH_VARARGS,
     "neighbourhood(composition, epsilon): (handle, deviation, nodes, samples); None where delta is 0; or why "
     "it was declined."},
    {"evaluate", evaluate, METH_VARARGS,
     "evaluate(handle, epsilons, lower, upper, value, slope): certified log deltas, and approximate ones with slopes."},
    {NULL, NULL, 0, NULL},
};
