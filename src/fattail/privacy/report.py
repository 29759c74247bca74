"""The privacy report: the claim, and what was spent."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from fattail._tools.escape import Html, for_terminal, tag
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
        What is protected, and which datasets are neighbors.
    person : str or None
        The column that identifies persons; empty for ids without a name, None where rows are protected.
    releases : tuple of ReleaseRecord
    numerics : str
        "exact" if sampling and sums are exact on the integers, "idealized" if the proof
        treats floating-point numbers as reals.
    seeded : bool
        True if the noise came from ``random_state``: reproducible, and *not private*.
    events : tuple of Event
        What an accountant needs to compose this fit with others.
    label : str
        Estimator and method.

    Examples
    --------
    >>> import fattail
    >>> report = fattail.mean(range(1000), epsilon=1.0, random_state=0).privacy
    >>> report.epsilon, report.unit, report.relation, report.seeded
    (1.0, 'row', 'replace-one', True)
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
    person: str | None = None

    @property
    def protected(self) -> str:
        """The unit, with the column that identifies it.

        Examples
        --------
        >>> PrivacyReport(1.0, 0.0, 1.0, unit="person", person="patient").protected
        "person of column 'patient'"
        """
        return f"{self.unit} of column {self.person!r}" if self.person else self.unit

    def then(self, later: PrivacyReport, claim: tuple[float, float]) -> PrivacyReport:
        """The combined report of this fit and a later one; ``claim`` is at least the sum of both. Shares are of epsilon."""
        total = self.epsilon + later.epsilon

        def scaled(report: PrivacyReport) -> tuple[ReleaseRecord, ...]:
            return tuple(replace(r, share=r.share * report.epsilon / total) for r in report.releases)

        return replace(
            later,
            epsilon=claim[0],
            delta=claim[1],
            epsilon_spent=min(self.epsilon_spent + later.epsilon_spent, claim[0]),
            releases=scaled(self) + scaled(later),
            events=self.events + later.events,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, ready for JSON."""
        plain = {
            k: getattr(self, k)
            for k in ("label", "epsilon", "delta", "epsilon_spent", "unit", "person", "relation", "numerics", "seeded")
        }
        return plain | {"releases": [asdict(r) for r in self.releases], "events": [e.to_dict() for e in self.events]}

    def __str__(self) -> str:
        lines = [
            f"({self.epsilon:g}, {self.delta:g})-differentially private, {self.relation} {self.protected}, "
            f"{self.numerics} numerics" + (", seeded: not private" if self.seeded else "")
        ]
        for r in self.releases:
            noise = "scale kept private" if r.noise is None else f"noise {r.noise:.4g} for sensitivity {r.sensitivity:.4g}"
            lines.append(f"  {r.name}: {r.mechanism} x {r.count}, {100 * r.share:.1f} % of the budget, {noise}")
        # A report may come from an untrusted model file.
        return "\n".join(map(for_terminal, lines))

    def _repr_html_(self) -> str:
        def cell(x: Any) -> Html:
            return tag("td", x if isinstance(x, str) else "private" if x is None else f"{x:.4g}")

        rows = (
            (r.name, r.mechanism, float(r.count), r.sensitivity, r.noise, f"{100 * r.share:.1f} %", r.numerics)
            for r in self.releases
        )
        heads = ("release", "mechanism", "times", "sensitivity", "noise", "share", "numerics")
        return tag(
            "div",
            tag(
                "p",
                f"(\u03b5 = {self.epsilon:g}, \u03b4 = {self.delta:g})-differentially private; "
                f"unit: {self.protected}, relation: {self.relation}, numerics: {self.numerics}",
            ),
            tag("p", tag("b", "Seeded noise: reproducible, not private.")) if self.seeded else None,
            tag(
                "table",
                tag("thead", tag("tr", *(tag("th", h) for h in heads))),
                tag("tbody", *(tag("tr", *map(cell, row)) for row in rows)),
            ),
        )
