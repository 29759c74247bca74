"""``python -m reproduction [FIGURE ...]``: run the papers' figures and tables again and write a report."""

from __future__ import annotations

import argparse
from pathlib import Path

from reproduction import main

parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
parser.add_argument("figures", nargs="*", metavar="FIGURE", help="keys such as wang2020-fig1a, or beginnings of them")
parser.add_argument("--quick", action="store_true", help="smaller data and fewer trials: minutes rather than hours")
parser.add_argument("--out", type=Path, default=Path("report"), help="folder of the report; an interrupted run resumes there")
parser.add_argument("--workers", type=int, default=2, help="processes")

if __name__ == "__main__":
    options = parser.parse_args()
    try:
        page = main(options.figures, options.quick, output=options.out, workers=options.workers)
    except ValueError as unknown:
        parser.error(str(unknown))
    print(f"wrote {page}")
