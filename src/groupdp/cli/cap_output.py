"""How a study of caps is printed."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from groupdp.cli.support import bounds_as_json, emit_json, emit_table, upper_text
from groupdp.printing import lower_percent, round_down

if TYPE_CHECKING:
    from groupdp.people.cap import CapStudy

_LEGEND = (
    "People: sampled instead of examples at equal compute, each person's average clipped to C_user; "
    "less noise than sampling examples where C_user / C_example is below the threshold."
)


def emit_study(study: CapStudy, question: dict[str, Any], *, as_json: bool) -> None:
    """The table and the advice in words, or both as JSON."""
    from groupdp.people.advice import advice

    if as_json:
        rows = []
        for row in study.rows:
            fields = {name: getattr(row, name) for name in row.__dataclass_fields__ if name != "epsilon"}
            rows.append({**fields, "epsilon": bounds_as_json(row.epsilon)})
        emit_json({"recommended": study.recommended, "advice": advice(study), "rows": rows, **question})
        return
    marks = "Marked <: recommended; x: keeps too few examples. " if study.recommended is not None else ""
    emit_table(
        f"Caps for epsilon = {study.target_epsilon!r} at delta = {study.delta!r} ({study.adjacency})",
        (
            "cap",
            "kept",
            "rate",
            "noise multiplier",
            "noise / batch",
            "people: noise multiplier",
            "noise / people",
            "threshold",
        ),
        [
            (
                f"{row.cap}{' <' if row.cap == study.recommended else ''}{'' if row.allowed else ' x'}",
                lower_percent(row.share_kept),
                round_down(Decimal(repr(row.sampling_rate)), 6),
                upper_text(row.noise_multiplier, 6),
                upper_text(row.noise_per_average, 4),
                upper_text(row.person_noise_multiplier, 6),
                upper_text(row.person_noise_per_average, 4),
                round_down(row.threshold, 4),
            )
            for row in study.rows
        ],
        note="\n".join([*advice(study), f"{marks}{_LEGEND}"]),
    )
