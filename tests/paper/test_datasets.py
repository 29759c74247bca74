"""Loaders: the right file is read, a file of another shape is refused, a missing one is named."""

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from reproduction import datasets, main, problems


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("FATTAIL_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shaped(monkeypatch, name, shape):
    monkeypatch.setitem(datasets.FILES, name, (datasets.FILES[name][0], shape))


def write_svmlight(folder, name, n=40, d=30, labels=None):
    rng = np.random.default_rng(0)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.3)
    y = rng.normal(size=n) if labels is None else rng.choice(labels, size=n)
    dump_svmlight_file(X, y, str(folder / datasets.FILES[name][0]), zero_based=False)
    return X, y


def write_ipums(folder, name, n=60):
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.integers(18, 80, n), rng.integers(0, 12, n), rng.integers(0, 2, n)])
    lines = ["age,school,income", *(",".join(map(str, row)) for row in rows)]
    (folder / datasets.FILES[name][0]).write_text("\n".join(lines) + "\n")
    return rows


@pytest.mark.parametrize("name", list(datasets.FILES))
def test_a_missing_file_is_named(folder, name):
    assert datasets.FILES[name][0] in datasets.absent(name)
    assert "FATTAIL_DATA" in datasets.absent(name)


def test_nothing_is_needed_by_simulations():
    assert datasets.absent("") == ""


@pytest.mark.parametrize(("name", "load", "labels"), [("e2006", datasets.e2006, None), ("rcv1", datasets.rcv1, (-1, 1))])
def test_svmlight(folder, monkeypatch, name, load, labels):
    X, y = write_svmlight(folder, name, labels=labels)
    with pytest.raises(ValueError, match="should have shape"):
        load()
    shaped(monkeypatch, name, X.shape)
    found, response = load()
    np.testing.assert_allclose(found.toarray(), X)
    np.testing.assert_allclose(response, y)
    assert datasets.absent(name) == ""


@pytest.mark.parametrize("name", ["ipums-br", "ipums-us"])
def test_ipums(folder, monkeypatch, name):
    rows = write_ipums(folder, name)
    with pytest.raises(ValueError, match="should have shape"):
        datasets.ipums(name)
    shaped(monkeypatch, name, (60, None))
    X, label = datasets.ipums(name)
    np.testing.assert_array_equal(X, rows[:, :2])
    np.testing.assert_array_equal(label, rows[:, 2])
    problem = problems.ipums_clusters(np.random.default_rng(0), 60, name)
    assert problem.X.shape[1] == 2
    np.testing.assert_allclose(problem.X.mean(axis=0), 0, atol=1e-12)


def test_text_experiments_split_rows_and_columns(folder, monkeypatch):
    X, _ = write_svmlight(folder, "rcv1", labels=(-1, 1))
    shaped(monkeypatch, "rcv1", X.shape)
    problem = problems.rcv1_split(np.random.default_rng(0), columns=12)
    assert problem.X.shape == (18, 12)
    assert problem.known["public"].shape == (18, 12)
    assert set(problem.y) == {0.0, 1.0}
    assert 0 <= problem.error(np.ones(12)) <= 1


def test_panels_without_their_file_are_skipped_and_say_so(folder):
    page = main(["dpem2020-fig8b", "wanggu2020-table3-rcv1"], quick=True, output=folder / "report", workers=0, show=False)
    text = page.read_text()
    assert "Skipped: it needs the file ipums_br.csv" in text
    assert "Skipped: it needs the file rcv1_train.binary" in text


def test_an_unknown_figure_is_refused(folder):
    with pytest.raises(ValueError, match="no figure is called nonsense"):
        main(["nonsense"])


real = pytest.mark.skipif(any(datasets.absent(n) for n in ("adult", "metabric", "nci60", "reuters")), reason="no real data here")


@real
def test_real_files():
    columns, rich = datasets.adult()
    assert rich.mean() == pytest.approx(11687 / 48842)
    assert columns["capital_gain"].max() == 99999
    X, y, names = datasets.metabric()
    assert X.shape == (1904, 489) and len(names) == 489 and np.isfinite(X).all() and np.isfinite(y).all()
    X, y, names = datasets.nci60()
    assert X.shape[0] == 59 and 12_000 < X.shape[1] < 15_000 and "MALL" in names
    assert y.mean() == pytest.approx(1.639, abs=1e-3)


@real
def test_reuters_rows_have_length_one():
    X, corporate, length, split = datasets.reuters()
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    assert np.all(np.isclose(norms, 1) | (norms == 0))
    assert (split == 0).sum() == 9603 and (split == 1).sum() == 3299
    assert corporate[split == 0].mean() == pytest.approx(0.47, abs=0.005)
    assert np.isfinite(length).all()
