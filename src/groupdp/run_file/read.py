"""A run described in a small TOML file: phases, delta, group size. The format is in docs/statement.md.

Whatever is wrong gets one sentence with the file, the line, the key, its value and what would be right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from groupdp._validation import require_choice, require_integer, require_number, shown
from groupdp.dpsgd import DPSGD, LARGEST_DATASET, FixedBatchSampling, PoissonSampling, Sampling, phases_of
from groupdp.epochs import steps_of_epochs
from groupdp.errors import InvalidArgument
from groupdp.reductions import LARGEST_GROUP
from groupdp.run_file.toml_lines import KeyPath, line_of

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

#: Largest file read, in bytes: a run is a page, not a book.
LARGEST_FILE = 100_000
ADJACENCIES = ("add-or-remove", "add", "remove")
SAMPLINGS = ("poisson", "fixed-batch")
_TOP_KEYS = ("title", "delta", "group_size", "adjacency", "phase")
_COMMON_KEYS = ("sampling", "noise_multiplier", "steps", "epochs", "microbatch_size")
_SAMPLING_KEYS = {"poisson": ("sampling_rate",), "fixed-batch": ("batch_size", "dataset_size")}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """What a run file says, validated."""

    title: str
    phases: tuple[DPSGD, ...]
    delta: float
    group_size: int
    adjacency: str


def read_run_file(path: str | Path) -> RunFile:
    """The run that the TOML file at `path` describes."""
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST_FILE + 1)
        text = content.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise InvalidArgument(f"run file must be a readable TOML file, got {shown(str(path))} ({reason}).") from None
    if len(content) > LARGEST_FILE:
        raise InvalidArgument(f"run file must be at most {LARGEST_FILE} bytes, got {shown(str(path))}.")
    return parse_run_file(text, name=str(path))


def parse_run_file(text: str, *, name: str = "run file") -> RunFile:
    """The run that the TOML document `text` describes; `name` stands in error messages."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except RecursionError:
        raise InvalidArgument(f"{name} must be valid TOML, but is nested too deeply.") from None
    except tomllib.TOMLDecodeError as error:  # says line and column
        reason = " ".join(str(error).split())
        raise InvalidArgument(f"{name} must be valid TOML: {reason.rstrip('.')}.") from None
    except ValueError:
        raise InvalidArgument(f"{name} must be valid TOML, but holds an integer of thousands of digits.") from None
    return _Reader(text, name, document).run()


class _Reader:
    """Takes values out of the parsed document, and complains with the line they came from."""

    def __init__(self, text: str, name: str, document: dict[str, Any]) -> None:
        self._text = text
        self._name = name
        self._document = document

    def run(self) -> RunFile:
        self._refuse_unknown((), self._document, _TOP_KEYS)
        title = self._take((), "title", _require_line, default="DP-SGD run")
        delta = self._take((), "delta", lambda key, value: _number(key, value, above=0.0, below=1.0))
        group_size = self._take((), "group_size", _integer_between(1, LARGEST_GROUP))
        adjacency = self._take(
            (), "adjacency", lambda key, value: require_choice(key, value, ADJACENCIES), default="add-or-remove"
        )
        tables = self._document.get("phase", None)
        if tables is None:
            raise InvalidArgument(f"{self._name}: phase must be given: one [[phase]] table for each phase.")
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise self._complaint(("phase",), "phase must be a table written [[phase]], one for each phase.")
        phases = tuple(self._phase(index, table) for index, table in enumerate(tables))
        smallest = min(
            (phase.sampling.dataset_size for phase in phases if isinstance(phase.sampling, FixedBatchSampling)),
            default=group_size,
        )
        if group_size > smallest:
            raise self._complaint(
                ("group_size",), f"group_size must be at most dataset_size={smallest}, got {group_size}."
            )
        try:
            phases_of(phases)
        except InvalidArgument as error:
            raise InvalidArgument(f"{self._name}: {error}") from None
        return RunFile(title=title, phases=phases, delta=delta, group_size=group_size, adjacency=adjacency)

    def _phase(self, index: int, table: dict[str, Any]) -> DPSGD:
        where: KeyPath = ("phase", index)
        kind = self._take(where, "sampling", lambda key, value: require_choice(key, value, SAMPLINGS))
        self._refuse_unknown(where, table, (*_COMMON_KEYS, *_SAMPLING_KEYS[kind]), of=f" in a {kind} phase")
        sampling: Sampling
        if kind == "poisson":
            rate = self._take(where, "sampling_rate", _rate)
            sampling = PoissonSampling(rate=float(rate))
            fraction_of_data = _fraction(rate)
        else:
            batch = self._take(where, "batch_size", _integer_between(1, LARGEST_DATASET))
            dataset = self._take(where, "dataset_size", _integer_between(1, LARGEST_DATASET))
            if batch > dataset:
                raise self._complaint(
                    (*where, "batch_size"), f"batch_size must be at most dataset_size={dataset}, got {batch}."
                )
            sampling = FixedBatchSampling(batch_size=batch, dataset_size=dataset)
            fraction_of_data = Fraction(batch, dataset)
        steps = self._steps(where, table, fraction_of_data)
        noise = self._take(where, "noise_multiplier", _number)
        microbatch = self._take(where, "microbatch_size", _integer_between(1), default=1)
        try:
            return DPSGD(sampling=sampling, noise_multiplier=noise, steps=steps, microbatch_size=microbatch)
        except InvalidArgument as error:  # what is left to refuse is the size of the noise
            raise self._complaint((*where, "noise_multiplier"), str(error)) from None

    def _steps(self, where: KeyPath, table: dict[str, Any], fraction_of_data: Fraction) -> int:
        if "steps" in table and "epochs" in table:
            raise self._complaint((*where, "epochs"), "epochs must not be given together with steps.")
        if "epochs" in table:
            epochs = self._take(where, "epochs", _exact_above_zero)
            try:
                return steps_of_epochs(epochs, fraction_of_data)
            except InvalidArgument as error:
                raise self._complaint((*where, "epochs"), str(error)) from None
        steps: int = self._take(where, "steps", _integer_between(1))
        return steps

    def _take(self, where: KeyPath, key: str, check: Callable[[str, Any], Any], default: Any = None) -> Any:
        """The checked value of a key; its default, or a complaint, where it is missing."""
        table: Any = self._document
        for part in where:
            table = table[part]
        if key not in table:
            if default is not None:
                return default
            if where:
                line = line_of(self._text, where)
                raise InvalidArgument(
                    f"{self._name}, line {line}: {key} must be given in phase {where[1] + 1}, which begins here."
                )
            raise InvalidArgument(f"{self._name}: {key} must be given, before the first [[phase]].")
        try:
            return check(key, table[key])
        except InvalidArgument as error:
            raise self._complaint((*where, key), str(error)) from None

    def _refuse_unknown(self, where: KeyPath, table: dict[str, Any], allowed: tuple[str, ...], of: str = "") -> None:
        for key in table:
            if key not in allowed:
                wanted = ", ".join(allowed)
                raise self._complaint((*where, key), f"{shown(key)} is not a known key{of}: {wanted} are.")

    def _complaint(self, path: KeyPath, sentence: str) -> InvalidArgument:
        return InvalidArgument(f"{self._name}, line {line_of(self._text, path)}: {sentence}")


def _number(key: str, value: Any, **limits: float | None) -> float:
    if isinstance(value, str):
        raise InvalidArgument(f"{key} must be a number without quotes, got {shown(value)}.")
    if isinstance(value, Decimal):
        value = float(value)
    return require_number(key, value, **limits)


def _rate(key: str, value: Any) -> Any:
    rate = _number(key, value)
    if rate > 1.0:
        raise InvalidArgument(
            f"{key} must be a probability in (0, 1], got {rate:g} (a percentage p is written p / 100)."
        )
    require_number(key, rate, above=0.0, at_most=1.0)
    return value


def _exact_above_zero(key: str, value: Any) -> Fraction:
    _number(key, value, above=0.0)
    return _fraction(value)


def _fraction(value: Any) -> Fraction:
    """A number that is finite and not 0 as a double, exactly: its exponent is small."""
    return Fraction(value)


def _integer_between(at_least: int, at_most: int | None = None) -> Callable[[str, Any], int]:
    def check(key: str, value: Any) -> int:
        if isinstance(value, Decimal):
            value = float(value)
        limits = {} if at_most is None else {"at_most": at_most}
        return require_integer(key, value, at_least=at_least, **limits)

    return check


def _require_line(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200 or not value.isprintable():
        raise InvalidArgument(f"{key} must be one line of at most 200 characters, got {shown(value)}.")
    return value.strip()
