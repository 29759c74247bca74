"""Put the table of methods into the README, or check that it is there.

python scripts/readme.py [--write]
"""

import re
import sys
from pathlib import Path

from fattail.algorithms.registry import markdown_table

README = Path(__file__).parent.parent / "README.md"
PLACE = re.compile(r"<!-- registry -->\n.*?<!-- /registry -->", re.DOTALL)


def current() -> str:
    return PLACE.sub(lambda _: f"<!-- registry -->\n{markdown_table()}\n<!-- /registry -->", README.read_text())


if __name__ == "__main__":
    if "--write" in sys.argv:
        README.write_text(current())
    sys.exit(README.read_text() != current())
