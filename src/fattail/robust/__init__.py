"""Bounded means: each class here makes one row's influence finite and says how large it is."""

from fattail.robust.ball import Ball
from fattail.robust.base import Robustifier
from fattail.robust.clip import Clip, Truncate
from fattail.robust.gram import Gram, symmetric
from fattail.robust.median_of_means import MedianOfMeans
from fattail.robust.smooth import Smooth
from fattail.robust.trimmed import Trimmed

__all__ = ["Ball", "Clip", "Gram", "MedianOfMeans", "Robustifier", "Smooth", "Trimmed", "Truncate", "symmetric"]
