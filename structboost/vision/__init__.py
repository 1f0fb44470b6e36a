"""Images in memory and drawing on them, for trackers and segmenters.

Colours are RGB.

"""
