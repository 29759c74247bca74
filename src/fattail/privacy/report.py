"""What was promised and what was spent, in a form to read and to file."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any

from fattail.privacy.events import Event


@dataclass(frozen=True)
class ReleaseRecord:
    """One planned mechanism as it was carried out.

    ``sensitivity`` and ``noise`` are in the units of the released quantity at its last
    release; ``noise`` is None where the scale itself depends on the data.
    """

    name: str
    mechanism: str
    count: int
    sensitivity: float | None
    noise: float | None
    share: float
    numerics: str


@dataclass(frozen=True)
class PrivacyReport:
    """The privacy claim of a fit. Everything in it is public.

    Attributes
    ----------
    epsilon, delta : float
        The claim.
    epsilon_spent : float
        Proved cost of the releases at ``delta``; never above ``epsilon``.
    unit, relation : str
        What is protected, and which datasets are neighbours.
    releases : tuple of ReleaseRecord
    numerics : str
        "exact" if sampling and sums are exact on the integers, "idealized" if the proof
        treats floating-point numbers as reals.
    seeded : bool
        True if the noise came from ``random_state``: reproducible, and *not private*.
    events : tuple of Event
        What an accountant needs to compose this fit with others.
    """

    epsilon: float
    delta: float
    epsilon_spent: float
    unit: str = "row"
    relation: str = "replace-one"
    releases: tuple[ReleaseRecord, ...] = ()
    numerics: str = "exact"
    seeded: bool = False
    events: tuple[Event, ...] = ()
    label: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, ready for JSON."""
        plain = {
            k: getattr(self, k) for k in ("label", "epsilon", "delta", "epsilon_spent", "unit", "relation", "numerics", "seeded")
        }
        return plain | {"releases": [asdict(r) for r in self.releases], "events": [e.to_dict() for e in self.events]}

    def __str__(self) -> str:
        lines = [
            f"({self.epsilon:g}, {self.delta:g})-differentially private, {self.relation} {self.unit}, "
            f"{self.numerics} numerics" + (", seeded: not private" if self.seeded else "")
        ]
        for r in self.releases:
            noise = "scale kept private" if r.noise is None else f"noise {r.noise:.4g} for sensitivity {r.sensitivity:.4g}"
            lines.append(f"  {r.name}: {r.mechanism} x {r.count}, {100 * r.share:.1f} % of the budget, {noise}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        def cell(x: Any) -> str:
            return f"<td>{html.escape(x if isinstance(x, str) else 'private' if x is None else f'{x:.4g}')}</td>"

        rows = "".join(
            "<tr>"
            + "".join(
                cell(x)
                for x in (r.name, r.mechanism, float(r.count), r.sensitivity, r.noise, f"{100 * r.share:.1f} %", r.numerics)
            )
            + "</tr>"
            for r in self.releases
        )
        warning = "<p><b>Seeded noise: reproducible, not private.</b></p>" if self.seeded else ""
        head = "".join(f"<th>{h}</th>" for h in ("release", "mechanism", "times", "sensitivity", "noise", "share", "numerics"))
        return (
            f"<div><p>(&epsilon; = {self.epsilon:g}, &delta; = {self.delta:g})-differentially private; "
            f"unit: {html.escape(self.unit)}, relation: {html.escape(self.relation)}, numerics: {self.numerics}</p>"
            f"{warning}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )
