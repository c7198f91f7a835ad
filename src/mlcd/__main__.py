"""`python -m mlcd` is `mlcd`."""

from __future__ import annotations

import sys

from mlcd.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
