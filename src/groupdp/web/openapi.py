"""The description of the API (OpenAPI 3.1): every question, its fields, and what answers it."""

from __future__ import annotations

import inspect
from typing import Any

from groupdp._version import VERSION
from groupdp.mechanisms import DPSGD, MECHANISMS
from groupdp.mechanisms.named_values import phase_fields
from groupdp.neighbours import ADJACENCIES
from groupdp.samplings import SAMPLINGS
from groupdp.statement import FORMATS, SHORT
from groupdp.web.answers import BASELINES, PARAMETERS, QUESTIONS
from groupdp.web.form import MOST_GROUP_SIZES, MOST_PHASES, fields

Schema = dict[str, Any]

_NUMBER: Schema = {
    "description": 'A number; the strings "Infinity" and "-Infinity" stand for what JSON has no number for.',
    "anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity"]}],
}
_BOUNDS: Schema = {
    "type": "object",
    "description": "Certified bounds: the upper side is the guarantee. The texts are rounded outward.",
    "required": ["lower", "upper", "lower_text", "upper_text", "tight"],
    "properties": {
        "lower": {"$ref": "#/components/schemas/Number"},
        "upper": {"$ref": "#/components/schemas/Number"},
        "lower_text": {"type": "string"},
        "upper_text": {"type": "string"},
        "tight": {
            "type": "boolean",
            "description": "Whether the lower side bounds every valid guarantee; if false, only this analysis.",
        },
    },
}
_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["kind", "sentence", "field", "phase"],
            "properties": {
                "kind": {"type": "string"},
                "sentence": {"type": "string", "description": "One sentence: what is wrong, and what would be right."},
                "field": {"type": ["string", "null"]},
                "phase": {"type": ["integer", "null"], "description": "Counted from 0."},
            },
        }
    },
}
_GROUP_SIZES: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": 1},
    "minItems": 1,
    "maxItems": MOST_GROUP_SIZES,
    "description": "1 to 32 if not given.",
}
_GROUP: Schema = {
    "description": "A number of examples; for several sources, a number for each.",
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    ],
}
_TITLE: Schema = {"type": "string", "minLength": 1, "maxLength": 200}


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
            **_questions(),
            "/api/form": {"get": _get("Every field with its unit, meaning and range; the samplings and adjacencies.")},
            "/api/openapi.json": {"get": _get("This description.")},
        },
        "components": {
            "schemas": {"Number": _NUMBER, "Bounds": _BOUNDS, "Error": _ERROR, "Phase": _phase(), "Neighbour": _GROUP}
        },
    }


def _questions() -> Schema:
    """Every question, with what its function says of it."""
    delta, epsilon = ({name: fields()[name].schema()} for name in ("delta", "epsilon"))
    sizes, title = {"group_sizes": _GROUP_SIZES}, {"title": _TITLE}
    points: Schema = {"type": "array", "items": {"type": "object"}}
    text: Schema = {"type": "string"}
    texts: Schema = {"type": "array", "items": text}
    bounds: Schema = {"$ref": "#/components/schemas/Bounds"}
    number: Schema = {"$ref": "#/components/schemas/Number"}
    rates: Schema = {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 1}, "maxItems": 100}
    phase: Schema = {"type": "integer", "minimum": 0, "description": "Of several phases, the one to change."}
    prior: Schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    count: Schema = {"type": "integer", "minimum": 1}
    row: Schema = {"type": "array", "prefixItems": [count, count], "items": count, "minItems": 2, "maxItems": 2}
    outcome: Schema = {"enum": ["verified", "refuted", "undecided"]}
    #: Of every question: fields that it needs besides the run, fields that it may have, and what its answer has.
    asked: dict[str, tuple[Schema, Schema, Schema]] = {
        "epsilon": (delta, {}, {"epsilon": bounds, "sentence": text, "assumptions": texts}),
        "delta": (epsilon, {}, {"delta": bounds, "log_delta": bounds}),
        "curve": (delta, sizes, {"points": points}),
        "baseline": ({"name": {"enum": list(BASELINES)}, **delta}, sizes, {"name": text, "points": points}),
        "calibrate": (
            {**epsilon, **delta},
            {"parameter": {"enum": list(PARAMETERS)}, "phase": phase},
            {"parameter": text, "value": number, "value_text": text, "epsilon": bounds},
        ),
        "tradeoff": (
            {},
            {**delta, "false_positive_rates": rates, "prior": prior},
            {"points": points, "words": texts, "advantage": bounds, "success": bounds},
        ),
        "people": (
            delta,
            {"csv": text, "column": text, "tally": {"type": "array", "items": row}},
            {"people": {"type": "integer"}, "counts": points},
        ),
        "statement": (delta, {**title, "format": {"enum": [*FORMATS, SHORT]}}, {"format": text, "text": text}),
        "certificate": (delta, {}, {"text": text, "digest": text, "outcome": outcome, "reason": text}),
        "handover": (delta, title, {"command": text, "python": text, "toml": text}),
    }
    return {f"/api/{name}": _post(inspect.getdoc(QUESTIONS[name]) or "", *parts) for name, parts in asked.items()}


def _post(summary: str, needed: Schema, also: Schema, answer: Schema) -> Schema:
    """A question: a run, a neighbour, `needed` and perhaps `also` in, `answer` out."""
    phases = {"type": "array", "items": {"$ref": "#/components/schemas/Phase"}, "minItems": 1, "maxItems": MOST_PHASES}
    properties: Schema = {
        "phases": {**phases, "description": "The run, phase by phase."},
        **{name: _neighbour(name) for name in ("group_size", "removed", "added")},
        "adjacency": {"enum": list(ADJACENCIES), "description": "add-or-remove if not given."},
        **needed,
        **also,
    }
    required = ["phases", *needed]
    request = {"type": "object", "additionalProperties": False, "required": required, "properties": properties}
    reply = {"type": "object", "required": list(answer), "properties": answer}
    refusals = {
        "400": "The question is invalid.",
        "401": "The server listens on another address than loopback, and the token is missing or wrong.",
        "413": "The body is too large.",
        "415": "The body is not JSON by its content type.",
        "422": "The question is valid, but exceeds a stated limit of time or memory.",
        "503": "The server is busy, is shutting down, or a process ended unexpectedly: ask again in a moment.",
    }
    return {
        "post": {
            "summary": " ".join(summary.split()),
            "requestBody": {"required": True, "content": {"application/json": {"schema": request}}},
            "responses": {
                "200": {"description": "The answer.", "content": {"application/json": {"schema": reply}}},
                **{
                    status: {
                        "description": text,
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
                    }
                    for status, text in refusals.items()
                },
            },
        }
    }


def _get(summary: str) -> Schema:
    content = {"application/json": {"schema": {"type": "object"}}}
    return {"summary": summary, "responses": {"200": {"description": "The answer.", "content": content}}}


def _phase() -> Schema:
    """One phase: DP-SGD with its sampling's fields, noise, and steps or epochs; or another mechanism's fields."""

    def choice(kinds: dict[str, Any]) -> Schema:
        return {
            "enum": list(kinds),
            "description": "; ".join(f"{name}: {kind.title}" for name, kind in kinds.items()) + ".",
        }

    properties = {
        "mechanism": {**choice(MECHANISMS), "default": DPSGD.name},
        "sampling": choice(SAMPLINGS),
        **{name: field.schema() for name, field in phase_fields().items()},
    }
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "if": {"properties": {"mechanism": {"const": DPSGD.name}}},
        "then": {"required": ["sampling", "noise_multiplier"]},
        "description": "The fields of the mechanism; for DP-SGD also its sampling's, and either steps or epochs.",
    }


def _neighbour(name: str) -> Schema:
    field = fields()[name]
    instead = "Instead of group_size. " if name != "group_size" else ""
    reference = {"$ref": "#/components/schemas/Neighbour"}
    return {"allOf": [reference], "description": f"{instead}{field.label} ({field.unit}). {field.meaning}"}
