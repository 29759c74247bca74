"""A tour in one page: private answers about heavy-tailed data, with no bounds given.

Run with ``make demo`` or ``python examples/demo.py``. Writes ``demo-page/index.html``, one
self-contained page, and prints its path. On the data in the folder that ``FATTAIL_DATA``
names, if any, and on made-up data of the same kind otherwise.

Errors are measured over repetitions with seeded noise, which is not private, on made-up data,
where the truth is known. The releases from real files use secure noise.
"""

from __future__ import annotations

import html
import io
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import numpy as np
from matplotlib import pyplot as plt
from sklearn.linear_model import LinearRegression, OrthogonalMatchingPursuit

import fattail
import made_up
from _data import find
from fattail.cli.files import read
from fattail.privacy import gaussian_multiplier
from fattail.results import plots
from fattail.results.card import Card

EPSILON, DELTA = 1.0, 1e-6
FOLDER = Path("demo-page")
PRIVATE, NAIVE, PLAIN = plots.COLORS[0], plots.COLORS[1], plots.COLORS[5]


@dataclass
class Section:
    """A heading, what was run, what came out, and what it means."""

    title: str
    code: str = ""
    table: list[tuple[str, ...]] = field(default_factory=list)
    picture: str = ""
    text: list[str] = field(default_factory=list)


# -- what people do today: guess a bound, clip, add noise ---------------------------------------


def clipped_mean(x: Any, bound: float, rng: Any) -> float:
    """The textbook private mean of numbers known to be positive, given a guess of their largest value."""
    return float(np.clip(x, 0, bound).mean() + rng.laplace(scale=bound / (len(x) * EPSILON)))


def clipped_regression(X: Any, y: Any, bounds: Any, y_bound: float, rng: Any) -> Any:
    """Least squares from noisy second moments, given a guess for every column."""
    Z = np.column_stack([np.ones(len(y)), np.clip(X / bounds, -1, 1), np.clip(y / y_bound, -1, 1)])
    sensitivity = np.sqrt(2) * Z.shape[1]  # ||zz'||_F <= d, and zz' - ww' is at most sqrt 2 of that
    noise = rng.standard_normal((Z.shape[1],) * 2) * sensitivity * gaussian_multiplier(EPSILON, DELTA)
    moments = Z.T @ Z + (noise + noise.T) / np.sqrt(2)
    gram, values = moments[:-1, :-1], moments[:-1, -1]
    lift = max(1e-3 * len(y) - np.linalg.eigvalsh(gram)[0], 0.0)  # noise may have made it indefinite
    coef = np.linalg.solve(gram + lift * np.eye(len(gram)), values)
    return coef[1:] * y_bound / bounds


def clipped_selection(X: Any, y: Any, sparsity: int, bound: float, y_bound: float, rng: Any) -> Any:
    """Noisy correlations with clipped columns; the largest are kept."""
    Z, t = np.clip(X, -bound, bound), np.clip(y, -y_bound, y_bound)
    noise = 2 * np.sqrt(X.shape[1]) * bound * y_bound * gaussian_multiplier(EPSILON, DELTA)
    scores = Z.T @ t + noise * rng.standard_normal(X.shape[1])
    coef = np.zeros(X.shape[1])
    best = np.argsort(-np.abs(scores))[:sparsity]
    coef[best] = scores[best] / (len(y) * np.mean(Z**2))
    return coef


def huber(X: Any, y: Any, threshold: float) -> Any:
    """The same loss without privacy, by reweighted least squares."""
    Z, weights = np.column_stack([X, np.ones(len(y))]), np.ones(len(y))
    for _ in range(100):
        w = np.linalg.lstsq(Z * np.sqrt(weights)[:, None], y * np.sqrt(weights), rcond=None)[0]
        weights = np.minimum(1.0, threshold / np.maximum(np.abs(y - Z @ w), 1e-9))
    return w[:-1]


# -- the tour -----------------------------------------------------------------------------------


def means(repetitions: int = 20) -> Section:
    """A mean that nobody can bound."""
    rng = np.random.default_rng(1)
    n, tail = 20_000, 1.8
    truth = 1000 / (tail - 1)
    bounds = 10.0 ** np.linspace(2, 8, 25)
    ours, plain, naive = [], [], []
    for seed in range(repetitions):
        x = 1000 * rng.pareto(tail, n)
        ours.append(fattail.mean(x, epsilon=EPSILON, delta=DELTA, random_state=seed).value)
        plain.append(x.mean())
        naive += [[clipped_mean(x, b, rng) for b in bounds] for _ in range(5)]
    error = {k: np.abs(np.ravel(v) / truth - 1) for k, v in {"ours": ours, "plain": plain}.items()}
    curve = np.median(np.abs(np.array(naive) / truth - 1), axis=0)
    figure, ax = _figure()
    ax.plot(bounds, curve, "o-", color=NAIVE, markersize=3, label="guess a bound, clip, add noise")
    ax.axhline(np.median(error["ours"]), color=PRIVATE, linewidth=2.5, label="fattail, no bound given")
    ax.axhline(np.median(error["plain"]), color=PLAIN, linestyle="--", label="not private")
    ax.set(xscale="log", yscale="log", xlabel="the guess: largest claim, in dollars", ylabel="median relative error")
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize="small")
    off = {f: curve[np.argmin(np.abs(np.log(bounds / (bounds[curve.argmin()] * f))))] for f in (0.01, 100)}
    return Section(
        "A mean without a bound",
        "fattail.mean(claims, epsilon=1.0, delta=1e-6)    # infinite variance",
        [
            ("", "median relative error"),
            ("not private: the sample mean", _percent(np.median(error["plain"]))),
            ("fattail, no bound given", _percent(np.median(error["ours"]))),
            ("clipped at the best of 25 guesses (needs the answer)", _percent(curve.min())),
            ("clipped at a guess 100 times too small", _percent(off[0.01])),
            ("clipped at a guess 100 times too large", _percent(off[100])),
        ],
        _svg(figure),
        [
            f"Claims with a Pareto tail of index {tail}: their variance is infinite, so the sample mean itself "
            "varies strongly. A guessed bound has to be right within a small factor, and looking at the data to "
            "guess it would leak. The blue line needs no guess."
        ],
    )


def regression(repetitions: int = 8) -> Section:
    """Columns in dollars, years and fractions, noise with infinite variance."""
    rng = np.random.default_rng(2)
    n = 20_000
    beta = np.array([0.8, 900.0, -20_000.0])
    units = np.array([30_000.0, 10.0, 0.2])
    factors = 10.0 ** np.linspace(-1.5, 2.5, 17)
    ours, plain, naive, last = [], [], [], None
    for seed in range(repetitions):
        X = np.column_stack([np.exp(rng.normal(10, 0.8, n)), rng.gamma(4, 10, n), rng.beta(2, 5, n)])
        y = X @ beta + 8000 * rng.standard_t(1.8, n)
        model = fattail.DPLinearRegression(epsilon=EPSILON, delta=DELTA, random_state=seed).fit(X, y)
        ours.append(_relative(model.coef_, beta, units))
        plain.append(_relative(LinearRegression().fit(X, y).coef_, beta, units))
        guesses = [clipped_regression(X, y, f * np.array([1e5, 80, 1.0]), f * 1e5, rng) for f in factors]
        naive.append([_relative(g, beta, units) for g in guesses])
        last = model
    curve = np.median(naive, axis=0)
    figure, ax = _figure()
    ax.plot(factors, curve, "o-", color=NAIVE, markersize=3, label="guess a bound per column, clip, add noise")
    ax.axhline(np.median(ours), color=PRIVATE, linewidth=2.5, label="fattail, no bound given")
    ax.axhline(np.median(plain), color=PLAIN, linestyle="--", label="not private: least squares")
    ax.set(xscale="log", yscale="log", xlabel="guesses of all bounds, times this factor", ylabel="median relative error")
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize="small")
    assert last is not None
    names = ["income, dollars", "age, years", "share, fraction"]
    return Section(
        "A regression on raw columns",
        "DPLinearRegression(epsilon=1.0, delta=1e-6).fit(X, y)",
        [
            ("coefficient", "truth", "fattail (one private fit)"),
            *[(name, _plain(b), _plain(c)) for name, b, c in zip(names, beta, np.ravel(last.coef_), strict=True)],
            ("median relative error, fattail", "", _percent(np.median(ours))),
            ("median relative error, least squares, not private", "", _percent(np.median(plain))),
            ("median relative error, clipped at the best guess", "", _percent(curve.min())),
        ],
        _svg(figure),
        [
            "Dollars, years and fractions go in as they are. The noise in y has infinite variance, so even "
            "least squares without privacy is moved by single rows. Bounding the influence of a row helps accuracy and privacy."
        ],
    )


def sparse(repetitions: int = 3) -> Section:
    """A thousand columns, five of them matter."""
    rng = np.random.default_rng(3)
    n, d, s = 4000, 1000, 5
    beta = np.zeros(d)
    beta[rng.choice(d, s, replace=False)] = [1.0, -1.0, 1.0, -1.0, 1.0]
    rows: dict[str, list[tuple[float, int]]] = {}
    for seed in range(repetitions):
        X = rng.standard_normal((n, d))
        y = X @ beta + rng.standard_t(1.8, n)
        found = {
            "not private: matching pursuit on 5 columns": OrthogonalMatchingPursuit(n_nonzero_coefs=s).fit(X, y).coef_,
            "fattail, 5 columns": fattail.DPSparseRegressor(epsilon=EPSILON, delta=DELTA, sparsity=s, random_state=seed)
            .fit(X, y)
            .coef_,
            "clipped, noisy correlations, 5 columns": clipped_selection(X, y, s, 2.5, 6.0, rng),
        }
        for name, coef in found.items():
            hits = int(np.sum((np.ravel(coef) != 0) & (beta != 0)))
            rows.setdefault(name, []).append((float(np.linalg.norm(coef - beta) / np.linalg.norm(beta)), hits))
    figure, ax = _figure(height=2.6)
    names = list(rows)
    values = [np.median([e for e, _ in rows[k]]) for k in names]
    ax.barh(names[::-1], values[::-1], color=[NAIVE, PRIVATE, PLAIN], height=0.55)
    ax.set(xlabel="median relative error (1: no better than zeros)")
    return Section(
        "Few columns out of many",
        "DPSparseRegressor(epsilon=1.0, delta=1e-6, sparsity=5).fit(X, y)    # 4,000 rows, 1,000 columns",
        [
            ("", "median relative error", "right columns, of 5"),
            *[(k, f"{np.median([e for e, _ in v]):.2f}", f"{np.median([h for _, h in v]):g}") for k, v in rows.items()],
        ],
        _svg(figure),
        ["Noise on a thousand numbers would hide five, so the columns are chosen privately first and only those are released."],
    )


def price(repetitions: int = 30) -> Section:
    """Accuracy by epsilon."""
    epsilons = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
    samples = [np.random.default_rng(100 + k).lognormal(10, 1, 5000) for k in range(repetitions)]
    errors = [
        [abs(fattail.mean(x, epsilon=e, delta=DELTA, random_state=k).value / x.mean() - 1) for k, x in enumerate(samples)]
        for e in epsilons
    ]
    figure, ax = _figure()
    plots.price_of_privacy(
        epsilons,
        {"added by privacy (fattail.mean, no bound given)": np.array(errors).reshape(len(epsilons), -1)},
        baseline=float(np.median([abs(x.mean() / np.exp(10.5) - 1) for x in samples])),
        baseline_label="error of the sample mean itself",
        ylabel="relative error",
        ax=ax,
    )
    return Section(
        "What privacy costs",
        picture=_svg(figure),
        text=[
            "Means of 5,000 log-normal incomes: how far the private answer is from the one without privacy. A smaller "
            "epsilon protects more and costs accuracy; more rows make it cheaper. The band is the middle half of the repetitions."
        ],
    )


def real_mean() -> Section:
    """Fire losses, with a ledger and a card."""
    path = find("danish_fire.csv.gz")
    names = list(made_up.LOSSES)
    losses = made_up.fire_losses(np.random.default_rng(0)) if path is None else read(path, names)
    known, truth = ("not private", losses.mean(0)) if path else ("true", made_up.true_losses())
    budget = fattail.Budget(epsilon=2.0, delta=1e-5)
    with budget:
        model = fattail.DPMean(epsilon=EPSILON, delta=DELTA).fit(losses)
    card = Card.of(model, names=names, title="Fire losses", facts={"rows": len(losses)}, account=budget)
    rows = [
        (r.name, f"{m:.3f}", f"{r.value:.3f}", f"{r.low:.3f} to {r.high:.3f}") for r, m in zip(card.results, truth, strict=True)
    ]
    return Section(
        "Real data: fire insurance losses" if path else "Fire insurance losses, made up",
        "model = DPMean(epsilon=1.0, delta=1e-6).fit(losses)    # in millions\nCard.of(model)",
        [("mean loss", known, "private", "interval"), *rows],
        f"<details><summary>The privacy card of this fit</summary>{card._repr_html_()}</details>",
        [
            "2,167 Danish fire losses, 1980 to 1990, in million kroner."
            if path
            else "2,167 losses drawn from a law like that of real fires (Pareto, index 1.8, many zeros; examples/made_up.py), so "
            "the true means are known.",
            "The private numbers come with a card that can be filed or published.",
        ],
    )


def real_regression() -> Section:
    """Household wealth on age, income and a pension plan."""
    path, names = find("pension401k.csv.gz"), list(made_up.HOUSEHOLD)
    if path is None:
        X, y = made_up.households(np.random.default_rng(0))
    else:
        table = read(path, [*names, "net_tfa"])
        X, y = table[:, :-1], table[:, -1]
    model = fattail.DPHuberRegressor(threshold=10_000, epsilon=EPSILON, delta=DELTA).fit(X, y)
    scale = X.std(0)
    plain, ours = (huber(X, y, 10_000) if path else made_up.EFFECTS) * scale, np.ravel(model.coef_) * scale
    figure, ax = _figure(height=3.2)
    at = np.arange(len(names))
    ax.barh(at - 0.19, plain, 0.36, color=PLAIN, label="not private" if path else "true")
    ax.barh(at + 0.19, ours, 0.36, color=PRIVATE, label="fattail, epsilon 1")
    ax.set_yticks(at, made_up.HOUSEHOLD_WORDS)
    ax.invert_yaxis()
    ax.set(xlabel="dollars of net assets per standard deviation of the column")
    ax.legend(frameon=False)
    source = "of 9,915 households" if path else "of 9,915 made-up households (their law is in examples/made_up.py)"
    return Section(
        "Real data: household wealth" if path else "Household wealth, made up",
        "DPHuberRegressor(threshold=10_000, epsilon=1.0, delta=1e-6).fit(X, y)",
        [],
        _svg(figure),
        [
            f"Net financial assets {source} on age, income, family and pension columns, raw. The response has both signs and a "
            "tail index of about 1.8. Errors above 10,000 dollars count linearly. Columns are scaled for the picture only."
        ],
    )


SECTIONS = (means, regression, sparse, price, real_mean, real_regression)


def main(folder: Path = FOLDER) -> Path:
    start = time.perf_counter()
    sections = list(_run(SECTIONS))
    folder.mkdir(exist_ok=True)
    page = folder / "index.html"
    page.write_text(_page(sections, time.perf_counter() - start), encoding="utf-8")
    print(f"wrote {page.resolve()} in {time.perf_counter() - start:.0f} s")
    return page


def _run(steps: tuple[Callable[[], Section], ...]) -> Iterator[Section]:
    for step in steps:
        print(f"{step.__doc__:<60}", end="", flush=True)
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                section = step()
        except (ImportError, AttributeError) as error:
            print(f"not in this version ({error})")
            yield Section(str(step.__doc__), text=[f"Not in this version of fattail: {error}."])
            continue
        print(f"{time.perf_counter() - start:5.1f} s")
        for row in section.table:
            print("   ", "   ".join(f"{cell:<28}" if k else f"{cell:<52}" for k, cell in enumerate(row)))
        yield section


def _relative(coef: Any, truth: Any, units: Any) -> float:
    """Error in units in which every column matters alike."""
    return float(np.linalg.norm((np.ravel(coef) - truth) * units) / np.linalg.norm(truth * units))


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


def _percent(value: float) -> str:
    return f"{100 * value:.3g} %" if value < 10 else f"{100 * value:.1e} %"


def _figure(height: float = 3.4) -> tuple[Any, Any]:
    figure, ax = plt.subplots(figsize=(6.4, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def _svg(figure: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True)
    plt.close(figure)
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]


def _page(sections: list[Section], seconds: float) -> str:
    body = "".join(_section(s) for s in sections)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>fattail: a tour</title><link rel="icon" href="data:,"><style>{_CSS}</style></head><body>
<header><h1>fattail</h1><p>Private answers about data that nobody can bound. Every private fit below is
calibrated to epsilon = {EPSILON:g}, delta = {DELTA:g} unless it says otherwise, and was given no bound, scale or range for any
column.</p></header>
{body}
<footer>fattail {fattail.__version__}, {seconds:.0f} seconds. Errors are medians over repetitions on made-up data with
seeded noise; the clipped answers are idealized, with plain floating-point noise. Real files are read where they are and
stay there; where they are absent, made-up tables of the same kind with known answers take their place.</footer></body></html>
"""


def _section(section: Section) -> str:
    head, *rows = section.table or [()]
    table = "".join(f"<tr><th>{html.escape(r[0])}</th>{''.join(f'<td>{html.escape(c)}</td>' for c in r[1:])}</tr>" for r in rows)
    heads = "".join(f"<th>{html.escape(c)}</th>" for c in head)
    return (
        f"<section><h2>{html.escape(section.title)}</h2>"
        + "".join(f"<p>{html.escape(t)}</p>" for t in section.text)
        + (f"<pre>{html.escape(section.code)}</pre>" if section.code else "")
        + (f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{table}</tbody></table></div>' if rows else "")
        + (
            f"<figure{' class=plain' if '<details' in section.picture else ''}>{section.picture}</figure>"
            if section.picture
            else ""
        )
        + "</section>"
    )


_CSS = """
:root{color-scheme:light dark;--ink:#1d2733;--soft:#5b6775;--line:#d9dfe6;--fill:#f4f6f9;--mark:#0b6e99;--paper:#fff}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaef;--soft:#a3adb8;--line:#3a444f;--fill:#222a33;
 --mark:#5fb8e0;--paper:#171c22}}
body{font:17px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--paper);
 max-width:46rem;margin:0 auto;padding:1rem 1.2rem 3rem}
h1{font-size:2.2rem;margin:.5rem 0 0}h2{font-size:1.35rem;margin:3rem 0 .4rem}
header p{font-size:1.1rem;color:var(--soft);margin:.3rem 0}
pre{background:var(--fill);border-radius:6px;padding:.7rem 1rem;overflow-x:auto;font-size:.85rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.95rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:.35rem .5rem;border-bottom:1px solid var(--line)}th:first-child{text-align:left;font-weight:500}
thead th{color:var(--soft);font-weight:400;font-size:.85rem}
figure{margin:1.2rem 0;background:#fff;border-radius:6px;padding:.6rem}figure svg{width:100%;height:auto;display:block}
figure.plain{background:none;padding:0}details{border:1px solid var(--line);border-radius:6px;padding:.6rem 1rem}
summary{cursor:pointer;color:var(--mark)}
footer{color:var(--soft);font-size:.85rem;margin-top:3rem;border-top:1px solid var(--line);
 padding-top:1rem}
"""


if __name__ == "__main__":
    main()
