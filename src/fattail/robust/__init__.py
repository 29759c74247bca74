"""Bounded means: each class bounds the influence of one row and states the bound."""

from fattail.robust.ball import Ball
from fattail.robust.base import Robustifier
from fattail.robust.clip import Clip, Truncate
from fattail.robust.gram import Gram, symmetric
from fattail.robust.median_of_means import MedianOfMeans
from fattail.robust.smooth import Smooth
from fattail.robust.trimmed import Trimmed

__all__ = ["Ball", "Clip", "Gram", "MedianOfMeans", "Robustifier", "Smooth", "Trimmed", "Truncate", "symmetric"]
