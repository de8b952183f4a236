"""Which long proofs CI runs: each of them for some change, and those of code that changed."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The lines of .ci/run that choose, without its way to tell what changed.
CHOICE = re.search(
    r"^helpers=.*^echo \"\$\{long.*?$", (ROOT / ".ci/run").read_text(), re.MULTILINE | re.DOTALL
)
LONG = {
    str(path.relative_to(ROOT))
    for path in (ROOT / "tests").glob("*/test_*.py")
    if re.search(r"mark\.long|mostly\(", path.read_text())
    if path != Path(__file__)
}


def chosen(*changed: str) -> set[str]:
    """Return the files whose long proofs CI runs when these files have changed."""
    assert CHOICE is not None
    program = 'set -euo pipefail; touched="$1"; touches() { grep -qE "^($1)" <<<"$touched"; }\n'
    ran = subprocess.run(
        ["bash", "-c", program + CHOICE[0], "choice", "\n".join(changed)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {*ran.stdout.split()} - {"none"}


def folders(files: set[str]) -> set[str]:
    return {file.split("/")[1] for file in files} - {"library"}


def test_every_long_proof_is_run_for_some_change() -> None:
    assert chosen("pyproject.toml") == LONG
    assert chosen("README.md") == set()


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("dashboard/run.py", {"dashboard", "browser", "server"}),
        ("posenc/lab/trainer.py", {"lab", "server"}),
        ("posenc/planner/plan.py", {"models", "dashboard"}),
        ("posenc/schemes/alibi.py", {"lab", "dashboard"}),
        (".deploy/nginx.conf", {"server"}),
        ("tests/lab/small_runs.py", {"lab"}),
        ("tests/lab/test_training.py", {"lab"}),
    ],
)
def test_a_change_runs_the_proofs_of_its_code_alone(changed: str, expected: set[str]) -> None:
    assert folders(chosen(changed)) == expected


def test_what_is_compiled_is_proven_when_attention_changed_and_not_when_pages_did() -> None:
    proof = "tests/library/test_compile.py"
    assert proof in chosen("posenc/sdpa.py", "dashboard/run.py")
    assert proof not in chosen("dashboard/run.py", "posenc/lab/trainer.py")
