"""The base class of all estimators: validation as in scikit-learn, a curator, a report."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fattail._tools.threads import thread_count
from fattail._tools.warnings import scored_by_scikit_learn, warn_leak, warn_utility
from fattail.estimators.parameters import check_type
from fattail.privacy import Curator, PrivacyReport, Subject, check_budget
from fattail.privacy.advance import Advance, pay
from fattail.privacy.counting import count_claims, counted
from fattail.privacy.noise import noise_source
from fattail.rows.beside import side_by_side, take_target
from fattail.rows.classes import Labels
from fattail.rows.data import PrivateData
from fattail.rows.door import array_of, is_plain, rows_of, target_of, vector_of
from fattail.rows.frames import Columns, is_column, is_frame, library
from fattail.rows.missing import HOW, missing_in_words, without_missing
from fattail.rows.persons import Ids
from fattail.rows.sources import is_stream

RELATIONS = ("replace-one", "add-remove")
# Octaves of positive and negative doubles. An answer has to find the one that the data lie in.
SIGNED_OCTAVES = 2 * (sys.float_info.max_exp - sys.float_info.min_exp + 1)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Common parameters and steps.

    Parameters are fields of a dataclass, so that a subclass lists only those it adds: scikit-learn
    reads them all from the signature of the constructor that this makes.

    A ``fit`` has these steps: ``_check_parameters`` (before data are read), ``_private_data``, ``_admit`` (makes a curator,
    releases the number of rows where it is private, and calls ``_announce``, which gives warnings from public numbers before
    the charge), an algorithm, then public attributes and ``privacy_``. It first removes the attributes of an earlier fit, which
    another budget paid for.
    """

    # The default delta is 1 / (10 n) for 100,000 rows, the most that docs/choosing-epsilon.md advises. `_announce` warns of more
    # than 1 / n.
    epsilon: float = 1.0
    delta: float = 1e-6
    method: str = "auto"
    random_state: int | None = None
    ledger: Any = None
    relation: str = "replace-one"
    missing: str = "error"

    privacy_: PrivacyReport = field(init=False)

    _methods: ClassVar[tuple[str, ...]] = ()
    # Methods that need all rows in memory, so that a stream is refused.
    _at_once: ClassVar[tuple[str, ...]] = ()
    # Parameters that only some methods use, and those methods.
    _used_by: ClassVar[dict[str, tuple[str, ...]]] = {}
    # Methods that need the exact number of rows, so that it must be public.
    _need_n: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "fit" in vars(cls):
            cls.fit = _forgetting_earlier_fits(vars(cls)["fit"])

    def _forget(self) -> None:
        """Remove fitted attributes: names that end in an underscore, as in scikit-learn."""
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            delattr(self, name)

    def _announce(self, data: PrivateData) -> None:
        """Warn of a weak guarantee or a noisy answer, from public numbers, before anything is charged."""
        if self.epsilon > 10:
            odds = f"exp({self.epsilon:g})" if self.epsilon > 700 else f"{math.exp(self.epsilon):.2g}"
            warn_leak(
                f"epsilon={self.epsilon:g} is a weak guarantee: the odds of any conclusion about a person may change by a "
                f"factor of {odds}"
            )
        if self.delta * data.n > 1:
            warn_leak(
                f"delta={self.delta:g} is more than 1 / n for {data.n} {data.unit}s: publishing a random {data.unit} would "
                "satisfy such a claim; choose it far below 1 / n"
            )

        # By group privacy, all rows together change the odds of an answer by a factor of at most exp(n epsilon).
        if data.n * self.epsilon < math.log(SIGNED_OCTAVES):
            warn_utility(
                f"the answer will be noise: {data.n:,} {data.unit}s at epsilon={self.epsilon:g} are too few to find even the "
                "order of magnitude of the data"
            )

    def _warn_of_noise(self, data: PrivateData, noise: float, most: float, power: float = 1.0) -> None:
        """Warn that the answer will be mostly noise if ``noise`` exceeds ``most``.

        The noise falls with the number of rows to the power ``-1 / power``. Both are public arithmetic. ``most`` is the level
        at which the error of a fit was about as large as what it estimates.
        """
        if noise > most:
            rows = math.ceil((3 * noise / most) ** power * data.n)
            warn_utility(
                f"{data.n:,} {data.unit}s are few for {data.d:,} columns at epsilon={self.epsilon:g} and "
                f"method={self.method!r}: noise will be about as large as the signal; about {rows:,} {data.unit}s are needed"
            )

    def _warn_of_scores(self, asked: bool = True) -> None:
        """Warn that a score is outside the guarantee; with ``asked=False``, only if scikit-learn computes one from
        predictions."""
        if asked or scored_by_scikit_learn():
            warn_leak(
                f"a score of {type(self).__name__} is computed from the rows it is given, without noise: on private rows it is "
                "outside the guarantee"
            )

    def _check_parameters(self) -> None:
        check_budget(self.epsilon, self.delta)
        noise_source(self.random_state)
        thread_count()  # an invalid environment variable must raise before the charge
        defaults = type(self)().get_params(deep=False)
        for name, value in self.get_params(deep=False).items():
            check_type(name, value, defaults[name])
        if self.method not in self._methods:
            raise ValueError(f"method must be one of {', '.join(self._methods)}; got {self.method!r}")
        if self.relation not in RELATIONS:
            raise ValueError(f"relation must be one of {', '.join(RELATIONS)}; got {self.relation!r}")
        if self.missing not in (*HOW, "raise"):  # the former name of "error"
            raise ValueError(f"missing must be one of {', '.join(HOW)}; got {self.missing!r}")
        if self._n_is_private() and self.method in self._need_n:
            others = ", ".join(m for m in self._methods if m not in self._need_n)
            raise ValueError(
                f"method={self.method!r} needs the exact number of rows, which relation={self.relation!r} with "
                f"missing={self.missing!r} keeps private; these methods do not need it: {others}"
            )

    def _check_used(self) -> None:
        """Refuse a parameter that the method does not use."""
        for name, methods in self._used_by.items():
            if self.method not in methods and not self._is_default(name):
                raise ValueError(f"{name} is not used by method={self.method!r}; it is for {', '.join(methods)}")

    def _is_default(self, name: str) -> bool:
        """Whether a parameter has its default value."""
        value, default = getattr(self, name), type(self).__dataclass_fields__[name].default
        return value is default or (np.ndim(value) == 0 and bool(value == default))

    def _n_is_private(self) -> bool:
        """Whether the number of rows (of persons) is private: it is released first, and only the release is used."""
        return self.relation == "add-remove" or self.missing == "drop"

    @property
    def _how(self) -> str | None:
        """How missing cells are handled; None leaves them to the method."""
        return "error" if self.missing == "raise" else self.missing

    def _private_data(
        self,
        X: Any,
        y: Any = None,
        *,
        accept_sparse: bool = True,
        labels: Labels | None = None,
        person: Any = None,
        ensure_min_samples: int = 1,
        ensure_all_finite: bool | str = True,
    ) -> PrivateData:
        """Read the rows in canonical form, validate them as scikit-learn does, and wrap them in `PrivateData`.

        With ``missing="error"``, NaN, infinity and undeclared labels raise here. That is a check for the holder of the data,
        not a release. Streams (files, clusters) are read once for it.
        """
        self._check_used()
        how = self._how if ensure_all_finite is True else None
        if isinstance(X, PrivateData):
            if person is not None:
                raise ValueError("pass person= to PrivateData, not to fit")
            if X.is_counted == (how == "drop"):
                raise ValueError('missing="drop" must be given both to PrivateData and to the estimator')
            return self._stream(X if labels is None else X.with_labels(labels), accept_sparse, ensure_min_samples)
        if is_stream(X):
            return self._stream(PrivateData(X, y, labels=labels, person=person, missing=how), accept_sparse, ensure_min_samples)
        if isinstance(person, str):
            if not is_frame(X):
                raise ValueError(f"person={person!r} names a column, and the rows have no named columns: pass an array of ids")
            X, ids = take_target(X, person)
            person = Ids(ids, person)
        if isinstance(y, str) and is_frame(X):
            X, y = take_target(X, y)
        X, y = side_by_side(X, y, person, self._how, coded=labels is not None)
        rows = rows_of(X)
        options: dict[str, Any] = {
            "accept_sparse": "csr" if accept_sparse else False,
            "dtype": [np.float64, np.float32],
            "order": None,
            "ensure_all_finite": how == "error" if how else ensure_all_finite,
            # Where the number of rows is private, an empty table must look like any other.
            "ensure_min_samples": 0 if self._n_is_private() else ensure_min_samples,
        }
        if isinstance(rows, Columns):
            rows = rows.dense()
        # Where missing cells are allowed, y does not go through scikit-learn's check, which refuses them in y.
        whole = y is not None and how in ("error", None)
        y = None if y is None else _target(y, labels, strict=whole)
        # The check for infinities sums the cells: a warning of an overflow would depend on them.
        with np.errstate(all="ignore"), missing_in_words() if how == "error" else nullcontext():
            checked = validate_data(self, rows, *((y,) if whole else ()), **options)
        if is_frame(X):
            validate_data(self, X, skip_check_array=True)  # names of columns
        X, y = checked if whole else (checked, y)
        if how == "zero":
            X, y = without_missing(X, y, how, labels is not None)
        return PrivateData(X, y, person=person, missing="drop" if how == "drop" else None)

    def _stream(self, data: PrivateData, accept_sparse: bool, ensure_min_samples: int) -> PrivateData:
        """Checks that read no row."""
        data = data.for_one_fit()
        name = type(self).__name__
        if data.is_sparse and not accept_sparse:
            raise ValueError(f"{name} takes dense rows only, got CSR rows.")
        if self.method in self._at_once:
            data.check_in_memory(f"method={self.method!r}")  # before anything is charged
        if not self._n_is_private() and data.n < ensure_min_samples:
            raise ValueError(f"Found {data.n} {data.unit}s while a minimum of {ensure_min_samples} is required by {name}.")
        if get_tags(self).target_tags.required and not data.has_target:
            raise ValueError(f"{name} requires y to be passed: an array, or the name of a column.")
        self.n_features_in_ = data.d
        if data.columns is not None:
            self.feature_names_in_ = np.asarray(data.columns, dtype=object)
        return data

    def _new_rows(self, X: Any, **options: Any) -> Any:
        """Rows to be predicted by a fitted model, validated as scikit-learn does."""
        check_is_fitted(self)
        self._warn_of_scores(asked=False)
        if is_stream(X) and library(X) != "dask":
            raise ValueError(
                f"rows to predict must be in memory, in an array or a data frame, got {type(X).__name__}: read them, or use "
                "`fattail predict`"
            )
        return validate_data(self, X, reset=False, **options)

    def _admit(self, data: PrivateData) -> tuple[PrivateData, Curator]:
        """The data that a method may use, and the curator of its releases."""
        if not self._n_is_private():
            self._announce(data)
            return data, Curator(self.epsilon, self.delta, ledger=self.ledger, **self._terms(data))
        (advances,) = self._paid(data, 1)
        return self._counted(data, advances, (self.epsilon, self.delta))

    def _paid(self, data: PrivateData, parts: int) -> list[tuple[Advance, Advance]]:
        """One charge for a fit of so many equal parts, each of which releases its number of rows first."""
        epsilon, delta = self.epsilon / parts, self.delta / parts
        claims = count_claims(epsilon, delta, pure=self._is_pure(data.d if parts == 1 else 1, epsilon, delta))
        terms = self._terms(data)
        paid = pay(self.ledger, claims * parts, terms["label"], claim=(self.epsilon, self.delta), subject=terms["subject"])
        return list(zip(paid[::2], paid[1::2], strict=True))

    def _is_pure(self, d: int, epsilon: float, delta: float) -> bool:
        """Whether the plan for d columns consists of pure releases only."""
        return False

    def _counted(
        self, data: PrivateData, advances: tuple[Advance, Advance], claim: tuple[float, float], seed: int = 0
    ) -> tuple[PrivateData, Curator]:
        """The data with a released number of rows, and the curator of what follows."""
        swing = 0.5 if self.relation == "add-remove" else 1.0
        data, curator = counted(data, advances, claim=claim, swing=swing, **self._terms(data, seed))
        self._announce(data)
        return data, curator

    def _terms(self, data: PrivateData, seed: int = 0) -> dict[str, Any]:
        """The curator's parameters other than the budget and the account."""
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return {
            "random_state": None if self.random_state is None else int(self.random_state) + seed,
            "label": f"{type(self).__name__}(method={self.method!r})",
            "subject": Subject.of(names, relation=self.relation, person=data.person),
        }


def _target(y: Any, labels: Labels | None, *, strict: bool) -> Any:
    """The target as a vector of numbers or of label codes."""
    y = y if is_frame(y) or is_column(y) else array_of(y) if strict or not is_plain(y) else vector_of(y, strict=False)
    if isinstance(y, np.ndarray) and y.ndim == 2:
        y = column_or_1d(y, warn=True)
    if labels is None:
        return target_of(y)
    return labels.checked(y) if strict else labels.codes(y, strict=False)


def _forgetting_earlier_fits(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A ``fit`` that first removes the attributes of an earlier fit, and its own if it fails."""

    @functools.wraps(fit)
    def wrapper(self: PrivateEstimator, *data: Any, **options: Any) -> Any:
        self._forget()
        try:
            return fit(self, *data, **options)
        except BaseException:
            self._forget()
            raise

    return wrapper
