"""Output files: checked before anything is charged; a failure never costs the answer."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fattail.cli.shared import UsageError, usable

# Exit code if the answer was printed but a file could not be written.
EXIT_NOT_WRITTEN = 4


def check(paths: Iterable[Path], *, apart_from: Iterable[Path | None]) -> None:
    """Refuse a path that cannot be written, or that would overwrite an input file (under any name).

    Parameters
    ----------
    paths : iterable of Path
        Every file that will be written.
    apart_from : iterable of Path or None
        Data, ledger and models; what belongs to a ledger is added.
    """
    used = [Path(f"{p}{end}") for p in apart_from if p is not None for end in ("", "-wal", "-shm", "-journal")]
    seen: list[Path] = []
    for path in paths:
        usable(path)
        if path.is_dir():
            raise UsageError(f"{path} is a folder, not a file")
        folder = path.parent
        if not folder.is_dir():
            raise UsageError(f"no such folder: {folder}; make it first, nothing was charged")
        for other in used:
            if _same(path, other):
                raise UsageError(f"{path} is read by this command and would be overwritten by it")
        if any(_same(path, other) for other in seen):
            raise UsageError(f"two files would be written to {path}")
        seen.append(path)
        _check_writable(path, folder)


def check_suffix(option: str, path: Path, allowed: Sequence[str]) -> None:
    """Refuse a file name with the ending of another format; a name without an ending is accepted."""
    if not path.name:
        raise UsageError(f"{option} needs the name of a file")
    if path.suffix.lower() not in ("", *allowed):
        raise UsageError(f"{option} writes {' and '.join(allowed)}, got {path.name!r}")


def _check_writable(path: Path, folder: Path) -> None:
    try:
        if path.exists():
            if not os.access(path, os.W_OK):
                raise PermissionError
            if not stat.S_ISREG(path.stat().st_mode):
                # Opening a pipe that nobody reads would block, after the charge.
                raise UsageError(f"{path} is a device or a pipe, not a file; nothing was charged")
        # A read-only or full disk is detected only by writing.
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".fattail-") as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
    except OSError:
        raise UsageError(f"cannot write {path}; nothing was charged") from None


def _same(a: Path, b: Path) -> bool:
    """Whether two names are, or will be, one file: links of both kinds are followed."""
    try:
        if os.path.samefile(a, b):
            return True
    except OSError:  # one of them does not exist
        pass
    try:
        return a.resolve() == b.resolve()
    except (OSError, RuntimeError):  # a cycle of links
        return False


def try_to_write(what: str, action: Callable[[], Any]) -> tuple[Any, str | None]:
    """Run an action whose failure must not cost the answer: its result, or None and an error message."""
    try:
        return action(), None
    except KeyboardInterrupt:
        return None, f"stopped at {what}"
    except OSError as error:
        return None, f"{what} could not be written: {os.strerror(error.errno) if error.errno else 'unknown reason'}"
    except Exception as error:
        return None, f"{what} could not be made ({type(error).__name__})"
