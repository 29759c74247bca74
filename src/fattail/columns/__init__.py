"""The private description of a column, and where to clip it."""

from fattail.columns.description import ColumnDescription, DescriptionPlan, describe
from fattail.columns.ends import Ends, choose_ends, clipped_square
from fattail.columns.evidence import CountNoise
from fattail.columns.location import DENSE_GRID, GRID, find_locations

__all__ = [
    "DENSE_GRID",
    "GRID",
    "ColumnDescription",
    "CountNoise",
    "DescriptionPlan",
    "Ends",
    "choose_ends",
    "clipped_square",
    "describe",
    "find_locations",
]
