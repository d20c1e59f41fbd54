"""A mutation: one line of a source file changed, so that an error, a condition or half of a bound is forgotten."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """`old` stands in `file` exactly once; with `new` in its place the charge of `inequality` is gone."""

    inequality: str
    file: str
    old: str
    new: str
    forgets: str
    needs: str = "bound"  # what a test must do to notice, see kernel_mutations
