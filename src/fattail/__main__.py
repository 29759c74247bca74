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
    try:
        from fattail.cli import main as run  # takes most of a second, in which somebody may press Ctrl-C
    except KeyboardInterrupt:
        sys.stderr.write("fattail: stopped; nothing was charged\n")
        return 130
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
