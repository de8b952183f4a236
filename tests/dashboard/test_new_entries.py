"""A new scheme or scaling is one file and one line in the registry: schemes, pages and lab take it.

A file of a user is a scheme on every page, too, with no more than the hooks that it needs.
config.json, planner and identification take an entry each, and do without it.
"""

import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dashboard.settings import Setting
from posenc import SCHEMES, position_kernel
from posenc.analysis import scheme_similarity
from posenc.errors import SchemeArgumentError
from posenc.identification import identify
from posenc.identification.scalings import CANDIDATES, usual_configs
from posenc.lab.specification import Specification
from posenc.models import rope_parameters
from posenc.planner.layers import length_fact
from posenc.planner.methods import METHODS
from posenc.schemes import ROPE_SCALINGS
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import AFTER_TRAINING, length_extensions
from tests.dashboard.added.every_other import RopeEveryOtherConfig
from tests.dashboard.added.square_root import SquareRoot, SquareRootConfig
from tests.lab.small_runs import small_spec
from tests.library.small_schemes import small_configs

# A search makes hundreds of thousands of calls; checking the shapes of each takes as long again.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

ROOT = Path(__file__).parents[2]
ADDED = Path(__file__).parent / "added"


def test_registered_scheme_is_read_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEMES, "square_root", SquareRootConfig)
    assert small_configs()["square_root"] == SquareRootConfig(heads=10)  # what the laws run over
    specification = small_spec("square_root")
    assert Specification.from_record(specification.record) == specification
    request = Setting(length=20).request("square_root", "cpu")
    scheme = request.build("cpu")
    assert isinstance(scheme, SquareRoot)
    slopes = scheme.log_slope.detach().double().exp()
    positions = torch.arange(20, dtype=torch.float64)
    apart = (positions[:, None] - positions).abs().sqrt()
    expected = torch.exp(-slopes[:, None, None] * apart).mean(0)
    kernel = position_kernel(scheme, 20, dtype=torch.float64)
    torch.testing.assert_close(kernel, expected, rtol=1e-6, atol=1e-9)
    similarity = scheme_similarity(request)
    by_distance = dict(zip(similarity.distances.tolist(), similarity.mean.tolist(), strict=True))
    assert by_distance[4] == pytest.approx(expected[4, 0].item(), rel=1e-6)


def test_registered_scaling_without_entries_is_not_read_planned_or_identified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ROPE_SCALINGS, "rope_every_other", RopeEveryOtherConfig)
    monkeypatch.setitem(AFTER_TRAINING, "rope_every_other", RopeEveryOtherConfig)
    monkeypatch.setitem(SCHEMES, "rope_every_other", RopeEveryOtherConfig)
    found = length_extensions(RopeConfig(dim=8), 64, 32, ["rope_every_other"])
    config = RopeEveryOtherConfig(dim=8, factor=2.0, trained_length=32)
    assert found == {"every other pair": config}
    kernel = position_kernel(config.build(), 20, dtype=torch.float64)
    assert kernel.shape == (20, 20)
    with pytest.raises(
        SchemeArgumentError, match="transformers has no rope_type for RoPE every other"
    ):
        rope_parameters(config)
    assert "every_other" not in METHODS
    assert length_fact(config, 64, reach=64, trained_length=32).word == "rope_past"
    angles = torch.arange(90, dtype=torch.float64)[:, None] * config.frequencies().inv_freq
    assert identify(angles.cos().float(), angles.sin().float()).config != config


def test_registered_scaling_is_identified_by_its_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = functools.partial(usual_configs, RopeEveryOtherConfig)
    monkeypatch.setitem(CANDIDATES, "rope_every_other", configs)
    monkeypatch.setitem(ROPE_SCALINGS, "rope_every_other", RopeEveryOtherConfig)
    monkeypatch.setitem(AFTER_TRAINING, "rope_every_other", RopeEveryOtherConfig)
    monkeypatch.setitem(SCHEMES, "rope_every_other", RopeEveryOtherConfig)
    config = RopeEveryOtherConfig(dim=32, base=5e5, factor=8.0, trained_length=1_024)
    angles = torch.arange(150, dtype=torch.float64)[:, None] * config.frequencies().inv_freq
    found = identify(angles.cos().float(), angles.sin().float())
    assert isinstance(found.config, RopeEveryOtherConfig)
    assert (found.config.factor, found.deviations) == (8.0, ())


ENTRIES = (  # of a scaling
    ("models/rope_types.py", "ROPE_TYPES: dict[str, RopeType] = {\n",
     """    "rope_every_other": RopeType(
        ("every_other", "second"), ("factor", "first", "trained_length")
    ),\n"""),
    ("planner/evidence.toml", "# measured, fine_tuned: ratios of small models here.\n",
     """
[[method]]
kind = "rope_every_other"
training = "fine-tuning"
statement = "Made up."
source = "this test"
reports = [{ factor = 3, training = "none", source = "this test" }]
"""),
)  # fmt: skip


def copy_packages(folder: Path) -> Path:
    """Copy the packages and the helpers of tests; add the new files, their entries and an exception."""
    ignored = shutil.ignore_patterns("__pycache__", "artifacts", "test_*")
    for name in ("posenc", "dashboard", "tests", ".streamlit"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in ("pyproject.toml", "tests/library/test_laws.py", "tests/library/test_order.py"):
        shutil.copy(ROOT / name, folder / name)
    schemes = folder / "posenc" / "schemes"
    for name, package, module, entry, after in (
        ("SquareRootConfig", schemes, "square_root", "square_root=", "    cope=CopeConfig,\n"),
        ("RopeEveryOtherConfig", schemes / "rope_scaling", "every_other", '"rope_every_other": ',
         '    "rope_sections": RopeSectionsConfig,\n'),
    ):  # fmt: skip
        shutil.copy(ADDED / f"{module}.py", package)
        registry = package / "__init__.py"
        text = registry.read_text()
        assert text.count(after) == 1
        dotted = ".".join(package.relative_to(folder).parts)
        line = f"from {dotted}.{module} import {name}\n"
        registry.write_text(line + text.replace(after, f"{after}    {entry}{name},\n"))
    for file, opening, entry in ENTRIES:
        path = folder / "posenc" / file
        text = path.read_text()
        assert text.count(opening) == 1
        path.write_text(text.replace(opening, opening + entry))
    exceptions = folder / "tests" / "library" / "law_exceptions.py"
    text = exceptions.read_text()
    for table, reason in (
        ("NO_VECTORS", "nobody looked for vectors"),
        ("SAME_MIRRORED", "the bias depends on the distance alone"),
    ):
        first = f"\n{table} = {{\n"
        assert text.count(first) == 1
        text = text.replace(first, f'{first}    "square_root": "{reason}",\n')
    exceptions.write_text(text)
    return folder


@pytest.mark.long
def test_pages_laws_lab_and_command_line_take_new_entries(tmp_path: Path) -> None:
    """In a copy of the packages, so that nothing knows of the entries before it is imported."""
    folder = copy_packages(tmp_path)
    words = ["-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-k"]
    words += ["square_root or every_other", "tests/dashboard/added/checks.py"]
    laws = ("tests/library/test_laws.py", "tests/library/test_order.py")
    words = [sys.executable, *words, *laws]
    result = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    printed = result.stdout + result.stderr
    assert result.returncode == 0, printed[-3_000:]
    (passed,) = re.findall(r"(\d+) passed, \d+ deselected", printed)
    assert int(passed) > 20  # the laws took it, too


@pytest.mark.long
def test_pages_take_schemes_of_a_plugin_that_define_one_hook_each() -> None:
    """In a process of its own, where the plugin is loaded before anything imports the dashboard."""
    words = ["-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider"]
    words += ["-p", "tests.dashboard.added.loaded", "tests/dashboard/added/plugin_checks.py"]
    result = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-3_000:]
    (passed,) = re.findall(r"(\d+) passed in", result.stdout)
    assert int(passed) > 15  # one for each place, and the script
