"""Every statistic recorded and replayed on hostile neighbors; a fault planted in each, and caught."""

import importlib.util
import sys
from pathlib import Path
from unittest import mock

import pytest

from fattail.privacy import Bounded
from fattail.statistics.partition import NamedCounts, NamesAboveThreshold
from fattail.statistics.units import Contributions

PATH = Path(__file__).parents[2] / "benchmarks" / "audit_statistics.py"
spec = importlib.util.spec_from_file_location("audit_statistics", PATH)
cases = sys.modules["audit_statistics"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cases)

QUESTIONS = list(cases.questions())


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.name)
def test_a_replay_refutes_no_claim(question):
    name, ours, theirs = next(pair for pair in cases.pairs(question) if pair[0] == "moderate")
    finding = cases.audited(question, ours, theirs)
    assert finding.claim is not None and finding.violations == (), name


def halved(method):
    """The same value with half of its sensitivity."""

    def understated(self, *arguments, **named):
        b = method(self, *arguments, **named)
        return Bounded(b._value, b.raw_sensitivity / 2, b.norm, unit=b.unit)

    return understated


@pytest.mark.parametrize(
    ("statistic", "release"), [("count", "counts"), ("mean", "cells"), ("total", "cells"), ("difference", "cells")]
)
@pytest.mark.parametrize("person", [{}, {"person": "id"}])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_an_understated_sensitivity_is_caught(statistic, release, person, relation):
    options = {"by": "g", "groups": cases.GROUPS, **person, "missing": "drop", "relation": relation}
    question = cases.Question(statistic, options)
    with mock.patch.object(Contributions, release, halved(getattr(Contributions, release))):
        ratios = [cases.audited(question, ours, theirs).ratio for _, ours, theirs in cases.pairs(question)]
    assert max(ratios) > 1


NAMES = cases.Question("count", {"by": "g", "missing": "drop", "relation": "replace-one"})
VOTES = cases.Question("count", {"by": "g", "person": "id", "missing": "drop", "relation": "replace-one"})


def worst(question, wanted):
    return max(cases.audited(question, ours, theirs).ratio for name, ours, theirs in cases.pairs(question) if name == wanted)


def test_a_low_threshold_of_names_is_caught():
    assert worst(NAMES, "new group") <= 1
    honest = NamesAboveThreshold.threshold
    with mock.patch.object(NamesAboveThreshold, "threshold", lambda self, rho, moves: honest(self, rho, moves) / 2):
        assert worst(NAMES, "new group") > 1


def test_a_person_who_votes_for_many_groups_is_caught():
    def votes(self):
        names = [self._names[k] for k in sorted(set(self._codes.tolist()))]
        counts = [int((self._codes == k).sum()) for k in sorted(set(self._codes.tolist()))]
        return NamedCounts(names, cases.np.array(counts), float(self.moves))

    assert worst(VOTES, "one person in many groups") <= 1
    with mock.patch.object(Contributions, "votes", votes):
        assert worst(VOTES, "one person in many groups") > 1
