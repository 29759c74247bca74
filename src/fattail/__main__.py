"""``python -m fattail``."""

import sys

from fattail.cli import main

if __name__ == "__main__":
    sys.exit(main())
