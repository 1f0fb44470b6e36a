"""``python -m structboost`` is the command ``structboost``."""

import sys

from structboost.cli import main

if __name__ == "__main__":  # some walk through all modules, and import them
    sys.exit(main())
