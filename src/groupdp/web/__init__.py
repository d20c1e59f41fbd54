"""The page that answers while you drag, and the JSON interface under it (docs/page.md).

form.py      every field of a question; from a question in JSON to the library's objects
answers.py   one function per question, from JSON to JSON
texts.py     numbers and guarantees for people; the same question as a command line, as Python, as a run file
worker.py    the process that answers, one question at a time
pool.py      processes with time limits and cancellation, and whose question is next
openapi.py   the description of the interface
app.py       HTTP: routes, limits, headers; connections that ask nothing are closed
static/      the page, as plain HTML, CSS and JavaScript modules

Only `app` needs the extra `web` (starlette, uvicorn); it is imported by `groupdp serve`.
"""
