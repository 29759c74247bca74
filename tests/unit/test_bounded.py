import copy
import pickle

import numpy as np
import pytest

from fattail.privacy import Bounded, PrivacyError


def test_value_is_hidden():
    secret = Bounded([1234.5, 6.0], 0.1)
    assert "1234" not in repr(secret) and "1234" not in str(secret)
    with pytest.raises(PrivacyError):
        pickle.dumps(secret)
    with pytest.raises(PrivacyError):
        copy.deepcopy(secret)
    with pytest.raises(AttributeError):
        secret.sensitivity = 0.0
    with pytest.raises(TypeError):
        float(secret)


def test_arithmetic_carries_the_sensitivity():
    w, step = np.array([1.0, 2.0]), 0.5
    g = Bounded(np.array([3.0, -1.0]), 0.2, "l2")
    v = w - step * g
    assert v.sensitivity == pytest.approx(0.1)
    np.testing.assert_allclose(v.offset + v.unit * v._value, [-0.5, 2.5])
    assert (g / 4).sensitivity == pytest.approx(0.05)
    assert (w * 2 + g).sensitivity == pytest.approx(0.2)
    assert (-g)._value is not None and (-g).sensitivity == pytest.approx(0.2)


def test_exact_sums_stay_integers():
    g = 0.25 * Bounded(np.array([2**60 + 1], dtype=np.int64), 2.0) + 7.0
    assert g._value.dtype == np.int64 and g._value[0] == 2**60 + 1


@pytest.mark.parametrize(
    ("norm", "to", "factor"),
    [("linf", "l2", 3.0), ("linf", "l1", 9.0), ("l2", "l1", 3.0), ("l1", "l2", 1.0), ("l2", "linf", 1.0)],
)
def test_norms_convert_by_the_sharp_inequality(norm, to, factor):
    assert Bounded(np.zeros(9), 1.0, norm).to(to).sensitivity == pytest.approx(factor)


def test_public_index_keeps_coordinatewise_sensitivity():
    g = Bounded(np.arange(5.0), 1.0, "linf")[np.array([0, 3])]
    assert g.shape == (2,)
    assert g.to("l2").sensitivity == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_coordinate_can_be_chosen_once(norm):
    """Chosen twice it moved twice, with the noise of one."""
    b = Bounded([1.0, 2.0, 3.0], 1.0, norm)
    assert b[[2, 0]].shape == (2,) and b[np.array([True, False, True])].shape == (2,) and b[1:].shape == (2,)
    for repeated in (lambda: b[[0, 0]], lambda: Bounded([1.0], 1.0, norm, unit=np.ones(3))[:2]):
        with pytest.raises(PrivacyError, match="chosen twice"):
            repeated()
    assert Bounded([1.0, 2.0], 1.0, "linf")[[1, 1]].shape == (2,)


def test_magnitudes_count_rounding_against_a_large_offset():
    scores = (1e12 - Bounded(np.array([1e12, 0.0]), 1e-6, "linf")).magnitudes()
    assert scores.sensitivity >= 1e-6 + 1e12 * 2.0**-53


def test_two_unreleased_values_do_not_mix():
    with pytest.raises(PrivacyError):
        Bounded([1.0], 1.0) + Bounded([1.0], 1.0)


def test_non_finite_values_never_reach_the_output():
    np.testing.assert_array_equal(Bounded([np.nan, np.inf, -np.inf, 1.0], 1.0)._value, [0, 0, 0, 1])


@pytest.mark.parametrize("sensitivity", [np.nan, np.inf, -1.0, "1", None])
def test_meaningless_sensitivities_are_refused(sensitivity):
    with pytest.raises(ValueError, match="sensitivity"):
        Bounded([1.0], sensitivity)


def test_unknown_norm_is_refused():
    with pytest.raises(ValueError, match="norm"):
        Bounded([1.0], 1.0, "l3")


def test_the_largest_of_several_scores_keeps_the_sensitivity():
    scores = Bounded(np.array([1.0, -5.0, 2.0, 3.0, 4.0, -1.0]), 0.5, "linf")
    best = scores.magnitudes().largest(2)
    np.testing.assert_array_equal(best._value, [3.0, 5.0, 2.0])
    assert best.norm == "linf"
    assert scores.sensitivity <= best.sensitivity <= scores.sensitivity * (1 + 1e-9)
