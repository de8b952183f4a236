"""Logits and biases made by plain loops with a known fault: the first sentence names it, and no other."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc.errors import SchemeArgumentError
from posenc.logits import LogitRule, match_bias, match_logits, predict_logits, rule_of_scheme
from posenc.logits.bias_sentences import bias_sentences
from posenc.logits.sentences import match_sentences, record
from posenc.models import read_config
from posenc.models.logit_rules import logit_rules
from tests.library.configs import config_of

pytestmark = pytest.mark.usefixtures("no_shape_checks")

GEMMA3_27B = {
    "model_type": "gemma3_text", "hidden_size": 5376, "num_attention_heads": 32,
    "num_key_value_heads": 16, "head_dim": 128, "query_pre_attn_scalar": 168, "num_hidden_layers": 6,
}  # fmt: skip
GEMMA2_27B = {
    "model_type": "gemma2", "hidden_size": 4608, "num_attention_heads": 32, "num_key_value_heads": 16,
    "head_dim": 128, "query_pre_attn_scalar": 144, "num_hidden_layers": 2,
    "attn_logit_softcapping": None,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 512, "num_attention_heads": 4,
    "num_key_value_heads": 4, "num_hidden_layers": 2,
    "rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 0.707,
                     "original_max_position_embeddings": 4096},
}  # fmt: skip


def vectors(heads: int, tokens: int, width: int, seed: int = 0, size: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return size * torch.randn(heads, tokens, width, generator=generator)


def loops(
    q: Tensor, k: Tensor, scale: float, *, bias: Callable[[int, int], float] = lambda head, offset: 0.0,
    cap: float = 0.0, see: Callable[[int, int], bool] = lambda query, key: key <= query,
    grow: Callable[[int], float] = lambda query: 1.0,
) -> Tensor:  # fmt: skip
    """Logits before the softmax, one by one."""
    heads, queries, keys = len(q), q.shape[1], k.shape[1]
    out = torch.full((heads, queries, keys), -math.inf)
    dots = (q.double() @ k.double().repeat_interleave(heads // len(k), 0).mT).tolist()
    for head in range(heads):
        for row in range(queries):
            at = row + keys - queries
            for key in range(keys):
                if see(at, key):
                    value = scale * grow(at) * dots[head][row][key] + bias(head, key - at)
                    out[head, row, key] = cap * math.tanh(value / cap) if cap else value
    return out


def rule_of(config: Mapping[str, Any]) -> LogitRule:
    return next(iter(logit_rules(read_config(config)).values()))


def said(rule: LogitRule, q: Tensor, k: Tensor, logits: Tensor, **options: Any) -> list[str]:
    match = match_logits(rule, q, k, logits, **({"rotated": True} | options))
    assert match.belongs is False
    return match_sentences(match)


def slopes_of(heads: int) -> list[float]:
    """ALiBi's slopes, written again from Press et al. 2022 and its code."""
    power = 2 ** math.floor(math.log2(heads))
    whole = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return (
        whole + [2 ** (-8 * (h + 1) / (2 * power)) for h in range(2 * power)][0::2][: heads - power]
    )


@pytest.mark.parametrize(("config", "times"), [(GEMMA3_27B, 1.1456), (GEMMA2_27B, 1.0607)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scale_by_head_dim_in_place_of_query_pre_attn_scalar_is_named(
    config: dict[str, Any], times: float, dtype: torch.dtype
) -> None:
    """The first is ferrox#40."""
    rule, q, k = rule_of(config), vectors(32, 12, 128), vectors(16, 12, 128, 1)
    number = config["query_pre_attn_scalar"]
    assert match_logits(rule, q, k, loops(q, k, number**-0.5).to(dtype), rotated=True).belongs
    wrong = loops(q, k, 128**-0.5).to(dtype)
    match = match_logits(rule, q, k, wrong, rotated=True)
    assert match_sentences(match)[0].startswith(
        f"The softmax scale is 1/sqrt(128) by head_dim, where the layer has 1/sqrt({number}) by "
        "query_pre_attn_scalar: logits are 1."
    )
    assert match.scale is not None
    assert match.scale.ratio == pytest.approx(times, rel=1e-3)
    values = record(match)
    assert values["scale_names"] == [{"root": "head_dim", "factor": "none"}]
    assert values["scales"] == pytest.approx([128**-0.5] * 32, rel=1e-3)


def test_scale_with_mscale_in_place_of_mscale_all_dim_is_named() -> None:
    """NVIDIA/Megatron-LM#1429."""
    rule, q, k = rule_of(DEEPSEEK), vectors(4, 12, 192), vectors(4, 12, 192, 1)
    right, wrong = ((0.1 * weight * math.log(40) + 1) ** 2 for weight in (0.707, 1.0))
    assert (round(right, 4), round(wrong, 4)) == (1.5896, 1.8739)
    assert match_logits(rule, q, k, loops(q, k, right * 192**-0.5), rotated=True).belongs
    first = said(rule, q, k, loops(q, k, wrong * 192**-0.5))[0]
    assert "1.8739 (mscale's factor squared), where the layer has" in first
    assert "1.5896 (mscale_all_dim's factor squared): logits are 1.1788 times" in first
    assert (
        "1.2608 (mscale_all_dim's factor once)"
        in (said(rule, q, k, loops(q, k, math.sqrt(right) * 192**-0.5))[0])
    )


@pytest.mark.parametrize(
    ("power", "clause"),
    [(0, "is missing"), (1, "multiplies queries or keys, not both"), (4, "is applied twice")],
)
def test_attention_factor_that_is_wrong_is_named_by_its_square_in_logits(
    power: int, clause: str
) -> None:
    scheme = config_of("rope_yarn", dim=64, factor=4.0, trained_length=64, layout="half")
    rule, q, k = rule_of_scheme(scheme, 2, 64), vectors(2, 12, 64), vectors(2, 12, 64, 1)
    factor = 0.1 * math.log(4) + 1
    logits = predict_logits(rule, q, k).float() * factor ** (power - 2)
    assert said(rule, q, k, logits, rotated=False)[0].startswith(f"The attention factor {clause}")


def test_wrong_scale_beside_right_slopes_is_named_alone() -> None:
    rule = rule_of_scheme(config_of("alibi", heads=4), 4, 64)
    q, k, slopes = vectors(4, 12, 64), vectors(4, 12, 64, 1), slopes_of(4)
    match = match_logits(rule, q, k, loops(q, k, 1 / 64, bias=lambda h, o: slopes[h] * o))
    assert match.slopes is None
    assert match_sentences(match)[0].startswith(
        "The softmax scale is 1/head_dim (1/64), where the layer has 1/sqrt(64) by head_dim"
    )


def test_scale_without_a_known_rule_is_a_number_and_no_name() -> None:
    rule = rule_of_scheme(config_of("none"), 2, 64)
    q, k = vectors(2, 12, 64), vectors(2, 12, 64, 1)
    assert said(rule, q, k, loops(q, k, 0.1))[0] == (
        "The softmax scale is 0.1, where the layer has 1/sqrt(64) by head_dim: logits are 0.8 times the "
        "layer's."
    )


# "12 heads" is ml-explore/mlx#3071.
SLOPES: dict[str, tuple[int, list[float], int, str]] = {
    "12 heads": (12, [2 ** (-8 * i / 12) for i in range(1, 13)], 0, "2^(-8 i/n) for every head"),
    "rank 1 of 2": (8, slopes_of(8)[4:], 0, "those of tensor-parallel rank 1 of 2"),
    "rank 0 of 2": (8, slopes_of(8)[:4], 4, "those of tensor-parallel rank 0 of 2"),
    "own heads": (8, slopes_of(4), 0, "those of a layer with 4 heads, as where each of 2 ranks"),
    "repeated": (8, slopes_of(4) * 2, 0, "those of 4 heads, 2 times"),
    "one": (8, [slopes_of(8)[0]] * 8, 0, "ll heads have the slope of the first"),
    "sign": (8, [-slope for slope in slopes_of(8)], 0, "the wrong sign"),
    "sorted": (12, sorted(slopes_of(12), reverse=True), 0, "he slopes are sorted"),
}  # fmt: skip


@pytest.mark.parametrize("case", SLOPES)
def test_wrong_slopes_are_named_in_logits_and_in_a_bias(case: str) -> None:
    heads, slopes, first, clause = SLOPES[case]
    rule = rule_of_scheme(config_of("alibi", heads=heads), heads, 16)
    q, k = vectors(len(slopes), 6, 16), vectors(len(slopes), 9, 16, 1)
    logits = loops(q, k, 0.25, bias=lambda h, o: slopes[h] * o)
    sentence = said(rule, q, k, logits, first_head=first)[0]
    assert clause in sentence
    bias = torch.tensor([[[slopes[h] * (key - row) for key in range(9)] for row in range(9)]
                         for h in range(len(slopes))])  # fmt: skip
    match = match_bias(rule, bias, first_head=first)
    assert not match.belongs
    assert bias_sentences(match)[0] == sentence


@pytest.mark.parametrize("heads", [8, 12])
def test_right_slopes_belong_also_by_rank_and_in_blooms_row_form(heads: int) -> None:
    rule, half = rule_of_scheme(config_of("alibi", heads=heads), heads, 16), heads // 2
    slopes = torch.tensor(slopes_of(heads))[:, None, None]
    distances = (torch.arange(9.0)[None] - torch.arange(9.0)[:, None]).abs()
    exact = match_bias(rule, -slopes * distances)
    assert exact.belongs
    assert exact.exactly
    assert match_bias(rule, (-slopes * distances)[half:], first_head=half).belongs
    assert match_bias(rule, (-slopes * distances).bfloat16()).belongs
    row = match_bias(rule, slopes * torch.arange(9.0), queries=9)
    assert row.belongs
    assert not row.exactly
    assert bias_sentences(row) == [
        "This bias is the layer's ALiBi, up to a constant for each query, which the softmax ignores."
    ]
    encoder = match_bias(rule.replace(causal=False), slopes * torch.arange(9.0), queries=9)
    assert bias_sentences(encoder)[0].startswith(
        "The bias is a slope times the position of the key"
    )


def test_bias_of_a_decoding_step_that_is_built_over_the_query_alone_is_named() -> None:
    """keras-team/keras-hub#2861: slope 0.5 and 8 cached keys; zeros may as well be no bias at all."""
    rule = rule_of_scheme(config_of("alibi", heads=8), 8, 16)
    slopes = slopes_of(8)
    right = torch.tensor([[[-slope * (8 - key) for key in range(9)]] for slope in slopes])
    assert right[0, 0].tolist() == [-0.5 * distance for distance in range(8, -1, -1)]
    assert match_bias(rule, right).belongs
    assert match_bias(rule, right + 3).belongs
    both = "No bias reaches the logits or the bias is built over the query alone"
    assert bias_sentences(match_bias(rule, torch.zeros(8, 1, 9)))[0].startswith(both)
    alone = bias_sentences(match_bias(rule, torch.zeros(8, 1, 1), keys=9))
    assert alone[0] == (
        "The bias is built over the query alone: it has one key, where 9 are cached."
    )
    q, k = vectors(8, 1, 16), vectors(8, 9, 16, 1)
    assert said(rule, q, k, loops(q, k, 0.25))[0].startswith(both)
    several = said(rule, vectors(8, 9, 16), k, loops(vectors(8, 9, 16), k, 0.25))[0]
    assert several.startswith("No bias reaches the logits: head 0 has the slope 0, the layer's 0.5")


def capped(cap: float) -> LogitRule:
    return rule_of_scheme(config_of("none"), 2, 16).replace(softcap=cap)


@pytest.mark.parametrize(
    ("rule", "cap", "sentence"),
    [
        (50.0, 0.0, "The soft cap is missing, where the layer caps logits at 50."),
        (50.0, 30.0, "Logits are capped by a tanh at 30, where the layer has 50."),
        (None, 37.5, "Logits are capped by a tanh at 37.5, where the layer has none."),
    ],
)
def test_soft_cap_is_recovered(rule: float, cap: float, sentence: str) -> None:
    q, k = vectors(2, 12, 16, size=5), vectors(2, 12, 16, 1, size=5)
    assert said(capped(rule), q, k, loops(q, k, 0.25, cap=cap))[0] == sentence
    assert match_logits(capped(rule), q, k, loops(q, k, 0.25, cap=rule or 0.0)).belongs


def test_scale_that_is_wrong_under_a_soft_cap_is_named_alone() -> None:
    q, k = vectors(2, 12, 16, size=3), vectors(2, 12, 16, 1, size=3)
    sentences = said(capped(50.0), q, k, loops(q, k, 1 / 16, cap=50.0))
    assert sentences[0].startswith("The softmax scale is 1/head_dim (1/16)")
    assert len(sentences) == 2


def test_mask_that_is_added_before_the_soft_cap_or_the_scale_is_named() -> None:
    q, k = vectors(2, 12, 16, size=3), vectors(2, 12, 16, 1, size=3)
    logits = loops(q, k, 0.25, cap=50.0)
    sentence = said(capped(50.0), q, k, logits.masked_fill(logits.isinf(), -50.0))[0]
    assert sentence.startswith("The mask is added before the soft cap: hidden keys have -50")
    every = loops(q, k, 0.25, see=lambda query, key: True)
    wrong = torch.where(logits.isinf(), every - 10_000 / 4, every)
    plain = rule_of_scheme(config_of("none"), 2, 16)
    assert said(plain, q, k, wrong)[0].startswith("The mask adds -2,500 to the logits of hidden")


# The right mask, then the wrong one, of 12 queries; and what is said.
WINDOW = {"window": 5}
MASKS: dict[str, tuple[dict[str, Any], Callable[[int, int], bool], str]] = {
    "none": ({}, lambda q, k: True, "No causal mask hides later keys."),
    "late": ({}, lambda q, k: k <= q + 1,
             "The causal mask is off by 1: a query sees 1 key after its own."),
    "early": ({}, lambda q, k: k < q, "The causal mask is off by 1: a query does not see its own key."),
    "causal": ({"causal": False}, lambda q, k: k <= q,
               "The mask is causal, where the layer sees both sides."),
    "window": (WINDOW, lambda q, k: q - 6 < k <= q,
               "The window is off by 1: a query sees 6 keys up to its own, the layer's window has 5."),
    "narrow": (WINDOW, lambda q, k: q - 4 < k <= q,
               "The window is off by 1: a query sees 4 keys up to its own, the layer's window has 5."),
    "no window": (WINDOW, lambda q, k: k <= q, "No window hides far keys, where the layer's is 5 tokens."),
    "chunks": (WINDOW, lambda q, k: k <= q and k // 5 == q // 5,
               "The text is cut into chunks of 5 tokens, where the layer has a window of 5 tokens."),
    "slides": (WINDOW | {"chunked": True}, lambda q, k: q - 5 < k <= q,
               "A window of 5 tokens slides, where the layer has chunks of 5."),
    "other chunks": (WINDOW | {"chunked": True}, lambda q, k: k <= q and k // 3 == q // 3,
                     "The text is cut into chunks of 3 tokens, where the layer's have 5."),
    "no chunks": (WINDOW | {"chunked": True}, lambda q, k: k <= q,
                  "The text is not cut into chunks, where the layer's have 5 tokens."),
    "padding": ({}, lambda q, k: 2 <= k <= q,
                "The first 2 keys are hidden from all queries, as padding is."),
}  # fmt: skip


@pytest.mark.parametrize("case", MASKS)
@pytest.mark.parametrize("hidden", [-math.inf, torch.finfo(torch.float32).min])
def test_wrong_mask_is_named(case: str, hidden: float) -> None:
    changes, see, sentence = MASKS[case]
    rule = rule_of_scheme(config_of("none"), 2, 16).replace(**changes)
    q, k = vectors(2, 12, 16), vectors(2, 12, 16, 1)
    logits = loops(q, k, 0.25, see=see).clamp(min=hidden)
    assert said(rule, q, k, logits) == [sentence, "The visible logits are the layer's."]


@pytest.mark.parametrize(("cached", "either"), [(3, False), (1, True)])
def test_mask_that_forgets_the_cached_keys_is_named(cached: int, either: bool) -> None:
    """With one cached key it may as well be off by one, and both are said."""
    rule = rule_of_scheme(config_of("none"), 2, 16)
    q, k = vectors(2, 6, 16), vectors(2, 6 + cached, 16, 1)
    logits = loops(q, k, 0.25, see=lambda query, key: key <= query - cached)
    sentence = said(rule, q, k, logits)[0]
    assert sentence.startswith("The mask takes queries from position 0 on, though ")
    assert ("or the causal mask is off by 1" in sentence) is either


def test_sinks_take_a_part_of_the_weights_or_a_column_of_logits() -> None:
    rule = rule_of_scheme(config_of("none"), 2, 16).replace(sinks=True)
    q, k = vectors(2, 12, 16), vectors(2, 12, 16, 1)
    logits = torch.cat((loops(q, k, 0.25), torch.full((2, 12, 1), 1.5)), -1)
    assert match_sentences(match_logits(rule, q, k, logits))[1] == (
        "The last column is one of sinks, at most 1.5."
    )
    match = match_logits(rule, q, k, logits.softmax(-1)[..., :-1])
    assert match.belongs
    assert match.sink == pytest.approx(float((1 - logits.softmax(-1)[..., :-1].sum(-1)).max()))
    sentence = said(rule, q, k, logits[..., :-1].softmax(-1))[0]
    assert sentence.startswith("The weights of each query have the sum 1, where the layer's sinks")


def test_sinks_of_a_layer_without_any_are_a_fault() -> None:
    rule = rule_of_scheme(config_of("none"), 2, 16)
    q, k = vectors(2, 12, 16), vectors(2, 12, 16, 1)
    logits = torch.cat((loops(q, k, 0.25), torch.full((2, 12, 1), 1.5)), -1)
    assert said(rule, q, k, logits) == [
        "The last column is one of sinks, at most 1.5, where the layer has none.",
        "The visible logits are the layer's.",
    ]
    first, second = said(rule, q, k, logits.softmax(-1)[..., :-1])
    assert first.startswith("Weights of a query lack up to 0.")
    assert first.endswith(" to the sum 1, as by a sink, where the layer has none.")
    assert second == "The visible attention weights are the layer's."


def test_weights_after_the_softmax_show_the_scale_too() -> None:
    rule = rule_of(GEMMA3_27B)
    q, k = vectors(32, 12, 128), vectors(16, 12, 128, 1)
    weights = loops(q, k, 168**-0.5).softmax(-1)
    assert match_logits(rule, q, k, weights, rotated=True).belongs
    wrong = loops(q, k, 128**-0.5).softmax(-1)
    assert said(rule, q, k, wrong)[0].startswith("The softmax scale is 1/sqrt(128) by head_dim")


def test_scale_that_grows_with_the_number_of_keys_is_named() -> None:
    rule = rule_of_scheme(config_of("none"), 2, 16)
    q, k = vectors(2, 12, 16), vectors(2, 12, 16, 1)
    logits = loops(q, k, 0.25, grow=lambda query: 0.43 * math.log(query + 1))
    assert said(rule, q, k, logits)[0].startswith("The softmax scale grows with ln(n)")


ROPE = config_of("rope", dim=16, layout="half", base=100.0)


def test_rotation_that_is_wrong_is_named_or_left_open() -> None:
    rule, q, k = rule_of_scheme(ROPE, 2, 16), vectors(2, 6, 16), vectors(2, 9, 16, 1)
    logits = predict_logits(rule, q, k)
    hidden = logits.isinf()
    assert match_logits(rule, q, k, logits.float()).vectors == ("rotated here",)
    bare = loops(q, k, 0.25)
    assert match_logits(rule, q, k, bare).vectors == ("rotated before",)
    assert said(rule, q, k, bare, rotated=False)[0] == "Queries and keys are not rotated."
    other = rule.replace(scheme=ROPE.replace(layout="interleaved"))
    wrong = predict_logits(other, q, k).float()
    assert said(rule, q, k, wrong, rotated=False)[0] == (
        "Queries and keys are rotated in the other layout of pairs."
    )
    late = predict_logits(rule.replace(causal=False), q, k, q_positions=torch.arange(6))
    sentence = said(rule, q, k, late.masked_fill(hidden, -math.inf).float(), rotated=False)[0]
    assert sentence.startswith("Queries are rotated from position 0 on")
    noise = vectors(2, 54, 1, 5).view(2, 6, 9).masked_fill(hidden, -math.inf)
    assert said(rule, q, k, noise, rotated=None)[0].startswith("No known rule makes these logits")


def t5_bias(
    heads: int, buckets: int, distance: int, both: bool, tokens: int, sign: int = 1
) -> Tensor:
    """T5's bias by its public code, in a loop over offsets, with random numbers for the buckets."""
    table = vectors(heads, buckets, 1, 7)[..., 0]
    bias = torch.zeros(heads, tokens, tokens)
    for row in range(tokens):
        for key in range(tokens):
            offset, bucket, count = sign * (key - row), 0, buckets
            if both:
                count //= 2
                bucket, away = (count if offset > 0 else 0), abs(offset)
            else:
                away = max(-offset, 0)
            exact = count // 2
            if away >= exact:
                ratio = math.log(away / exact) / math.log(distance / exact)
                away = min(exact + int(ratio * (count - exact) + 1e-9), count - 1)
            bias[:, row, key] = table[:, bucket + away]
    return bias


@pytest.mark.parametrize("both", [False, True])
def test_buckets_of_t5_are_recovered_in_both_directions(both: bool) -> None:
    config = config_of("t5", heads=3, bidirectional=both)
    rule = rule_of_scheme(config, 3, 8, causal=False)

    def first(buckets: int, distance: int, ways: bool) -> str:
        match = match_bias(rule, t5_bias(3, buckets, distance, ways, 150))
        return bias_sentences(match)[0]

    assert first(32, 128, both) == "This bias has the buckets of the layer's T5 bias."
    way, other = ("both directions", "one direction")[:: 1 if both else -1]
    has = f"where the layer has 32 in {way} up to distance 128."
    assert first(32, 128, not both) == (
        f"The bias has 32 buckets in {other} with the maximum distance 128, {has}"
    )
    assert first(64, 128, both) == (
        f"The bias has 64 buckets in {way} with the maximum distance 128, {has}"
    )
    assert (
        first(32, 64, both)
        == f"The bias has 32 buckets in {way} with the maximum distance 64, {has}"
    )
    sign = bias_sentences(match_bias(rule, t5_bias(3, 32, 128, False, 150, -1)))[0]
    assert sign.startswith("Offsets have the wrong sign")
    noise = bias_sentences(match_bias(rule, vectors(3, 20, 20)))
    assert noise == ["The bias depends on more than head and distance."]


def test_logits_of_t5_show_their_buckets_beside_the_scale() -> None:
    rule = rule_of_scheme(config_of("t5", heads=3), 3, 8)
    q, k = vectors(3, 150, 8), vectors(3, 150, 8, 1)
    see = torch.ones(150, 150, dtype=torch.bool).tril()
    dots = q.double() @ k.double().mT

    def made(scale: float, distance: int) -> Tensor:
        bias = t5_bias(3, 32, distance, False, 150)
        return (scale * dots + bias).masked_fill(~see, -math.inf).float()

    assert match_logits(rule, q, k, made(1.0, 128)).belongs
    assert said(rule, q, k, made(1.0, 64))[0].startswith(
        "The bias has 32 buckets in one direction, or 64 in both directions with the maximum distance 64"
    )
    assert said(rule, q, k, made(8**-0.5, 128))[0].startswith(
        "The softmax scale is 1/sqrt(8) by head_dim, where the layer has 1"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": torch.zeros(3)}, r"The queries must be floating-point numbers of \(tokens, head width\)"),
        ({"q": torch.zeros(2, 6, 8)}, "The queries must have the width 16 of a head, got 8."),
        ({"q": torch.zeros(3, 6, 16)}, "The 3 heads of the queries must be all 4 of the layer, or a"),
        ({"k": torch.zeros(3, 9, 16)}, "The 3 heads of the keys must divide the 4 heads of the queries."),
        ({"k": torch.full((4, 9, 16), math.nan)}, "The keys must be finite, got nan in head 0, row 0"),
        ({"logits": torch.zeros(4, 6, 7)}, r"The logits must be 4 x 6 x 9 \(heads, queries, keys\)"),
        ({"logits": torch.full((4, 6, 9), math.nan)}, "got nan in head 0, query 0, key 0."),
        ({"logits": torch.full((4, 6, 9), -math.inf)}, "The logits hide every key from every query."),
        ({"k": torch.zeros(4, 5, 16), "logits": torch.zeros(4, 6, 5)},
         "The 6 queries must be the last of the keys, got 5 keys."),
        ({"logits": torch.zeros(2, 4, 6, 9)}, "The logits must be of one sequence, got a batch of 2"),
        ({"logits": torch.zeros(1).expand(4, 3_000, 3_000)}, "must be at most 8,388,608 numbers, got 36"),
    ],
)  # fmt: skip
def test_input_that_does_not_fit_is_refused_in_one_sentence(
    changes: dict[str, Tensor], message: str
) -> None:
    rule = rule_of_scheme(config_of("none"), 4, 16)
    given = {
        "q": vectors(4, 6, 16),
        "k": vectors(4, 9, 16),
        "logits": torch.zeros(4, 6, 9),
    } | changes
    with pytest.raises(SchemeArgumentError, match=message):
        match_logits(rule, given["q"], given["k"], given["logits"])


@pytest.mark.parametrize(
    ("bias", "options", "message"),
    [
        (torch.zeros(3, 4, 4), {}, "The 3 heads of the bias must be all 4 of the layer"),
        (
            torch.zeros(4, 4, 4),
            {"keys": 9},
            "The bias has 4 keys: it cannot be added to logits of 9",
        ),
        (torch.zeros(4, 5, 3), {}, "The 5 queries must be the last of the keys, got 3 keys."),
        (
            torch.full((4, 4, 4), math.inf),
            {},
            "or minus infinity where a key is hidden, got inf in",
        ),
    ],
)
def test_bias_that_does_not_fit_is_refused_in_one_sentence(
    bias: Tensor, options: dict[str, int], message: str
) -> None:
    rule = rule_of_scheme(config_of("alibi", heads=4), 4, 16)
    with pytest.raises(SchemeArgumentError, match=message):
        match_bias(rule, bias, **options)
    with pytest.raises(SchemeArgumentError, match="adds no bias to logits"):
        match_bias(rule_of_scheme(ROPE, 4, 16), torch.zeros(4, 4, 4))


@pytest.mark.parametrize(
    "kind",
    ["shaw", "transformer_xl", "cope", "fire", "xpos", "ssmax", "ssmax_rope", "rnope", "pope", "fox",
     "stick_breaking"],
)  # fmt: skip
def test_schemes_whose_logits_are_made_otherwise_are_refused(kind: str) -> None:
    rule = rule_of_scheme(config_of(kind), 4, 16)
    with pytest.raises(SchemeArgumentError, match="are not compared: those of RoPE"):
        match_logits(rule, vectors(4, 6, 16), vectors(4, 6, 16), torch.zeros(4, 6, 6))


def test_one_query_and_two_keys_name_no_cause() -> None:
    """A scale and a slope for every head would make any two numbers."""
    q, k = vectors(8, 1, 16), vectors(8, 2, 16, 1)
    rule = rule_of_scheme(config_of("alibi", heads=8), 8, 16)
    assert match_logits(rule, q, k, predict_logits(rule, q, k).float()).belongs
    sentences = said(rule, q, k, vectors(8, 1, 2, 5))
    assert sentences[0] == "No known rule makes these logits of these queries and keys."


def test_one_query_shows_t5s_buckets_by_the_scale_that_is_expected() -> None:
    rule = rule_of_scheme(config_of("t5", heads=3), 3, 8)
    q, k = vectors(3, 1, 8), vectors(3, 150, 8, 1)
    dots = q.double() @ k.double().mT

    def made(distance: int) -> Tensor:
        return (dots + t5_bias(3, 32, distance, False, 150)[:, -1:]).float()

    assert match_logits(rule, q, k, made(128)).belongs
    assert "with the maximum distance 64" in said(rule, q, k, made(64))[0]
    with pytest.raises(SchemeArgumentError, match="Weights do not show the trained bias of T5"):
        match_logits(rule, q, k, made(128).softmax(-1))
