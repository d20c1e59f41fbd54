"""JSON as the command line writes it: floats in full precision, infinities as "Infinity" and "-Infinity"."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def encode(value: Any) -> bytes:
    """`value` as JSON text; NaN, which no answer has, would be an error."""
    return json.dumps(_valid(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def error(kind: str, sentence: str, *, field: str | None = None, phase: int | None = None) -> bytes:
    """A refusal: what kind it is, the sentence, and the field it is about."""
    return encode({"error": {"kind": kind, "sentence": sentence, "field": field, "phase": phase}})


def _valid(value: Any) -> Any:
    if isinstance(value, float):
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return value
    if isinstance(value, Mapping):
        return {key: _valid(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(item) for item in value]
    return value
