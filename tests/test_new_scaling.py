"""A scaling of RoPE is one file and one entry in the registry: everything takes it without another edit.

The entry is made in a copy of the packages, so that nothing here knows of it before they are imported.
"""

import json
import re
from pathlib import Path

import pytest

from tests.copied_packages import ROOT, add_line, copy_packages, ran

# Every second pair divided: nobody's method.
SCALING = r'''
"""Every second pair divided by the factor: a scaling made up for a test."""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch

from posenc import fields
from posenc.formula import Writer
from posenc.schemes.known_rope import Block, Evidence, RopeBlock
from posenc.schemes.rope_scaling.scaled import (
    ScaledRopeConfig,
    factor_field,
    trained_length_field,
)


@dataclass(frozen=True, kw_only=True)
class RopeEveryOtherConfig(ScaledRopeConfig):
    """RoPE with every second pair divided, the first of them pair `first`."""

    kind: str = "rope_every_other"
    factor: float = factor_field(4.0)
    trained_length: int = trained_length_field(2_048)
    first: float = fields.ruled(0.0, fields.Real(low=0.0, high=1.0, label="First divided pair"))

    label: ClassVar[str] = "RoPE every other"
    summary: ClassVar[str] = "RoPE with every second pair divided."
    paper: ClassVar[str] = "Nobody 2026, arXiv 0000.00000"
    reading: ClassVar[str] = "every other pair"
    block_types: ClassVar[tuple[str, ...]] = ("every_other", "second")
    block_keys: ClassVar[tuple[str, ...]] = ("first_pair",)
    evidence: ClassVar[Evidence | None] = Evidence(
        training="fine-tuning", statement="Made up.", source="this test", untrained_to=3.0
    )

    @classmethod
    def from_block(cls, block: RopeBlock) -> Self:
        return cls(
            **block.shared(),
            factor=block.factor(),
            trained_length=block.trained_length(),
            first=block.own(cls, "first"),
        )

    def to_block(self) -> Block | None:
        return {
            "rope_type": "every_other",
            "factor": self.factor,
            "first": self.first,
            "original_max_position_embeddings": self.trained_length,
        }

    def llama_cpp(self) -> str:
        return f"--rope-scaling other --rope-scale {self.factor:g}"

    def rate_formula(self, write: Writer) -> tuple[str, ...]:
        return (rf"\frac{{1}}{{{write.power('rotary_dim')}}}",)

    def divisors(self) -> torch.Tensor:
        found = torch.ones(self.rotary_dim // 2, dtype=torch.float64)
        found[int(self.first) :: 2] = self.factor
        return found
'''

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4_096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8_192,
    "rope_theta": 500_000.0,
}
BLOCK = {
    "rope_type": "second",
    "factor": 2.0,
    "first": 1.0,
    "original_max_position_embeddings": 8_192,
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages with the scaling's file and its one entry."""
    folder = copy_packages(tmp_path_factory.mktemp("copy"))
    place = folder / "posenc" / "schemes" / "rope_scaling"
    (place / "every_other.py").write_text(SCALING.lstrip())
    add_line(
        place / "__init__.py",
        '    "rope_sections": RopeSectionsConfig,\n',
        '    "rope_every_other": RopeEveryOtherConfig,\n',
        "from posenc.schemes.rope_scaling.every_other import RopeEveryOtherConfig\n",
    )
    (folder / "plain.json").write_text(json.dumps(LLAMA))
    scaled = LLAMA | {"rope_scaling": BLOCK, "max_position_embeddings": 16_384}
    (folder / "scaled.json").write_text(json.dumps(scaled))
    return folder


def test_a_config_is_read_written_and_planned_for(copy: Path) -> None:
    code = """
import json
from pathlib import Path
from posenc.interop import read_config
from posenc.planner import emit, plan
model = read_config(Path("scaled.json"))
again = read_config(json.dumps({**json.loads(Path("scaled.json").read_text()),
                                "rope_scaling": None, "rope_parameters": model.to_rope_parameters()}))
found = plan(read_config(Path("plain.json")), 16_384, search_base=False)
one = next(one for one in found.methods if one.method.name == "every_other")
own = plan(model, 16_384, search_base=False).methods[0]
try:
    read_config({**json.loads(Path("plain.json").read_text()), "rope_scaling": {"rope_type": "x"}})
    refused = ""
except ValueError as error:
    refused = str(error)
print(json.dumps({
    "scheme": model.main.scheme.record(), "alike": again.main.scheme == model.main.scheme,
    "block": model.to_rope_parameters(), "old": model.to_rope_scaling(),
    "label": one.method.label, "usable": one.usable,
    "states": [one.pairs.count("kept"), one.pairs.count("divided")],
    "emitted": [emit(found, one).rope_parameters, emit(found, one).vllm, emit(found, one).llama_cpp],
    "own": own.method.name, "trained": own.pairs.before.tolist() == one.pairs.before.tolist(),
    "refused": refused,
}))
"""
    found = json.loads(ran(copy, "-c", code))
    assert found["scheme"]["kind"] == "rope_every_other"
    assert (found["scheme"]["factor"], found["scheme"]["first"]) == (2.0, 1.0)
    written = BLOCK | {"rope_type": "every_other", "rope_theta": 5e5}
    assert found["block"] == written
    assert found["old"]["rope_scaling"] == BLOCK | {"rope_type": "every_other"}
    assert found["alike"]
    assert found["label"] == "Every other pair"
    assert found["usable"] == "tested to x3 without training"
    assert found["states"] == [32, 32]
    parameters, vllm, llama_cpp = found["emitted"]
    assert parameters["rope_parameters"]["rope_type"] == "every_other"
    assert parameters["max_position_embeddings"] == 16_384
    assert '"every_other"' in vllm
    assert llama_cpp == "llama-server -m MODEL --rope-scaling other --rope-scale 2 -c 16384"
    assert found["own"] == "configured"
    assert found["trained"]
    assert "every_other" in found["refused"]
    assert "second" in found["refused"]


def test_the_command_line_takes_it(copy: Path) -> None:
    assert "RoPE every other" in ran(copy, "-m", "posenc", "inspect", "scaled.json")
    words = ("plan", "plain.json", "--context", "16384", "--methods", "every_other,none")
    said = ran(copy, "-m", "posenc", *words)
    assert "Every other pair" in said
    assert "Made up. (this test)" in said
    script = ran(copy, "-m", "posenc", *words[:4], "--script", "every_other")
    assert '"rope_type": "every_other"' in script


def test_its_tables_are_told(copy: Path) -> None:
    code = """
import torch
from posenc import SCHEMES
from posenc.identification import identify
config = SCHEMES["rope_every_other"](dim=64, base=5e5, factor=8.0, trained_length=1_024)
angles = torch.arange(300, dtype=torch.float64)[:, None] * config.frequencies().phases.inv_freq
found = identify(angles.cos().float(), angles.sin().float())
print(found.config.kind, found.config.factor, found.deviations)
"""
    assert ran(copy, "-c", code).strip() == "rope_every_other 8.0 ()"


def test_identification_names_no_scaling() -> None:
    sources = [path.read_text() for path in (ROOT / "posenc" / "identification").glob("*.py")]
    registry = (ROOT / "posenc/schemes/rope_scaling/__init__.py").read_text()
    names = re.findall(r"Rope\w+Config", registry)
    assert len(sources) > 8 < len(names)
    named = re.compile("|".join({*names} - {"RopeConfig"}) + "|NTK|YaRN|Llama|p-RoPE")
    assert [found for source in sources for found in named.findall(source)] == []


def test_the_planner_s_page_takes_it(copy: Path) -> None:
    code = """
import json
from streamlit.testing.v1 import AppTest
at = AppTest.from_file("dashboard/app.py", default_timeout=120)
for name, value in {"context": "16384", "methods": ["Every other pair", "Unscaled"]}.items():
    at.query_params[name] = value
at.run()
at.switch_page("views/context_planner.py").run()
assert not at.exception, at.exception[0].message
charts = [json.loads(one.proto.spec) for one in at.get("vega_lite_chart")]
from dashboard.palette import METHOD_COLOURS
print(json.dumps({
    "tables": [list(one.value.get("method", [])) for one in at.dataframe],
    "drawn": sum("Every other pair" in json.dumps(one) for one in charts),
    "colour": sum(METHOD_COLOURS["every_other"] in json.dumps(one) for one in charts),
    "colours": len(set(METHOD_COLOURS.values())) == len(METHOD_COLOURS),
    "pasted": any("every_other" in one.value for one in at.code),
}))
"""
    found = json.loads(ran(copy, "-c", code))
    assert found["tables"][0] == ["Every other pair", "Unscaled"]
    assert found["drawn"] == found["colour"] == 3
    assert found["colours"]
    assert found["pasted"]
