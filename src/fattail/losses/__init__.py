"""Losses of linear models, pointwise: they see a prediction and a response, never a row.

``derivative`` is taken with respect to the prediction ``z``. A loss declares what it promises (`Promise`), and a method what it
needs (`Needs`). Before data are read, a loss that does not fit is refused, and `check_loss` refuses one that breaks its
promises on public numbers. Privacy depends on one property only, that a loss is pointwise: sums are bounded afterwards,
whatever a loss promises. Where a proof needs more (``algorithms/parts/ridge.py``), only losses of this library are accepted.
"""

from .base import Loss, Promise
from .checks import Needs, check_loss, curvature_near_zero
from .standard import OWN, Huber, Logistic, Squared

__all__ = ["OWN", "Huber", "Logistic", "Loss", "Needs", "Promise", "Squared", "check_loss", "curvature_near_zero"]
