"""The page that answers while you drag, and the JSON interface under it (docs/page.md).

fields.py        every field of a question: its name, unit, meaning and range; the samplings and adjacencies offered
description.py   from a question in JSON to the library's objects
inputs.py        what else a question brings, checked: group sizes, rates, counts
curves.py        epsilons of many group sizes, and the baselines beside them
answers.py       one function per question, from JSON to JSON
words.py         numbers and guarantees for people
handover.py      the same question as a command line, as Python, as a run file
worker.py        the process that answers, one question at a time
pool.py          processes with time limits and cancellation: a heavy question does not stall the others
openapi.py       the description of the interface
app.py           HTTP: routes, limits, headers
static/          the page, as plain HTML, CSS and JavaScript modules

Only `app` needs the extra `web` (starlette, uvicorn); it is imported by `groupdp serve`.
"""
