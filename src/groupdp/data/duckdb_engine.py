"""DuckDB on one machine: a budget of memory, spilling beyond it, progress, and errors as sentences."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from groupdp._files import own_folder, remove_dead_folders
from groupdp.data.choice import literal, priority, priority_sql
from groupdp.errors import NOT_SHOWN, GroupDPError, InvalidArgument, InWords, LimitExceeded, require_integer, shown

#: Default memory of a computation in bytes, and the least that it can work with.
DEFAULT_MEMORY = 1_500_000_000
LEAST_MEMORY = 250_000_000
#: Kept back from the budget for the interpreter, its libraries and what DuckDB does not count.
_APART = 120_000_000
#: What the names of temporary folders begin with.
_FOLDER = "groupdp-"
#: Formats of tables that we write, by suffix.
COPY_FORMATS = {
    ".parquet": "FORMAT parquet, USE_TMP_FILE false",
    ".csv": "FORMAT csv, HEADER true, USE_TMP_FILE false",
    ".jsonl": "FORMAT json, USE_TMP_FILE false",
}
#: Seconds between two looks at the progress.
_PAUSE = 0.05

Progress = Callable[[float], None]


class Engine:
    """A private database with a folder of its own, removed at the end whatever happens."""

    def __init__(self, *, memory: int = DEFAULT_MEMORY, threads: int | None = None) -> None:
        self._memory = require_integer("memory", memory, at_least=LEAST_MEMORY)
        self._threads = threads

    def __enter__(self) -> Engine:
        duckdb = import_duckdb()
        remove_dead_folders(Path(tempfile.gettempdir()), _FOLDER)
        # Named, and removed at exit at the latest, before it exists: Ctrl-C may come at any moment.
        self.folder = Path(tempfile.gettempdir()) / f"{_FOLDER}{os.urandom(6).hex()}"
        self._lock = -1
        atexit.register(self._remove_folder)
        try:
            self.folder.mkdir(mode=0o700)
            self._lock = own_folder(self.folder)
            self.connection = duckdb.connect(":memory:")
            # Rows are read once or more in any order: the order of files and rows decides nothing.
            for setting, value in (
                ("temp_directory", literal(str(self.folder / "spill"))),
                ("preserve_insertion_order", "false"),
                ("enable_progress_bar", "false"),
                ("autoinstall_known_extensions", "false"),
                ("threads", str(self._threads or os.cpu_count() or 1)),
            ):
                self.connection.execute(f"SET {setting} = {value}")
            self.limit_memory(self._memory)
            self._check_hash()
        except BaseException:
            self._remove_folder()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(Exception):
            self.connection.close()
        self._remove_folder()

    def _remove_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)
        atexit.unregister(self._remove_folder)

    def limit_memory(self, most: int) -> None:
        """Have DuckDB keep to what is left of `most` bytes; beyond that it spills."""
        self.connection.execute(f"SET memory_limit = {literal(f'{(most - _APART) // 10**6}MB')}")

    def rows(self, sql: str, progress: Progress | None = None) -> list[tuple[Any, ...]]:
        """All rows of an answer that is small, or the effect of a statement.

        The statement runs in a thread of its own, so that this one reports the progress and can stop it.
        """
        answer: list[Any] = []
        failure: list[BaseException] = []
        # Events, not thread.join: a join that Ctrl-C interrupts takes the thread for ended (Python 3.11).
        begun, stopped, finished = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            try:
                if not stopped.is_set():
                    answer.extend(self.connection.execute(sql).fetchall())
            except BaseException as error:
                failure.append(error)
            finally:
                finished.set()

        try:
            threading.Thread(target=work).start()
            while not finished.wait(_PAUSE):
                if progress is not None:
                    progress(self._done())
        except BaseException:
            stopped.set()  # a thread that begins only now does nothing
            while begun.is_set() and not finished.wait(_PAUSE):
                self.connection.interrupt()  # again: DuckDB forgets one that comes before the statement begins
            raise
        if failure:
            raise sentence(failure[0], self._memory) from None
        return answer

    def copy(self, query: str, file: Path, progress: Progress | None = None) -> None:
        """Write the rows of a query, in the format of the file's suffix."""
        self.rows(f"COPY ({query}) TO {literal(str(file))} ({COPY_FORMATS[file.suffix.lower()]})", progress)

    def value(self, sql: str) -> Any:
        """The single value of an answer."""
        return self.rows(sql)[0][0]

    def table(self, sql: str) -> Any:
        """An answer as a pyarrow table."""
        try:
            return self.connection.sql(sql).to_arrow_table()
        except Exception as error:
            raise sentence(error, self._memory) from None

    def _done(self) -> float:
        try:
            return min(max(float(self.connection.query_progress()), 0.0), 100.0) / 100.0
        except Exception:  # an older DuckDB does not tell
            return 0.0

    def _check_hash(self) -> None:
        """DuckDB's functions must give the numbers that are documented, in this version too."""
        for seed, user, key in (("0", "a", "b"), ("seed", "Zoë", "")):
            columns = f"SELECT {literal(user)} AS u, {literal(key)} AS k, NULL AS m"
            number = self.value(f"SELECT CAST({priority_sql(seed, ['u', 'k', 'm'])} AS VARCHAR) FROM ({columns})")
            if int(number) != priority(seed, user, key, None):
                raise GroupDPError("this version of DuckDB computes md5_number differently: another is needed.")


def import_duckdb() -> Any:
    """DuckDB, or the sentence that says how to get it."""
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ImportError:
        raise GroupDPError("Reading rows needs DuckDB and pyarrow: pip install 'groupdp[data]'.") from None
    return duckdb


def sentence(error: BaseException, memory: int) -> BaseException:
    """What DuckDB complains about, in one sentence; anything else is returned as it is."""
    duckdb = import_duckdb()
    if not isinstance(error, duckdb.Error):
        return error
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        if "temp_directory" in text or "max_temp_directory_size" in text:
            return LimitExceeded("the disk that holds temporary files (TMPDIR) is full: nothing was written.")
        return LimitExceeded(f"memory must be more than {memory} bytes for this question: nothing was written.")
    line = re.search(r"CSV Error on Line: (\d+)", text)
    if line:
        file = re.search(r"^\s*file = (.*)$", text, re.MULTILINE)
        reasons = ("Expected Number", "unterminated quote", "unicode", "Maximum line size")
        reason = next((part for part in text.splitlines() if any(word in part for word in reasons)), "not valid CSV")
        where = f"line {line[1]} of {shown(file[1]) if file else 'the input'}"
        got = InWords(f"{where} ({' '.join(reason.split()).rstrip('.')})")
        return InvalidArgument("every row", got, "have the columns of the header")
    first = " ".join(text.split("\n")[0].split()).rstrip(".")
    if isinstance(error, duckdb.IOException):
        inner = re.search(r'"exception_message":"((?:[^"\\]|\\.)*)"', first)
        reason = inner[1].replace('\\"', "'") if inner else first
        return InvalidArgument("files", NOT_SHOWN, f"be readable and writable: {reason}; nothing was left behind")
    if isinstance(error, duckdb.InvalidInputException | duckdb.ConversionException | duckdb.BinderException):
        return InvalidArgument("the rows", NOT_SHOWN, f"be valid: {first}")
    return GroupDPError(f"DuckDB stopped: {first}.")


def stages(progress: Progress | None, *shares: float) -> Iterator[Progress | None]:
    """Progress callables for consecutive stages that take about these shares of the time."""
    total, begun = sum(shares), 0.0
    for share in shares:
        start, part = begun / total, share / total
        yield None if progress is None else lambda done, start=start, part=part: progress(start + part * done)  # type: ignore[misc]
        begun += share
