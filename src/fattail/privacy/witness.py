"""A record of the last entry of each ledger on this machine, so that an older state of a file is noticed.

A file cannot show that it was rolled back or deleted, since an older state is a valid file. After each charge the last entry is
therefore noted in the user's state folder. Somebody who can write there too can undo both. The record protects against a
restored backup, and against an analyst who can replace only the ledger file. Ledgers in temporary folders are not recorded.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any


class Witness:
    """The record of one ledger file.

    Parameters
    ----------
    path : Path
        The ledger.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))
        home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
        temporary = Path(tempfile.gettempdir()).resolve() in self.path.parents
        self._folder = None if temporary else Path(home) / "fattail" / "ledgers"
        self._by_path = "path-" + hashlib.sha256(os.fsencode(self.path)).hexdigest()[:32]

    def check(self, name: str, heads: list[str]) -> None:
        """Refuse a file whose chain lacks the last entry that this machine wrote into it."""
        known = self._read(name)
        count = known.get("entries", 0)
        if not isinstance(count, int) or count < 1:
            return
        if count > len(heads) or heads[count - 1] != known.get("hash"):
            raise ValueError(
                f"ledger {self.path} was rolled back: this machine wrote {count} entries into it, and the last of them is "
                f"not there. Restore the newer file, or record the loss: fattail ledger adopt {self.path}"
            )

    def check_new(self) -> None:
        """Refuse to start a new ledger in place of a deleted one."""
        if self._folder is not None and (name := self._read(self._by_path).get("id")):
            raise ValueError(
                f"the ledger at {self.path} is gone: this machine charged one there. Restore it; or, for a new one in "
                f"its place, remove {self._folder / self._by_path} (it remembers {name})"
            )

    def record(self, name: str, heads: list[str], *, adopted: bool = False) -> None:
        """Record the last entry, if the state folder can be written.

        Writers come here after they release the lock, so a later writer may have come first: the record gets shorter only when
        somebody adopts an older state.
        """
        known = self._read(name).get("entries", 0)
        if not adopted and isinstance(known, int) and known >= len(heads):
            return
        self._write(name, {"entries": len(heads), "hash": heads[-1], "path": str(self.path)})
        if self._read(self._by_path).get("id") != name:
            self._write(self._by_path, {"id": name, "path": str(self.path)})

    def _read(self, name: str) -> dict[str, Any]:
        if self._folder is not None:
            with suppress(OSError, ValueError):
                known = json.loads((self._folder / name).read_text(encoding="utf-8"))
                return known if isinstance(known, dict) else {}
        return {}

    def _write(self, name: str, content: dict[str, Any]) -> None:
        if self._folder is None:
            return
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self._folder / f"{name}.{secrets.token_hex(4)}"
            new.write_text(json.dumps(content), encoding="utf-8")
            new.replace(self._folder / name)
