"""Real data of the papers: files that the user has, checked by shape, never downloaded.

Files are looked for in the folder that ``FATTAIL_DATA`` names, then in ``data`` and
``../shared/data`` under the working directory. Where a paper's file cannot be had, a stand-in
takes its place and is called one.
"""

from __future__ import annotations

import csv
import gzip
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]

# File and the shape it must have (None: not checked).
FILES: dict[str, tuple[str, tuple[int | None, int | None]]] = {
    "adult": ("adult.csv.gz", (48_842, 16)),
    "metabric": ("metabric.csv.gz", (1_904, 693)),
    "nci60": ("nci60.npz", (59, 22_283)),
    "reuters": ("reuters21578.npz", (21_578, 24_640)),
    "e2006": ("E2006.train", (16_087, 150_360)),
    "rcv1": ("rcv1_train.binary", (20_242, 47_236)),
    "ipums-br": ("ipums_br.csv", (38_000, None)),
    "ipums-us": ("ipums_us.csv", (40_000, None)),
}


def locate(name: str) -> Path | None:
    """Path of a data file, or None."""
    file = FILES[name][0]
    folders = [os.environ["FATTAIL_DATA"]] if os.environ.get("FATTAIL_DATA") else []
    return next((path for folder in [*folders, "data", "../shared/data"] if (path := Path(folder) / file).is_file()), None)


def absent(name: str) -> str:
    """Why a panel that needs ``name`` cannot run; empty if it can."""
    if not name or locate(name) is not None:
        return ""
    return f"it needs the file {FILES[name][0]}; put it into a folder and name the folder in FATTAIL_DATA"


def adult() -> tuple[dict[str, Floats], Floats]:
    """Numeric columns of UCI Adult and two indicators, and whether income exceeds 50,000."""
    return _adult(_path("adult"))


def metabric() -> tuple[Floats, Floats, tuple[str, ...]]:
    """489 mRNA z-scores of METABRIC, the Nottingham prognostic index, and the names of the genes."""
    return _metabric(_path("metabric"))


def nci60() -> tuple[Floats, Floats, tuple[str, ...]]:
    """One probe per gene of NCI-60 (log2), protein KRT19 (log2), and the names of the genes."""
    return _nci60(_path("nci60"))


def reuters() -> tuple[Any, NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Reuters-21578: tf-idf rows of length 1, label ``corporate``, log document length, ModApte split (0 train, 1 test)."""
    return _reuters(_path("reuters"))


def e2006() -> tuple[Any, Floats]:
    """E2006-tfidf (Kogan and others 2009), as distributed in svmlight format."""
    return _svmlight("e2006")


def rcv1() -> tuple[Any, Floats]:
    """RCV1-binary (Lewis and others 2004), as distributed in svmlight format."""
    return _svmlight("rcv1")


def ipums(name: str) -> tuple[Floats, NDArray[np.int64]]:
    """IPUMS census microdata: a CSV with a header, numbers only, the 0/1 target in column ``income``."""
    path = _path(name)
    with path.open(newline="") as file:
        head, *rows = csv.reader(file)
    table = np.array(rows, dtype=float)
    _check(name, table.shape)
    if "income" not in head:
        raise ValueError(f"{path.name} has no column 'income'")
    target = head.index("income")
    return np.delete(table, target, axis=1), table[:, target].astype(np.int64)


def _path(name: str) -> Path:
    path = locate(name)
    if path is None:
        raise FileNotFoundError(absent(name))
    return path


def _check(name: str, shape: tuple[int, ...]) -> None:
    """A file of another shape is another file."""
    file, wanted = FILES[name]
    if any(w is not None and w != s for w, s in zip(wanted, shape, strict=True)):
        raise ValueError(f"{file} should have shape {wanted}, got {shape}")


def _read_csv(path: Path) -> tuple[list[str], list[list[str]]]:
    with gzip.open(path, "rt", newline="") as file:
        head, *rows = csv.reader(file)
    return head, rows


@lru_cache(maxsize=1)
def _adult(path: Path) -> tuple[dict[str, Floats], Floats]:
    head, rows = _read_csv(path)
    _check("adult", (len(rows), len(head)))
    columns = dict(zip(head, zip(*rows, strict=True), strict=True))
    numeric = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")
    table = {name: np.array(columns[name], dtype=float) for name in numeric}
    table["male"] = np.array([v == "Male" for v in columns["sex"]], dtype=float)
    table["married"] = np.array([v.startswith("Married") for v in columns["marital_status"]], dtype=float)
    return table, np.array([v == ">50K" for v in columns["income"]], dtype=float)


@lru_cache(maxsize=1)
def _metabric(path: Path) -> tuple[Floats, Floats, tuple[str, ...]]:
    head, rows = _read_csv(path)
    _check("metabric", (len(rows), len(head)))
    genes = slice(31, 520)
    X = np.array([row[genes] for row in rows], dtype=float)
    y = np.array([row[head.index("nottingham_prognostic_index")] for row in rows], dtype=float)
    return X, y, tuple(name.upper() for name in head[genes])


@lru_cache(maxsize=1)
def _nci60(path: Path) -> tuple[Floats, Floats, tuple[str, ...]]:
    with np.load(path) as archive:
        gene, protein, symbols = archive["gene"], archive["protein"], archive["gene_symbol"]
    _check("nci60", gene.shape)
    names, first = np.unique(symbols.astype(str), return_index=True)
    keep = first[(names != "") & (names != "NA") & (names != "-")]
    return gene[:, keep].astype(float), protein[:, 92].astype(float), tuple(symbols[keep].astype(str))


@lru_cache(maxsize=1)
def _reuters(path: Path) -> tuple[Any, NDArray[np.int64], Floats, NDArray[np.int64]]:
    with np.load(path) as z:
        X = sparse.csr_matrix((z["data"].astype(float), z["indices"], z["indptr"]), shape=tuple(z["shape"]))
        corporate, split = z["corporate"].astype(np.int64), z["modapte"].astype(np.int64)
    _check("reuters", X.shape)
    length = np.log1p(np.asarray(X.sum(axis=1)).ravel())
    X.data = 1.0 + np.log(X.data)
    documents = np.bincount(X.indices, minlength=X.shape[1])
    X = X @ sparse.diags(np.log(X.shape[0] / np.maximum(documents, 1)))
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sparse.csr_matrix(sparse.diags(1.0 / np.where(norms > 0, norms, 1.0)) @ X)
    return X, corporate, length, split


def _svmlight(name: str) -> tuple[Any, Floats]:
    from sklearn.datasets import load_svmlight_file

    path = _path(name)
    columns = FILES[name][1][1]
    X, y = load_svmlight_file(str(path), n_features=columns)
    _check(name, X.shape)
    return X, np.asarray(y, dtype=float)
