"""What a type checker says of code that uses posenc: README's examples pass, mistakes do not."""

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]


# A user's script is checked by mypy's defaults.
OF_A_USER = """
[[tool.mypy.overrides]]
module = "script"
check_untyped_defs = false
disallow_untyped_defs = false
"""


def complaints(code: str, folder: Path) -> list[str]:
    """Return what mypy says of a script, a line for each error.

    With the options of this project for all else, so that what `mypy` has found of posenc is not found
    again.
    """
    script, config = folder / "script.py", folder / "pyproject.toml"
    script.write_text(code)
    config.write_text((ROOT / "pyproject.toml").read_text() + OF_A_USER)
    words = ["--config-file", str(config), "--cache-dir", str(ROOT / ".mypy_cache")]
    output, errors, _ = api.run([*words, "--no-error-summary", str(script)])
    assert not errors, errors
    return re.findall(r"script\.py:\d+: error: (.*)", output)


@pytest.mark.long
def test_type_checkers_accept_the_examples_of_the_library_guide(tmp_path: Path) -> None:
    guide = (ROOT / "posenc/README.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    assert len(examples) > 4
    assert complaints("\n".join(examples), tmp_path) == []


def test_type_checkers_refuse_misspelled_names_and_wrong_types(tmp_path: Path) -> None:
    calls = {
        "posenc.RopeConfig(dims=128)": 'Unexpected keyword argument "dims" for "RopeConfig"',
        'posenc.RopeConfig(dim="128")': 'Argument "dim" to "RopeConfig" has incompatible type "str"',
        "posenc.RopeConfg(dim=128)": 'Module has no attribute "RopeConfg"',
    }
    errors = complaints("\n".join(("import posenc", *calls)), tmp_path)
    assert len(errors) == len(calls)
    for error, beginning in zip(errors, calls.values(), strict=True):
        assert error.startswith(beginning)
