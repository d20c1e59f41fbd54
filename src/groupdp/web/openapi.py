"""The description of the API (OpenAPI 3.1): every question, its fields, and what answers it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from groupdp._version import VERSION
from groupdp.mechanisms import DPSGD, MECHANISMS
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import ADJACENCIES
from groupdp.samplings import SAMPLINGS
from groupdp.statement import FORMATS, SHORT
from groupdp.web import MOST_GROUP_SIZES, MOST_PHASES, fields
from groupdp.web.answers import BASELINES, PARAMETERS, QUESTIONS

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}


def description() -> Schema:
    """The whole description."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "groupdp",
            "version": VERSION,
            "description": "Certified group-level differential privacy for DP-SGD. Every question is a POST of JSON.",
        },
        "paths": {
            **{f"/api/{name}": _post(name, *parts) for name, parts in _questions().items()},
            "/api/form": {"get": _get("Every field with its unit, meaning and range; the samplings and adjacencies.")},
            "/api/openapi.json": {"get": _get("This description.")},
        },
        "components": {"schemas": _schemas()},
    }


def _object(properties: Mapping[str, Schema], required: Iterable[str] | None = None, **more: Any) -> Schema:
    """An object that has these properties, all of them unless it is said which."""
    needed = list(properties if required is None else required)
    return {"type": "object", "required": needed, "properties": dict(properties), **more}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _of(name: str) -> Schema:
    """A reference to one of the schemas that have names."""
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> Schema:
    """What questions and answers consist of."""
    number = 'A number; the strings "Infinity" and "-Infinity" stand for what JSON has no number for.'
    tight = "Whether the lower side bounds every valid guarantee; if false, only this analysis."
    sentence = "One sentence: what is wrong, and what would be right."
    bounds = {
        **dict.fromkeys(("lower", "upper"), _of("Number")),
        **dict.fromkeys(("lower_text", "upper_text"), TEXT),
        "tight": {"type": "boolean", "description": tight},
    }
    error = {
        "kind": TEXT,
        "sentence": {**TEXT, "description": sentence},
        "field": {"type": ["string", "null"]},
        "phase": {"type": ["integer", "null"], "description": "Counted from 0."},
    }
    return {
        "Number": {"description": number, "anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity"]}]},
        "Bounds": _object(
            bounds, description="Certified bounds: the upper side is the guarantee. The texts are rounded outward."
        ),
        "Error": _object({"error": _object(error)}),
        "Phase": _phase(),
        "Neighbour": {
            "description": "A number of examples; for several sources, a number for each.",
            "anyOf": [COUNT, {"type": "object", "additionalProperties": COUNT}],
        },
    }


def _phase() -> Schema:
    """One phase: DP-SGD with its sampling's fields, noise, and steps or epochs; or another mechanism's fields."""

    def choice(kinds: dict[str, Any]) -> Schema:
        described = "; ".join(f"{name}: {kind.title}" for name, kind in kinds.items())
        return {"enum": list(kinds), "description": f"{described}."}

    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "mechanism": {**choice(MECHANISMS), "default": DPSGD.name},
            "sampling": choice(SAMPLINGS),
            **{name: field.schema() for name, field in phase_fields().items()},
        },
        "if": {"properties": {"mechanism": {"const": DPSGD.name}}},
        "then": {"required": ["sampling", "noise_multiplier"]},
        "description": "The fields of the mechanism; for DP-SGD also its sampling's, and either steps or epochs.",
    }


def _questions() -> dict[str, tuple[Schema, Schema, Schema]]:
    """For every question: the fields it needs besides the run, optional fields, and the fields of its answer."""
    delta, epsilon = ({name: fields()[name].schema()} for name in ("delta", "epsilon"))
    bounds, number, points = _of("Bounds"), _of("Number"), _list({"type": "object"})
    sizes = _list({"type": "integer", "minimum": 1}, minItems=1, maxItems=MOST_GROUP_SIZES)
    sizes = {"group_sizes": {**sizes, "description": "1 to 32 if not given."}}
    title = {"title": {**TEXT, "minLength": 1, "maxLength": 200}}
    rates = _list({"type": "number", "minimum": 0, "maximum": 1}, maxItems=100)
    prior = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    one = {"type": "integer", "minimum": 1}
    row = _list(one, prefixItems=[one, one], minItems=2, maxItems=2)
    return {
        "epsilon": (delta, {}, {"epsilon": bounds, "sentence": TEXT, "assumptions": _list(TEXT)}),
        "delta": (epsilon, {}, {"delta": bounds, "log_delta": bounds}),
        "curve": (delta, sizes, {"points": points}),
        "baseline": ({"name": {"enum": list(BASELINES)}, **delta}, sizes, {"name": TEXT, "points": points}),
        "calibrate": (
            {**epsilon, **delta},
            {
                "parameter": {"enum": list(PARAMETERS)},
                "phase": {**COUNT, "description": "Which of several phases to change, counted from 0."},
            },
            {"parameter": TEXT, "value": number, "value_text": TEXT, "epsilon": bounds},
        ),
        "tradeoff": (
            {},
            {**delta, "false_positive_rates": rates, "prior": prior},
            {"points": points, "words": _list(TEXT), "advantage": bounds, "success": bounds},
        ),
        "people": (
            delta,
            {"csv": TEXT, "column": TEXT, "tally": _list(row)},
            {"people": {"type": "integer"}, "counts": points},
        ),
        "statement": (delta, {**title, "format": {"enum": [*FORMATS, SHORT]}}, {"format": TEXT, "text": TEXT}),
        "certificate": (
            delta,
            {},
            {"text": TEXT, "digest": TEXT, "outcome": {"enum": ["verified", "refuted", "undecided"]}, "reason": TEXT},
        ),
        "handover": (delta, title, {"command": TEXT, "python": TEXT, "toml": TEXT}),
    }


_REFUSALS = {
    "400": "The question is invalid.",
    "401": "The server listens on another address than loopback, and the token is missing or wrong.",
    "413": "The body is too large.",
    "415": "The body is not JSON by its content type.",
    "422": "The question is valid, but exceeds a stated limit of time or memory.",
    "503": "The server is busy, is shutting down, or a process ended unexpectedly: ask again in a moment.",
}


def _post(name: str, needed: Schema, also: Schema, answer: Schema) -> Schema:
    """A question: a run, a neighbour, `needed` and perhaps `also` in, `answer` out."""
    properties: Schema = {
        "phases": _list(_of("Phase"), minItems=1, maxItems=MOST_PHASES, description="The run, phase by phase."),
        **{neighbour: _neighbour(neighbour) for neighbour in ("group_size", "removed", "added")},
        "adjacency": {"enum": list(ADJACENCIES), "description": "add-or-remove if not given."},
        **needed,
        **also,
    }
    request = _object(properties, ["phases", *needed], additionalProperties=False)
    refusals = {status: _content(text, _of("Error")) for status, text in _REFUSALS.items()}
    return {
        "post": {
            "summary": " ".join((inspect.getdoc(QUESTIONS[name]) or "").split()),
            "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
            "responses": {"200": _content("The answer.", _object(answer)), **refusals},
        }
    }


def _content(text: str, schema: Schema) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _get(summary: str) -> Schema:
    return {"summary": summary, "responses": {"200": _content("The answer.", {"type": "object"})}}


def _neighbour(name: str) -> Schema:
    field = fields()[name]
    instead = "Instead of group_size. " if name != "group_size" else ""
    return {"allOf": [_of("Neighbour")], "description": f"{instead}{field.label} ({field.unit}). {field.meaning}"}
