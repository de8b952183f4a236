"""A scheme is one file and one entry in the registry: pages, laws, lab and command line take it.

As in tests/test_new_scaling.py it is added to a copy of the packages; the tests are run there, too.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests.copied_packages import ROOT, add_line, copy_packages, ran

SCHEME = r'''
"""A trained slope times the root of the distance: a scheme made up for a test."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc import fields
from posenc.formula import Writer
from posenc.schemes.shared_rules import HEADS
from posenc.schemes.trainable import Trainable, TrainableConfig, drawn, source_field, wide


@dataclass(frozen=True, kw_only=True)
class SquareRootConfig(TrainableConfig):
    """A slope for each of `heads` heads."""

    kind: Literal["square_root"] = "square_root"
    heads: int = fields.ruled(8, HEADS)
    source: str = source_field("Square root")

    label: ClassVar[str] = "Square root"
    summary: ClassVar[str] = "Lowers every logit by a trained multiple of the distance's root."
    paper: ClassVar[str] = "Nobody 2026, arXiv 0000.00000"
    shared: ClassVar[dict[str, str]] = {"heads": "heads"}

    def formula(self, write: Writer) -> str:
        return rf"b_h = -s_h \sqrt{{\left|{write.key} - {write.position}\right|}}"

    def initial(self, generator: torch.Generator) -> "SquareRoot":
        return SquareRoot(self, generator)


class SquareRoot(Trainable):
    """Adds -exp(log_slope) times the root of the distance."""

    config: SquareRootConfig
    no_vectors = "nobody looked for some"

    def __init__(self, config: SquareRootConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.heads = config.heads
        self.log_slope = drawn(generator, config.heads)

    def offset_bias(self, offsets: Int[Tensor, " *shape"]) -> Float[Tensor, " h *shape"]:
        slope = self.log_slope.to(offsets.device, wide(offsets.device)).exp()
        roots = offsets.to(slope.dtype).abs().sqrt()
        return -slope.reshape(-1, *(1,) * offsets.dim()) * roots
'''

TESTS = r"""
import numpy as np
import pytest
import torch
from click.testing import CliRunner

from dashboard import charts
from posenc import SCHEMES
from posenc.__main__ import main
from posenc.lab import Store
from tests.pages import drawn, headline, matrices, visit
from tests.small_runs import sentences

pytestmark = pytest.mark.usefixtures("no_shape_checks")
PAIR = {"schemes": "alibi,square_root", "length": "30"}


def test_square_root_stands_in_pages() -> None:
    slopes = SCHEMES["square_root"](heads=8).build().log_slope.detach().double().exp().numpy()
    header, shown = matrices(drawn(visit("similarity", PAIR)))
    apart = np.sqrt(np.abs(np.arange(30)[:, None] - np.arange(30)))[..., None]
    np.testing.assert_allclose(shown["Square root"], np.exp(-slopes * apart).mean(-1), atol=1e-6)
    ours = header["panels"][1]
    assert "initial parameters, seed 0, untrained" in ours["subtitle"]
    assert ours["color"] == charts.COLOURS["square_root"] != charts.COLOURS["alibi"]
    for page in ("encoding", "extrapolation"):
        at = drawn(visit(page, {"schemes": "square_root"}))
        assert "Square root" in headline(at), page


def test_square_root_is_trained_by_the_command_line(tmp_path, monkeypatch) -> None:
    (tmp_path / "text.txt").write_bytes(sentences())
    words = f"train --text {tmp_path}/text.txt --scheme square_root --steps 2 --width 16 --layers 1"
    words += " --heads 2 --train-length 16 --batch 4 --longest 2 --segments 4 --learning-rate 0.01"
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 0, done.output
    (run,) = Store()
    assert run.specification.scheme.kind == "square_root"
    scheme = run.specification.scheme.replace(source=f"run-{run.run_id}").build()
    start = run.specification.scheme.build(seed=0)
    assert scheme.trained
    assert not torch.equal(scheme.log_slope, start.log_slope)
    link = {"dim": "16", "heads": "2", "square_root.source": f"run-{run.run_id}"}
    header, _ = matrices(drawn(visit("similarity", PAIR | link)))
    assert f"trained parameters of run {run.run_id[:8]}" in header["panels"][1]["subtitle"]
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages with the scheme's file and its one entry, the laws, and the tests above."""
    folder = copy_packages(tmp_path_factory.mktemp("copy"))
    schemes = folder / "posenc" / "schemes"
    (schemes / "square_root.py").write_text(SCHEME.lstrip())
    add_line(
        schemes / "__init__.py",
        "    cope=CopeConfig,\n",
        "    square_root=SquareRootConfig,\n",
        "from posenc.schemes.square_root import SquareRootConfig\n",
    )
    for name in ("pyproject.toml", "tests/test_laws.py"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "tests" / "test_square_root.py").write_text(TESTS)
    return folder


def test_pages_laws_lab_and_command_line_take_it(copy: Path) -> None:
    words = ("-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-k", "square_root")
    said = ran(copy, *words, "tests/test_square_root.py", "tests/test_laws.py")
    found = re.search(r"(\d+) passed, \d+ deselected", said)
    assert found, said
    assert int(found[1]) > 50, "the laws took it, too"
