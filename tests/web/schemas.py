"""What a schema of the API's description allows, and what it nearly allows, as hypothesis strategies."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["1e-6", "Infinity", "__class__", "../../etc/passwd", "\u0000"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
NUMBERS = st.sampled_from([0, 1, 1e-6, 0.01, 0.5, 8.0, 1e-300, 1e300, 2**53, 10**30]) | st.floats(0.0, 100.0)
INTEGERS = st.integers(1, 40) | st.sampled_from([0, 100, 2000, 50_000, 2**53, 10**30])


def valid(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Documents that the schema allows; its numbers are mostly sensible ones."""
    if "$ref" in schema:
        found = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return valid(found, root)
    if "allOf" in schema:
        return valid(schema["allOf"][0], root)
    if "anyOf" in schema:
        return st.one_of([valid(one, root) for one in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties", {})
        required = set(schema.get("required", ()))
        if not properties:
            return st.dictionaries(st.sampled_from(["web", "books"]), valid(schema["additionalProperties"], root))
        return st.fixed_dictionaries(
            {name: valid(properties[name], root) for name in properties if name in required},
            optional={name: valid(properties[name], root) for name in properties if name not in required},
        )
    if kind == "array":
        return st.lists(valid(schema.get("items", {}), root), min_size=schema.get("minItems", 0), max_size=3)
    simple = {
        "integer": INTEGERS,
        "number": NUMBERS,
        "boolean": st.booleans(),
        "string": st.text(max_size=30) | st.sampled_from(["n\n1\n2\n", "a,b\n1,2\n"]),
    }
    return simple.get(kind, JUNK) if isinstance(kind, str) else JUNK


@st.composite
def nearly_valid(draw: st.DrawFn, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """A document the schema allows, with a few of its values exchanged for anything."""
    document = draw(valid(schema, root))
    for _ in range(draw(st.integers(0, 2))):
        spots = list(_spots(document))
        if not spots:
            return draw(JUNK)
        holder, key = draw(st.sampled_from(spots))
        holder[key] = draw(JUNK)
    return document


def _spots(value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _spots(value[key])
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield value, index
            yield from _spots(item)
