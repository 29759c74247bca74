"""Paragraphs that the docstrings of several estimators share, each written once."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

LABELS = "Labels, of the two in ``classes``."

SHARED = {
    "budget": """\
epsilon, delta : float
    The guarantee: everything that ``fit`` releases is, together, (epsilon, delta)-differentially private.
""",
    "common": """\
random_state : int or None
    An int makes the noise reproducible and therefore *not private*. None draws secure noise.
ledger : account, optional
    What the fit is charged to, before any data are read: ``Ledger(path).open(...)`` or a ``Budget``.
relation : {"replace-one", "add-remove"}
    Which tables are neighbors. With "add-remove" the number of rows (of persons) is private too: it is released first, for
    6 % of epsilon. Methods that need the exact number of rows refuse it.
""",
    "missing": """\
missing : {"error", "zero", "drop"}
    How cells that are not finite numbers are handled. "error": the table is refused. "zero": they count as 0. "drop": rows
    that have any are left out; the number of rows that remain is private, and is released first.
""",
    "unit": """\
*Privacy.* By default the unit is a row, the relation is replacement, and the number of rows is public. ``person=`` makes
the unit a person with all their rows, and ``relation="add-remove"`` makes the number private too.
""",
    "fit": """\
Parameters
----------
X : array, frame or CSR matrix of shape (n, d), or a source of rows
    A row is a person, unless ``person`` says otherwise.
y : array of shape (n,) or column name
    {target}
{person}

Returns
-------
self
""",
    "target": "Responses.",
    "person": """\
person : array of shape (n,) or column name, optional
    The id of the person each row belongs to. A person is then protected with all of their rows, and counts once, by the
    average contribution of their rows. Without it, a row is a person.
""",
}


def documented(**paragraphs: str) -> Callable[[T], T]:
    """A class decorator that fills ``{name}`` in the docstrings of a class and of its ``fit``.

    Parameters
    ----------
    **paragraphs : str
        By name, in addition to ``SHARED``. A paragraph stands on a line of its own, gets the indentation of that line, and may
        contain others.

    Examples
    --------
    >>> @documented(clip="clip : float")
    ... class Model:
    ...     '''A model.
    ...
    ...     {clip}
    ...     '''
    >>> Model.__doc__.split()
    ['A', 'model.', 'clip', ':', 'float']
    """
    texts = SHARED | paragraphs

    def fill(found: re.Match[str]) -> str:
        text = textwrap.indent(textwrap.dedent(texts[found["name"]]).strip(), found["indent"])
        return PLACE.sub(fill, text)

    def write(cls: T) -> T:
        of_class: Any = cls
        for documented_object in (of_class, vars(of_class).get("fit")):
            if documented_object is not None and documented_object.__doc__:
                documented_object.__doc__ = PLACE.sub(fill, documented_object.__doc__)
        return cls

    return write


PLACE = re.compile(r"^(?P<indent> *)\{(?P<name>[a-z_]+)\}$", re.MULTILINE)
