"""The shape of the project: which way imports run, what is never called, what every member has."""

import ast
import dataclasses
import graphlib
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import posenc
from posenc import SCHEMES, Scheme, SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.scaled import ScaledRopeConfig
from tests.conftest import SMALL

ROOT = Path(__file__).parents[1]
LIBRARY = sorted((ROOT / "posenc").rglob("*.py"))
DASHBOARD = sorted((ROOT / "dashboard").rglob("*.py"))

# Imports run from right to left only; a name stands for a module or a package of posenc.
LAYERS = (
    {"errors", "field_rules"},
    {
        "words",
        "fields",
        "limits",
        "toeplitz",
        "device",
        "scratch",
        "kept",
        "run_files",
        "csv_cells",
    },
    {"layout", "phases", "products", "interop", "hook_arguments", "trained_curve", "formula"},
    {"blocks", "rotation", "offset_maps"},
    {"tables"},
    {"rows"},
    {"schemes"},
    {
        "attention",
        "kernel",
        "modules",
        "encoding",
        "rope_frequencies",
        "interop.models",
        "own_fields",
    },
    {"model_factors", "model_presets", "shared_model", "model_evidence"},
    {"setting"},
    {"presets", "query"},
    {"analysis", "identification"},
    {"testing"},
    {"lab"},
    {"claims", "planner"},
    {"commands"},
)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """Every module a file imports, absolute, and whether it does so as soon as it is imported."""
    module = tree(path)
    inside = {
        id(n) for f in ast.walk(module) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)
    }
    package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(module):
        at_once = id(node) not in inside
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_once) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package if node.level else ""
            source = ".".join(part for part in (parent, node.module or "") if part)
            yield source, at_once
            yield from ((f"{source}.{alias.name}", at_once) for alias in node.names)


@pytest.mark.parametrize("path", LIBRARY, ids=named)
def test_the_library_never_imports_the_dashboard_or_its_tools(path: Path) -> None:
    roots = {name.split(".")[0] for name, _ in imported(path)}
    assert not roots & {"streamlit", "altair", "dashboard", "tests", "matplotlib", "transformers"}


@pytest.mark.parametrize("path", LIBRARY, ids=named)
def test_heavy_packages_are_imported_where_they_are_needed(path: Path) -> None:
    if "lab" in path.relative_to(ROOT).parts or path.name == "__main__.py":
        return  # loaded by those who train, as the next test shows
    at_once = {name.split(".")[0] for name, at_once in imported(path) if at_once}
    assert not at_once & {"sklearn", "pandas", "scipy", "pyarrow", "safetensors", "mpmath"}


def test_importing_the_library_loads_none_of_the_heavy_packages() -> None:
    heavy = "streamlit altair dashboard sklearn pandas scipy transformers x_transformers pyarrow "
    heavy += "safetensors fsspec click posenc.lab"
    code = (
        "import posenc, posenc.analysis, posenc.interop, sys;"
        f"print(*sorted(set({heavy.split()}) & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert ran.stdout.split() == []


def layer_of(module: str) -> int:
    own, _, rest = module.removeprefix("posenc.").partition(".")
    inner = (
        f"{own}.{rest.split('.')[0]}"  # a package inside one may stand higher than the rest of it
    )
    found = [rank for name in (inner, own) for rank, names in enumerate(LAYERS) if name in names]
    assert found, f"{module} stands in no layer: say where in LAYERS"
    return found[0]


def library_graph() -> dict[str, set[str]]:
    named_by = {}
    for path in LIBRARY:
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        named_by[module] = {name for name, _ in imported(path)}
    graph = {}
    for module, names in named_by.items():
        found = {name for name in names & set(named_by) if name not in ("posenc", module)}
        # A package that a module takes a module from is not used itself.
        packages = {name.rpartition(".")[0] for name in found}
        graph[module] = found - packages
    return graph


def test_imports_inside_the_library_run_one_way() -> None:
    graph = library_graph()
    for module, names in graph.items():
        if module in (
            "posenc",
            "posenc.__main__",
            "posenc.interop",
        ):  # they offer what stands above
            continue
        for name in names:
            assert layer_of(name) <= layer_of(module), f"{module} imports {name}"
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, naming the cycle


# What is never called -----------------------------------------------------------------------------

FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "torch.save",
    "joblib.load", "yaml.load", "numpy.load", "np.load", "torch.manual_seed", "np.random.seed",
    "numpy.random.seed", "random.seed", "st.html", "streamlit.html", "torch.set_default_dtype",
    "torch.set_default_device", "subprocess.run", "subprocess.Popen",
}  # fmt: skip
FORBIDDEN_IMPORTS = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
FORBIDDEN_KEYWORDS = {"unsafe_allow_html", "allow_pickle", "shell"}


def dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def faults(module: ast.Module) -> list[str]:
    """Every use in a file of what must not be used, with its line."""
    found = []
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in FORBIDDEN_CALLS:
                found.append(f"line {node.lineno}: {name}()")
            found += [
                f"line {node.lineno}: {keyword.arg}="
                for keyword in node.keywords
                if keyword.arg in FORBIDDEN_KEYWORDS
            ]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            roots = {name.split(".")[0] for name in names} & FORBIDDEN_IMPORTS
            found += [f"line {node.lineno}: import {root}" for root in roots]
            found += [
                f"line {node.lineno}: from {node.module} import {name}"
                for name in names
                if isinstance(node, ast.ImportFrom) and f"{node.module}.{name}" in FORBIDDEN_CALLS
            ]
        elif isinstance(node, ast.ExceptHandler):
            caught = "" if node.type is None else dotted(node.type)
            if caught in ("", "Exception", "BaseException") and not isinstance(
                node.type, ast.Tuple
            ):
                found.append(f"line {node.lineno}: except {caught}")
    return found


@pytest.mark.parametrize("path", LIBRARY + DASHBOARD, ids=named)
def test_nothing_runs_code_from_data_or_writes_raw_html(path: Path) -> None:
    found = faults(tree(path))
    if named(path) == "dashboard/workers.py":  # the one place that starts a process, and only ours
        found = [fault for fault in found if not fault.endswith("subprocess.Popen()")]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle", "from pickle import loads", "import torch\ntorch.load('x')", "eval('1')",
        "from torch import load", "import numpy as np\nnp.load('x', allow_pickle=True)",
        "import streamlit as st\nst.markdown('x', unsafe_allow_html=True)", "exec('1')",
        "try:\n  pass\nexcept Exception:\n  pass", "try:\n  pass\nexcept:\n  pass",
        "import torch\ntorch.manual_seed(0)",
    ],
)  # fmt: skip
def test_the_scan_sees_what_it_looks_for(code: str) -> None:
    assert faults(ast.parse(code)) != []


def test_the_scan_lets_a_module_s_eval_mode_and_compiled_patterns_pass() -> None:
    assert faults(ast.parse("import re\nmodel.eval()\nre.compile('x')\nexcept_ = 1")) == []


# The registry -------------------------------------------------------------------------------------


def test_every_scheme_file_is_in_the_registry_once_under_its_kind() -> None:
    configs = []
    folder = [str(ROOT / "posenc" / "schemes")]
    for info in pkgutil.walk_packages(folder, "posenc.schemes."):
        module = importlib.import_module(info.name)
        configs += [
            member
            for member in vars(module).values()
            if inspect.isclass(member)
            and issubclass(member, SchemeConfig)
            and member is not SchemeConfig
            and member.__module__ == module.__name__
            and not inspect.isabstract(member)
        ]
    assert set(configs) == set(SCHEMES.values())
    for kind, config in SCHEMES.items():
        assert config().kind == kind


def test_every_scheme_names_itself_its_paper_and_its_fields(kind: str) -> None:
    config = SCHEMES[kind]
    assert re.search(r"\d{4}, arXiv \d{4}\.\d{5}", config.paper), "author, year, arXiv number"
    assert config.paper.split(",")[-1].strip() in (inspect.getmodule(config).__doc__ or "")
    assert config.label
    assert dataclasses.fields(config)[0].name == "kind"
    ruled = set(posenc.fields.rules(config))
    assert ruled == {field.name for field in dataclasses.fields(config)} - {"kind"}
    assert set(config.shared) <= ruled
    for source in config.shared.values():
        assert hasattr(SMALL, source), f"no Setting has {source}"
    for name, rule in posenc.fields.rules(config).items():
        assert rule.label, name
        assert rule.accepts(posenc.fields.defaults(config)[name]), name


def test_labels_kinds_and_units_are_told_apart() -> None:
    assert len({config.label for config in SCHEMES.values()}) == len(SCHEMES)
    for kind in SCHEMES:
        scheme = SMALL.config(kind).build()
        assert isinstance(scheme, Scheme)
        assert scheme.kernel_unit in ("inner product", "logit", "weight factor")
        assert scheme.config == SMALL.config(kind)


def test_a_scheme_is_one_file_of_under_two_hundred_lines() -> None:
    for path in (ROOT / "posenc" / "schemes").rglob("*.py"):
        if path.name != "scheme.py":  # the base of all
            assert len(path.read_text().splitlines()) < 200, path.name


def test_a_scaling_says_itself_what_the_reader_and_the_planner_need() -> None:
    scalings = [one for one in SCHEMES.values() if issubclass(one, RopeConfig)]
    words = [word for one in scalings for word in one.block_types]
    assert len(set(words)) == len(words)
    for one in scalings:
        if issubclass(one, ScaledRopeConfig) and one.after_training:
            assert one.evidence is not None, f"{one.__name__}: usable after training, says who?"
            assert one.evidence.source
            assert one.evidence.statement.endswith(".")
        if one.in_code is not None:
            assert one.in_code.kind in SCHEMES


def test_no_scaling_is_named_by_what_should_ask_its_config() -> None:
    """The reader and writer of configs and the planner know scalings by the registry alone."""
    asking = [*(ROOT / "posenc/planner").glob("*.py"), *(ROOT / "dashboard").glob("planner*.py")]
    asking += [ROOT / "posenc/interop/models" / name for name in ("rope_block.py", "written.py")]
    for path in asking:
        for name, _ in imported(path):
            own = name.startswith("posenc.schemes.rope_scaling.")
            assert not own or ".scaled" in name, f"{named(path)} imports {name}"


# Names and documents ------------------------------------------------------------------------------


def public_modules() -> list[str]:
    names = ["posenc"]
    names += [info.name for info in pkgutil.walk_packages(posenc.__path__, "posenc.")]
    return [name for name in names if not name.split(".")[-1].startswith("_")]


@pytest.mark.parametrize("name", public_modules())
def test_every_public_name_of_a_module_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)
    assert (module.__doc__ or "").strip(), f"{name} does not say what it is"
    for title, member in vars(module).items():
        if title.startswith("_") or getattr(member, "__module__", None) != module.__name__:
            continue
        if not (inspect.isclass(member) or inspect.isfunction(member)):
            continue
        assert inspect.getdoc(member), f"{name}.{title}"
        if not inspect.isclass(member):
            continue
        for part, value in vars(member).items():
            public = not part.startswith("_") and part not in ("forward", "config")
            if public and (inspect.isfunction(value) or isinstance(value, property)):
                assert inspect.getdoc(getattr(member, part)), f"{name}.{title}.{part}"


def test_what_the_library_offers_is_there_and_listed_in_order() -> None:
    assert len(set(posenc.__all__)) == len(posenc.__all__)
    for name in posenc.__all__:
        assert getattr(posenc, name) is not None
    promised = [
        "sinusoidal_table", "rope_tables", "apply_rope", "alibi_slopes", "alibi_bias", "attention",
        "position_kernel", "offset_curve", "position_vectors", "NoPositionVectors", "NotStationary",
        "PositionOutOfRange", "SinusoidalPositionalEncoding", "LearnedPositionalEncoding",
        "TokenPlusPositionEmbedding", "best_device", "SCHEMES",
    ]  # fmt: skip
    assert set(promised) <= set(posenc.__all__)
    assert set(SCHEMES) >= {"learned", "sinusoidal", "rope", "alibi", "none"}


def test_every_error_is_a_value_error_with_a_meaning() -> None:
    for name in posenc.__all__:
        member = getattr(posenc, name)
        if inspect.isclass(member) and issubclass(member, Exception):
            assert issubclass(member, posenc.PosencError)
            assert issubclass(member, ValueError)


def test_the_visible_top_level_is_exactly_what_the_readme_lists() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, check=True, cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
    )  # fmt: skip
    visible = {line.split("/")[0] for line in listed.stdout.splitlines()}
    expected = {"dashboard", "posenc", "tests", "requirements.txt", "pyproject.toml", "README.md"}
    assert {name for name in visible if not name.startswith(".")} == expected


def test_every_mutant_still_finds_the_line_it_changes() -> None:
    """Otherwise the script of mutants stops on the first that does not, in the last step of CI."""
    from tests.mutants import MUTANTS

    lost = [
        one.name for one in MUTANTS if (ROOT / "posenc" / one.path).read_text().count(one.old) != 1
    ]
    assert lost == []
