"""Bases that ship with the planner are what the search finds; plain sums show it at every run."""

import numpy as np
import pytest

from posenc.analysis import base_search
from posenc.interop import read_config
from posenc.planner import context_plan, plan
from posenc.planner.context_plan import planned_kind
from posenc.planner.known_bases import _FOUND, known_base
from posenc.presets import MODELS
from posenc.schemes.rope import RopeConfig
from tests import models


def lowest(base: float, dim: int, length: int) -> float:
    """The lowest B(k) below `length`, a plain sum of cosines."""
    inv_freq = np.array([base ** (-2 * m / dim) for m in range(dim // 2)])
    steps = range(0, length, 4_096)
    return min(
        float(np.cos(np.outer(np.arange(start, min(start + 4_096, length)), inv_freq)).sum(1).min())
        for start in steps
    )


@pytest.mark.parametrize(("dim", "length"), _FOUND)
def test_the_window_begins_and_ends_where_it_says(dim: int, length: int) -> None:
    window = known_base(dim, length)
    assert window is not None
    assert window.end is not None
    # B moves by at most 1e-4 within the resolution of the search, a billionth of the base.
    assert lowest(window.base * (1 + 2e-9), dim, length) >= -1e-4
    assert lowest(window.rounded, dim, length) >= 0
    assert lowest(window.base * (1 - 1e-6), dim, length) < 0
    assert lowest(window.end * (1 + 1e-6), dim, length) < 0


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("dim", "length"), _FOUND)
def test_the_search_finds_every_one_of_them(dim: int, length: int) -> None:
    found, known = base_search.smallest_base(dim, length), known_base(dim, length)
    assert found is not None
    assert known is not None
    for name in ("base", "end", "searched"):  # processors differ in the last digits of a cosine
        assert getattr(found, name) == pytest.approx(getattr(known, name), rel=1e-9)
    assert found.rounded == known.rounded


def test_a_known_answer_is_not_searched_and_an_unknown_one_only_where_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[tuple[int, int]] = []
    monkeypatch.setattr(
        context_plan, "smallest_base", lambda dim, length: searched.append((dim, length))
    )
    model = read_config(models.LLAMA3_8B)
    found = plan(model, 131_072, methods=["base"])
    assert found.base_searched
    assert found.base_window == known_base(128, 131_072)
    assert found.methods[0].config.base == 4_869_200
    assert searched == []
    assert not plan(model, 9_001, methods=["none"], search_base=False).base_searched
    assert plan(model, 9_001, methods=["none"]).base_searched
    assert searched == [(128, 9_001)]


def test_every_width_of_a_known_model_has_its_answers() -> None:
    for name, preset in MODELS.items():
        scheme = planned_kind(preset.read()).scheme
        if isinstance(scheme, RopeConfig) and type(scheme.as_trained()) is RopeConfig:
            for length in (32_768, 65_536, 131_072):
                assert known_base(scheme.rotary_dim, length) is not None, name
