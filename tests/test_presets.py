"""Presets: the papers' own numbers, written here once more by hand."""

import pytest

from posenc import Setting
from posenc.presets import PRESETS

# Dimension, heads, base, training length; None where the paper does not say.
PAPERS = {
    "transformer": (512, 8, 10_000.0, None),
    "bert": (768, 12, None, 512),
    "llama-2": (4_096, 32, 10_000.0, 4_096),
    "alibi": (1_024, 8, None, 512),
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_holds_the_numbers_of_its_paper_and_changes_nothing_else(name: str) -> None:
    before = Setting(seed=9, length=64, schemes=("rope",))
    found = PRESETS[name].apply(before)
    dim, heads, base, train_length = PAPERS[name]
    assert found == before.replace(
        dim=dim,
        heads=heads,
        base=before.base if base is None else base,
        train_length=before.train_length if train_length is None else train_length,
    )


def test_there_is_one_preset_for_each_of_the_four_main_schemes() -> None:
    assert {one.scheme for one in PRESETS.values()} == {"learned", "sinusoidal", "rope", "alibi"}
