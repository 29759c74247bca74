"""Papers' files map the paper's symbols to names in the code; the names exist and the lines are of real boxes."""

import re
from pathlib import Path

import pytest

import fattail

PAPERS = Path(fattail.__file__).parent / "algorithms" / "papers"
SEEDS = ("wang2020", "dpem2020", "tao2022", "wanggu2020", "tian2025")


def table(name):
    """Rows of the symbol table: symbol, names, place."""
    docstring, _, code = (PAPERS / f"{name}.py").read_text()[3:].partition('"""')
    rules = [k for k, line in enumerate(docstring.splitlines()) if re.fullmatch(r"=+  =+  =+", line)]
    assert len(rules) == 3, "a table with a head"
    lines = docstring.splitlines()
    starts = [m.start() for m in re.finditer(r"=+", lines[rules[0]])]
    ends = [*starts[1:], None]
    return [[line[a:b].strip() for a, b in zip(starts, ends, strict=True)] for line in lines[rules[1] + 1 : rules[2]]], code


@pytest.mark.parametrize("name", SEEDS)
def test_every_name_of_a_symbol_is_in_the_code(name):
    rows, code = table(name)
    assert len(rows) >= 7
    for symbol, names, place in rows:
        quoted = re.findall(r"``([^`]+)``", names)
        assert symbol and quoted and re.match(r"(Algorithms?|Theorems?) \d", place)
        for text in quoted:
            words = re.findall(r"[A-Za-z_]\w*", text)
            assert all(re.search(rf"\b{word}\b", code) for word in words), (symbol, text)


def numbers(text):
    """Numbered boxes that a text names: {("Algorithm", "1"), ("Theorem", "2"), ...}."""
    found = re.findall(r"(Algorithm|Theorem)s? (\d(?:(?:, | and )\d)*)", text)
    return {(kind, number) for kind, list_of in found for number in re.findall(r"\d", list_of)}


@pytest.mark.parametrize("name", SEEDS)
def test_every_registered_algorithm_has_symbols(name):
    rows, _ = table(name)
    registered = {n for m in fattail.registry() if m.paper == name for n in numbers(m.algorithm)}
    assert registered and not registered - numbers("; ".join(place for *_, place in rows))
