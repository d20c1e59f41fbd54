/* Memory and work of one call. One chunk may be kept for the next call: fresh pages cost more than what is done on them.
 */
#include "spectral.h"

#include <stdlib.h>
#include <time.h>

/* A call that needs more than this is declined. */
#define LARGEST_WORKSPACE ((size_t)400 << 20)
/* So is one that would take longer than a fraction of a second (about 1e9 a second). */
#ifndef LARGEST_WORK
#define LARGEST_WORK 6e8
#endif
/* With random allocations, whose tables take n^2 for every node: about two seconds. */
#define LARGEST_ALLOCATION_WORK (LARGEST_WORK * 20.0 / 3.0)
#define CHUNK ((size_t)4 << 20)

struct chunk {
    struct chunk *next;
    size_t used, size;
    double content[];
};

void take(workspace *space, struct chunk *kept)
{
    space->brief = space->few = space->plain = space->far = space->cuts = space->uncut = space->coins = space->coarse = 0;
    space->reversed = NULL;
    space->chunks = kept;
    space->allocated = kept == NULL ? 0 : kept->size;
    space->chunk = CHUNK;
    space->seconds = NULL;
    space->work = 0.0;
    space->allocates = space->lower_tilt = 0;
    space->reason = ANSWERED;
    space->declined = NULL;
}

void *allocate_or_null(workspace *space, size_t bytes)
{
    if (bytes > LARGEST_WORKSPACE)
        return NULL;
    bytes = (bytes + 63) & ~(size_t)63;
    struct chunk *top = space->chunks;
    if (top == NULL || top->size - top->used < bytes) {
        size_t size = bytes > space->chunk ? bytes : space->chunk;
        if (size > LARGEST_WORKSPACE || space->allocated > LARGEST_WORKSPACE - size)
            return NULL;
        top = malloc(sizeof(struct chunk) + size);
        if (top == NULL)
            return NULL;
        top->next = space->chunks;
        top->used = 0;
        top->size = size;
        space->chunks = top;
        space->allocated += size;
    }
    void *result = (char *)top->content + top->used;
    top->used += bytes;
    return result;
}

void *allocate(workspace *space, size_t bytes)
{
    void *result = allocate_or_null(space, bytes);
    if (result == NULL)
        decline(space, MEMORY);
    return result;
}

double *doubles(workspace *space, size_t count) { return allocate(space, count * sizeof(double)); }

void decline(workspace *space, enum reason why)
{
    space->reason = why;
    longjmp(*space->declined, 1);
}

/* Called before the work is done. */
void spend(workspace *space, double work)
{
    space->work += work;
    if (!(space->work <= (space->allocates ? LARGEST_ALLOCATION_WORK : LARGEST_WORK)))
        decline(space, WORK);
}

struct chunk *release(workspace *space)
{
    struct chunk *kept = NULL;
    while (space->chunks != NULL) {
        struct chunk *top = space->chunks;
        space->chunks = top->next;
        if (kept == NULL && top->size == CHUNK) {
            top->used = 0;
            top->next = NULL;
            kept = top;
        } else {
            free(top);
        }
    }
    return kept;
}

/* Frees what release() returned. */
void forget(struct chunk *kept) { free(kept); }

/* What was done since the last stage began is counted for it; STAGES ends the count. */
void begin(workspace *space, enum stage stage)
{
    if (space->seconds == NULL)
        return;
    struct timespec time;
    timespec_get(&time, TIME_UTC);
    double now = (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
    if (space->since > 0.0)
        space->seconds[space->stage] += now - space->since;
    space->stage = stage;
    space->since = stage == STAGES ? 0.0 : now;
}

/* Everything allocated from here on is given back by rewind_to. */
bookmark mark(const workspace *space)
{
    return (bookmark){space->chunks, space->chunks == NULL ? 0 : space->chunks->used};
}

void rewind_to(workspace *space, bookmark place)
{
    while (space->chunks != place.chunk) {
        struct chunk *top = space->chunks;
        space->chunks = top->next;
        space->allocated -= top->size;
        free(top);
    }
    if (place.chunk != NULL)
        place.chunk->used = place.used;
}
