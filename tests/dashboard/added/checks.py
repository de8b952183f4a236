"""Tests of an added scheme and scaling, run by test_new_entries.py in a copy of the packages."""

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dashboard.charts import theme
from dashboard.pages.extend_context.charts import METHOD_COLOURS
from posenc import SCHEMES
from posenc.__main__ import main
from posenc.models import read_config
from tests.dashboard.pages import (
    PLACES,
    as_read,
    captions,
    drawn,
    exported,
    headline,
    matrices,
    opened,
    visit,
    visit_place,
)

pytestmark = pytest.mark.usefixtures("no_shape_checks")

PAIR = {"schemes": "alibi,square_root", "length": "30"}
LLAMA = {
    "model_type": "llama", "hidden_size": 4_096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 8_192, "rope_theta": 500_000.0,
}  # fmt: skip
BLOCK = {
    "rope_type": "second", "factor": 2.0, "first": 1.0, "original_max_position_embeddings": 8_192,
}  # fmt: skip
SCALED = LLAMA | {"rope_scaling": BLOCK, "max_position_embeddings": 16_384}


def command(*words: str, stdin: str = "") -> str:
    result = CliRunner().invoke(main, words, input=stdin)
    assert result.exit_code == 0, result.output
    return result.output


def test_square_root_is_drawn_by_pages() -> None:
    scheme: Any = SCHEMES["square_root"]().build()
    slopes = scheme.log_slope.detach().double().exp().numpy()
    header, shown = matrices(drawn(visit("similarity", PAIR)))
    apart = np.sqrt(np.abs(np.arange(30)[:, None] - np.arange(30)))[..., None]
    np.testing.assert_allclose(shown["Square root"], np.exp(-slopes * apart).mean(-1), atol=1e-6)
    ours = header["panels"][1]
    assert "initial parameters, seed 0, untrained" in ours["subtitle"]
    assert ours["color"] == theme.COLOURS["square_root"] != theme.COLOURS["alibi"]
    for page in ("encoding", "extrapolation"):
        at = drawn(visit(page, {"schemes": "square_root"}))
        assert "Square root" in headline(at), page


@pytest.mark.usefixtures("fixed_speed")
@pytest.mark.parametrize("place", PLACES)
def test_square_root_and_every_other_open_and_export_with_every_page(place: str) -> None:
    link = {"schemes": "rope,square_root,rope_every_other", "length": "30", "train_length": "20"}
    at = drawn(visit_place(place, link, **opened()))
    assert {"README.txt", "settings.json"} < {*exported(at)}
    if place == "relative_offsets":
        texts = [as_read(text.value) for text in at.main.markdown]
        assert any("Square root has no vectors to move." in text for text in texts)
        assert not any("No exact matrix" in text for text in texts)
    if place == "overview":
        comparison = at.main.table[0].value
        assert comparison.loc["paper", "Square root"] == "none named"
    if place == "measured":
        assert "Not trained in this comparison: RoPE every other and Square root." in captions(at)


def test_every_other_is_read_written_and_planned_for() -> None:
    model = read_config(SCALED)
    every_other: Any = SCHEMES["rope_every_other"]
    assert model.main.scheme == every_other(
        dim=128, base=5e5, layout="half", factor=2.0, first=1.0, trained_length=8_192
    )
    parameters = model.to_rope_parameters()
    assert parameters == BLOCK | {"rope_type": "every_other", "rope_theta": 5e5}
    again = read_config(SCALED | {"rope_scaling": None, "rope_parameters": parameters})
    assert again.main.scheme == model.main.scheme
    assert model.to_rope_scaling()["rope_scaling"] == BLOCK | {"rope_type": "every_other"}


def test_every_other_is_planned_by_the_command_line_and_the_page() -> None:
    config = json.dumps(LLAMA)
    words = ("plan", "-", "--context", "16384")
    said = command(*words, "--methods", "every_other,none", stdin=config)
    assert "Every other pair" in said
    assert "Made up. (this test)" in said
    assert '"rope_type": "every_other"' in command(*words, "--script", "every_other", stdin=config)
    assert "RoPE every other" in command("inspect", "-", stdin=json.dumps(SCALED))
    link = {"context": "16384", "methods": ["Every other pair", "Unscaled"]}
    at = drawn(visit("context_planner", link))
    methods = next(box.value for box in at.dataframe if "method" in box.value)
    assert list(methods["method"]) == ["Every other pair", "Unscaled"]
    assert len(set(METHOD_COLOURS.values())) == len(METHOD_COLOURS)
    assert any("every_other" in box.value for box in at.code)
