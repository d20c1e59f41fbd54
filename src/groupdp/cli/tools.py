"""`groupdp doctor`, `import-run`, `serve` and `figures`: a log of batches, other tools' runs, the page, the paper.

Exit status 1 of `doctor` means that the log contradicts the claim; 0 that it does not, which proves nothing.
"""

from __future__ import annotations

import itertools
import secrets
import socket
from pathlib import Path
from typing import Any

import typer

from groupdp._files import NewFiles
from groupdp.cli.command import command, fail, interrupted_after
from groupdp.cli.options import FORCE, OUTPUT, argument, choice, flag, integer, number, out, words
from groupdp.cli.output import (
    UNLIMITED,
    Answer,
    Verbatim,
    new_files,
    output_width,
    progress_bar,
    require_new,
    table_text,
    values_of,
    wrapped,
)
from groupdp.engines import Progress
from groupdp.errors import NOT_SHOWN, InvalidArgument, InWords, require_choice
from groupdp.fields import SAMPLING_RATE
from groupdp.neighbours import ADJACENCIES
from groupdp.samplings import SAMPLINGS, BallsInBinsSampling

_CLAIM = "The claim"
#: The samplings that have a test (loading/fit.py), with the names of the numbers that they need.
_TESTED = ("poisson", BallsInBinsSampling.name, "spread", "shuffled", "fixed-batch", "fixed-order")
_FIELDS = {name: tuple(field.name for field in SAMPLINGS[name].fields if field.default is None) for name in _TESTED}


def _needing(field: str) -> str:
    return ", ".join(name for name, needed in _FIELDS.items() if field in needed)


@command(
    "doctor",
    "indices.parquet --sampling poisson --sampling-rate 0.01 --dataset-size 50000",
    indices=argument(
        "FILE",
        "CSV, Parquet or JSONL: a row for every example of every batch, with columns step and index, and optionally "
        "epoch and person.",
    ),
    sampling=words("NAME", f"What is claimed: {', '.join(_FIELDS)}.", _CLAIM, required=True),
    dataset_size=integer("Examples in the dataset drawn from.", _CLAIM, required=True),
    sampling_rate=words(
        "NUMBER", "poisson: the rate, 0.01 or 256/60000.", _CLAIM, read=lambda _, text: float(SAMPLING_RATE.read(text))
    ),
    batches=integer(f"{_needing('batches')}: batches of an epoch.", _CLAIM),
    batch_size=integer(f"{_needing('batch_size')}: examples in a batch.", _CLAIM),
    epoch_steps=integer("Steps of an epoch, if the sampling does not say.", _CLAIM),
    false_alarm=number(
        "Largest probability of contradicting a true claim.", _CLAIM, default="1e-6", above=0.0, at_most=0.1
    ),
)
def doctor(
    indices: str, *, sampling: str, dataset_size: int, epoch_steps: int | None, false_alarm: float, **given: Any
) -> Answer:
    """Does a log of drawn indices contradict the sampling that is accounted for?"""
    from groupdp.loading.draws import read_index_log
    from groupdp.loading.fit import fit, steps_of_epoch

    claim = _claim(sampling, {**given, "dataset_size": dataset_size})
    steps = steps_of_epoch(claim, dataset_size) if epoch_steps is None else epoch_steps
    with progress_bar("doctor"):
        drawn, people = read_index_log(indices, steps=steps, dataset_size=dataset_size)
        result = fit(drawn, claim, people=people, false_alarm=false_alarm)
    return Answer(
        json={
            "contradicted": result.contradicted,
            "claim": {"sampling": claim.name, **claim.values()},
            "epochs": result.epochs,
            "indices": result.draws,
            "false_alarm": result.false_alarm,
            "findings": [
                {**values_of(finding, ("what", "p_value")), "contradicts": finding in result.contradicting}
                for finding in result.findings
            ],
        },
        text=[str(result)],
        status=1 if result.contradicted else 0,
    )


def _claim(name: str, given: dict[str, Any]) -> Any:
    """The sampling that the options describe; options that it does not have are refused."""
    needed = _FIELDS[require_choice("sampling", name, tuple(_FIELDS))]
    for field, value in given.items():
        if value is None and field in needed:
            raise InvalidArgument(field, NOT_SHOWN, f"be given for {name}, as --{field.replace('_', '-')}")
        if value is not None and field not in needed and field != "dataset_size":
            raise InvalidArgument(field, value, f"be left out for {name}")
    kind = SAMPLINGS[name]
    return kind(**{field.attribute: given[field.name] for field in kind.fields if field.name in needed})


@command(
    "import-run",
    "checkpoint.pt --delta 1e-6 -o run.toml",
    source=argument(
        "FILE",
        "A checkpoint of Opacus, or JSON: a history of Opacus, hyperparameters of TensorFlow Privacy or DpParams of "
        "JAX Privacy (docs/integrations.md).",
    ),
    out=out("RUN.TOML", "The run file to write.", required=True, writes="nothing"),
    group_size=integer("Examples of one person, if the source does not say."),
    delta=number("Delta, if the source does not say.", above=0.0, below=1.0),
    adjacency=choice(ADJACENCIES, "Adjacency, if the source does not say."),
    title=words("TEXT", "Title of the run.", OUTPUT, default=""),
    force=FORCE,
)
def import_run(source: str, *, out: str, title: str, force: bool, **question: Any) -> Answer:
    """Write a run file from what another tool's training saved: a checkpoint, a history, parameters."""
    from groupdp.integrations.import_run import import_run as read
    from groupdp.run_file import LARGEST_FILE, parse_run_file
    from groupdp.run_file.run import RunFile, run_file_text

    if Path(out).resolve() == Path(source).resolve():
        raise InvalidArgument("out", out, "be another file than the source")
    with new_files({"out": out}, force=force) as files:
        try:
            with progress_bar("import-run"):  # loading a checkpoint imports PyTorch
                imported = read(source)
        except ImportError as error:
            fail(str(error))
        known = values_of(imported, ("group_size", "delta", "adjacency"))
        known |= {name: value for name, value in question.items() if value is not None}
        known["adjacency"] = known["adjacency"] or ADJACENCIES[0]
        title = title.strip() or f"Run from {Path(source).name}"
        text = run_file_text(RunFile(title=title, phases=imported.phases, **known))
        if len(text.encode()) > LARGEST_FILE:
            needed = f"have few enough phases for a run file of {LARGEST_FILE} bytes"
            raise InvalidArgument("source", InWords(f"{len(imported.phases)} phases"), needed)
        parse_run_file(text, name=out)  # refuse before anything is written
        files.write_text(out, text)
    steps = sum(phase.steps for phase in imported.phases)
    missing = [name for name in ("group_size", "delta") if known[name] is None]
    phases = "1 phase" if len(imported.phases) == 1 else f"{len(imported.phases)} phases"
    lines = [f"{out}: {imported.source}, {steps} steps in {phases}."]
    if missing:
        absent = " and ".join(missing)
        lines.append(f"The source does not say {absent}: give it here, in the file, or with the question.")
    run = [phase.values() for phase in imported.phases]
    return Answer(json={"out": out, "source": imported.source, "run": run, **known, "missing": missing}, text=lines)


_SERVER = "The server"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@command(
    "serve",
    "--port 8000",
    port=integer("Port to listen on; 0 for any that is free.", _SERVER, default="8000", at_least=0, at_most=65535),
    host=words(
        "ADDRESS", "Address to listen on; the default is reached from this machine only.", _SERVER, default="127.0.0.1"
    ),
    seconds=number("Seconds that one question may take.", _SERVER, default="30", at_least=1.0, at_most=3600.0),
    no_browser=flag("Do not open the page in a browser.", _SERVER),
    has_json=False,
)
def serve(*, port: int, host: str, seconds: float, no_browser: bool) -> None:
    """Serve a page that answers while you move its sliders, and its JSON interface."""
    try:
        import uvicorn

        from groupdp.web.app import Connection, Server, allow_many_files, build_app
    except ImportError:
        fail("The page needs starlette and uvicorn: pip install 'groupdp[web]'.")
    from groupdp.web.pool import Limits

    listener = _listen(host, port)
    address = listener.getsockname()
    shown = f"[{address[0]}]" if ":" in address[0] else address[0]
    url = f"http://{shown}:{address[1]}/"
    hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")
    token = None
    if host not in _LOOPBACK:
        hosts, token = ("*",), secrets.token_urlsafe(24)
        url += f"?token={token}"
        typer.echo(
            f"Anyone with the token can use this server, and anyone who can read the traffic to {shown}:{address[1]} "
            "has the token: there is no encryption. Put it behind a proxy that encrypts, or leave --host out.",
            err=True,
        )
    allow_many_files()
    app = build_app(Limits(seconds=seconds), hosts=hosts, token=token)
    configuration = uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=4,
        h11_max_incomplete_event_size=32 * 1024,
    )
    server = Server(configuration, app.state.pool)
    # uvicorn has handlers of its own, but only once its loop runs.
    with interrupted_after(lambda: setattr(server, "should_exit", True)):
        typer.echo(f"groupdp answers at {url} (Ctrl-C ends it).")
        if not no_browser:
            import threading
            import webbrowser

            timer = threading.Timer(1.0, webbrowser.open, (url,))  # the listener is open already
            timer.daemon = True
            timer.start()
        server.run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        fail(f"host and port must be a free address of this machine, got {host!r} and {port} ({error.strerror}).")
    return listener


_KINDS = ("png", "pdf", "svg")


@command(
    "figures",
    "--out figures",
    out=out("DIRECTORY", "Directory of the files (figures if not given).", default="figures", writes="nothing"),
    kind=choice(_KINDS, "Kind of pictures.", OUTPUT, default="png", metavar="|".join(_KINDS)),
    force=FORCE,
)
def figures(*, out: str, kind: str, force: bool, progress: Progress) -> Answer:
    """Both figures of the paper: pictures, data as CSV, and a summary of the paper's claims."""
    if out == "":
        raise InvalidArgument("out", InWords("an empty one"), "be the name of a directory")
    from groupdp.figures import paper

    directory = Path(out)
    names = [name for name, *_ in paper.SAMPLINGS]
    written = [directory / f"{name}.{end}" for name in names for end in (kind, "csv")] + [directory / "summary.md"]
    with NewFiles("out") as files:
        for path in written:  # find out now whether they can be written
            require_new(str(path), "out", force=force)
            files.temporary(path)
        panels = paper.study(progress=progress)
        for name in names:
            own = [panel for panel in panels if panel.sampling == name]
            paper.write_figure(own, files.temporary(directory / f"{name}.{kind}"))
            files.write_text(directory / f"{name}.csv", paper.figure_csv(own))
        text = paper.summary(panels)
        files.write_text(written[-1], text)
    described = [
        {**values_of(panel, ("sampling", "noise_multiplier")), "points": [point.as_json() for point in panel.points]}
        for panel in panels
    ]
    return Answer(
        json={"files": [str(path) for path in written], "panels": described},
        text=[Verbatim(fitted(text)), "Written:", *(f"  {path}" for path in written)],
    )


def fitted(markdown: str) -> str:
    """The summary as it is; in a terminal its tables and paragraphs are fitted to the width."""
    width = output_width()
    if width == UNLIMITED:
        return f"{markdown}\n"
    parts = []
    for tabular, lines in itertools.groupby(markdown.split("\n"), key=lambda line: line.startswith("|")):
        if tabular:
            columns, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
            parts.append(table_text(columns, rows, width=width))
        else:
            parts.append(wrapped("\n".join(lines), width=width))
    return "\n".join([*parts, ""])
