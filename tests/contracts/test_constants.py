"""Numbers of the default path have names and origins."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "floats.py"
spec = importlib.util.spec_from_file_location("floats", SCRIPT)
floats = importlib.util.module_from_spec(spec)
spec.loader.exec_module(floats)

FINE = [
    "RATE = 0.3  # share of rows that we look at\n",
    "# Share of rows that we look at.\nRATE = 0.3\n",
    'RATE = 0.3\n"""Share of rows that we look at."""\n',
    'class C:\n    low: float = 0.3\n    high: float = 0.7\n    """Ends of the range."""\n',
    'class C:\n    """Numbers.\n\n    rate : share of rows\n    """\n\n    rate: float = 0.3\n',
    'def f(x, rate=0.3):\n    """Do.\n\n    rate : float\n        Share of rows.\n    """\n',
    "def f(x):\n    return 0.5 * x + 2.0 * x - 0.25 + 1024.0 + 0.0\n",
]
NOT = [
    "RATE = 0.3\n",
    "# Numbers.\n\nRATE = 0.3\n",
    "def f(x):\n    return 0.3 * x\n",
    "def f(x, rate=0.3):\n    return rate * x\n",
    "# A comment is no name.\ndef f(x):\n    return 0.3 * x  # the rate\n",
    "class C:\n    rate: float = 0.3\n",
]


@pytest.mark.parametrize(("code", "count"), [*((c, 0) for c in FINE), *((c, 1) for c in NOT)])
def test_literals_without_an_origin_are_found(tmp_path, code, count):
    path = tmp_path / "code.py"
    path.write_text(code)
    assert len(list(floats.unnamed(path))) == count


def test_no_file_has_more_than_it_may():
    allowed = json.loads(floats.ALLOWED.read_text())
    found = {name: len(literals) for name, literals in floats.counts().items()}
    assert not {name: (count, allowed.get(name, 0)) for name, count in found.items() if count > allowed.get(name, 0)}


# Words that once named several things.
ONE_MEANING = ("Units", "Budget", "Problem", "Fit")


def test_a_word_names_one_class():
    package = SCRIPT.parents[1] / "src" / "fattail"
    code = [path.read_text() for path in package.rglob("*.py")]
    homes = {word: sum(f"\nclass {word}:" in text or f"\nclass {word}(" in text for text in code) for word in ONE_MEANING}
    assert {word for word, found in homes.items() if found > 1} == set()
