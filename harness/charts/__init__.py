"""Charts: plain rows to Vega-Lite specifications, and these to pictures (SVG), by the packages of the extra `board`.

A row is a dictionary; each function says which keys it reads. A chart is its specification, a dictionary too, for Vega
in a page or for `svg`, which makes a picture of it. Equal rows give equal bytes, in any process. Texts of rows may be
anybody's: they stay text.
"""

from harness.charts.costs import COSTS, Cost, quality_and_cost
from harness.charts.curves import curves, dots
from harness.charts.drawing import is_available, javascript_bundle, needs, svg
from harness.charts.languages import MOST_ENCODERS, OTHER, by_language
from harness.charts.theme import DARK, LIGHT, Theme
from harness.charts.thresholds import by_threshold

__all__ = [
    "COSTS",
    "DARK",
    "LIGHT",
    "MOST_ENCODERS",
    "OTHER",
    "Cost",
    "Theme",
    "by_language",
    "by_threshold",
    "curves",
    "dots",
    "is_available",
    "javascript_bundle",
    "needs",
    "quality_and_cost",
    "svg",
]
