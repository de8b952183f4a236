"""Impossible arguments of public functions and fields of configs are refused with one sentence."""

import functools
import json
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch

from posenc import (
    SCHEMES,
    ConfigError,
    PosencError,
    SchemeArgumentError,
    SinusoidalPositionalEncoding,
    TokenPlusPositionEmbedding,
    alibi_bias,
    alibi_slopes,
    analysis,
    apply_rope,
    attention,
    device_name,
    encoding,
    errors,
    formula,
    limits,
    position_kernel,
    position_vectors,
    rope_frequencies,
    rope_tables,
    run_with_fallback,
    sinusoidal_table,
)
from posenc.analysis import fit_kernel, offset_only
from posenc.checkpoints import named_table
from posenc.identification import identify
from posenc.lab import from_text
from posenc.models import read_config_token
from posenc.planner import plan
from posenc.schemes.alibi import AlibiConfig, expanding_shift
from posenc.schemes.learned import LearnedConfig
from posenc.schemes.rope import RopeConfig
from posenc.schemes.t5 import t5_buckets
from tests.library.configs import config_of
from tests.library.small_schemes import SMALL
from tests.library.small_tables import ladder, noise

# Any: wrong types are given on purpose.
ALIBI: Any = AlibiConfig(heads=2).build()
CONFIG: Any = RopeConfig(dim=8)
ROPE: Any = CONFIG.build()
LEARNED: Any = LearnedConfig(dim=8, max_len=9).build()
NAME: Any = "rope"
NONE: Any = None
NUMBER: Any = 10**30
Q: Any = torch.ones(1, 2, 4, 8)
SPARSE: Any = Q.to_sparse()
FOUR, SLOPES = torch.arange(4), alibi_slopes(2)

CASES: dict[str, tuple[Callable[[], object], str]] = {
    "config not built": (lambda: attention(Q, Q, Q, CONFIG), "RopeConfig: build the config first"),
    "kernel of a config": (lambda: position_kernel(CONFIG, 4), "scheme must be"),
    "arrays": (lambda: attention(Q.numpy(), Q, Q, ROPE), "q must be .* got ndarray"),
    "whole queries": (lambda: attention(Q.long(), Q.long(), Q.long(), ALIBI), "q must be .*int64"),
    "two dtypes": (lambda: attention(Q.half(), Q, Q, ROPE), "one dtype"),
    "values of another dtype": (lambda: attention(Q, Q, Q.double(), ROPE), "v must have the dtype"),
    "no key head": (lambda: attention(Q, Q[:, :0], Q[:, :0], ROPE), "there must be a head"),
    "no width": (lambda: attention(Q[..., :0], Q[..., :0], Q, ALIBI), "and a width"),
    "fractional offsets": (lambda: alibi_bias(FOUR / 2, FOUR, SLOPES), "must hold whole numbers"),
    "position without an axis": (lambda: alibi_bias(FOUR[0], FOUR, SLOPES), "must be rows"),
    "matrix of slopes": (lambda: alibi_bias(FOUR, FOUR, torch.ones(2, 2)), "one row"),
    "head from the end": (lambda: ALIBI.offset_map(1, size=3, head=-1), "head must be"),
    "whole token vectors": (lambda: LEARNED.embed(torch.ones(1, 3, 8).long()), "token vectors"),
    "single number as tokens": (lambda: LEARNED.embed(torch.tensor(1.0)), "token vectors"),
    "no seed": (lambda: SCHEMES["learned"](dim=8).build(seed=None), "seed must be"),  # type: ignore[call-arg,arg-type]
    "fractional seed": (lambda: offset_only(torch.eye(9), seed=1.5), "seed must be"),  # type: ignore[arg-type]
    "kernel of nothing finite": (
        lambda: fit_kernel(torch.full((40, 40), torch.nan), 1), "a finite kernel value"),
    "shift of 8 TB": (lambda: expanding_shift(0.5, 10**6, 1), "at most 2,147,483,648 numbers"),
    "table of 256 GiB": (
        lambda: LearnedConfig(dim=65_536, max_len=1_048_576), "at most 2,147,483,648"),
    "vectors of many heads": (
        lambda: position_vectors(AlibiConfig(heads=1_024).build(), 1_000), "heads x length squared"),
    "vocabulary of 562 TB": (
        lambda: TokenPlusPositionEmbedding(vocab_size=2**31 - 1, d_model=65_536), "at most 2,147"),
    "frequencies of ALiBi": (lambda: rope_frequencies(ALIBI.config), "config must be"),
    "length of frequencies": (lambda: rope_frequencies(CONFIG, length=0), "length must be"),
    "mode of frequencies": (lambda: rope_frequencies(CONFIG, mode=NAME), "mode must be"),
    "fractional offsets of T5": (lambda: t5_buckets(torch.ones(3)), "whole numbers"),
    "buckets of T5": (lambda: t5_buckets(FOUR, buckets=2), "T5Config"),
    "causal in words": (lambda: attention(Q, Q, Q, ROPE, causal=NAME), "causal must be True or False"),
    "mask of a number": (lambda: attention(Q, Q, Q, ROPE, key_mask=NAME), "key_mask .* got str"),
    "sparse queries": (lambda: attention(SPARSE, SPARSE, SPARSE, ROPE), "q must be .*sparse"),
    "positions in words": (lambda: ROPE.scores(Q, Q, NAME), "q_positions must hold .* got str"),
    "queries of a hook": (lambda: ALIBI.bias(NAME, NAME), "q must be .* got str"),
    "queries of a rotation": (lambda: ROPE.rotate(None, Q), "token vectors must be .* got NoneType"),
    "no offsets": (lambda: ROPE.offset_kernel(None), "offsets must hold .* got NoneType"),
    "no offsets of a bias": (lambda: ALIBI.offset_kernel(None), "offsets must hold .* got NoneType"),
    "no offsets of xPos": (
        lambda: SMALL.config("xpos").build().offset_kernel(NAME), "offsets must hold"),
    "sparse tables": (lambda: apply_rope(Q[0], SPARSE, SPARSE), "floating point .*sparse"),
    "number as a dtype": (lambda: encoding(ROPE, 4, dtype=NUMBER), "dtype must be .*got 10"),
    "dtype of slopes": (lambda: alibi_slopes(2, dtype=NUMBER), "dtype must be"),
    "dtype of a kernel": (lambda: position_kernel(ROPE, 4, dtype=NUMBER), "dtype must be"),
    "dtype of an offset kernel": (
        lambda: ALIBI.offset_kernel(FOUR, dtype=torch.int64), "dtype must be"),
    "head of an encoding": (lambda: encoding(ROPE, 4, head=NAME), "head must be 'mean'"),
    "device of a table": (lambda: sinusoidal_table(4, 8, device=NUMBER), "device must be"),
    "device by name": (lambda: device_name(NUMBER), "device must be"),
    "device to compute on": (lambda: run_with_fallback(str, NAME), "device must be"),
    "no formula": (lambda: formula(NONE), "config must be a scheme's config, got NoneType"),
    "numbers in words": (lambda: formula(CONFIG, numbers=NAME), "numbers must be True or False"),
    "head of a formula": (
        lambda: formula(ALIBI.config, numbers=True, head=2), "head must be .* from 0 to 1"),
    "sparse kernel": (lambda: offset_only(torch.eye(4).to_sparse()), "kernel must be a dense tensor"),
    "sparse table": (lambda: identify(torch.eye(4).to_sparse()), "table must be a dense tensor"),
    "whole table": (lambda: identify(torch.eye(4).long()), "table must be .* got torch.int64"),
    "tokens of a module": (
        lambda: SinusoidalPositionalEncoding(d_model=8)(NONE), "x must have .* got NoneType"),
    "table of no name": (lambda: named_table(NONE), "name of a table must be a text"),
    "token of no text": (lambda: read_config_token(NONE), "the token of a config is"),
    "plan of a path": (lambda: plan(NAME, 4_096), "what read_config returns, got str"),
    "text that is decoded": (lambda: from_text("novel", NAME), "must be bytes, got str"),
    "unknown kind of scheme": (
        lambda: SCHEMES["shaw "], r"one of learned, .*, got 'shaw '"),
}  # fmt: skip


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("case", CASES)
def test_impossible_argument_is_refused_in_a_sentence(case: str) -> None:
    call, match = CASES[case]
    with pytest.raises(PosencError, match=match) as refused:
        call()
    assert str(refused.value).endswith(".")


F64, NAN, INF = torch.float64, math.nan, math.inf
# Any: as above.
OF: Any = analysis
TABLE: Any = sinusoidal_table
ROPE_TABLES: Any = rope_tables
SLOPES_OF: Any = alibi_slopes
HOLED, HOLED_KERNEL = noise(5, 2), torch.eye(3, dtype=F64)
HOLED[2], HOLED_KERNEL[0, 1] = NAN, NAN
NO_FREQUENCIES = [*(torch.tensor([x]).double() for x in (-1.0, NAN, INF)), torch.zeros(2, 2), [1.0]]

TABLES_AND_ANALYSES: list[tuple[Callable[[], object], str]] = [
    (lambda: TABLE(4, 8, layout="neox"), '"interleaved" or "half"'),
    *((lambda out=out: TABLE(4, 8, out=out), "out must") for out in (
        torch.empty(3, 8), torch.empty(4, 8, dtype=F64), torch.empty(4, 8, requires_grad=True))),
    (lambda: TABLE(4, 8, device="cpu", out=torch.empty(4, 8, device="meta")), "out must"),
    (lambda: TABLE(4, 8, out=torch.empty(1, 8).expand(4, 8)), "share no memory"),
    (lambda: TABLE(4, 8, out=[0.0]), "got list"),
    *((lambda call=call: call(device="nope"), "device must be one of torch.* got 'nope'") for call in (
        functools.partial(TABLE, 4, 8), functools.partial(ROPE_TABLES, 4, 8),
        functools.partial(SLOPES_OF, 2), functools.partial(position_kernel, ROPE, 4))),
    (lambda: apply_rope(Q.numpy(), Q, Q), "floating point tensors, got ndarray"),
    (lambda: apply_rope(Q[0, 0], NAME, Q), "floating point tensors, got str"),
    (lambda: apply_rope(Q[0, 0], Q[0, 0, :, :4], Q[0, 0, :, :4], out=torch.ones(8).expand(4, 8)),
     "share no memory"),
    (lambda: ROPE_TABLES(4, 8, inv_freq=torch.ones(3)), "dim // 2 = 4"),
    (lambda: ROPE_TABLES(4, 8, inv_freq=torch.ones(2, 2)), "one row"),
    (lambda: ROPE_TABLES(4, 4, inv_freq=torch.arange(2)), "floating point"),
    (lambda: ROPE_TABLES(4, 4, inv_freq=[1.0, NAN]), "finite"),
    *((lambda bad=bad: ROPE_TABLES(4, 4, inv_freq=bad), "inv_freq must be one row of numbers, got")
      for bad in ("ab", ["a", "b"], [None, 1.0], [[1.0], [2.0, 3.0]], {1: 2}, [1j, 1j], [10**400])),
    *((lambda heads=heads: SLOPES_OF(heads), "heads") for heads in (0, 1_025, 8.0)),
    # Is a shift linear.
    (lambda: OF.fit_dense(noise(63, 16), 1), "width 16 at offset 1 needs at least 64 positions"),
    (lambda: OF.fit_dense(noise(64, 16), 40), "needs at least 74 positions, got 64"),
    (lambda: OF.fit_dense(noise(64, 16), 1, train_length=50), "got 50"),
    (lambda: OF.fit_pairs(noise(9, 3), 1), "must be even and positive"),
    (lambda: OF.fit_pairs(noise(9, 2), 8), "at least two pairs of finite positions"),
    (lambda: OF.fit_pairs(noise(9, 2), 1, first="tan"), "first must be"),
    (lambda: OF.fit_kernel(noise(9, 9), 1), "symmetric kernel"),
    (lambda: OF.expanding_shift(1.5, 4, 1), "ratio must be from 0 to 1"),
    (lambda: OF.composition_error(*[noise(2, 3)] * 3), "must compose"),
    (lambda: OF.verify_map(noise(5, 2), noise(3, 3), 1), "must fit vectors of width 2"),
    (lambda: OF.verify_map(noise(5, 2), noise(2, 2), 5), "no pair of finite positions 5 apart"),
    # Principal components.
    (lambda: OF.project(noise(5, 2), 0), "components must be a whole number from 1"),
    (lambda: OF.project(torch.full((3, 2), NAN).double()), "at least one finite row"),
    (lambda: OF.project(torch.ones(3)), r"a non-empty \(n, d\) tensor"),
    (lambda: OF.project_gram(HOLED_KERNEL), "finite wherever its diagonal is"),
    *((lambda call=call, fit=fit: call(torch.eye(5).double(), 2, fit), message)
      for call in (OF.project, OF.project_gram)
      for fit, message in (
          (0, "fit must be"), (6, "from 1 to 5"), (True, "fit must be"))),
    # Wavelengths, and formulas past the training length.
    *((lambda row=row: OF.spectrum(row, 4), "inv_freq must be") for row in NO_FREQUENCIES),
    *((lambda n=n: OF.spectrum(ladder(8), n), "length must be a whole number from 1")
      for n in (0, 2**31 + 1)),
    (lambda: OF.nearest_trained_distance(6, kernel=noise(5, 5)), "train_length must be .* from 1 to 5"),
    (lambda: OF.nearest_trained_distance(2), "exactly one of kernel and curve"),
    (lambda: OF.nearest_trained_distance(2, kernel=[[1.0]]), "tensor of real numbers"),
    (lambda: OF.kernel_past(torch.ones(9).double(), 0), "train_length must be"),
    (lambda: OF.first_negative_offset(ladder(8), 0), "limit must be"),
    (lambda: OF.base_bound_curve(ladder(8), 2**27 + 1), "length must be"),
    (lambda: OF.critical_dimension(127, 10_000.0, 4_096), "dim must be even"),
    (lambda: OF.critical_dimension(128, 1.0, 4_096), "base must be a number greater than 1"),
    (lambda: OF.critical_dimension(128, 10_000.0, 0), "length must be"),
    # Properties and similarities.
    (lambda: OF.measure(), "exactly one of kernel and curve"),
    (lambda: OF.measure(noise(5, 5), curve=torch.ones(9).double()), "exactly one of kernel and"),
    (lambda: OF.measure(torch.eye(4), vectors=noise(5, 2)), "one row per position: 4, got 5"),
    (lambda: OF.measure(torch.full((3, 3), NAN).double()), "no position has a finite kernel"),
    (lambda: OF.measure(curve=torch.ones(9).double(), vectors=HOLED), "must be finite in every row"),
    *((lambda f=f: f(torch.ones(4).double()), "odd length 2n-1")
      for f in (OF.cosine_curve, OF.expand_curve)),
    *((lambda zero=zero: OF.cosine_curve(torch.tensor([1.0, zero, 1.0]).double()),
       "positive finite kernel value at offset 0") for zero in (-2.0, NAN, INF)),
    *((lambda at=at: OF.similarity_row(at, torch.eye(4).double()),
       "reference must be a whole number from 0 to 3") for at in (-1, 4, True)),
    *((lambda f=f, bad=bad: f(bad), message)
      for f in (OF.cosine_matrix, OF.similarity_by_offset)
      for bad, message in (
          (torch.ones(2, 3), "kernel must be square"),
          (torch.ones(0, 0), r"kernel must be a non-empty \(n, n\) tensor"),
          (torch.ones(2, 2, dtype=torch.bool), "kernel must be a tensor of real numbers"),
          ([[1.0]], "kernel must be a tensor of real numbers, got list"))),
    (lambda: OF.expand_curve(torch.ones(2 * 16_385 - 1)), "up to 16,384 positions, got 16,385"),
    (lambda: OF.similarity_by_offset(), "exactly one of kernel and curve"),
    (lambda: OF.similarity_by_offset(torch.ones(1, 1), curve=torch.ones(1)), "exactly one of kernel"),
    (lambda: OF.similarity_by_offset(torch.ones(1, 1), side="left"), "side must be"),
]  # fmt: skip


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(("call", "message"), TABLES_AND_ANALYSES)
def test_impossible_argument_of_a_table_or_an_analysis_is_refused(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(SchemeArgumentError, match=message) as refused:
        call()
    assert str(refused.value).endswith(".")


BAD_CONFIGS = json.loads(Path(__file__).with_name("bad_configs.json").read_text())


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize(("kind", "changes", "message"), BAD_CONFIGS)
def test_bad_field_of_a_config_is_refused_by_name_and_range(
    kind: str, changes: dict[str, Any], message: str
) -> None:
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in changes.items()}
    with pytest.raises(ConfigError, match=message):
        config_of(kind, **values)


@pytest.mark.skipif(os.environ.get("POSENC_SHAPES") == "0", reason="POSENC_SHAPES=0: no checks")
def test_wrong_shapes_and_types_are_refused() -> None:
    x, row, wrong = torch.zeros(1, 2, 3, 4), torch.zeros(3, 2), "8"
    number: Any = wrong
    apply_rope(x, row, row, layout="half")
    with pytest.raises(jaxtyping.TypeCheckError, match="sin"):
        apply_rope(x, row, torch.zeros(3, 3), layout="half")  # another number of pairs
    with pytest.raises(jaxtyping.TypeCheckError):
        attention(x, x, x[0], SMALL.config("none").build())
    with pytest.raises(TypeError, match="'8'"):
        limits.check_count("heads", number, 1, 9)


@pytest.mark.parametrize(
    "analyse",
    [
        analysis.kernel_values,
        analysis.scheme_similarity,
        analysis.scheme_properties,
        lambda query: analysis.scheme_projection(query, 4, 2),
        lambda query: analysis.scheme_kernel_past(query, 4),
        lambda query: analysis.scheme_coverage(query, 4),
        lambda query: analysis.scheme_offset_map(query, 1, 2),
        lambda query: analysis.scheme_dense_fit(query, 1),
        analysis.scheme_map_errors,
        analysis.scheme_offset_claims,
    ],
)
@pytest.mark.usefixtures("no_shape_checks")
def test_scheme_analyses_refuse_what_is_no_request(analyse: Callable[[Any], object]) -> None:
    with pytest.raises(
        SchemeArgumentError, match=r"^request must be .*Request\(config=scheme.config, length=256\)"
    ):
        analyse(ROPE)


def test_errors_with_attributes_reach_another_process() -> None:
    for error in (
        errors.PositionOutOfRange("No row 9.", limit=9),
        errors.PickleRefused("A pickle:", "code"),
        errors.ConfigFileError("Bad.", "rope_theta", "llama", "Bad key."),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
