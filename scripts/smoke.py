"""Build wheel and sdist, install the wheel into a new environment, and use it there, away from the source.

Run with ``python scripts/smoke.py`` in an environment that has ``build``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CHECKS = """
import json, sys
from pathlib import Path
import numpy as np
import fattail

where = Path(fattail.__file__).resolve()
assert "site-packages" in where.parts, where
rng = np.random.default_rng(0)
claims = 1000 * rng.pareto(2.1, 20_000)
release = fattail.mean(claims, epsilon=1.0, delta=1e-6)
assert abs(release.value / claims.mean() - 1) < 0.2 and release.privacy.numerics == "exact"
X = rng.standard_t(3, (4000, 3))
y = X @ [1.0, -2.0, 0.5] + rng.standard_t(2.5, 4000)
model = fattail.DPLinearRegression(epsilon=2.0).fit(X, y)
assert np.linalg.norm(model.coef_ - [1.0, -2.0, 0.5]) < 0.6, model.coef_
assert len(fattail.registry()) > 10
Path("claims.csv").write_text("cost\\n" + "\\n".join(f"{c:.2f}" for c in claims) + "\\n")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run(sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT))
        (wheel,), (sdist,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
        check_contents(wheel, sdist)
        venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        python, fattail = str(programs / "python"), str(programs / "fattail")
        run(python, "-m", "pip", "install", "--quiet", str(wheel))
        run(python, "-c", CHECKS, cwd=folder)
        without = subprocess.run([fattail, "doctor"], cwd=folder, capture_output=True, text=True)
        assert without.returncode == 2 and "pip install 'fattail[cli]'" in without.stderr, without
        run(python, "-m", "pip", "install", "--quiet", f"{wheel}[cli,plots]")
        run(fattail, "doctor", cwd=folder)
        run(fattail, "ledger", "open", "budget.db", "claims", "--epsilon", "1.2", "--delta", "1e-5", cwd=folder)
        mean = [fattail, "mean", "claims.csv", "-c", "cost", "--ledger", "budget.db", "--card", "card.html", "--json"]
        answer = json.loads(run(*mean, cwd=folder))
        assert 500 < answer["results"][0]["value"] < 1500 and (folder / "card.html").exists()
        refused = subprocess.run(mean, cwd=folder, capture_output=True, text=True)
        assert refused.returncode == 3 and refused.stderr.count("\n") == 1, refused
    print("wheel and sdist built; the wheel works without the source tree")


def check_contents(wheel: Path, sdist: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for part in ("fattail/py.typed", "fattail/cli/__init__.py", "fattail/robust/clip.proof.md"):
        assert part in names, f"{part} is not in the wheel"
    assert not [n for n in names if n.startswith(("tests", "docs", "benchmarks"))], "the wheel holds more than the package"
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for part in ("pyproject.toml", "README.md", "LICENSE", "src/fattail/__init__.py"):
        assert part in inside, f"{part} is not in the sdist"


def run(*command: str, cwd: Path | None = None) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(command, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
