"""Kept readings: one for all who ask the same, bounded, never changed by what is drawn of it."""

import dataclasses
import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from dashboard import encoding, kept, overview, pca, relative_offsets, similarity, start
from dashboard.choices import SimilarityChoice
from dashboard.kept import Kept
from posenc import Setting
from tests.pages import visit

READ = {one.__name__.rpartition(".")[2]: one for one in
        (encoding, overview, pca, relative_offsets, similarity, start)}  # fmt: skip
SMALL = Setting(dim=16, heads=2, length=12, train_length=8, learned_source="random")


@dataclass(frozen=True)
class Reading:
    numbers: bytes
    reasons: dict[str, str] = field(default_factory=dict)


def test_those_who_ask_the_same_share_one_reading() -> None:
    one = similarity.read(SMALL, SimilarityChoice())
    assert similarity.read(Setting(**dataclasses.asdict(SMALL)), SimilarityChoice()) is one
    assert similarity.read(SMALL, SimilarityChoice(reference=3)) is not one
    assert similarity.read(SMALL.replace(base=77.0), SimilarityChoice()) is not one
    assert overview.read(SMALL) is not one


def test_a_reading_with_a_scheme_left_out_is_read_anew() -> None:
    asked = SMALL.replace(learned_source=f"table-{'0' * 12}")
    one = similarity.read(asked, SimilarityChoice())
    assert one.reasons
    assert similarity.read(asked, SimilarityChoice()) is not one
    assert kept.readings.size() == 0


def test_what_was_asked_for_least_lately_goes_first() -> None:
    store = Kept(5_000)
    for name in "abcdefghijkl":
        store.put(name, Reading(bytes(300)))
        store.get("a")
        assert store.size() <= 5_000
    held = [name for name in "abcdefghijkl" if store.get(name) is not None]
    assert held == ["a", *"abcdefghijkl"[-(len(held) - 1) :]]
    assert 3 <= len(held) < 12
    store.clear()
    assert store.get("a") is None
    assert store.size() == 0


def test_one_reading_never_takes_most_of_the_room() -> None:
    store = Kept(5_000)
    store.put("small", Reading(bytes(100)))
    store.put("large", Reading(bytes(1_000)))
    assert store.get("large") is None
    assert store.get("small") is not None


def test_what_is_drawn_is_made_once_for_each_reading() -> None:
    made: list[str] = []

    @kept.once
    def curve(reading: Reading, word: str) -> str:
        made.append(word)
        return f"{len(reading.numbers)} {word}"

    one, other = Reading(b"1"), Reading(b"22")
    said = [curve(*asked) for asked in itertools.product((one, other), "ab") for _ in range(3)]
    assert said == ["1 a"] * 3 + ["1 b"] * 3 + ["2 a"] * 3 + ["2 b"] * 3
    assert made == ["a", "b", "a", "b"]


def same(one: Any, other: Any) -> bool:
    """Whether two readings hold the same in every field, NaN being equal to NaN."""
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
        return True
    if isinstance(one, torch.Tensor):
        return same(one.numpy(), other.numpy())
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(
            one, other, equal_nan=one.dtype.kind == "f"
        )
    if dataclasses.is_dataclass(one):
        return type(one) is type(other) and all(
            same(getattr(one, part.name), getattr(other, part.name))
            for part in dataclasses.fields(one)
        )
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and one != one:
        return bool(other != other)
    return bool(one == other)


@pytest.mark.parametrize("page", READ)
def test_no_page_changes_what_it_has_read(page: str) -> None:
    link = {"dim": "16", "heads": "2", "length": "12", "train_length": "8", "a": "dim~32~length~9"}
    for _ in range(2):  # the second time from what is kept
        at = visit(page, link)
        assert not at.exception
    asked = [key for key in kept.readings._held if key[0] == f"dashboard.{page}"]
    assert len(asked) == 2  # B's and A's
    for key in asked:
        fresh = READ[page].read.__wrapped__(*key[2:])
        assert same(kept.readings.get(key), fresh)
        first = dataclasses.fields(fresh)[0].name
        assert not same(dataclasses.replace(fresh, **{first: "changed"}), fresh)
