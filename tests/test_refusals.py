"""What cannot be meant is answered with one named sentence, whatever function it is said to."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from posenc import (
    SCHEMES,
    LearnedPositionalEncoding,
    PosencError,
    TokenPlusPositionEmbedding,
    alibi_bias,
    alibi_slopes,
    apply_rope,
    attention,
    offset_curve,
    position_kernel,
    position_vectors,
    rope_tables,
)
from posenc.analysis import fit_kernel, offset_only, verdict
from posenc.offset_maps import expanding_shift

Ask = Callable[[], Any]

ALIBI = SCHEMES["alibi"](heads=2).build()
ROPE_CONFIG = SCHEMES["rope"](dim=8)
ROPE, LEARNED = ROPE_CONFIG.build(), SCHEMES["learned"](dim=8, max_len=9).build()
Q = torch.ones(1, 2, 4, 8)
SLOPES = alibi_slopes(2)
FOUR = torch.arange(4)

ASKED: dict[str, tuple[Ask, str]] = {
    "a config that was not built": (
        lambda: attention(Q, Q, Q, ROPE_CONFIG), "RopeConfig: build the config first"),
    "a name instead of a scheme": (lambda: attention(Q, Q, Q, "rope"), "scheme must be.* got str"),
    "the kernel of a config": (lambda: position_kernel(ROPE_CONFIG, 4), "scheme must be"),
    "the curve of a config": (lambda: offset_curve(ROPE_CONFIG, 4), "scheme must be"),
    "the vectors of a config": (lambda: position_vectors(ROPE_CONFIG, 4), "scheme must be"),
    "arrays": (lambda: attention(Q.numpy(), Q, Q, ROPE), "q must be .* got ndarray"),
    "whole queries": (lambda: attention(Q.long(), Q.long(), Q.long(), ALIBI), "q must be .*int64"),
    "two dtypes": (lambda: attention(Q.half(), Q, Q, ROPE), "one dtype"),
    "values of another dtype": (lambda: attention(Q, Q, Q.double(), ROPE), "v must have the dtype"),
    "no key head": (lambda: attention(Q, Q[:, :0], Q[:, :0], ROPE), "there must be a head"),
    "no width": (lambda: attention(Q[..., :0], Q[..., :0], Q, ALIBI), "and a width"),
    "heads that do not divide": (
        lambda: ALIBI.scores(Q, torch.ones(1, 3, 4, 8)), "must divide the query heads"),
    "fractional positions": (lambda: ALIBI.scores(Q, Q, FOUR / 2), "whole numbers, got .*float32"),
    "fewer positions than tokens": (lambda: ALIBI.scores(Q, Q, FOUR[:1]), r"the shape \(4,\)"),
    "more positions than tokens": (lambda: ALIBI.bias(Q, Q, torch.arange(7)), r"the shape \(4,\)"),
    "fractional offsets": (lambda: alibi_bias(FOUR / 2, FOUR, SLOPES), "must be whole numbers"),
    "one position without an axis": (lambda: alibi_bias(FOUR[0], FOUR, SLOPES), "whole numbers"),
    "a matrix of slopes": (lambda: alibi_bias(FOUR, FOUR, torch.ones(2, 2)), "one row"),
    "a head from the end": (lambda: ALIBI.offset_map(1, size=3, head=-1), "head must be"),
    "a kernel of a head from the end": (lambda: ALIBI.offset_kernel(FOUR, head=-1), "head must be"),
    "whole token vectors": (lambda: LEARNED.embed(torch.ones(1, 3, 8).long()), "token vectors"),
    "a single number as tokens": (lambda: LEARNED.embed(torch.tensor(1.0)), "token vectors"),
    "a seed that is none": (lambda: SCHEMES["learned"](dim=8).build(seed=None), "seed must be"),
    "a fractional seed": (lambda: offset_only(torch.eye(9), seed=1.5), "seed must be"),
    "a negative dimension": (
        lambda: verdict(0.0, dimension=-1, dimension_at_double=-5), "dimension must be"),
    "no tolerance": (
        lambda: verdict(0.0, dimension=1, dimension_at_double=1, tolerance=float("nan")),
        "tolerance must be"),
    "a kernel of nothing finite": (
        lambda: fit_kernel(torch.full((40, 40), torch.nan), 1), "a finite kernel value"),
    "a shift of 8 TB": (lambda: expanding_shift(0.5, 10**6, 1), "at most 2,147,483,648 numbers"),
    "a table of 256 GiB": (
        lambda: SCHEMES["learned"](dim=65_536, max_len=1_048_576), "at most 2,147,483,648"),
    "a learned module of 562 TB": (
        lambda: LearnedPositionalEncoding(d_model=65_536, max_len=2**31 - 1), "at most 2,147"),
    "a vocabulary of 562 TB": (
        lambda: TokenPlusPositionEmbedding(vocab_size=2**31 - 1, d_model=65_536), "at most 2,147"),
    "a head of 5,000 digits": (
        lambda: position_kernel(ALIBI, 4, head=10**5_000), "more than 40 digits"),
}  # fmt: skip


@pytest.mark.parametrize("case", ASKED)
@pytest.mark.usefixtures("no_shape_checks")
def test_what_cannot_be_meant_is_refused_in_a_sentence(case: str) -> None:
    ask, match = ASKED[case]
    with pytest.raises(PosencError, match=match) as refused:
        ask()
    assert str(refused.value).endswith(".")


def test_an_offset_of_any_integer_type_has_its_distance() -> None:
    """The least int8 has no positive twin: its absolute value is itself."""
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        least = torch.iinfo(dtype).min
        bias = ALIBI.offset_bias(torch.tensor([least, 3], dtype=dtype))
        expected = np.array([[least, -3]]) * SLOPES.double().numpy()[:, None]
        assert np.array_equal(bias.numpy(), expected)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_writing_onto_the_tables_themselves_is_safe(layout: str) -> None:
    both = torch.cat(rope_tables(6, 4), dim=1)
    x = torch.linspace(-1, 1, 24).view(6, 4)
    expected = apply_rope(x, both[:, :2].clone(), both[:, 2:].clone(), layout=layout)
    assert torch.equal(apply_rope(x, both[:, :2], both[:, 2:], layout=layout, out=both), expected)


@pytest.mark.usefixtures("no_shape_checks")
def test_a_file_may_be_called_like_an_uploaded_table(tmp_path: Any, monkeypatch: Any) -> None:
    from safetensors.torch import save_file

    table = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    save_file({"wpe.weight": table}, tmp_path / "table-mine.safetensors")
    monkeypatch.chdir(tmp_path)
    scheme = SCHEMES["learned"](source="table-mine.safetensors").build()
    assert torch.equal(scheme.weight, table)
