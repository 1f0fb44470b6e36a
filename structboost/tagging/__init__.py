"""Tagged files, features of tokens, and scores of chunks, around :class:`StructBoostTagger`."""

import lazy_loader

# Names are imported when they are first used; ``__init__.pyi`` lists them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
