"""Claims, verdicts and the page say what the numbers say."""

import csv
from html.parser import HTMLParser

import numpy as np
import pytest

from reproduction import draw, report
from reproduction.claims import Beats, Moves, Near, Slope, Varies
from reproduction.results import Results, Series, expected_seconds
from reproduction.spec import Method, Panel
from reproduction.verdict import checks, verdict

X = (1.0, 2.0, 4.0)
PRINTED = Method("A as printed", "printed", max, "A", "a flaw")
OURS = Method("A calibrated", "calibrated", max, "A")
AUTO = Method("auto", "auto", max)
FREE = Method("free", "not private", max)


def results(claims=(), **curves):
    methods = {"printed": PRINTED, "ours": OURS, "auto": AUTO, "free": FREE}
    panel = Panel(
        "wang2020-fig1",
        "a <toy>",
        max,
        tuple(methods[k] for k in curves),
        {"n": 9},
        {"epsilon": X},
        "epsilon",
        "error",
        claims=claims,
    )
    scatter = np.array([0.9, 1.0, 1.1])
    series = tuple(Series(methods[k], None, X, np.outer(v, scatter)) for k, v in curves.items())
    return Results(panel, series, {}, 1.0)


HALVED = results(printed=[4.0, 2.0, 1.0], ours=[2.0, 1.0, 0.5], auto=[2.1, 1.0, 0.5], free=[0.5, 0.5, 0.5])


def test_verdict_states_the_ratios():
    text = verdict(HALVED)
    assert text.startswith("A calibrated has 2 times less error than its printed version, which is not private (a flaw); ")
    assert "auto agrees with the best calibrated method" in text
    assert "the best private error is 2 times that of the best method without privacy" in text


def test_verdict_changes_with_the_numbers():
    worse = results(printed=[1.0, 1.0, 1.0], ours=[3.0, 3.0, 3.0], auto=[9.0, 9.0, 9.0])
    assert "A calibrated has 3 times the error of its printed version" in verdict(worse)
    assert "auto has 3 times the error of the best calibrated method" in verdict(worse)
    assert verdict(results()) == "Nothing was run."


@pytest.mark.parametrize(
    ("claim", "passed"),
    [
        (Beats("A calibrated", "A as printed"), True),
        (Beats("A as printed", "A calibrated"), False),
        (Near("A calibrated", "free", 2.5), True),
        (Near("A calibrated", "free", 1.5), False),
        (Moves("A calibrated", "epsilon"), True),
        (Moves("A calibrated", "epsilon", rises=True), False),
        (Moves("free", "epsilon"), False),
        (Varies("A as printed", "free"), True),
        (Varies("free", "A as printed"), False),
        (Slope("A as printed", -1.0), True),
        (Slope("A as printed", -1.3), False),
        (Beats("A calibrated", "absent"), None),
        (Moves("absent", "epsilon"), None),
        (Slope("absent", 1.0), None),
    ],
)
def test_claims(claim, passed):
    assert claim.check(HALVED).passed is passed


def test_a_comparison_needs_three_quarters_of_the_points():
    mixed = results(printed=[1.0, 1.0, 1.0], ours=[0.5, 0.5, 1.5])
    assert Beats("A calibrated", "A as printed").check(mixed).passed is False


def test_claims_are_counted_in_the_verdict():
    claims = (Beats("A calibrated", "A as printed"), Beats("A as printed", "A calibrated"))
    both = results(claims, printed=[4.0, 2.0, 1.0], ours=[2.0, 1.0, 0.5])
    assert [c.passed for c in checks(both)] == [True, False]
    assert verdict(both).endswith("1 of 2 of the paper's claims hold.")


class Checker(HTMLParser):
    """Collects images and links; unbalanced tags raise."""

    void = ("meta", "link", "img", "br", "line")

    def __init__(self):
        super().__init__()
        self.stack, self.images, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.stack.append(tag)
        values = dict(attrs)
        if tag == "img":
            self.images.append(values["src"])
        if tag == "a":
            self.links.append(values["href"])

    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.stack.pop() == tag


def test_page_is_complete_and_stands_alone(tmp_path):
    claims = (Beats("A calibrated", "A as printed"), Beats("A as printed", "A calibrated"), Beats("A as printed", "absent"))
    shown = results(claims, printed=[4.0, 2.0, 1.0], ours=[2.0, 1.0, 0.5], auto=[1.0, 1.0, 1.0], free=[0.5, 0.5, 0.5])
    path = report.write(tmp_path, [shown], [(shown.panel, "no file")], ["toy: failed"], "a note")
    html = path.read_text()
    checker = Checker()
    checker.feed(html)
    assert checker.stack == []
    assert "a &lt;toy&gt;" in html
    assert "http" not in html, "nothing may be loaded from elsewhere"
    for link in checker.links:
        assert link.startswith("#") or (tmp_path / link).is_file()
    rows = (tmp_path / "csv" / "wang2020-fig1.csv").read_text().splitlines()
    assert len(rows) == 1 + 4 * 3 * 3
    assert rows[0] == "panel,method,family,private,epsilon,trial,error"
    assert rows[1].startswith("wang2020-fig1,A as printed,printed,False,1.0,0,3.6")
    with (tmp_path / "csv" / "claims.csv").open() as file:
        assert [(c["panel"], c["source"], c["holds"]) for c in csv.DictReader(file)][:3] == [
            ("wang2020-fig1", "paper", "True"),
            ("wang2020-fig1", "paper", "False"),
            ("wang2020-fig1", "paper", ""),
        ]


def test_what_is_not_private_is_never_solid():
    styles = draw.style(HALVED.panel)
    assert styles["A as printed"]["linestyle"] == "--"
    assert styles["free"]["linestyle"] == ":"
    assert styles["A calibrated"]["linestyle"] == styles["auto"]["linestyle"] == "-"


def test_pictures_are_the_same_every_time():
    assert draw.pictures(HALVED) == draw.pictures(HALVED)


def test_time_of_the_full_version_grows_with_rows_columns_and_trials():
    quick = results(auto=[1.0, 1.0, 1.0])
    full = quick.panel.resized({"n": 90}, trials=4 * quick.panel.trials)
    assert expected_seconds(full, quick) == pytest.approx(10 * 4 * quick.seconds)
