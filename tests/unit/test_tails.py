"""Choice of clipping ends from noisy tail counts: public arithmetic, so plain expectations."""

import numpy as np
import pytest

from fattail.algorithms.parts import pilot_tails as tails
from fattail.algorithms.parts.scale import ABOVE, BELOW, _last_seen

ROWS, NOISE = 100_000.0, 20.0


def counts(survival):
    edges = np.append(np.exp2(np.arange(-BELOW, ABOVE + 1.0)), np.inf)
    return ROWS * -np.diff([survival(e) for e in edges])


def pareto(u, index=2.0, unit=0.05):
    return 0.5 * (1 + u / unit) ** -index


def nothing(u):
    return 0.5 * (u < 1e-4)


def fit(survival):
    return tails.PilotPosterior.of(counts(survival)[BELOW - 2 :], ROWS, NOISE, 1e-5, 1e-12).tail(0.0)


def test_excess_beyond_the_ends_is_predicted_to_within_a_factor():
    ends = tails.ENDS[tails.EDGES[0] <= tails.ENDS]
    near = ends <= 1
    predicted = []
    for index in (1.7, 2.0, 3.0):
        fitted = fit(lambda u, a=index: pareto(u, a))
        truth = 0.5 * 0.05 / (index - 1) * (1 + ends / 0.05) ** (1 - index)
        ratio = fitted.excess[near] / truth[near]
        assert np.all((ratio > 0.4) & (ratio < 1.6))
        assert np.all(np.abs(fitted.excess - truth)[near] < 2 * np.sqrt(fitted.variance[near]))
        predicted.append(fitted.excess)
    assert np.all(np.diff(predicted, axis=0) < 0)  # heavier tails, more excess


def test_an_empty_side_has_no_excess():
    assert fit(nothing).excess[0] * ROWS < 5


def test_one_sided_data_get_a_one_sided_interval_and_a_positive_correction():
    ends = tails.choose_pilot_ends(np.array([counts(pareto), counts(nothing)]), ROWS, NOISE, 1e-5, 10.0)
    assert ends.below < 0.6 < ends.above
    assert ends.bias > 0


def test_equal_tails_cancel():
    ends = tails.choose_pilot_ends(np.array([counts(pareto), counts(pareto)]), ROWS, NOISE, 1e-5, 10.0)
    assert ends.below == ends.above
    assert abs(ends.bias) < 1e-6


def test_equal_tails_are_cut_within_the_body():
    both = np.array([counts(pareto), counts(pareto)])
    alike, unlike = (tails.choose_pilot_ends(c, ROWS, NOISE, 1e-5, 10.0) for c in (both, both * [[1.0], [0.5]]))
    assert alike.above < tails.EDGES[0] < unlike.above


def test_a_conceivable_tail_costs_less_where_there_may_be_none(monkeypatch):
    faint = np.array([counts(lambda u: 0.02 * (1 + u / 0.3) ** -2.0), counts(nothing)])
    careful = tails.choose_pilot_ends(faint, ROWS, 4 * NOISE, 1e-4, 10.0)
    monkeypatch.setattr(tails, "_REGRET", 0.0)
    plain = tails.choose_pilot_ends(faint, ROWS, 4 * NOISE, 1e-4, 10.0)
    assert 0 < careful.bias < plain.bias
    assert careful.above < plain.above


def test_more_noise_means_a_shorter_interval():
    both = np.array([counts(pareto), counts(nothing)])
    lengths = [tails.choose_pilot_ends(both, ROWS, NOISE, noise, 10.0).above for noise in (1e-6, 1e-4, 1e-2)]
    assert lengths[0] > lengths[2]
    assert lengths == sorted(lengths, reverse=True)


def test_an_atom_far_out_is_kept_inside():
    above = counts(nothing)
    above[BELOW + 1] = 0.02 * ROWS
    ends = tails.choose_pilot_ends(np.array([above, counts(nothing)]), ROWS, NOISE, 1e-6, 10.0)
    assert ends.above >= 2.0


@pytest.mark.parametrize("unit", [-100, 0, 90])
def test_the_scale_follows_the_rows_and_leaves_few_beyond(unit):
    octaves = np.zeros((2, 321))
    octaves[0, 160 + unit - BELOW : 161 + unit + ABOVE] = counts(pareto)
    chosen = _last_seen(octaves + np.random.default_rng(0).laplace(0, NOISE / np.sqrt(2), octaves.shape), NOISE)
    assert 10 < octaves[:, chosen:].sum() < 2000
    assert octaves[:, chosen - 3 :].sum() > 200


def test_no_scale_where_nothing_is_seen_and_none_far_beyond_the_rows():
    octaves = np.zeros((2, 321))
    assert _last_seen(octaves, NOISE) == 0
    octaves[0, 300] = 16 * NOISE  # by chance, and 2 ** 140 if believed
    assert _last_seen(octaves, NOISE) == 0
    octaves[0, 300] = 0
    octaves[0, 100], octaves[1, 250] = 0.5 * ROWS, 16 * NOISE
    assert _last_seen(octaves, NOISE) == 101
    octaves[1, 250] = 0.1 * ROWS
    assert _last_seen(octaves, NOISE) == 251


def test_a_tail_that_ends_has_no_excess_beyond_it():
    endless = counts(lambda u: pareto(u, 1.4))
    ended = np.where(np.arange(len(endless)) < BELOW + 4, endless, 0.0)
    full, cut = (tails.PilotPosterior.of(c[BELOW - 2 :], ROWS, NOISE / 4, 1e-5, 1e-12).tail(0.0) for c in (endless, ended))
    far = np.flatnonzero(tails.ENDS[tails.EDGES[0] <= tails.ENDS] >= 32)[0]
    assert cut.excess[far] < 0.2 * full.excess[far]  # 0.3 without shapes that end


def test_symmetric_choice_is_symmetric():
    ends = tails.choose_pilot_ends(np.array([counts(pareto), counts(nothing)]), ROWS, NOISE, 1e-5, 10.0, symmetric=True)
    assert ends.below == ends.above


def test_sampling_error_of_a_deep_cut_includes_the_body():
    def survival(u):
        return 0.5 * np.where(u < 0.1, 1 - 0.9 * u / 0.1, 0.1 * np.maximum(u / 0.1, 1.0) ** -3.0)

    both = np.array([counts(survival), counts(survival)])
    ends = tails.choose_pilot_ends(both, ROWS, NOISE, 1e-6, 10.0)
    x = np.linspace(0, 50, 500_001)
    truth = 2 * np.sum(2 * x * np.array([survival(v) for v in x]) * (x < ends.above)) * (x[1] - x[0])
    assert ends.below == ends.above
    assert ends.sampling_variance * ROWS == pytest.approx(truth, rel=0.3)
