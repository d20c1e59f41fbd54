/* Looking at one composition from Python: reading it, declining, cleaning up. */
#include "view.h"

PyObject *list_of(const double *values, int count)
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

/* Doubles from a list, in the workspace; NULL with a Python error set. */
static double *listed(workspace *space, PyObject *list, int *count)
{
    *count = (int)PyList_GET_SIZE(list);
    double *values = allocate_or_null(space, ((size_t)*count + 1) * sizeof(double));
    for (int i = 0; values != NULL && i < *count; i++)
        values[i] = PyFloat_AsDouble(PyList_GET_ITEM(list, i));
    if (values == NULL)
        PyErr_NoMemory();
    return PyErr_Occurred() ? NULL : values;
}

/* Reads the composition, looks, and cleans up. */
PyObject *shown(view *at, PyObject *composition, PyObject *list, look *function)
{
    PyObject *result = NULL;
    jmp_buf here;
    take_kept(&at->space);
    int status = read_composition(&at->space, composition, &at->rounds, &at->whole);
    if (status == 1 && list != NULL && (at->values = listed(&at->space, list, &at->count)) == NULL)
        status = -1;
    if (status == 1) {
        at->space.declined = &here;
        if (setjmp(here) == 0) {
            for (int j = 0; j < at->rounds; j++)
                for (int b = 0; b < at->whole[j].branches; b++)
                    bound_spread(&at->space, &at->whole[j].branch[b]);
            result = function(at);
        } else {
            status = 0;
        }
    }
    if (status == 0)
        result = Py_NewRef(Py_None);
    release_kept(&at->space);
    return result;
}

branch *first_branch(view *at)
{
    if (at->whole[0].branches == 0)
        decline(&at->space, SHIFTS);
    return &at->whole[0].branch[0];
}
