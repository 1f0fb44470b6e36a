"""What goes wrong with frames."""


class VideoError(ValueError):
    """Frames cannot be read or written; the message names the source, the frame and the remedy."""
