"""What a type checker says of code that uses posenc: README's examples pass, mistakes do not."""

import re
from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[2]


def complaints(code: str, folder: Path) -> list[str]:
    """Return what mypy says of a script, a line for each error."""
    script = folder / "script.py"
    script.write_text(code)
    options = [
        "--config-file",
        "",
        "--ignore-missing-imports",
        "--no-error-summary",
        "--follow-imports=silent",
    ]
    output, errors, _ = api.run([*options, str(script)])
    assert not errors, errors
    return re.findall(r"script\.py:\d+: error: (.*)", output)


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
