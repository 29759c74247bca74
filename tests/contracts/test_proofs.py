"""A proof speaks of code; when the code changes, somebody must read the proof again."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "fingerprint.py"
spec = importlib.util.spec_from_file_location("fingerprint", SCRIPT)
fingerprint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fingerprint)
PROOFS = sorted(fingerprint.PACKAGE.rglob("*.proof.md"))


@pytest.mark.parametrize("proof", PROOFS, ids=lambda p: p.name)
def test_proof_is_of_this_code(proof):
    recorded, current = fingerprint.check(proof)
    assert recorded == current, f"read {proof.name} again, then run scripts/fingerprint.py --write"


@pytest.mark.parametrize("folder", ["robust", "privacy"])
def test_every_proof_that_the_code_names_exists(folder):
    named = {
        word.strip("`.")
        for file in (fingerprint.PACKAGE / folder).glob("*.py")
        for word in file.read_text().split()
        if "proof.md" in word
    }
    assert named
    assert named <= {proof.name for proof in PROOFS}


def test_fingerprint_ignores_comments_and_sees_logic(tmp_path):
    code = tmp_path / "a.py"
    hashes = []
    for text in (
        'def f(x):\n    """Doc."""\n    return x + 1\n',
        "def f(x):\n    # why\n    return x + 1\n",
        "def f(x):\n    return x + 2\n",
    ):
        code.write_text(text)
        hashes.append(fingerprint.fingerprint([code]))
    assert hashes[0] == hashes[1] != hashes[2]
