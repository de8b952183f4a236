"""A cache of cosines and sines belongs to the model whose config makes its frequencies, and to no other."""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from click.testing import CliRunner

from posenc.__main__ import main
from posenc.cli import identify as command
from posenc.frequencies import Layout
from posenc.identification import Identification, identify
from posenc.identification import match_model as compare
from posenc.identification.clauses import deviation_sentence
from posenc.identification.sentences import alternative_sentences, headline, match_sentences
from posenc.models.presets import MODELS
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig, rope_frequencies
from posenc.tables import rope_tables
from tests.library.configs import config_of
from tests.library.crafted_files import npy
from tests.longer import mostly

# A search makes hundreds of thousands of calls; checking the shapes of each takes as long again.
pytestmark = pytest.mark.usefixtures("no_shape_checks")


class Matched(NamedTuple):
    """Whether a table belongs to a model, and the sentences on it."""

    belongs: bool
    sentence: str


def match_model(
    result: Identification | None,
    kinds: Mapping[str, SchemeConfig | None],
    cosines: torch.Tensor,
    sines: torch.Tensor | None = None,
) -> Matched:
    """Compare a table with a model. result: what the table is, None where no sentence is to say that.

    A comparison takes a hundredth of the time in which a formula is searched for the table.
    """
    match = compare(kinds, cosines, sines)
    return Matched(match.belongs, " ".join(match_sentences(match, result)))


def schemes(name: str) -> dict[str, RopeConfig]:
    """Return the RoPE of each kind of layer of a model."""
    kinds = MODELS[name].read().layer_kinds
    return {kind.name: kind.scheme for kind in kinds if isinstance(kind.scheme, RopeConfig)}


def cache(config: RopeConfig) -> tuple[torch.Tensor, torch.Tensor]:
    frequencies, factor = rope_frequencies(config, length=200)
    angles = torch.arange(200, dtype=torch.float64)[:, None] * frequencies
    return (factor * angles.cos()).float(), (factor * angles.sin()).float()


@pytest.mark.parametrize(
    "name", ["llama-2-7b", "llama-3.1-8b", "gemma-3-4b", "phi-2", "gpt-oss-20b"]
)
def test_cache_belongs_to_its_model_alone(name: str) -> None:
    for kind, config in schemes(name).items():
        match = match_model(None, {kind: config}, *cache(config))
        assert match.belongs
        assert f"{config.base:,.10g}" in match.sentence
        other = config.replace(base=config.base * 1.01)
        assert not match_model(None, {kind: other}, *cache(config)).belongs


def test_sentence_names_what_differs() -> None:
    tables = rope_tables(64, 128, 10_000.0)
    schemes = {"full": RopeConfig(dim=128, base=5e5), "local": None}
    belongs, sentence = match_model(identify(*tables), schemes, *tables)
    assert not belongs
    assert "has width 128 and base 10,000; the model's full layers have RoPE" in sentence
    assert (
        "its local layers have no RoPE. Against its full layers, it differs first in row 1, pair 1, by "
        in sentence
    )
    swapped = match_model(identify(*tables[::-1]), {"full": RopeConfig(dim=128)}, *tables[::-1])
    assert not swapped.belongs
    assert swapped.sentence.endswith("It differs first in row 0, pair 0, by 1.")
    noise = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
    assert not match_model(identify(noise), {}, noise).belongs


@pytest.mark.parametrize("form", ["two", "one", "cosines"])
def test_sentence_names_both_widths_where_they_differ(form: str) -> None:
    chance = Random(form)
    for _ in range(8):
        pairs, rotated = chance.sample(range(1, 40), 2)
        layout: Layout = chance.choice(("half", "interleaved"))
        config = RopeConfig(dim=80, layout=layout, partial_rotary_factor=2 * rotated / 80, base=5e5)
        cosines, sines = rope_tables(48, 2 * pairs, 1e4)
        tables = {"two": (cosines, sines), "one": (torch.cat((cosines, sines), 1),)}.get(
            form, (cosines,)
        )
        result = identify(*tables)
        match = match_model(result, {"all": config}, *tables)
        assert not match.belongs
        widths = f"(width {2 * pairs:,}), and the model rotates {rotated:,} (width {2 * rotated:,},"
        unknown = "do not make" in match.sentence
        assert widths in match.sentence or unknown, (pairs, rotated, match.sentence)
        assert unknown <= (result.arrangement is None), (pairs, rotated)


def test_command_names_both_widths_of_a_model_whose_whole_head_was_rotated(tmp_path: Path) -> None:
    """As GLM-4, whose class rotates half of a head, run by code that rotates the whole head."""
    config = {"model_type": "glm4", "head_dim": 128, "num_attention_heads": 4, "hidden_size": 512}
    before = torch.randn(48, 128, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    angles = torch.arange(48, dtype=torch.float64)[:, None] * 1e4 ** (-torch.arange(64) / 64)
    pairs = torch.view_as_complex(before.view(48, 64, 2)) * torch.exp(1j * angles)
    for name, part in (("before", before), ("after", torch.view_as_real(pairs).flatten(1))):
        (tmp_path / f"{name}.npy").write_bytes(npy(part.float().numpy()))
    files = [str(tmp_path / "after.npy"), "--before", str(tmp_path / "before.npy")]
    result = CliRunner().invoke(
        main, ["identify", *files, "--config", "-"], input=json.dumps(config)
    )
    assert result.exit_code == 1, result.output
    assert (
        "It rotates 64 pairs of features (width 128), and the model rotates 32 (width 64, the first of "
        "128 features)." in result.stdout
    )


SCALINGS: dict[str, dict[str, Any]] = {
    "rope_linear": {"factor": 4.0},
    "rope_ntk": {"factor": 4.0},
    "rope_dynamic": {"factor": 4.0, "trained_length": 64},
    "rope_yarn": {"factor": 4.0, "trained_length": 32_768, "base": 1e6},
    "rope_yarn_paper": {"factor": 8.0, "trained_length": 4_096},
    "rope_llama3": {"base": 5e5},
    "rope_longrope": {
        "short_factor": tuple(1 + m / 64 for m in range(32)),
        "trained_length": 4_096,
    },
    "rope_proportional": {"base": 1e6},
}


FORMS = [(kind, form) for kind in SCALINGS for form in ("one each", "two", "one", "cosines")]


@pytest.mark.parametrize(
    ("kind", "form"),
    mostly(
        FORMS,
        ("rope_yarn", "two"),
        *((kind, "one each") for kind in ("rope_llama3", "rope_longrope", "rope_proportional")),
    ),
)
def test_cache_of_every_scaling_in_every_form_belongs(kind: str, form: str) -> None:
    config = config_of(kind, dim=64, layout="half", **SCALINGS[kind])
    assert isinstance(config, RopeConfig)
    if form == "one each":
        tables: tuple[torch.Tensor, ...] = (torch.cat(cache(config), 1),)
    else:
        tables = repeated(config, "half", form)
    result = identify(*tables)
    if kind != "rope_longrope":  # whose factors are searched for each model
        assert isinstance(result.config, RopeConfig), headline(result)
        frequencies, factor = rope_frequencies(config, length=200)
        found = replace(result.config, layout="half")
        torch.testing.assert_close(found.frequencies().inv_freq, frequencies, rtol=1e-4, atol=0)
        assert math.isclose(found.attention_scaling(), factor, rel_tol=1e-6)
        assert result.deviations == ()
    match = match_model(result, {"all": config}, *tables)
    assert match.belongs


GRID = {
    "rope_yarn": ((2.0, 4.0, 5.0, 40.0), (4_096, 20_480, 32_768, 131_072, 262_144)),
    "rope_llama3": ((4.0, 7.5, 8.0, 32.0), (4_096, 8_192, 40_960, 131_072)),
}
USUAL = (2.0, 4.0, 8.0, 32.0, 40.0)
CASES = [  # every second one
    (kind, factors[row], lengths[column])
    for kind, (factors, lengths) in GRID.items()
    for row in range(len(factors))
    for column in range(len(lengths))
    if (row + column) % 2 == 0
]


@pytest.mark.timeout(900)  # on a busy machine
@pytest.mark.parametrize(
    ("kind", "factor", "length"),
    mostly(CASES, ("rope_yarn", 4.0, 131_072), ("rope_llama3", 7.5, 8_192)),
)
def test_scaling_is_named_by_its_numbers_or_not_at_all(
    kind: str, factor: float, length: int
) -> None:
    """A YaRN cache of original length 131,072 is not Llama 3's, although its slow pairs turn little.

    Of two tensors, or of both in one.
    """
    config = config_of(kind, dim=128, base=1e6, factor=factor, trained_length=length, layout="half")
    assert isinstance(config, RopeConfig)
    is_one = CASES.index((kind, factor, length)) % 2 == 1
    tables = (torch.cat(cache(config), 1),) if is_one else cache(config)
    result = identify(*tables)
    assert match_model(result, {"all": config}, *tables).belongs
    if factor in USUAL and length.bit_count() == 1:
        assert result.hypothesis is not None
        found = (result.hypothesis.config, *result.hypothesis.others)
        assert any(each is not None and replace(each, layout="half") == config for each in found), (
            headline(result)
        )
        assert f"by {factor:g}, trained length {length:,}" in headline(result)
    else:
        assert result.hypothesis is None or result.hypothesis.config is None


@pytest.mark.parametrize("rows", [8, 24, 40])
def test_few_rows_of_16_bits_tell_a_scaling_by_the_sines_of_slow_pairs(rows: int) -> None:
    """A sine is near its angle, and bfloat16 keeps a share of it however small it is."""
    config = config_of("rope_llama3", dim=64, base=5e5, factor=8.0, trained_length=8_192)
    assert isinstance(config, RopeConfig)
    result = identify(*(part[:rows].bfloat16() for part in cache(config)))
    assert result.hypothesis is not None
    assert result.hypothesis.config is not None
    assert result.hypothesis.config.replace(layout=config.layout) == config
    assert result.hypothesis.others == ()


def test_scalings_whose_ramps_have_the_same_ends_are_both_named() -> None:
    """Of 8 pairs, YaRN's ramp (Peng et al. 2023) ends at the same whole pairs for two trained lengths."""

    def ends(length: int) -> tuple[int, int]:
        slow, fast = (8 * math.log(length / (2 * math.pi * turns), 1e4) for turns in (32, 1))
        return math.floor(slow), math.ceil(fast)

    assert ends(2_048) == ends(4_096) != ends(8_192)
    config = config_of("rope_yarn", dim=16, factor=4.0, trained_length=4_096, layout="half")
    assert isinstance(config, RopeConfig)
    result = identify(*cache(config))
    assert "YaRN by 4, trained length 4,096" in headline(result)
    assert alternative_sentences(result) == [
        "It may also be RoPE YaRN (YaRN by 4, trained length 2,048)."
    ]


MISMATCHES: list[tuple[str, dict[str, Any], str]] = [
    ("rope_llama3", {"factor": 4.0}, "The scale factor is 4, where the scheme has 8"),
    ("rope_llama3", {"trained_length": 4_096}, "trained length is 4,096, where the scheme has 8,192"),
    ("rope_llama3", {"low_freq_factor": 2.0}, "The low frequency factor is 2, where the scheme has 1"),
    ("rope_llama3", {"high_freq_factor": 8.0}, "high frequency factor is 8, where the scheme has 4"),
    ("rope_yarn", {"factor": 8.0}, "The scale factor is 8, where the scheme has 4"),
    ("rope_yarn", {"trained_length": 8_192}, "trained length is 8,192, where the scheme has 32,768"),
    ("rope_yarn", {"beta_fast": 16.0}, "The beta fast is 16, where the scheme has 32"),
    ("rope_yarn", {"beta_slow": 2.0}, "The beta slow is 2, where the scheme has 1"),
    ("rope_yarn", {"truncate": False}, "The ends of the ramp are not rounded to whole pairs"),
    ("rope_yarn_paper", {"factor": 4.0}, "The scale factor is 4, where the scheme has 8"),
    ("rope_ntk", {"factor": 8.0}, "The scale factor is 8, where the scheme has 4"),
    ("rope_linear", {"factor": 8.0}, "The scale factor is 8, where the scheme has 4"),
    ("rope_dynamic", {"factor": 8.0}, "The scale factor is 8, where the scheme has 4"),
    ("rope_dynamic", {"trained_length": 128}, "differs first in row"),
    ("rope_proportional", {"factor": 8.0}, "The scale factor is 8, where the scheme has 1"),
    ("rope_longrope", {"short_factor": (1.5,)}, "differs first in row 1, pair"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "other", "words"), MISMATCHES)
def test_mismatch_names_the_number_of_the_scaling_that_differs(
    kind: str, other: dict[str, Any], words: str
) -> None:
    config = config_of(kind, dim=64, layout="half", **SCALINGS[kind])
    assert isinstance(config, RopeConfig)
    tables = cache(config.replace(**other))
    match = match_model(None, {"all": config}, *tables)
    assert not match.belongs
    assert words in match.sentence


def test_sentence_names_the_scaling_that_was_found() -> None:
    config = config_of("rope_linear", dim=64, layout="half", factor=4.0)
    assert isinstance(config, RopeConfig)
    tables = cache(config.replace(factor=8.0))
    match = match_model(identify(*tables), {"all": config}, *tables)
    assert "it has RoPE linear of width 64 and base 10,000 (position interpolation by 8)" in (
        match.sentence
    )


def test_sentence_names_the_first_position_and_the_factor_of_linear_scaling() -> None:
    config = RopeConfig(dim=128, base=5e5)
    angles = torch.arange(200, dtype=torch.float64)[:, None] * 5e5 ** (-torch.arange(64) / 64)

    def sentence(angles: torch.Tensor) -> str:
        tables = angles.cos().float(), angles.sin().float()
        match = match_model(None, {"all": config}, *tables)
        assert not match.belongs
        return match.sentence

    assert "Row 0 stands for position 7" in sentence(angles[7:])
    assert "divided by 4, as linear scaling by 4" in sentence(angles / 4)
    assert "divided by" not in sentence(angles * 2)


def test_long_search_is_announced_and_computed_on_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cos.npy").write_bytes(npy(cache(RopeConfig(dim=8))[0].numpy()))
    threads = []

    def slow(*tables: torch.Tensor) -> Identification:
        threads.append(torch.get_num_threads())
        time.sleep(1.2)
        return identify(*tables)

    monkeypatch.setattr(command, "identify", slow)
    result = CliRunner().invoke(main, ["identify", str(tmp_path / "cos.npy")])
    assert threads == [1]
    assert "Comparing" in result.stderr
    assert "Comparing" not in result.stdout


def test_command_says_whether_a_table_belongs_to_a_config(tmp_path: Path) -> None:
    for name, part in zip(
        ("cos", "sin"), cache(schemes("llama-2-7b")["full_attention"]), strict=True
    ):
        (tmp_path / f"{name}.npy").write_bytes(npy(part.numpy()))
    files = [str(tmp_path / "cos.npy"), "--sines", str(tmp_path / "sin.npy"), "--config", "-"]
    for name, belongs in (("llama-2-7b", True), ("llama-3-8b", False)):
        config = json.dumps(MODELS[name].config)
        found = CliRunner().invoke(main, ["identify", *files, "--json"], input=config)
        assert json.loads(found.stdout)["belongs"] is belongs
        printed = CliRunner().invoke(main, ["identify", *files], input=config)
        assert printed.exit_code == found.exit_code == int(not belongs)
        said = printed.stdout
        assert ("This table belongs to the model" in said) == belongs
        assert ("It differs first in row 1, pair 1, by " in said) == (not belongs)


def repeated(config: RopeConfig, layout: str, form: str) -> tuple[torch.Tensor, ...]:
    """Return a model's cache with each column twice, as `LlamaRotaryEmbedding` or as Cohere's does."""
    halves = layout == "half"
    cosines, sines = (
        torch.cat((part, part), 1) if halves else part.repeat_interleave(2, 1)
        for part in cache(config)
    )
    forms = {
        "two": (cosines, sines),
        "one": (torch.cat((cosines, sines), 1),),
        "cosines": (cosines,),
    }
    return forms[form]


@pytest.mark.parametrize("form", ["two", "one", "cosines"])
@pytest.mark.parametrize("name", ["llama-3-8b", "llama-3.1-8b", "phi-2"])
def test_neighbours_repeated_do_not_belong_to_a_model_that_pairs_halves(
    name: str, form: str
) -> None:
    ((kind, config),) = schemes(name).items()
    right, wrong = (repeated(config, layout, form) for layout in ("half", "interleaved"))
    assert match_model(None, {kind: config}, *right).belongs
    match = match_model(None, {kind: config}, *wrong)
    assert not match.belongs
    assert "its columns are repeated in neighbours, the model's in halves" in match.sentence
    row, column = (int(n) for n in (wrong[0] != right[0]).nonzero()[0])
    assert (row, column) == (1, 1)
    assert "It differs first in row 1, pair 0, by " in match.sentence  # in the second half, too


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("kind", "base", "words"),
    [
        ("rope", 5e5, "The base is 500,000, where the scheme has 10,000."),
        ("rope", 4e4, "The base is 40,000, where the scheme has 10,000."),
        ("rope_yarn", 1e6, "The base is 1,000,000, where the scheme has 10,000."),
        (
            "rope",
            1e4 * 4 ** (64 / 62),
            "The base is 41,829.36593, as of NTK-aware scaling by 4, where the scheme has 10,000.",
        ),
        ("rope", 1e4 ** (64 / 62), "The exponents are 2m/(d - 2) in place of 2m/d."),
    ],
)
def test_first_sentence_names_another_base_or_exponent_without_a_search(
    kind: str, base: float, words: str, dtype: torch.dtype
) -> None:
    config = config_of(kind, dim=64, base=1e4, layout="half")
    assert isinstance(config, RopeConfig)
    wrong = [part.to(dtype) for part in cache(config.replace(base=base))]
    match = compare({"all": config}, *wrong)
    assert not match.belongs
    assert match_sentences(match, None)[0] == words


UNUSUAL = [
    *product((12_345, 83_333, 10_001, 54_321), (torch.float32, torch.float16, torch.bfloat16))
]


@pytest.mark.parametrize(
    ("base", "dtype"), mostly(UNUSUAL, *((b, d) for b, d in UNUSUAL if b in (12_345, 10_001)))
)
def test_unusual_base_is_named_with_its_own_digits(base: int, dtype: torch.dtype) -> None:
    """Also beside 10,000, the square of 100, from which 16 bits tell it by small numbers alone."""
    angles = torch.arange(300.0).double()[:, None] * base ** -(torch.arange(32.0).double() / 32)
    wrong = angles.cos().to(dtype), angles.sin().to(dtype)
    config = config_of("rope", dim=64, base=1e5, layout="half")
    words = match_sentences(compare({"all": config}, *wrong), None)[0]
    assert words == f"The base is {base:,}, where the scheme has 100,000."
    assert headline(identify(*wrong)).startswith(f"RoPE, base {base:,}, ")


def test_base_near_that_of_a_scaling_is_not_called_it() -> None:
    """NTK-aware scaling of base 10,000 by 2 has base 20,452.27 at width 64."""
    config = config_of("rope", dim=64, base=1e4, layout="half")
    for base, is_scaling in ((1e4 * 2 ** (64 / 62), True), (20_460.0, False)):
        angles = torch.arange(300.0).double()[:, None] * base ** -(torch.arange(32.0).double() / 32)
        wrong = angles.cos().float(), angles.sin().float()
        words = match_sentences(compare({"all": config}, *wrong), None)[0]
        assert ("as of NTK-aware scaling by 2" in words) == is_scaling
        assert bool(identify(*wrong).also) == is_scaling


@pytest.mark.parametrize("of_vectors", [False, True])
def test_usual_base_near_that_of_a_scaling_is_not_called_it(of_vectors: bool) -> None:
    """At width 128, NTK-aware scaling of base 10,000 by 47 has base 499,619."""
    angles = torch.arange(64.0).double()[:, None] * 5e5 ** -(torch.arange(64.0).double() / 64)
    wrong = angles.cos().bfloat16(), angles.sin().bfloat16()
    config = config_of("rope", dim=128, base=1e4, layout="half")
    match = compare({"all": config}, *wrong, of_vectors=of_vectors)
    assert match_sentences(match, None)[0] == "The base is 500,000, where the scheme has 10,000."


def test_base_of_another_layer_is_no_mistake_beside_a_factor_that_is_missing() -> None:
    wide, near = (config_of("rope_yarn", dim=64, base=base, layout="half") for base in (1e6, 1e4))
    assert isinstance(near, RopeConfig)
    size = near.attention_scaling()
    unscaled = [part / size for part in cache(near)]
    match = compare({"wide": wide, "near": near}, *unscaled)
    assert match_sentences(match, None)[0] == (
        f"Against its near layers, the attention factor {size:.4g} is missing."
    )


def test_neighbours_and_a_wrong_base_are_both_named() -> None:
    config = RopeConfig(dim=64, base=5e5, layout="half")
    wrong = repeated(config.replace(base=1e4), "interleaved", "two")
    sentence = match_model(identify(*wrong), {"all": config}, *wrong).sentence
    assert "it has width 64 and base 10,000, with columns repeated in neighbours; " in sentence


def test_halves_under_a_model_that_pairs_neighbours_belong_to_code_that_reorders() -> None:
    """As the caches of GLM, Ernie 4.5 and DeepSeek in transformers are."""
    config = RopeConfig(dim=64, layout="interleaved")
    for layout, is_noted in (("half", True), ("interleaved", False)):
        tables = repeated(config, layout, "two")
        match = match_model(identify(*tables), {"all": config}, *tables)
        assert match.belongs
        assert ("must reorder" in match.sentence) == is_noted
    single = repeated(RopeConfig(dim=2), "half", "two")
    assert match_model(
        identify(*single), {"all": RopeConfig(dim=2, layout="half")}, *single
    ).belongs


@pytest.mark.parametrize("kind", ["rope", "rope_yarn", "rope_llama3"])
def test_float32_angles_belong_and_bfloat16_angles_do_not(kind: str) -> None:
    config = config_of(kind, dim=64, layout="half", **SCALINGS.get(kind, {}))
    assert isinstance(config, RopeConfig)
    frequencies, factor = rope_frequencies(config)
    exact = torch.arange(2_000, dtype=torch.float64)[:, None] * frequencies.repeat(2)
    for dtype, belongs in ((torch.float32, True), (torch.bfloat16, False), (torch.float16, False)):
        angles = torch.arange(2_000).to(dtype)[:, None] * config.float32_frequencies().to(dtype)
        tables = [
            (part.repeat(1, 2) * factor).float()
            for part in (angles.double().cos(), angles.double().sin())
        ]
        match = match_model(None, {"all": config}, *tables)
        assert match.belongs == belongs, match.sentence
        if belongs:
            continue
        off = torch.stack(
            [tables[0] - factor * exact.cos(), tables[1] - factor * exact.sin()]
        ).abs()
        largest, name = float(off.max()), str(dtype).removeprefix("torch.")
        words = f"angles are rounded to {name}: the largest error is {largest:.3g}, and numbers are wrong"
        assert words in match.sentence
        row = int(match.sentence.split("from row ")[1].split(" ")[0].replace(",", ""))
        assert float(off[:, :row].max()) < 2e-5 < float(off[:, row].max())


@pytest.mark.parametrize("parts", mostly([1, 2], 1))
@pytest.mark.parametrize(
    ("times", "words"),
    [(0, "is missing"), (1, ""), (2, "1.277 is applied twice"), (3, "is multiplied by 2.08, ")],
)
def test_attention_factor_of_a_bfloat16_cache_is_counted(
    times: int, words: str, parts: int
) -> None:
    config = config_of(
        "rope_yarn", dim=128, base=5e5, factor=16.0, trained_length=8_192, layout="half"
    )
    factor = 0.1 * math.log(16) + 1
    angles = torch.arange(1_000, dtype=torch.float64)[:, None] * config.frequencies().inv_freq
    tables = [part.repeat(1, 2).bfloat16() for part in (angles.cos(), angles.sin())][:parts]
    for _ in range(times):
        tables = [part * factor for part in tables]  # each product is rounded
    result = identify(*tables)
    match = match_model(result, {"all": config}, *tables)
    assert match.belongs == (times == 1)
    said = [match.sentence, *(deviation_sentence(deviation) for deviation in result.deviations)]
    assert all(words in sentence for sentence in said)
    assert len(said) == 1 + (times != 1)


def test_command_passes_float32_angles_and_fails_bfloat16_angles(tmp_path: Path) -> None:
    frequencies = 1 / 1e4 ** (torch.arange(64) / 64)
    for dtype, status in ((torch.float32, 0), (torch.bfloat16, 1)):
        angles = torch.arange(1_000, dtype=dtype)[:, None] * frequencies.to(dtype)
        for name, part in (("cos", angles.cos()), ("sin", angles.sin())):
            (tmp_path / f"{name}.npy").write_bytes(npy(part.float().repeat(1, 2).numpy()))
        files = [str(tmp_path / "cos.npy"), "--sines", str(tmp_path / "sin.npy")]
        printed = CliRunner().invoke(
            main, ["identify", *files, "--config", "-"],
            input=json.dumps(MODELS["llama-2-7b"].config),
        )  # fmt: skip
        assert printed.exit_code == status
        assert ("rounded to bfloat16: the largest error is " in printed.stdout) == bool(status)
        assert ("This table belongs to the model" in printed.stdout) != bool(status)
        assert CliRunner().invoke(main, ["identify", *files]).exit_code == 0
