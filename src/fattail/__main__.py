"""``python -m fattail`` and the command ``fattail``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fattail._tools.extras import MissingExtraError, extra


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, or say what it needs; return its exit code."""
    try:
        for package in ("typer", "rich"):
            extra(package, "cli")
    except MissingExtraError as error:
        sys.stderr.write(f"fattail: {error}\n")
        return 2
    from fattail.cli import main as run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
