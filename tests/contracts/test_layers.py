"""Imports point downwards: each layer knows only those below it."""

import ast
from pathlib import Path

import pytest

import fattail

PACKAGE = Path(fattail.__file__).parent

# From top to bottom; layers on one line do not know each other. DESIGN section 2.
LAYERS = (
    ("__main__",),
    ("cli", "warmup"),
    ("audit", "baselines"),
    ("statistics",),
    ("estimators",),
    ("results",),
    ("algorithms.auto", "algorithms.papers"),
    ("algorithms.parts",),
    ("algorithms.registry",),
    ("columns",),
    ("losses",),
    ("robust",),
    ("privacy",),
    ("rows",),
    ("_kernels",),
    ("_tools",),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def layer_of(module: str) -> str:
    """The layer of a module below the package; the empty name is the package itself."""
    parts = module.split(".")
    return next((name for name in (".".join(parts[:2]), parts[0]) if name in RANK), "")


def imports(path: Path, package: Path = PACKAGE) -> set[str]:
    """Modules of the package that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level <= 1, f"{path}: relative imports hide the layer"
            if node.level:  # a neighbor in the same folder
                continue
            inner = package.joinpath(*node.module.split(".")[1:])
            found |= {f"{node.module}.{a.name}" if _is_module(inner / a.name) else node.module for a in node.names}
    return {name.removeprefix("fattail").lstrip(".") for name in found if name.split(".")[0] == "fattail"}


def _is_module(path: Path) -> bool:
    return path.is_dir() or path.with_suffix(".py").exists()


def upward(path: Path, package: Path = PACKAGE) -> list[str]:
    """What a file imports from its own rank in another layer, or from above."""
    module = ".".join(path.relative_to(package).with_suffix("").parts)
    mine = layer_of(module)
    others = {layer_of(name) for name in imports(path, package)} - {mine, ""}
    return sorted(name for name in others if RANK[name] <= RANK[mine])


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py" and p != PACKAGE / "algorithms" / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: ".".join(p.relative_to(PACKAGE).with_suffix("").parts))
def test_imports_point_downwards(path):
    assert layer_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts)), "a file that is in no layer"
    assert not upward(path)


def test_a_paper_that_imports_a_default_method_is_found(tmp_path):
    file = tmp_path / "algorithms" / "papers" / "somebody2026.py"
    file.parent.mkdir(parents=True)
    file.write_text("def f():\n    from fattail.algorithms.auto.mean import adaptive_mean\n    return adaptive_mean\n")
    assert upward(file, tmp_path) == ["algorithms.auto"]


def test_nothing_below_the_estimators_knows_scikit_learns_estimators():
    below = [p for p in FILES if RANK[layer_of(".".join(p.relative_to(PACKAGE).with_suffix("").parts))] > RANK["results"]]
    shells = [p.name for p in below if "sklearn.base" in p.read_text()]
    assert not shells
