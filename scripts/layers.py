"""The layers of the package, the imports between them, and a picture.

    python scripts/layers.py > layers.svg

``tests/contracts/test_layers.py`` enforces the order, and the documentation draws it (`docs/architecture.md`).
"""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "fattail"

# From top to bottom; layers on one line do not import each other. docs/architecture.md explains them.
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
    ("catalog",),
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


def module_of(path: Path, package: Path = PACKAGE) -> str:
    """The name of a file's module below the package."""
    return ".".join(path.relative_to(package).with_suffix("").parts)


def upward(path: Path, package: Path = PACKAGE) -> list[str]:
    """What a file imports from its own rank in another layer, or from above."""
    mine = layer_of(module_of(path, package))
    others = {layer_of(name) for name in imports(path, package)} - {mine, ""}
    return sorted(name for name in others if RANK[name] <= RANK[mine])


def counts(package: Path = PACKAGE) -> dict[tuple[str, str], int]:
    """Number of files of the first layer that import from the second."""
    found: dict[tuple[str, str], int] = {}
    for path in package.rglob("*.py"):
        mine = layer_of(module_of(path, package))
        for other in {layer_of(name) for name in imports(path, package)} - {mine, ""} if mine else ():
            found[mine, other] = found.get((mine, other), 0) + 1
    return found


STEP, LEFT, TOP = 26, 150, 150


def picture() -> str:
    """SVG: a row for each layer, and in it the number of its files that import from the layer of a column."""
    names, found = list(RANK), counts()
    box = f"0 0 {LEFT + STEP * len(names) + 10} {TOP + STEP * len(names) + 10}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="12" role="img">',
        "<title>Layers of the package and what they import</title>",
    ]
    for k, name in enumerate(names):
        x, y = LEFT + STEP * k, TOP + STEP * k
        lines += [
            f'<rect x="{LEFT}" y="{y}" width="{STEP * len(names)}" height="{STEP}" fill="{"#f4f6f8" if k % 2 else "#ffffff"}"/>',
            f'<text x="{LEFT - 8}" y="{y + 17}" text-anchor="end" fill="#222">{name}</text>',
            f'<text transform="translate({x + 17} {TOP - 8}) rotate(-60)" fill="#222">{name}</text>',
            f'<rect x="{x}" y="{y}" width="{STEP}" height="{STEP}" fill="#c9d3dd"/>',
        ]
    for (a, b), count in sorted(found.items()):
        x, y = LEFT + STEP * names.index(b) + STEP / 2, TOP + STEP * names.index(a) + STEP / 2
        lines.append(f'<circle cx="{x}" cy="{y}" r="{STEP / 2 - 3}" fill="#2b6cb0"/>')
        lines.append(f'<text x="{x}" y="{y + 4}" text-anchor="middle" fill="#ffffff" font-size="10">{count}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    print(picture(), end="")
