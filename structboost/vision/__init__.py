"""Images in memory and drawing on them, for trackers and segmenters.

Colours are RGB.
"""

from structboost.runtime.registry import require

require("vision", __name__)
