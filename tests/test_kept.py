"""Kept readings: one for all who ask the same, bounded, never changed by what is drawn of it."""

import dataclasses
import itertools
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from dashboard import (
    encoding,
    formula,
    kept,
    overview,
    pca,
    pinned,
    relative_offsets,
    similarity,
    start,
    take_away,
)
from dashboard.choices import SimilarityChoice
from dashboard.kept import Kept
from dashboard.pair import Pair
from posenc import Setting
from tests.pages import opened, setting, visit

READ = {one.__name__.rpartition(".")[2]: one for one in
        (encoding, overview, pca, relative_offsets, similarity, start)}  # fmt: skip
READ["extrapolation"] = formula
OPEN = dict.fromkeys(("definition", "from_one_position", "menu_python", "menu_export"), True)
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


@dataclass(frozen=True, slots=True)
class Slotted:
    numbers: np.ndarray
    words: tuple[str, ...]


def test_what_a_result_takes_is_that_of_its_parts() -> None:
    little = kept.weight(())
    assert (
        kept.weight(np.zeros((3, 5))) == kept.weight(torch.zeros(3, 5, dtype=torch.float64)) == 120
    )
    assert kept.weight(Slotted(np.zeros(50), ("abc", "d"))) == 2 * little + 400 + 4
    assert kept.weight(Reading(bytes(7), {"rope": "why"})) == 2 * little + 7 + 3
    assert kept.weight({"one": [Slotted(np.zeros(2), ())]}) == 4 * little + 16
    assert kept.weight(3.5) == little > 0
    store = Kept(6_000)
    store.put("slotted", Slotted(np.zeros(50), ()))
    assert store.size() == 2 * little + 400


def arrays(one: Any) -> list[np.ndarray]:
    """Every NumPy array of a result."""
    if isinstance(one, np.ndarray):
        return [one]
    if dataclasses.is_dataclass(one):
        one = [getattr(one, part.name) for part in dataclasses.fields(one)]
    parts = one.values() if isinstance(one, dict) else one
    return [found for part in parts for found in arrays(part)] if is_group(parts) else []


def is_group(one: Any) -> bool:
    return isinstance(one, list | tuple | type({}.values()))


def test_what_is_kept_cannot_be_written_and_is_no_copy() -> None:
    base = np.arange(6.0)
    held = {"one": [Slotted(base[1:], ("a",))], "two": (torch.zeros(2).numpy(),)}
    found = arrays(held)
    store = Kept(60_000)
    store.put("x", held)
    assert [one.tolist() for one in arrays(store.get("x"))] == [[1, 2, 3, 4, 5], [0, 0]]
    assert all(a is b for a, b in zip(arrays(store.get("x")), found, strict=True))
    for one in found:
        with pytest.raises(ValueError, match="read-only"):
            one[0] = 7


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("page", READ)
def test_no_page_makes_a_tensor_that_shares_what_is_kept(page: str) -> None:
    """A tensor knows no read-only memory: torch warns of it, and would write."""
    link = {"schemes": "learned,rope,alibi,t5", "dim": "16", "heads": "2", "length": "24"}
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "The given NumPy array is not writable")
            for more in ({}, {"a": "dim~32~length~9"}, {"predict": "true"}):
                for _ in range(2):  # read, and kept
                    at = visit(page, link | more)
                    assert not at.exception
                    assert not at.error, at.error[0].value
    finally:
        torch.set_warn_always(before)


def test_every_page_that_keeps_its_readings_is_tested_here() -> None:
    folder = Path(kept.__file__).parent
    keeping = {file.stem for file in folder.rglob("*.py") if "\n@kept\n" in file.read_text()}
    assert keeping == {one.__name__.rpartition(".")[2] for one in READ.values()}


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("page", READ)
def test_no_page_changes_what_it_has_read(page: str) -> None:
    """Drawn from what is kept, every drawer and menu open, taken away as a zip, and predicted."""
    alone = {"dim": "16", "heads": "2", "length": "12", "train_length": "8"}
    link = alone | {"a": "dim~32~length~9"}
    assert not visit(page, link).exception
    for asked in (link, alone):  # beside a pin every frame is a copy, alone it is what was read
        names = [*visit(page, asked).session_state["sheet"].tables]
        at = visit(page, asked, **OPEN, **opened(*names))
        assert not at.exception
        shown = [one.label for one in at.expander if one.label.startswith("Numbers: ")]
        assert shown == [f"Numbers: {name}" for name in names] != []
        assert all(one.dataframe for one in at.expander if one.label in shown)
        assert any(one.label == "Definition and code" and one.code for one in at.expander)
        assert "take_away" in [one.key for one in at.get("download_button")]
        compared = Pair(setting(at), pinned.read(at.session_state["a"])[0])
        assert take_away.archive(at.session_state["sheet"], compared, "the link")
    assert not visit(page, link | {"predict": "true"}).exception
    read = READ[page]
    keys = [key for key in kept.readings._held if key[0] == read.__name__]
    assert len(keys) == 2  # B's and A's
    for key in keys:
        fresh = read.read.__wrapped__(*key[2:])
        assert same(kept.readings.get(key), fresh)
        assert not any(one.flags.writeable for one in arrays(kept.readings.get(key)))
        assert any(one.flags.writeable for one in arrays(fresh))
        first = dataclasses.fields(fresh)[0].name
        assert not same(dataclasses.replace(fresh, **{first: "changed"}), fresh)
