"""Draw the pictures of the documentation from the recorded figures; they are not kept in the repository.

    python benchmarks/pictures.py

The build of the documentation runs this too, and so do the benchmarks after they have written their figures.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
AUDIT = Path(__file__).parents[1] / "docs" / "audit.png"
FLOOR = 0.02  # bounds below it are drawn at it


def table(name: str) -> list[dict[str, str]]:
    with (RESULTS / name).open(newline="") as file:
        return list(csv.DictReader(file))


def axes(count: int, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt.subplots(1, count, figsize=size, **options)


def save(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure and close it: the gallery of the documentation would show every open figure as its own."""
    import matplotlib.pyplot as plt

    figure.savefig(path, **options)
    plt.close(figure)


def means_rate() -> None:
    """Error of two private means against the rate of tao2022 Theorem 1."""
    rows = [{k: r[k] if k == "method" else float(r[k]) for k in r} for r in table("means_rate.csv")]
    figure, panels = axes(3, (10, 3.2), sharex=True)
    for axis, v in zip(panels, (0.2, 0.5, 1.0), strict=True):
        for method, marker in (("truncated", "o"), ("auto", "s")):
            chosen = [r for r in rows if r["v"] == v and r["method"] == method]
            n, e = [r["n"] for r in chosen], [r["median error"] for r in chosen]
            axis.loglog(n, e, marker=marker, label=f"{method}, slope {chosen[0]['slope']:.2f}")
        first = next(r for r in rows if r["v"] == v and r["method"] == "truncated")
        guide = [first["median error"] * (k / n[0]) ** (-v / (1 + v)) for k in n]
        axis.loglog(n, guide, "k--", label=f"Theorem 1, slope {-v / (1 + v):.2f}")
        axis.set(title=f"v = {v}", xlabel="rows")
        axis.legend(fontsize=7)
    panels[0].set_ylabel("median absolute error")
    figure.tight_layout()
    save(figure, RESULTS / "means_rate.png", dpi=130)


def regression_rates() -> None:
    """Excess risk of the papers' methods by rows and by epsilon."""
    rows = [
        (r["method"], r["rows"], float(r["n"]), float(r["epsilon"]), float(r["excess"])) for r in table("regression_rates.csv")
    ]
    figure, panels = axes(2, (9, 4), sharey=True)
    for axis, column, fixed, label in ((panels[0], 2, (3, 1.0), "n"), (panels[1], 3, (2, 16_000), "epsilon")):
        for method, kind in dict.fromkeys((r[0], r[1]) for r in rows):
            points = sorted((r[column], r[4]) for r in rows if (r[0], r[1]) == (method, kind) and r[fixed[0]] == fixed[1])
            axis.loglog(*zip(*points, strict=True), marker="o", ls="-" if kind == "all rows" else ":", label=f"{method}, {kind}")
        x = np.array([p[0] for p in points], dtype=float)
        axis.loglog(x, 0.3 * x[0] / x, color="black", lw=1, ls="--", label="rate of the theorems")
        axis.set(xlabel=label, ylabel="excess risk")
        axis.set_xticks(x, [f"{v:,g}" for v in x])
        axis.xaxis.minorticks_off()
    panels[1].legend(fontsize=6)
    figure.tight_layout()
    save(figure, RESULTS / "regression_rates.png", dpi=120)


def audit() -> None:
    """Lower bounds of all attacks against the claims."""
    rows = table("audit.csv")
    figure, panels = axes(2, (10, 4.6), sharey=True)
    claims = sorted({float(r["epsilon"]) for r in rows})
    for axis, gaussian in zip(panels, (True, False), strict=True):
        kind = [r for r in rows if bool(r["lower_bound_gaussian"]) == gaussian]
        for marker, color, factor, refuted, label in (
            ("o", "tab:blue", "1.0", "False", "as shipped"),
            ("s", "tab:red", "1.0", "True", "as shipped, refuted"),
            ("x", "tab:orange", "0.5", "True", "half the noise, caught"),
            ("+", "tab:gray", "0.5", "False", "half the noise, not caught"),
        ):
            chosen = [r for r in kind if (r["noise_factor"], r["refuted"]) == (factor, refuted)]
            if not chosen:
                continue
            jitter = np.random.default_rng(0).uniform(0.88, 1.14, len(chosen))
            at = [float(r["epsilon"]) * j for r, j in zip(chosen, jitter, strict=True)]
            bounds = [max(float(r["lower_bound_gaussian"] or r["lower_bound"]), FLOOR) for r in chosen]
            axis.scatter(at, bounds, marker=marker, color=color, label=label, alpha=0.7)
        line = np.geomspace(0.3, 6.0)
        axis.plot(line, line, "k--", label="claim")
        axis.set(xscale="log", yscale="log", xlabel="nominal epsilon")
        axis.set_title("Gaussian releases: bound uses that" if gaussian else "others: bound for any mechanism", fontsize=10)
        axis.set_xticks(claims, [f"{e:g}" for e in claims])
        axis.minorticks_off()
        axis.legend(fontsize=8)
    panels[0].set_ylabel("lower bound on epsilon")
    panels[0].set_yticks([FLOOR, 0.1, 1.0, 10.0], [f"below {FLOOR:g}", "0.1", "1", "10"])
    figure.suptitle("Attacks on every method: lower bounds against the claim")
    save(figure, AUDIT, dpi=120, bbox_inches="tight")


def persons_rows() -> None:
    """Error of the mean of persons by the number of their rows, against what the spread between persons leaves."""
    rows = [{k: float(v) for k, v in r.items()} for r in table("persons_rows.csv")]
    figure, axis = axes(1, (5, 3.4))
    for name, style in (("ours", "o-"), ("not private", "s-"), ("effects themselves", "k--")):
        axis.loglog([r["rows"] for r in rows], [r[name] for r in rows], style, label=name)
    axis.set(xlabel="rows per person", ylabel="RMSE of the mean, 2,000 persons")
    axis.set_xticks([r["rows"] for r in rows], [f"{r['rows']:g}" for r in rows])
    axis.minorticks_off()
    axis.legend(fontsize=8)
    figure.tight_layout()
    save(figure, RESULTS / "persons_rows.png", dpi=120)


def main() -> None:
    means_rate()
    persons_rows()
    regression_rates()
    audit()


if __name__ == "__main__":
    main()
