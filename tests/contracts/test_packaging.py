"""What an installation brings: a small core, extras that say how to get them, one version, one public surface."""

import difflib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import fattail

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("typer", "rich", "matplotlib")

FRAMES = ("pandas", "polars", "pyarrow")

# Imports fail as if the packages were not installed. None in ``sys.modules`` would be found there by other libraries.
BLOCKED = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
"""


def run(code, absent=EXTRAS):
    code = BLOCKED.format(absent=absent) + code
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)


def test_without_extras_the_core_works_and_the_rest_says_how_to_get_them():
    found = run("""
import importlib, pkgutil
import numpy as np, fattail
from fattail.__main__ import main
from fattail.results.plots import _axes
from fattail.results.progress import progress_bar
for module in pkgutil.walk_packages(fattail.__path__, "fattail."):
    if not module.name.startswith(("fattail.cli", "fattail.__main__")):
        importlib.import_module(module.name)
for name in fattail.__all__:
    getattr(fattail, name)
print(fattail.mean(np.arange(1000.0), random_state=0).value > 0)
for use in (lambda: _axes(None), lambda: progress_bar().__enter__()):
    try:
        use()
    except ImportError as error:
        print(error)
sys.exit(main(["doctor"]))
""")
    assert found.stdout.splitlines() == [
        "True",
        "this needs matplotlib, which is not installed: pip install 'fattail[plots]'",
        "this needs rich, which is not installed: pip install 'fattail[cli]'",
    ], found.stderr
    assert found.stderr == "fattail: this needs typer, which is not installed: pip install 'fattail[cli]'\n"
    assert found.returncode == 2


def test_without_the_libraries_of_frames_what_needs_them_says_so(tmp_path):
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    found = run(
        f"""
import numpy as np, fattail
x = np.arange(1000.0)
release = fattail.mean({{"x": x, "g": x > 500}}, "x", by="g", groups=[False, True], random_state=0)
summary = fattail.DPLinearRegression(random_state=0).fit(x[:, None], x).summary()
path = {str(tmp_path / "rows.parquet")!r}
for use in (release.to_frame, summary.to_frame, lambda: fattail.mean(path, "x"), lambda: fattail.DPMean().fit(path)):
    try:
        use()
    except ImportError as error:
        print(error)
""",
        EXTRAS + FRAMES,
    )
    pandas, pyarrow = (
        f"this needs {name}, which is not installed: pip install 'fattail[frames]'" for name in ("pandas", "pyarrow")
    )
    assert found.stdout.splitlines() == [pandas, pandas, pyarrow, pyarrow], found.stderr


def test_extras_are_no_dependencies_and_developers_have_them():
    core = {re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]}
    assert not core & set(EXTRAS)
    extras = PROJECT["optional-dependencies"]
    assert {re.match(r"[\w-]+", line)[0] for line in extras["cli"] + extras["plots"]} == set(EXTRAS)
    assert "cli" in extras["dev"][0] and "plots" in extras["dev"][0]


def test_the_version_has_one_place():
    assert "version" not in PROJECT and PROJECT["dynamic"] == ["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", fattail.__version__)
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert fattail.__version__.partition(".dev")[0] == newest, "the changelog's newest entry is of another version"


def test_every_declared_python_is_tested():
    declared = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    workflow = (ROOT / ".github" / "workflows" / "checks.yml").read_text()
    matrix = re.search(r"python: \[(.*)\]", workflow)[1]
    assert declared == set(re.findall(r"\d\.\d+", matrix))
    commands = re.findall(r"- run: (.*)", workflow)
    targets = re.search(r"\.PHONY: (.*)", (ROOT / "Makefile").read_text())[1].split()
    assert commands and all(c.startswith("make ") and c.split()[1] in targets for c in commands)


def test_no_generated_picture_is_kept():
    listed = subprocess.run(["git", "ls-files", "*.png", "*.svg", "*.pdf"], cwd=ROOT, capture_output=True, text=True)
    assert listed.returncode or not listed.stdout.split()


def test_the_public_surface_is_as_recorded():
    spec = importlib.util.spec_from_file_location("api", ROOT / "scripts" / "api.py")
    api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(api)
    recorded, now = api.SNAPSHOT.read_text().splitlines(), api.surface().splitlines()
    change = "\n".join(difflib.unified_diff(recorded, now, "recorded", "now", lineterm="", n=1))
    assert not change, f"if this is meant, run `make snapshot` and say it in the changelog:\n{change}"
