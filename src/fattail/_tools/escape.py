"""Escaping of untrusted text for pages, terminals, spreadsheets and figures.

Column names, account names, labels and everything in a model file are untrusted. Each medium
has one function here, and nothing else in the library writes HTML or CSV:

========== ==============================================================================
HTML       `tag` builds elements and escapes every child and attribute that is not `Html`
terminal   `for_terminal` shows control, escape and bidirectional characters as text
CSV        `write_csv` quotes by RFC 4180 and neutralizes what a spreadsheet would compute
figures    `for_figure` keeps a dollar sign from starting a formula
========== ==============================================================================
"""

from __future__ import annotations

import csv
import html
import unicodedata
from collections.abc import Iterable
from typing import Any

# Joiners are part of words in Persian and in Indic scripts, and are harmless.
_HARMLESS = "\u200c\u200d"
# What spreadsheets take for the start of a formula, their full-width forms included.
_FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20"


def for_terminal(text: Any, *, lines: bool = False) -> str:
    r"""Text in which every character that could move the cursor or reorder others is spelled out.

    Parameters
    ----------
    text : object
        Shown by ``str``.
    lines : bool
        Keep line breaks; otherwise they are spelled out too, so that a name cannot forge a line.

    Examples
    --------
    >>> from fattail._tools.escape import for_terminal
    >>> for_terminal("cost\x1b[2J\u202e")
    'cost\\x1b[2J\\u202e'
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if _is_plain(c) or (lines and c == "\n") else c.encode("unicode_escape").decode() for c in shown)


def _is_plain(character: str) -> bool:
    return character.isprintable() or character in _HARMLESS or unicodedata.category(character) == "Zs"


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """An HTML element; what is not `Html` is escaped, and what is None is left out.

    Parameters
    ----------
    name : str
        Name of the element, a constant of the caller.
    *children
        `Html`, or anything that has a ``str``.
    **attributes
        A trailing underscore is dropped: ``class_="bar"``.

    Examples
    --------
    >>> from fattail._tools.escape import tag
    >>> tag("p", "a < b ", tag("b", "c"), class_='"x"')
    '<p class="&quot;x&quot;">a &lt; b <b>c</b></p>'
    """
    shown = "".join(f' {key.rstrip("_")}="{_for_html(value)}"' for key, value in attributes.items() if value is not None)
    return Html(f"<{name}{shown}>{fragment(*children)}</{name}>")


def fragment(*children: Any) -> Html:
    """Several pieces one after the other, each escaped unless it is `Html`."""
    return Html("".join(child if isinstance(child, Html) else _for_html(child) for child in children if child is not None))


def style(css: str) -> Html:
    """A style sheet; ``css`` is a constant of the caller."""
    if "<" in css:
        raise ValueError("a style sheet cannot hold '<'")
    return Html(f"<style>{css}</style>")


def document(title: str, body: Html) -> str:
    """A self-contained page, which loads nothing from elsewhere."""
    head = Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">')
    return f"<!doctype html>\n{tag('html', tag('head', head, tag('title', title)), tag('body', body), lang='en')}\n"


def _for_html(text: Any) -> str:
    # Control characters are invalid in HTML, and overrides of the text direction mislead the reader.
    return html.escape(for_terminal(text, lines=True))


def for_csv(text: str) -> str:
    """A cell that no spreadsheet computes: text that starts like a formula gets an apostrophe.

    Examples
    --------
    >>> from fattail._tools.escape import for_csv
    >>> for_csv('=HYPERLINK("http://example.org")'), for_csv("-1")
    ('\\'=HYPERLINK("http://example.org")', '-1')
    """
    shown = for_terminal(text, lines=True)
    # A spreadsheet may drop blanks before a formula; control characters, tab and CR included, are spelled out by now.
    if text.lstrip()[:1] in tuple(_FORMULA) or text[:1] in ("\t", "\r"):
        return shown if _is_number(shown) else f"'{shown}"
    return shown


def write_csv(stream: Any, rows: Iterable[Iterable[Any]]) -> None:
    """Rows as RFC 4180 has them; text goes through `for_csv`, numbers are written as they are.

    Where spreadsheets take a semicolon for the separator, one inside a cell would start another: such text is quoted.
    """
    plain, quoted = csv.writer(stream), csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC)
    for row in rows:
        cells = [for_csv(cell) if isinstance(cell, str) else cell for cell in row]
        writer = quoted if any(isinstance(cell, str) and ";" in cell for cell in cells) else plain
        writer.writerow(cells)


def for_figure(text: Any) -> str:
    """A label of a figure, in which a dollar sign does not start a formula."""
    return for_terminal(text, lines=True).replace("\\$", "$").replace("$", r"\$")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
