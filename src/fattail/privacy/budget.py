"""A budget for one program: an account in a temporary file.

A ``with Budget(...)`` block covers everything that runs inside it, also in other threads and
processes. They share a file. To be found, an open block leaves a marker under the process that opened it, and a charge looks
for markers of its own process and of its ancestors.
"""

from __future__ import annotations

import contextvars
import getpass
import os
import secrets
import stat
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from fattail.privacy.accounts import Claim, check_kind
from fattail.privacy.calibration import check_budget
from fattail.privacy.chain import Chain
from fattail.privacy.charges import Charge, Subject
from fattail.privacy.events import Event
from fattail.privacy.ledger import Ledger, LedgerAccount

_ACCOUNT = "budget"

# Blocks around this thread or task, outermost first.
_inside: contextvars.ContextVar[tuple[Budget, ...]] = contextvars.ContextVar("fattail_budgets", default=())

# Blocks that this process has open, by file, and how often.
_open: Counter[str] = Counter()
# Blocks that were open when this process, or one that it descends from, was forked. Its parents may end before it does.
_inherited: set[str] = set()
_lock = threading.Lock()


class Budget:
    """A budget for one notebook or program.

    Every fit inside the ``with`` block is charged to it, in threads and child processes as well, and in
    addition to the fit's own ledger and to enclosing budgets. Copies are the same budget.

    Parameters
    ----------
    epsilon, delta : float
    kind : {"mixed", "gaussian", "concentrated", "sum"}, optional
        How charges are counted; see `Ledger.open`.

    Notes
    -----
    *Privacy.* All charges together are (epsilon, delta)-DP, also if each fit is chosen after seeing the answers of the fits
    before it. Proof: ``accounts.proof.md``.

    A thread or task that is inside a block charges the blocks around it. A thread outside of all blocks, such as a worker of a
    pool, charges all blocks that its process and its ancestors have open. A program on another machine, or one that outlives
    the budget, is refused. A program that was started inside of the block, and not forked, does not find it once its parent has
    ended.

    Examples
    --------
    >>> from fattail import Budget, mean
    >>> with Budget(epsilon=2, delta=1e-6) as budget:
    ...     release = mean(range(1000), epsilon=1, delta=1e-7, random_state=0)
    >>> budget.spent < 1.01
    True
    """

    def __init__(self, epsilon: float, delta: float = 0.0, *, kind: str | None = None) -> None:
        epsilon, delta = check_budget(epsilon, delta)
        check_kind(kind, delta)
        folder = _folder(create=True)
        assert folder is not None
        path = folder / f"{secrets.token_hex(16)}.db"
        self._file = _File.at(path, owned=True)
        self._account_in_file = _TemporaryLedger(path).open(_ACCOUNT, epsilon=epsilon, delta=delta, kind=kind)

    @classmethod
    def _at(cls, path: Path) -> Budget:
        budget = cls.__new__(cls)
        budget._file = _File.at(path)
        budget._account_in_file = LedgerAccount(_TemporaryLedger(path), _ACCOUNT)
        return budget

    def charge(
        self, events: Iterable[Event], label: str = "", *, claim: Claim | None = None, subject: Subject | None = None
    ) -> None:
        """Add events, or raise ``BudgetExceededError`` and add nothing."""
        self._account_in_file.charge(events, label, claim=claim, subject=subject)

    @property
    def epsilon(self) -> float:
        """Most epsilon that may be spent."""
        return self._account_in_file.epsilon

    @property
    def delta(self) -> float:
        """Most delta of all charges together."""
        return self._account_in_file.delta

    @property
    def kind(self) -> str:
        """How charges are counted; a budget that its first charge used up counts by "sum"."""
        return self._account_in_file.kind

    @property
    def spent(self) -> float:
        """Epsilon of the smallest budget that would have admitted the same charges."""
        return self._account_in_file.spent

    @property
    def remaining(self) -> float:
        """Epsilon left by plain subtraction; composition usually allows a little more."""
        return self._account_in_file.remaining

    @property
    def history(self) -> tuple[Charge, ...]:
        """All charges, in order."""
        return self._account_in_file.history

    def __reduce__(self) -> tuple[Any, ...]:
        return Budget._at, (self._file.path,)

    def __deepcopy__(self, memo: Any) -> Budget:
        """Itself: a cloned estimator spends the same budget."""
        return self

    def __enter__(self) -> Budget:
        around = tuple(b for b in open_budgets() if b._file.path != self._file.path)
        with _lock:
            self._marker.touch()
            _open[str(self._file.path)] += 1
        _inside.set((*around, self))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        inside = list(_inside.get())
        if self in inside:
            inside.remove(self)
        _inside.set(tuple(inside))
        path = str(self._file.path)
        with _lock:
            if _open[path] > 0:  # a child that was forked inside the block does not close it
                _open[path] -= 1
                if not _open[path]:
                    del _open[path]
                    self._marker.unlink(missing_ok=True)

    @property
    def _marker(self) -> Path:
        path = self._file.path
        return path.with_name(f"{_process_mark(os.getpid())}{path.stem}.open")

    def __repr__(self) -> str:
        return f"Budget(epsilon={self.epsilon:g}, delta={self.delta:g}, spent={self.spent:.4g})"


def open_budgets() -> tuple[Budget, ...]:
    """All budgets that a charge of this thread must go to."""
    everywhere = _files_of_open_blocks()
    here = tuple(b for b in _inside.get() if str(b._file.path) in everywhere)
    return here or tuple(Budget._at(Path(path)) for path in sorted(everywhere))


class _TemporaryLedger(Ledger):
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def _chain(self) -> Chain:
        return Chain(self.path, lasting=False)


class _File:
    """A temporary file, removed with the last reference to it in the process that made it."""

    _known: ClassVar[weakref.WeakValueDictionary[Path, _File]] = weakref.WeakValueDictionary()

    def __init__(self, path: Path, owned: bool) -> None:
        self.path = path
        if owned:
            weakref.finalize(self, _remove, path, os.getpid())

    @classmethod
    def at(cls, path: Path, *, owned: bool = False) -> _File:
        with _lock:
            file = cls._known.get(path)
            if file is None:
                file = cls._known[path] = cls(path, owned)
            return file


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _folder(*, create: bool) -> Path | None:
    """The folder in which this user's processes find each other's budgets."""
    user = str(os.getuid()) if hasattr(os, "getuid") else getpass.getuser()
    folder = Path(tempfile.gettempdir()) / f"fattail-{user}"
    if create:
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        state = folder.lstat()
    except FileNotFoundError:
        return None
    if not hasattr(os, "getuid") or (stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022):
        return folder
    if create:
        raise ValueError(f"budgets need a folder that only you can write, and {folder} is not; set TMPDIR to another place")
    return None


def _files_of_open_blocks() -> set[str]:
    """Files of all blocks that this process or one of its ancestors has open."""
    with _lock:
        found = set(_open)
    folder = _folder(create=False)
    markers = [name for name in os.listdir(folder) if name.endswith(".open")] if folder is not None else []
    if folder is not None and markers:
        marks = tuple(map(_process_mark, _ancestors()))
        names = [name.removesuffix(".open").rpartition("-")[2] for name in markers if name.startswith(marks)]
        found |= {str(folder / f"{name}.db") for name in names}
        still_open = {name.removesuffix(".open").rpartition("-")[2] for name in markers}
        found |= {path for path in _inherited if Path(path).stem in still_open}
    return found


def _process(pid: int) -> tuple[int, str]:
    """Parent and starting time of a process (Linux only)."""
    # The name in parentheses may hold anything, parentheses included.
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return int(after_name[1]), after_name[19]


def _process_mark(pid: int) -> str:
    """A name of a process: its number, which may be used again, and its starting time."""
    try:
        return f"{pid}-{_process(pid)[1]}-"
    except (OSError, ValueError, IndexError):
        return f"{pid}-0-"


def _ancestors() -> list[int]:
    """Ancestors of this process, as far as the system tells."""
    found, pid = [], os.getppid()
    while pid > 0 and pid not in found:
        found.append(pid)
        try:
            pid = _process(pid)[0]
        except (OSError, ValueError, IndexError):
            break
    return found


def _after_fork() -> None:
    # The parent's blocks are found by their markers, and end when the parent ends them.
    _inherited.update(_open)
    _open.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork)
