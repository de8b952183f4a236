"""Schemes of users: registered by hand, by a file and by an installed package; bad ones in a sentence."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc
from posenc import SCHEMES, ConfigError, PluginError, SchemeArgumentError, SchemeConfig, plugins
from posenc.analysis import scheme_similarity
from tests.library.plugin_template import template

pytestmark = pytest.mark.usefixtures("no_shape_checks", "own_registry")

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class RootConfig(SchemeConfig):
    """A penalty.

    slope: factor of the root.
    """

    kind: str = "root"
    slope: float = 0.5
    label = "Root"
    summary = "Subtracts the root of the distance."

    def build(self, device: Any = None, seed: int = 0) -> "Root":
        return Root(self)


class Root(posenc.Scheme):
    """Subtracts the root of the distance."""

    config: RootConfig

    def offset_bias(self, offsets: torch.Tensor) -> torch.Tensor:
        return -self.config.slope * offsets.abs().double().sqrt()[None]


def test_registered_scheme_is_one_of_the_registry() -> None:
    assert posenc.register(RootConfig) is RootConfig
    assert [*SCHEMES][-1] == "root"
    config = posenc.Sizes(heads=4, own=()).config("root")
    assert config == RootConfig()
    kernel = posenc.position_kernel(config.build(), 10)
    assert kernel[7, 3].item() == pytest.approx(2.718281828459045**-1.0, abs=1e-12)


def test_class_of_the_same_module_and_name_replaces_the_earlier_one() -> None:
    posenc.register(RootConfig)
    again = type("RootConfig", (RootConfig,), {"__module__": __name__, "label": "Second root"})
    again = dataclass(frozen=True, kw_only=True)(again)
    assert posenc.register(again) is SCHEMES["root"] is again


def changed(**values: Any) -> type[SchemeConfig]:
    """Return a config of another name with some attributes changed."""
    return dataclass(frozen=True, kw_only=True)(type("OtherConfig", (RootConfig,), values))


def of_kind(kind: str) -> type[SchemeConfig]:
    return changed(__annotations__={"kind": str}, kind=kind)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (RootConfig(), "register takes a class derived from posenc.SchemeConfig, got RootConfig("),
        (Root, "register takes a class derived from posenc.SchemeConfig"),
        (SchemeConfig, "SchemeConfig must define build."),
        (type("PlainConfig", (RootConfig,), {}), "PlainConfig must be a dataclass: @dataclass("),
        (of_kind("rope"), "OtherConfig.kind must be new, got 'rope', which is RopeConfig."),
        (of_kind("Root-2"), "begins with a letter, got 'Root-2'."),
        (of_kind(""), "OtherConfig.kind must be a field with a default of 1 to 40 lower-case"),
        (changed(label="RoPE"), "OtherConfig.label must be new, got 'RoPE', which RopeConfig has."),
        (changed(label="rope"), "OtherConfig.label must be new, got 'rope', which RopeConfig has."),
        (
            changed(label="Root, squared"),
            "OtherConfig.label must have no comma, got 'Root, squared'.",
        ),
        (changed(label=""), "OtherConfig.label must be a text of one line, got ''."),
        (changed(summary="a\nb"), "OtherConfig.summary must be a text of one line, got 'a\\nb'."),
        (
            changed(__annotations__={"turns": int}),
            "OtherConfig.turns must have a default, or shape must return it.",
        ),
    ],
)
def test_class_that_is_no_scheme_or_lacks_something_is_refused_by_name(
    config: Any, message: str
) -> None:
    before = dict(SCHEMES)
    with pytest.raises((ConfigError, SchemeArgumentError)) as refused:
        posenc.register(config)
    assert message in str(refused.value)
    assert before == SCHEMES


def test_template_of_the_guide_is_a_whole_scheme_in_25_lines_of_code(tmp_path: Path) -> None:
    text = template()
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 25
    (file := tmp_path / "distance_table.py").write_text(text)
    posenc.load_plugin(file)
    config = posenc.Sizes().config("distance_table")
    scheme = config.build(seed=3)
    table = scheme.get_parameter("table").detach().double().exp()
    similarity = scheme_similarity(posenc.Request(config=config, length=40, seed=3))
    by_distance = dict(zip(similarity.distances.tolist(), similarity.mean.tolist(), strict=True))
    for distance, row in ((1, 1), (15, 15), (30, 15)):
        expected = (table[row] / table[0]).item()
        assert by_distance[distance] == pytest.approx(expected, rel=1e-6), distance


def test_file_is_run_once(tmp_path: Path) -> None:
    (file := tmp_path / "mine.py").write_text(template())
    posenc.load_plugin(file)
    first = SCHEMES["distance_table"]
    posenc.load_plugin(str(file))
    assert SCHEMES["distance_table"] is first
    assert plugins.loaded_plugins() == (str(file.resolve()),)


REGISTERED = (
    "import posenc\nfrom posenc.schemes.rope import RopeConfig\nposenc.register(RopeConfig)\n"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory."),
        ("class ", "is not Python: invalid syntax, line 1."),
        (b"\xff\xfe\x00", "is not Python: "),
        ("a = 1\nb = a / 0\n", "cannot be used (line 2): ZeroDivisionError: division by zero."),
        ("import no_such_module_at_all\n",
         "(line 1): ModuleNotFoundError: No module named 'no_such_module_at_all'."),
        ("open('nowhere.txt')\n", "(line 1): FileNotFoundError: "),
        ("import posenc\nposenc.register(3)\n",
         "(line 2): register takes a class derived from posenc.SchemeConfig, got 3."),
        ("import posenc\n", "registers no scheme: it must call posenc.register(MyConfig)."),
        (REGISTERED, "registers no scheme"),
        (template().replace('"distance_table"', '"alibi"'),
         ": DistanceTableConfig.kind must be new, got 'alibi', which is AlibiConfig."),
    ],
)  # fmt: skip
def test_bad_file_is_refused_in_one_sentence(
    content: str | bytes | None, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    before = dict(SCHEMES)
    for _ in range(2):  # a refused file is not taken for a loaded one
        with pytest.raises(PluginError) as refused:
            posenc.load_plugin(file)
        text = str(refused.value)
        assert text.startswith(f"The plugin {file} ")
        assert message in text
        assert text.endswith(".")
        assert "\n" not in text
    assert before == SCHEMES
    assert plugins.loaded_plugins() == ()


def run_installed(folder: Path, module: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code where a package is installed whose entry point names a module of this text."""
    (folder / "my_schemes.py").write_text(module)
    info = folder / "my_schemes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-schemes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[posenc.schemes]\nmine = my_schemes\n")
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))},
    )  # fmt: skip


@pytest.mark.parametrize("first", ["posenc", "my_schemes"])
def test_schemes_of_an_installed_package_are_registered_whatever_is_imported_first(
    first: str, tmp_path: Path
) -> None:
    code = f"import {first}, posenc; print(posenc.Sizes().config('distance_table').label)"
    result = run_installed(tmp_path, template(), code)
    assert (result.returncode, result.stdout) == (0, "Distance table\n"), result.stderr


def test_installed_package_that_cannot_be_imported_is_left_out_with_a_warning(
    tmp_path: Path,
) -> None:
    code = "import posenc; print(len(posenc.SCHEMES))"
    result = run_installed(tmp_path, "raise KeyError('gone')", code)
    assert (result.returncode, result.stdout) == (0, f"{len(SCHEMES)}\n"), result.stderr
    assert (
        "RuntimeWarning: The schemes of mine (my_schemes) are left out: KeyError: 'gone'."
        in result.stderr
    )
