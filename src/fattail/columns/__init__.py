"""The private description of a column, and where to clip it."""

from fattail.columns.description import ColumnDescription
from fattail.columns.ends import Ends, choose_ends, choose_radius, clipped_variance
from fattail.columns.evidence import CountNoise
from fattail.columns.location import DENSE_GRID, GRID, find_locations
from fattail.columns.looks import DescriptionPlan, OctaveCounts, describe, settle_ends
from fattail.columns.plan import plan_mean

__all__ = [
    "DENSE_GRID",
    "GRID",
    "ColumnDescription",
    "CountNoise",
    "DescriptionPlan",
    "Ends",
    "OctaveCounts",
    "choose_ends",
    "choose_radius",
    "clipped_variance",
    "describe",
    "find_locations",
    "plan_mean",
    "settle_ends",
]
