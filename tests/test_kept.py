"""Tensors kept for the next call: the same ones again, never more bytes than agreed, by any thread."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from posenc import rows
from posenc.kept import KeptTensors
from posenc.phases import Phases
from posenc.tables import rope_tables

CPU = torch.device("cpu")


def numbers(count: int, value: int = 0) -> tuple[Tensor, Tensor]:
    """Two tensors of `count` numbers of 8 bytes each."""
    return torch.full((count,), value), torch.full((count,), -value)


def held(kept: KeptTensors) -> int:
    """Bytes of all tensors that are kept, counted one by one."""
    with kept._lock:
        return sum(x.nbytes for found in kept._results.values() for x in found)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> KeptTensors:
    """What the hooks' rows are kept in, empty, with the limits they have."""
    empty = KeptTensors(rows.WINDOWS.most_bytes, rows.WINDOWS.most_results)
    monkeypatch.setattr(rows, "WINDOWS", empty)
    return empty


def test_the_same_arguments_give_the_same_tensors_and_others_do_not() -> None:
    kept = KeptTensors(most_bytes=10_000, most_results=9)
    first = kept.get(numbers, 5, 1)
    assert kept.get(numbers, 5, 1) is first
    assert torch.equal(kept.get(numbers, 5, 2)[0], torch.full((5,), 2))
    assert torch.equal(kept.get(lambda count, value: (torch.zeros(1),), 5, 1)[0], torch.zeros(1))
    assert kept.get(numbers, 5, 1) is first
    assert len(kept) == 3
    assert held(kept) == 4 * 5 * 8 + 4


def test_past_the_bytes_those_not_asked_for_the_longest_leave_first() -> None:
    kept = KeptTensors(most_bytes=3 * 160, most_results=99)
    first, second, third = (kept.get(numbers, 10, value) for value in (1, 2, 3))
    assert kept.get(numbers, 10, 1) is first  # now the second is the oldest
    kept.get(numbers, 10, 4)
    assert held(kept) == 3 * 160
    assert kept.get(numbers, 10, 1) is first
    assert kept.get(numbers, 10, 3) is third
    assert kept.get(numbers, 10, 2) is not second


def test_a_large_result_makes_room_for_itself_and_a_larger_one_is_not_kept() -> None:
    kept = KeptTensors(most_bytes=1_600, most_results=99)
    for value in range(10):
        kept.get(numbers, 10, value)
    assert held(kept) == 1_600
    large = kept.get(numbers, 95)
    assert kept.get(numbers, 95) is large
    assert (len(kept), held(kept)) == (1, 1_520)
    assert len(kept.get(numbers, 101)[0]) == 101
    assert kept.get(numbers, 95) is large
    assert (len(kept), held(kept)) == (1, 1_520)


def test_past_the_number_of_results_small_ones_leave_too() -> None:
    kept = KeptTensors(most_bytes=10_000, most_results=4)
    for value in range(9):
        kept.get(numbers, 0, value)
    assert len(kept) == 4


def test_nothing_is_kept_of_a_call_that_fails() -> None:
    kept = KeptTensors(most_bytes=10_000, most_results=4)
    with pytest.raises(RuntimeError):
        kept.get(numbers, -1)
    assert (len(kept), held(kept)) == (0, 0)


def test_threads_get_what_they_ask_for_within_the_limits() -> None:
    kept = KeptTensors(most_bytes=20 * 160, most_results=99)

    def ask(turn: int) -> bool:
        value = turn * 7 % 31
        pair = kept.get(numbers, 10, value)
        return held(kept) <= 20 * 160 + 160 and pair[0].tolist() == [value] * 10

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(4_000)))
    values = list(kept._results.values())
    assert kept._bytes == sum(x.nbytes for pair in values for x in pair) <= 20 * 160


def test_rows_of_long_windows_never_keep_more_than_64_mib(windows: KeptTensors) -> None:
    phases, double = Phases.geometric(256), torch.float64
    assert windows.most_bytes == 64 * 2**20
    sizes = set()
    for count in range(8_192, 8_192 - 9, -1):  # 16 MiB each, the largest that are kept
        found = rows.rotary_rows(count, phases, dtype=double, device=CPU)
        rows.sinusoidal_rows(count, phases, layout="half", dtype=double, device=CPU)
        assert torch.equal(found[0], rope_tables(count, 256, dtype=double)[0])
        assert held(windows) <= 64 * 2**20
        sizes.add(len(windows))
    assert max(sizes) == 4
    assert held(windows) > 60 * 2**20
    before = len(windows)
    rows.rotary_rows(8_193, phases, dtype=double, device=CPU)  # too long to keep
    assert len(windows) == before


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_window_asked_for_again_is_not_made_again(windows: KeptTensors, layout: str) -> None:
    phases = Phases.geometric(64)
    for _ in range(3):
        turned = rows.rotary_rows(9, phases, dtype=torch.float32, device=CPU)
        added = rows.sinusoidal_rows(9, phases, layout=layout, dtype=torch.float32, device=CPU)
    again = rows.rotary_rows(9, phases, dtype=torch.float32, device=CPU)
    assert all(x is y for x, y in zip(again, turned, strict=True))
    assert rows.sinusoidal_rows(9, phases, layout=layout, dtype=torch.float32, device=CPU) is added
    assert len(windows) == 2
