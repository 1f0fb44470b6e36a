"""``python -m structboost`` is the command ``structboost``."""

import sys

from structboost.cli import main

sys.exit(main())
