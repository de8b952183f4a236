"""What visitors gave is held in bounds: by number, by bytes, the least recently used first."""

from collections import OrderedDict
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from posenc.errors import CheckpointError
from posenc.interop import sources
from posenc.interop.held import Held
from posenc.interop.sources import hold, is_held, named_table

TURNS = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 70)), max_size=40)


@given(turns=TURNS)
def test_what_is_held_is_what_a_plain_list_would_hold(
    turns: list[tuple[str, int | None]],
) -> None:
    """Against a list, oldest first, searched and added up anew at every turn; None is a use."""
    held, plain = Held(3, 100, len), []
    for name, size in turns:
        known = [one for one in plain if one[0] == name]
        if size is None:
            found = held.get(name)
            assert found == (known[0][1] if known else None)
            plain = [one for one in plain if one[0] != name] + known
        else:
            held.put(name, bytes(size))
            plain = [one for one in plain if one[0] != name] + [(name, bytes(size))]
            while len(plain) > 1 and (len(plain) > 3 or sum(len(one[1]) for one in plain) > 100):
                plain = plain[1:]
        assert [other for other in "abcdef" if other in held] == sorted(one[0] for one in plain)
        assert held.size() == sum(len(one[1]) for one in plain)


OWNED = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.none() | st.sampled_from("xy"), st.integers(0, 70)),
    max_size=60,
)


@given(turns=OWNED)
def test_no_owner_has_more_than_a_quarter_and_takes_it_from_nobody_else(
    turns: list[tuple[str, str | None, int]],
) -> None:
    """Against a list, oldest first: of 8 and 400 bytes each owner has 2 and 100 bytes, or the last one."""
    held, plain = Held(8, 400, len), []
    for name, owner, size in turns:
        before = next((one[2] for one in plain if one[0] == name), None)
        # What several have put in is nobody's.
        whose = before if owner in (None, before) else owner if before is None else ""
        plain = [one for one in plain if one[0] != name] + [(name, size, whose)]
        held.put(name, bytes(size), owner)
        while owner is not None and whose == owner:
            own = [one for one in plain if one[2] == owner]
            if len(own) == 1 or (len(own) <= 2 and sum(one[1] for one in own) <= 100):
                break
            plain.remove(own[0])
        while len(plain) > 8 or sum(one[1] for one in plain) > 400:
            plain = plain[1:]
        assert [other for other in "abcdefgh" if other in held] == sorted(one[0] for one in plain)
        assert held.size() == sum(one[1] for one in plain)
    assert held._owners.keys() <= held._values.keys()


def test_one_session_does_not_fill_the_tables_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_held", Held(32, 256 * 2**20, lambda one: one.table.nbytes))
    one = named_table("trained")
    theirs = [hold(replace(one, sha256=f"theirs {n}"), "them") for n in range(3)]
    ours = [hold(replace(one, sha256=f"ours {n}"), "us") for n in range(40)]
    assert all(map(is_held, theirs))
    assert [name for name in ours if is_held(name)] == ours[-8:]
    large = torch.empty(2**15, 2**9)  # 64 MiB, never written
    for n in range(3):
        last = hold(replace(one, table=large, sha256=f"large {n}"), "us")
        assert [name for name in (*ours, last) if is_held(name)] == [last]
    assert all(map(is_held, theirs))
    with pytest.raises(CheckpointError, match=f"The uploaded table {ours[0]} is not held"):
        named_table(ours[0])


def test_nobody_takes_what_several_have_put_in() -> None:
    held = Held(8, 400, len)
    for owner in ("x", "y"):
        held.put("of both", b"1", owner)
    for owner in ("x", "y", "x"):
        for n in range(2):
            held.put(f"{owner} {n}", b"2", owner)
    assert "of both" in held


def test_one_that_is_larger_than_all_may_be_stays_alone() -> None:
    held = Held(3, 100, len)
    held.put("a", bytes(60))
    held.put("b", bytes(500))
    assert "a" not in held
    assert held.get("b") == bytes(500)
    held.put("c", bytes(1))
    assert ("b" in held, "c" in held, held.size()) == (False, True, 1)


def test_tables_in_use_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 128 MiB each, as 32 MB of float8 numbers become: two of them are 256 MiB, a third is too much."""
    monkeypatch.setattr(sources._held, "_values", OrderedDict())
    monkeypatch.setattr(sources._held, "_bytes", 0)
    one = named_table("trained")
    large = torch.empty(2**15, 2**10)  # never written, so that it takes no memory here
    names = [hold(replace(one, table=large, sha256=f"{n}")) for n in range(2)]
    assert len({*names}) == 2
    assert all(map(is_held, names))
    named_table(names[0])
    names.append(hold(replace(one, table=large, sha256="2")))
    assert [is_held(name) for name in names] == [True, False, True]
    with pytest.raises(CheckpointError, match=f"The uploaded table {names[1]} is not held"):
        named_table(names[1])
    small = [hold(replace(one, sha256=f"small {n}")) for n in range(40)]
    assert sum(map(is_held, (*names, *small))) == 32
    assert sources._held.size() <= 256 * 2**20
