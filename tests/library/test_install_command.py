"""What users are told to run for a missing package works where their posenc came from."""

import importlib.metadata
import re
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from posenc import text
from posenc.text import install_command

ROOT = Path(__file__).parents[2]
GIT = "https://git.example.org/ann/posenc"


def test_checkout_is_installed_from_its_folder() -> None:
    assert install_command("lab") == "pip install -e '.[lab]'"


@pytest.mark.parametrize(
    ("record", "source"),
    [
        ('{"url": "file:///home/ann/posenc", "dir_info": {}}', "-e '.[hub]'"),
        ('{"url": "file:///srv/posenc-0.1.0%2Bcu-py3-none-any.whl", "archive_info": {}}',
         "'posenc-0.1.0+cu-py3-none-any.whl[hub]'"),
        (f'{{"url": "{GIT}", "vcs_info": {{"vcs": "git", "commit_id": "1f"}}}}',
         f"'posenc[hub] @ git+{GIT}'"),
        (None, "'posenc[hub]'"),  # from an index of packages
    ],
)  # fmt: skip
def test_installed_package_is_installed_again_from_where_it_came(
    record: str | None, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "__file__", str(tmp_path / "site-packages" / "posenc" / "text.py"))
    installed = SimpleNamespace(read_text={"direct_url.json": record}.get)
    monkeypatch.setattr(importlib.metadata, "distributions", lambda name: [installed])
    assert install_command("hub") == f"pip install {source}"


def test_every_hint_names_an_extra_that_is_there_and_none_takes_it_from_pypi() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [path for name in ("posenc", "dashboard") for path in (ROOT / name).rglob("*.py")]
    files += [ROOT / "README.md", ROOT / ".deploy" / "README.md", *(ROOT / "posenc").rglob("*.md")]
    named = set()
    for path in files:
        content = path.read_text(encoding="utf-8")
        named |= {*re.findall(r"install_command\('(\w+)'\)", content)}
        named |= {*re.findall(r"pip install (?:-e )?'\.\[(\w+)\]'", content)}
        if path != Path(text.__file__):
            assert "posenc[" not in content, path
    assert {"lab", "hub", "dask"} <= named <= {*project["optional-dependencies"]}
