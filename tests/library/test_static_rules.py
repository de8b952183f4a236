"""Read from the code: no data is run as code or drawn as HTML; who deletes files; declared imports.

Ruff bans what has a name of its own (pickle, torch.load, st.html; see pyproject.toml). Here is what it does
not see: built-ins handed on, methods of any object and keywords. Texts of visitors are checked by
tests/dashboard/test_hostile_names.py as they are sent.
"""

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

BUILTINS = {"eval", "exec", "compile", "__import__"}
METHODS = {"html", "iframe", "read_pickle", "to_pickle"}  # of any object, as in st.sidebar.html
KEYWORDS = {"unsafe_allow_html", "unsafe_allow_javascript"}
VALUES = {("allow_pickle", True), ("weights_only", False), ("shell", True)}


# Who removes files; a finished run is removed by nobody.
REMOVERS = {
    "dashboard/server/jobs.py",  # jobs that ended or are cancelled
    "dashboard/server/training_worker.py",  # what a killed process left of a job
    "posenc/lab/run_once.py",  # the checkpoint of a run that is stored, and old ones
    "posenc/checkpoints/file_store.py",  # the temporary file of a write that failed
}
REMOVING = {"unlink", "rmdir", "rmtree", "rm", "rm_file", "removedirs", "delete", "_rm"}


@functools.cache
def code() -> dict[str, list[ast.AST]]:
    paths = [
        path for name in ("posenc", "dashboard") for path in sorted((ROOT / name).rglob("*.py"))
    ]
    return {
        path.relative_to(ROOT).as_posix(): [*ast.walk(ast.parse(path.read_bytes()))]
        for path in paths
    }


def dangers(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name) and node.id in BUILTINS:  # handing it on counts, too
            yield f"line {node.lineno}: {node.id}"
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS | {"Popen"}:
            yield f"line {node.lineno}: .{node.func.attr}()"
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if keyword.arg in KEYWORDS or (keyword.arg, value) in VALUES:
                yield f"line {node.lineno}: {keyword.arg}="


def removes_files(nodes: Iterable[ast.AST]) -> bool:
    for node in nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr="remove"):
                return True
            case ast.Attribute(attr=name) if name in REMOVING:
                return True
    return False


def test_no_file_runs_code_from_data_or_draws_html() -> None:
    found = {f"{file} {fault}" for file, nodes in code().items() for fault in dangers(nodes)}
    processes = {one for one in found if one.endswith(".Popen()")}
    assert found - processes == set()
    assert {one.split()[0] for one in processes} == {"dashboard/server/training_process.py"}


def test_undocumented_parts_of_streamlit_stand_in_one_file() -> None:
    """Each with what breaks and the test that fails; app.py and __main__.py are named there."""
    parts = "dashboard/server/streamlit_parts.py"
    asking = {
        path
        for path, nodes in code().items()
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(
            ("streamlit.runtime", "streamlit.web", "streamlit.elements")
        )
    }
    assert asking == {parts, "dashboard/app.py", "dashboard/__main__.py"}
    written = "\n".join(path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py")))
    functions = [node for node in code()[parts] if isinstance(node, ast.FunctionDef)]
    assert functions
    for function in functions:
        named = re.findall(r"test_\w+", ast.get_docstring(function) or "")
        assert named, function.name
        assert all(f"def {test}(" in written for test in named), function.name


def test_only_known_files_remove_files() -> None:
    assert {file for file, nodes in code().items() if removes_files(nodes)} == REMOVERS


# Which extra of pyproject.toml installs what a file imports; all others need none.
EXTRAS = {
    "dashboard/": "dashboard",
    "posenc/lab/": "lab",
    "posenc/checkpoints/file_store.py": "lab",
    "posenc/checkpoints/hub.py": "hub",
    "posenc/notebook.py": "plot",
    "posenc/cli/runs.py": "lab",
    "posenc/cli/train.py": "dask",  # distributed with --dask only, the rest as the lab
}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(project: dict[str, Any], extra: str) -> set[str]:
    """Return the names of the packages that an extra installs, "" for no extra."""
    names = set() if extra == "" else declared(project, "")
    own = project["optional-dependencies"][extra] if extra else project["dependencies"]
    for requirement in own:
        match = re.match(r"([A-Za-z0-9._-]+)(?:\[(\w+)\])?", requirement)
        assert match is not None
        names |= declared(project, match[2]) if match[1] == "posenc" else {normalized(match[1])}
    return names


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_every_imported_package_is_declared_for_the_extra_that_needs_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    distributions = packages_distributions()
    ours = {*sys.stdlib_module_names, "posenc", "dashboard"}
    undeclared = set()
    for file, nodes in code().items():
        extra = next((extra for part, extra in EXTRAS.items() if file.startswith(part)), "")
        names = declared(project, extra)
        for module in {*imported(nodes)} - ours:
            if not names & {normalized(name) for name in distributions.get(module, [module])}:
                undeclared.add(f"{file}: {module}, extra {extra!r}")
    assert undeclared == set()


def test_requirements_pin_every_declared_package_of_the_dashboard() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert {normalized(name) for name in pins} == declared(project, "dashboard")
