"""The private description of a column, and where to clip it."""

from fattail.columns.description import ColumnDescription
from fattail.columns.ends import Ends, choose_ends, clipped_square
from fattail.columns.evidence import CountNoise
from fattail.columns.location import DENSE_GRID, GRID, find_locations
from fattail.columns.looks import DescriptionPlan, OctaveCounts, describe, settle_ends

__all__ = [
    "DENSE_GRID",
    "GRID",
    "ColumnDescription",
    "CountNoise",
    "DescriptionPlan",
    "Ends",
    "OctaveCounts",
    "choose_ends",
    "clipped_square",
    "describe",
    "find_locations",
    "settle_ends",
]
