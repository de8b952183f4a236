"""Caches of pages: shared by equal questions, bounded, never changed by what is drawn."""

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import cachetools
import numpy as np
import pandas as pd
import pytest
import torch

from dashboard import cache
from dashboard.cache import ResultCache
from dashboard.charts import frames
from dashboard.pages.at_a_glance import page as at_a_glance
from dashboard.pages.encoding import data as encoding
from dashboard.pages.similarity import page as similarity
from dashboard.settings import Setting
from posenc import Request
from posenc.schemes.learned import LearnedConfig
from tests.dashboard.pages import drawn, exported, opened, table_keys, visit

SMALL = Setting(dim=16, heads=2, length=12, train_length=8, learned_source="random")


def test_equal_questions_share_one_result() -> None:
    first = similarity.page(SMALL, similarity.Options())
    assert similarity.page(Setting(**dataclasses.asdict(SMALL)), similarity.Options()) is first
    assert similarity.page(SMALL, similarity.Options(reference=3)) is not first
    assert similarity.page(SMALL.replace(base=77.0), similarity.Options()) is not first
    assert at_a_glance.page(SMALL, at_a_glance.Options()) is not first


def test_result_that_lacks_a_scheme_is_computed_anew() -> None:
    asked = SMALL.replace(learned_source=f"table-{'0' * 12}")
    first = similarity.page(asked, similarity.Options())
    assert first.reasons
    assert similarity.page(asked, similarity.Options()) is not first
    assert not [key for key in cache.RESULTS if key[0] == similarity.__name__]


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    numbers: np.ndarray
    words: tuple[str, ...]


def test_least_recently_used_and_too_large_results_are_evicted() -> None:
    small = ResultCache(5_000)
    for name in "abcdefghijkl":
        small.store(name, np.zeros(110, np.float32))
        small.get("a")
        assert small.currsize <= 5_000
    left = [name for name in "abcdefghijkl" if name in small]
    assert left == ["a", *"abcdefghijkl"[-(len(left) - 1) :]]
    assert 3 <= len(left) < 12
    small.store("large", np.zeros(400, np.float32))  # more than a quarter of the cache
    assert "large" not in small
    small.clear()
    assert small.currsize == 0
    assert (
        cache.size_in_bytes(np.zeros((3, 5)))
        == cache.size_in_bytes(torch.zeros(3, 5).double())
        == 120
    )
    small.store("slots", Slotted(np.zeros(40), ("abc", "d")))
    assert small.currsize == 2 * cache.size_in_bytes(()) + 320 + 4


def test_aging_result_is_computed_anew_once_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(cachetools.TTLCache.__init__, "__defaults__", (lambda: now[0], None))
    calls: list[str] = []

    @cache.cached_for(5.0, most=2)
    def listed(name: str) -> int:
        calls.append(name)
        return len(calls)

    assert [listed("a"), listed("b"), listed("a")] == [1, 2, 1]
    now[0] += 4.9
    assert listed("a") == 1
    now[0] += 0.2
    assert [listed("a"), listed("b")] == [3, 4]
    assert [listed("c"), listed("a")] == [5, 6]  # two at most
    cache.clear()
    assert listed("c") == 7


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every array, table, number and word of a result, with its place in it."""
    if dataclasses.is_dataclass(value):
        parts = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
        value = {type(value).__name__: parts}
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{name}.{key}")
    else:
        yield name, value


def assert_same(result: Any, expected: Any) -> None:
    """Assert that two results hold the same in every field, NaN being equal to NaN."""
    for (name, part), (place, fresh) in zip(leaves(result), leaves(expected), strict=True):
        assert name == place
        if isinstance(part, pd.DataFrame):
            pd.testing.assert_frame_equal(part, fresh)
        elif isinstance(part, torch.Tensor | np.ndarray | float):
            np.testing.assert_allclose(part, fresh, rtol=1e-12, atol=1e-14, err_msg=name)
        else:
            assert part == fresh, name


def writable(value: Any) -> list[str]:
    """The names of the arrays that can be written into."""
    arrays = [(name, part) for name, part in leaves(value) if isinstance(part, np.ndarray)]
    return [name for name, array in arrays if array.flags.writeable]


@pytest.mark.usefixtures("no_shape_checks")
def test_page_does_not_change_what_it_has_read() -> None:
    """Alone, beside a pin, with every drawer and menu open, and exported."""
    alone = {"dim": "16", "heads": "2", "length": "12", "train_length": "8"}
    link = alone | {"schemes": "learned,rope,alibi,kerple_log", "a": "dim~32~length~9~heads~2"}
    menus: dict[str, Any] = dict.fromkeys(("from_one_position", "menu_python", "menu_export"), True)
    menus |= {"drawers": ["Definition", "Code"]}
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            # A tensor knows no read-only memory: one that shares a result's would write into it.
            warnings.filterwarnings("error", "The given NumPy array is not writable")
            # Beside a pin every frame is a copy; alone, frames are those that were read.
            for asked in (link, alone | {"schemes": link["schemes"]}):
                at = visit("encoding", asked, **menus)
                for name, state in opened(*table_keys(at)).items():
                    at.session_state[name] = state
                drawn(at.run())
            assert exported(at)
    finally:
        torch.set_warn_always(before)
    keys = [key for key in cache.RESULTS if key[:2] == (encoding.__name__, "scheme_encoding")]
    assert len(keys) == 8  # four schemes of B and of A
    for key in keys:
        fresh = vars(encoding)["scheme_encoding"].__wrapped__(*key[2:])
        assert_same(cache.RESULTS.get(key), fresh)
        assert writable(cache.RESULTS.get(key)) == []
        # What is compared holds numbers.
        assert any(isinstance(part, torch.Tensor | np.ndarray) for _, part in leaves(fresh))


def test_result_of_an_uploaded_table_is_computed_anew_once_it_is_evicted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[Any] = []

    def read(asked: Any) -> Any:
        calls.append(asked)
        return np.ones(2)

    cached, source = cache.cached(read), f"table-{'0' * 12}"
    for asked in (
        SMALL.replace(learned_source=source),
        Request(config=LearnedConfig(source=source), length=4),
    ):
        monkeypatch.setattr(cache, "is_evicted", lambda name: False)
        assert cached(asked) is cached(asked)
        monkeypatch.setattr(cache, "is_evicted", lambda name: name == source)
        cached(asked)
    assert len(calls) == 4


def test_table_of_numbers_has_no_columns_of_a_plot_or_without_values() -> None:
    frame = pd.DataFrame({"scheme": ["a", "b"], "x": [1, 2], "boundary": np.nan})
    assert frames.plotless(frame, {"x": "distance"}).to_csv(index=False) == (
        "scheme,distance\na,1\nb,2\n"
    )
    some = pd.DataFrame({"none": [np.nan, np.nan], "some": [np.nan, 0.0], "": ["", ""]})
    assert list(frames.filled(some)) == ["some"]
