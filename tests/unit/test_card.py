"""The privacy card says what the report says, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fattail
from fattail.privacy import Bounded, Curator, Gaussian, TopK
from fattail.results.card import Card, Result


@pytest.fixture
def card() -> Card:
    curator = Curator(1.0, 1e-6, label="test")
    scale, total = TopK("scale", 0.25, k=1), Gaussian("total", 0.75)
    curator.plan(scale, total)
    curator.select(scale, Bounded([0.0, 1.0], 1.0, "linf"))
    curator.release(total, Bounded([10.0], 0.001))
    results = (Result("age", 1.5, 1.0, 2.0), Result("<b>&", -3.0, -math.inf, -2.0))
    account = {"name": "claims", "epsilon": 4.0, "delta": 1e-5, "spent": 1.0, "remaining": 3.0}
    return Card("A <title>", curator.report(), results, "mean", 0.9, {"rows": 1000}, account, ("A note.",))


class _Checker(HTMLParser):
    """Every opened tag is closed, in order, and nothing is fetched."""

    void = frozenset({"meta", "link", "br", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag != "script" and not {"src", "href"} & dict(attrs).keys()
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_is_whole_and_self_contained(card: Card) -> None:
    checker = _Checker()
    checker.feed(card.to_html())
    assert not checker.open and "url(" not in card.to_html()
    words = (
        "A <title>",
        "<b>&",
        "claims",
        "scale",
        "total",
        "25.0 %",
        "75.0 %",
        "replace-one",
        "exact",
        "A note.",
        "1,000",
        "90 % interval",
    )
    for word in words:
        assert word in checker.text


def test_claim_in_plain_words(card: Card) -> None:
    assert "2.72 times" in card.claim and "1e-06" in card.claim and "at most 73 % sure" in card.claim


def test_seeded_card_claims_nothing(card: Card) -> None:
    seeded = replace(card, report=replace(card.report, seeded=True))
    assert seeded.claim.startswith("Not private") and "alarm" in seeded.to_html()
    assert "times as likely" not in seeded.to_html() + seeded.to_json()


def test_json_round_trip(card: Card, tmp_path: Path) -> None:
    page, data = card.save(tmp_path / "card.html")
    content = json.loads(data.read_text())
    assert page.read_text() == card.to_html()
    assert content["privacy"] == json.loads(json.dumps(card.report.to_dict()))
    assert content["results"][0] == {"name": "age", "value": 1.5, "low": 1.0, "high": 2.0}
    assert content["results"][1]["low"] is None  # JSON has no infinity


def test_only_the_largest_coefficients_are_shown(card: Card) -> None:
    model = SimpleNamespace(coef_=np.arange(100.0), intercept_=0.5, method="auto", privacy_=card.report)
    page = Card.of(model, names=[f"column {j}" for j in range(100)])
    assert len(page.results) == 100  # 99 that are not zero, and the intercept
    assert "column 99" in page.to_html() and "column 2<" not in page.to_html()


def test_columns_are_named_as_in_the_frame_unless_names_are_given() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(2000, 2)), columns=["age", "income"])
    model = fattail.DPLinearRegression(random_state=0).fit(X, X["age"] + rng.normal(size=2000))
    assert [r.name for r in Card.of(model).results] == ["age", "income", "intercept"]
    assert [r.name for r in Card.of(fattail.DPMean(random_state=0).fit(X)).results] == ["age", "income"]
    assert [r.name for r in Card.of(model, names=["a", "b"]).results] == ["a", "b", "intercept"]
    with pytest.raises(ValueError, match="names must name each of the 2 columns"):
        Card.of(model, names=["a"])


def test_intervals_belong_to_their_numbers(card: Card) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(5, 1, 3000), rng.normal(500, 1, 3000)])
    mean = fattail.DPMean(random_state=0).fit(X)
    results = Card.of(mean).results
    # One of five intervals is wide on one side, for rows that may be there; none reaches from one column to the other.
    assert all(r.low < r.value < r.high for r in results)
    assert [(r.low, r.high) for r in results] == [tuple(ends) for ends in mean.interval_]
    assert results[0].low > 4 and results[1].high > 499 and abs(results[0].value - 5) < 1 and abs(results[1].value - 500) < 1
    linear = fattail.DPLinearRegression(random_state=0).fit(X - [5, 500], X @ [5.0, 500.0])
    assert len(linear.coef_) == 2
    for r, end in zip(Card.of(linear).results, linear.interval_, strict=False):
        assert r.low < r.value < r.high and (r.low, r.high) == tuple(end)


def test_release_in_a_notebook() -> None:
    release = fattail.mean(np.column_stack([np.arange(2000.0), np.arange(2000.0) % 3]), random_state=0)
    checker = _Checker()
    checker.feed(release._repr_html_())
    assert not checker.open and f"{release.value[0]:.6g}" in checker.text and "not private" in checker.text


def test_pictures_stay_inside_their_cell(card: Card) -> None:
    places = [float(v) for v in re.findall(r"(?:left|width):(-?[\d.]+)%", card.to_html())]
    assert places and all(0 <= p <= 100 for p in places)


def test_card_of_a_release() -> None:
    release = fattail.count({"region": ["a"] * 300 + ["b"] * 200}, by="region", groups=["a", "b"])
    assert [r.name for r in Card.of(release).results] == ["a", "b"]
