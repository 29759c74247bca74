"""A proof speaks of code; when the code changes, somebody must read the proof again."""

import importlib.util
import re
from pathlib import Path

import pytest

import fattail

SCRIPT = Path(__file__).parents[2] / "scripts" / "fingerprint.py"
spec = importlib.util.spec_from_file_location("fingerprint", SCRIPT)
fingerprint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fingerprint)
PROOFS = sorted(fingerprint.PACKAGE.rglob("*.proof.md"))


@pytest.mark.parametrize("proof", PROOFS, ids=lambda p: p.name)
def test_proof_is_of_this_code(proof):
    recorded, current = fingerprint.check(proof)
    assert recorded == current, f"read {proof.name} again, then run scripts/fingerprint.py --write"


@pytest.mark.parametrize("folder", ["robust", "privacy", "statistics"])
def test_every_proof_that_the_code_names_exists(folder):
    named = {
        word.strip("`.")
        for file in (fingerprint.PACKAGE / folder).glob("*.py")
        for word in file.read_text().split()
        if "proof.md" in word
    }
    assert named
    assert named <= {proof.name for proof in PROOFS}


# Files that hold no data access of their own; each must stay so.
WITHOUT_PROOF = {
    "robust": {"__init__.py", "base.py", "catoni.py", "plain.py"},  # proved with each robustifier that uses them
    # Numbers about releases; what ledgers, budgets and their files must do is proved with `accounts.py`.
    "privacy": {"__init__.py", "calibration.py", "events.py", "report.py", "selftest.py", "listeners.py"}
    | {"budget.py", "chain.py", "charges.py", "ledger.py", "migrate.py", "witness.py"},
    # Public arithmetic on releases, and docstrings; plans and labels are proved with `mean.py` and `question.py`.
    "statistics": {"__init__.py", "estimate.py", "intervals.py", "plan.py", "labels.py", "documentation.py"},
    # Public arithmetic, registration and what a default is.
    "algorithms": {"__init__.py", "registry.py", "defaults.py", "estimates.py", "geometry.py"}
    | {"sparse_plan.py", "support_plan.py"},
}


@pytest.mark.parametrize("folder", WITHOUT_PROOF)
def test_every_file_has_a_proof_beside_it(folder):
    files = [f for f in (fingerprint.PACKAGE / folder).rglob("*.py") if f.name not in WITHOUT_PROOF[folder]]
    assert len(files) > 5
    missing = [f.relative_to(fingerprint.PACKAGE) for f in files if not f.with_suffix(".proof.md").exists()]
    assert not missing, f"write what is claimed, why it holds and which test guards it: {missing}"


@pytest.mark.parametrize("proof", PROOFS, ids=lambda p: p.name)
def test_a_proof_says_what_it_claims_why_and_which_test_guards_it(proof):
    text = proof.read_text()
    assert text.startswith("# ") and "**Guarded by**" in text
    covered = fingerprint.LINE.search(text)["files"]
    assert f"`{proof.relative_to(fingerprint.PACKAGE).with_suffix('').with_suffix('.py')}`" in covered
    root = fingerprint.PACKAGE.parents[1]
    guards = re.findall(r"`(tests/[^`]+)`", text.partition("**Guarded by**")[2])
    assert guards
    for file, _, function in (guard.partition("::") for guard in guards):
        assert (root / file).is_file(), f"{proof.name} is guarded by {file}, which does not exist"
        assert not function or f"def {function.partition('[')[0]}(" in (root / file).read_text(), f"{file} has no {function}"


def test_every_registered_method_is_named_in_the_proof_of_its_file():
    for method in fattail.registry():
        proof = fingerprint.PACKAGE.parent.joinpath(*method.function.split(".")[:-1]).with_suffix(".proof.md")
        text = proof.read_text()
        assert f"`{method.name}`" in text and f"`{method.function.split('.')[-1]}`" in text, f"{proof.name}: {method.function}"


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
