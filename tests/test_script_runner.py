"""The runner of scripts: nothing is there that a script did not import, nothing stays, faults are told."""

from tests.script_runner import run


def test_a_script_has_what_it_imports_and_nothing_of_the_test_run() -> None:
    assert run("print(__name__, sorted(name for name in globals() if name[0] != '_'))").stdout == (
        "__main__ []\n"
    )
    missing = run("print(torch.ones(1))")
    assert missing.returncode == 1
    assert "NameError: name 'torch' is not defined" in missing.stderr
    loaded = run(
        "import sys, posenc; print({'streamlit', 'pytest', 'tests.conftest'} & {*sys.modules},"
        " [finder for finder in sys.meta_path if 'jaxtyping' in str(finder)])"
    )
    assert loaded.stdout == "set() []\n", loaded.stderr


def test_what_a_script_changes_is_gone_with_it() -> None:
    first = run("import os, posenc, torch; posenc.left = 1; torch.manual_seed(1); os.chdir('/')")
    assert (first.returncode, first.stdout, first.stderr) == (0, "", "")
    assert run("import posenc; print(hasattr(posenc, 'left'))").stdout == "False\n"


def test_how_a_script_ends_and_where_it_runs_are_those_of_a_process() -> None:
    assert run("import sys; sys.exit(3)").returncode == 3
    told = run("import os; print(dict(os.environ), os.path.exists('pyproject.toml'))", {"ONE": "x"})
    assert told.stdout == "{'ONE': 'x'} True\n"
