"""Optional packages: imported on use, with a message that says how to install them."""

from __future__ import annotations

import importlib
from typing import Any


class MissingExtraError(ImportError):
    """A package of an optional extra is not installed."""


def extra(module: str, name: str) -> Any:
    """Import ``module``, which comes with the extra ``name``.

    Examples
    --------
    >>> extra("math", "plots").sqrt(4.0)
    2.0
    >>> extra("no_such_package.figures", "plots")
    Traceback (most recent call last):
        ...
    fattail._tools.extras.MissingExtraError: this needs no_such_package, which is not installed: pip install 'fattail[plots]'
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingExtraError(f"this needs {package}, which is not installed: pip install 'fattail[{name}]'") from None
