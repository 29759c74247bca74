"""Wang and Gu (AAAI 2020): knowledge transfer from a teacher to a sparse student through public features.

===========  ========================================  =================================
paper        here                                      where
===========  ========================================  =================================
s            ``options.sparsity``                      Algorithm 1, input
theta^       ``teacher``, on the selected ``support``  Algorithm 1, line 1
lambda       ``penalty``                               Algorithm 1, line 1 (Theorem 4.5)
gamma        ``tau * K``                               Theorem 4.3
x~_i         ``public``                                Algorithm 1, line 2
y_i^p, xi_i  ``labels``, one Gaussian release          Algorithm 1, line 2
theta^p      ``w``                                     Algorithm 1, line 4
===========  ========================================  =================================
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fattail.algorithms.parts.iht import Options, SparseUnits
from fattail.algorithms.parts.ridge import NEEDS, RidgeDescent
from fattail.algorithms.registry import registered
from fattail.catalog import Offered
from fattail.losses import Huber, Loss, Squared
from fattail.privacy import Curator, Gaussian, TopK
from fattail.robust import Clip
from fattail.rows.data import Block, PrivateData

Floats = NDArray[np.float64]
# Needs of the teacher; the squared loss is replaced by its Huber version.
TEACHER_NEEDS = replace(NEEDS, slope=False, only=(Squared, *(NEEDS.only or ())))


PENALTY = 0.16
"""Squared penalty of the teacher over the noise per row, in units of curvature and squared features; set by hand in the first
version."""


@registered(
    "knowledge_transfer",
    estimators=Offered("sparse"),
    paper="wanggu2020",
    algorithm="Algorithm 1 (DPSL-KT)",
    changed="as printed not private: a hard-thresholded teacher jumps when one row changes. Columns are selected privately, "
    "the teacher's sensitivity on them is proved for any number of steps, slopes and features are bounded by force, and "
    "labels use the exact norm of the public matrix",
    test="tests/estimators/test_sparse.py::test_fuzz",
    needs=TEACHER_NEEDS,
)
def knowledge_transfer(
    curator: Curator, data: PrivateData, loss: Loss, options: Options, public_features: Any = None
) -> tuple[Floats, float]:
    """Teacher on private rows, noisy labels for public rows, student on those (Algorithm 1, corrected).

    Parameters
    ----------
    curator : Curator
    data : PrivateData
    loss : Loss
    options : Options
    public_features : array or CSR matrix of shape (m, d), optional
        Public rows; by default as many uniform rows as there are private ones.

    Notes
    -----
    Deviations: the student knows the selected columns, which are released, so its sparse
    problem is a least-squares problem on them, solved exactly. The teacher's labels are one
    Gaussian release however many public rows there are.
    """
    s = options.sparsity
    units = SparseUnits(options, loss)
    select, labels = TopK("support", 0.5, k=s), Gaussian("labels of public rows", 0.5)
    curator.plan(*units.mechanisms, select, labels)
    K, tau, level = units.find(curator, data)

    def rows(b: Block) -> tuple[Any, Floats]:
        return b.X, np.clip(loss.derivative(np.full(len(b), level), b.y), -tau, tau)

    support = np.sort(curator.select(select, Clip(bound=tau * K).mean(data, rows).magnitudes()))
    if public_features is None:  # public randomness
        public = np.random.default_rng(0).uniform(-K, K, (max(data.n, 2 * s), s))
    else:
        public = public_features[:, support]
        public = public.toarray() if hasattr(public, "toarray") else np.asarray(public, dtype=np.float64)
    if not public.any():  # no public row has an entry in these columns, so the labels carry no information about them
        public = np.eye(s)
    teacher = ridge_teacher(curator, labels, data, loss, support, K, tau, level)
    w = np.zeros(data.d)
    w[support] = np.linalg.lstsq(public, curator.release(labels, teacher.fit(data, public)), rcond=None)[0]
    return w, level


def ridge_teacher(
    curator: Curator,
    release: Gaussian,
    data: PrivateData,
    loss: Loss,
    support: NDArray[np.intp],
    K: float,
    tau: float,
    level: float,
) -> RidgeDescent:
    """A regularized fit on the support, to be released by ``release``.

    The penalty balances its bias with the noise that the later ``release`` will need, both by
    public arithmetic for coefficients that explain a response of size tau.
    """
    s = support.size
    slope: Loss = Huber(tau) if math.isinf(loss.slope) else loss
    penalty = slope.curvature * K**2 * math.sqrt(PENALTY * s * curator.noise(release) / data.n)
    return RidgeDescent(slope, support, K, penalty, level=level)
