"""Images in memory and drawing on them: what trackers and segmenters share.  Colours are RGB."""
