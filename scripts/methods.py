"""Write the page of all methods from the registry, or check that it is current.

python scripts/methods.py [--write]
"""

import sys
from pathlib import Path

from fattail.algorithms.registry import markdown_table

PAGE = Path(__file__).parent.parent / "docs" / "methods.md"
INTRODUCTION = """# All methods

`method="auto"` is the default of every estimator and needs nothing. The papers' own methods are there too, corrected where
their printed form is not private ([errata](errata.md)). `fattail.registry()` lists them; this page is made from it by
`python scripts/methods.py --write`.

"""


def current() -> str:
    return f"{INTRODUCTION}{markdown_table()}\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(current())
    sys.exit(not PAGE.exists() or PAGE.read_text() != current())
