"""The tools' processes: started when first needed, killed at the time limit, started again after that."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parent
#: Seconds a tool may take to be imported.
IMPORT_LIMIT = 180.0


class Tool:
    """One adapter in one environment."""

    def __init__(self, adapter: str, python: Path) -> None:
        self.adapter = adapter
        self.python = python
        self.versions: dict[str, str] | None = None
        self.failure: str | None = None
        self._process: subprocess.Popen[str] | None = None

    def call(
        self, work: dict[str, Any] | None, options: dict[str, Any], *, limit: float, calls: int = 1
    ) -> dict[str, Any]:
        """So many timed calls, one after the other; {"error": ...} if they could not be made or did not end in time."""
        if self._process is None:
            self._start(options)
        if self._process is None:
            return {"error": self.failure or "did not start"}
        start = time.monotonic()
        answer = self._exchange({"work": work, "options": options, "calls": calls}, limit * calls)
        if answer is not None:
            return answer
        status = self._process.wait()
        self._process = None
        if time.monotonic() - start < limit * calls:
            return {"error": f"its process ended with status {status}"}
        return {"timeout": limit}

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Tool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _start(self, options: dict[str, Any]) -> None:
        if self.failure is not None:
            return
        if not self.python.exists():
            self.failure = f"not installed: there is no {self.python}"
            return
        megabytes = int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20)
        self._process = subprocess.Popen(
            [str(self.python), str(HERE / "worker.py"), self.adapter, str(megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        hello = self._exchange(None, IMPORT_LIMIT)
        if hello is None or "error" in hello:
            self.stop()
            self.failure = "not available: " + (hello or {}).get("error", "its process ended or did not answer")
            return
        self.versions = hello["versions"]
        self._exchange({"work": None, "options": options, "calls": 1}, IMPORT_LIMIT)  # the warm-up

    def _exchange(self, request: dict[str, Any] | None, limit: float) -> dict[str, Any] | None:
        """The answer, or None if the process ended or was killed at the limit."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(limit, process.kill)
        watch.start()
        try:
            if request is not None:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        return json.loads(line) if line else None
