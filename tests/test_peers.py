"""The same numbers as the code people run: transformers and x-transformers, over many configurations.

Where a peer differs, the test names the difference: float32 angles, rows that only a softmax makes
equal, another ladder.
"""

import math

import pytest
import torch
from torch import Tensor

from posenc import SCHEMES, alibi_bias, alibi_slopes, attention, position_vectors, sinusoidal_table
from posenc.layout import interleaved_to_half

pytest.importorskip("transformers")
pytest.importorskip("x_transformers")

from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.bloom import modeling_bloom
from transformers.models.gpt_neox import modeling_gpt_neox
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from transformers.models.marian import modeling_marian
from transformers.models.mpt import modeling_mpt
from transformers.models.roformer import modeling_roformer
from transformers.models.speech_to_text import modeling_speech_to_text
from x_transformers import x_transformers

POSITIONS = torch.arange(300)


def angle_error(last: int) -> float:
    """How far a peer's float32 angle may be off at this position: the frequency and the product.

    Four eps is what its float32 power is off by at most, half an eps the product.
    """
    return last * 4.5 * torch.finfo(torch.float32).eps / 2 + 2e-6


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def close(actual: Tensor, expected: Tensor, atol: float) -> None:
    torch.testing.assert_close(actual.float(), expected.float(), rtol=0, atol=atol)


# RoPE -----------------------------------------------------------------------------------------


def llama(width: int, base: float, heads: int = 2) -> modeling_llama.LlamaRotaryEmbedding:
    config = LlamaConfig(
        hidden_size=width * heads,
        num_attention_heads=heads,
        head_dim=width,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    return modeling_llama.LlamaRotaryEmbedding(config)


@pytest.mark.parametrize("width", [2, 8, 64, 80, 128, 256])
@pytest.mark.parametrize("base", [10000.0, 500000.0, 1e6])
@pytest.mark.parametrize("start", [0, 3_000])
def test_rope_in_halves_equals_llama(width: int, base: float, start: int) -> None:
    q, k = random(2, 1, 2, 300, width)
    positions = POSITIONS + start
    cos, sin = llama(width, base)(q, positions[None])
    theirs = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
    ours = SCHEMES["rope"](dim=width, base=base, layout="half").build()
    for actual, expected in zip(ours.rotate(q, k, positions, positions), theirs, strict=True):
        close(actual, expected, atol=5 * angle_error(start + 300))


@pytest.mark.parametrize(
    ("width", "rotary"),
    [(2, 2), (8, 2), (8, 8), (64, 2), (64, 8), (64, 64), (128, 64), (256, 2), (256, 64)],
)
def test_interleaved_partial_rope_equals_gpt_j(width: int, rotary: int) -> None:
    table = modeling_gptj.create_sinusoidal_positions(300, rotary)
    sin, cos = table.chunk(2, dim=-1)
    x = random(1, 300, 4, width)  # GPT-J keeps heads behind tokens
    turned = modeling_gptj.apply_rotary_pos_emb(x[..., :rotary], sin[None], cos[None])
    theirs = torch.cat((turned, x[..., rotary:]), dim=-1).transpose(1, 2)
    ours = SCHEMES["rope"](dim=width, partial_rotary_factor=rotary / width).build()
    close(ours.rotate(x.transpose(1, 2), x.transpose(1, 2))[0], theirs, 5 * angle_error(300))


@pytest.mark.parametrize(
    ("width", "share"), [(96, 0.25), (80, 0.4), (64, 0.5), (64, 1.0), (8, 0.25)]
)
def test_partial_rope_in_halves_equals_gpt_neox(width: int, share: float) -> None:
    config = GPTNeoXConfig(
        hidden_size=width * 2,
        num_attention_heads=2,
        rope_parameters={
            "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": share,
        },
    )  # fmt: skip
    q, k = random(2, 1, 2, 300, width)
    cos, sin = modeling_gpt_neox.GPTNeoXRotaryEmbedding(config)(q, POSITIONS[None])
    theirs = modeling_gpt_neox.apply_rotary_pos_emb(q, k, cos, sin)
    ours = SCHEMES["rope"](dim=width, layout="half", partial_rotary_factor=share).build()
    for actual, expected in zip(ours.rotate(q, k), theirs, strict=True):
        close(actual, expected, 5 * angle_error(300))


@pytest.mark.parametrize("width", [2, 32, 64, 128])
@pytest.mark.parametrize("base", [10000, 500000])
def test_interleaved_rope_equals_x_transformers(width: int, base: int) -> None:
    x = random(2, 3, 300, width + 16)
    peer = x_transformers.RotaryEmbedding(width, base=base) if width > 2 else None
    if peer is None:
        with pytest.raises(ZeroDivisionError):  # its rescaling divides by width - 2
            x_transformers.RotaryEmbedding(width, base=base)
        return
    freqs, _ = peer.forward_from_seq_len(300)
    theirs = x_transformers.apply_rotary_pos_emb(x, freqs)
    config = SCHEMES["rope"](
        dim=width + 16, base=float(base), partial_rotary_factor=width / (width + 16)
    )
    assert config.rotary_dim == width
    close(config.build().rotate(x, x)[0], theirs, 5 * angle_error(300))


@pytest.mark.parametrize("width", [2, 6, 64])
def test_the_two_layouts_differ_by_a_permutation_and_mixing_them_is_another_map(width: int) -> None:
    x = random(1, 2, 40, width, dtype=torch.float64)
    halves = SCHEMES["rope"](dim=width, layout="half").build().rotate(x, x)[0]
    neighbours = SCHEMES["rope"](dim=width).build()
    mixed = x[..., interleaved_to_half(width).argsort()]
    through = neighbours.rotate(mixed, mixed)[0][..., interleaved_to_half(width)]
    assert torch.equal(through, halves)
    if width > 2:
        assert (neighbours.rotate(x, x)[0] - halves).abs().max() > 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("start", [0, 2_000, 70_000])
def test_half_precision_rope_is_nearer_to_the_truth_than_llama_s(
    dtype: torch.dtype, start: int
) -> None:
    q = random(1, 4, 300, 128, dtype=dtype)
    positions = POSITIONS + start
    rope = SCHEMES["rope"](dim=128, base=500000.0, layout="half").build()
    exact = rope.rotate(q.double(), q.double(), positions, positions)[0]
    cos, sin = llama(128, 500000.0)(q, positions[None])
    theirs = modeling_llama.apply_rotary_pos_emb(q, q, cos, sin)[0]
    ours = rope.rotate(q, q, positions, positions)[0]
    assert ours.dtype == theirs.dtype == dtype
    error, peer_error = ((x.double() - exact).abs() for x in (ours, theirs))
    assert error.max() <= peer_error.max()
    # Rounded once: no more than half a unit in the last place of the exact value, but for ties.
    half_ulp = torch.finfo(dtype).eps / 2 * torch.exp2(exact.abs().log2().floor())
    assert (error <= half_ulp * 1.001 + 2e-6).all()


# ALiBi ----------------------------------------------------------------------------------------

HEAD_COUNTS = [1, 2, 3, 5, 6, 8, 11, 12, 16, 20, 31, 32, 40, 71, 112]


@pytest.mark.parametrize("heads", HEAD_COUNTS)
def test_slopes_equal_bloom_mpt_and_x_transformers_up_to_their_float32_powers(heads: int) -> None:
    bloom = modeling_bloom.build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    mpt = -modeling_mpt.build_mpt_alibi_tensor(heads, 2)[:, 0, 0]
    x_slopes = x_transformers.AlibiPositionalBias(heads).slopes.flatten()
    for theirs in (bloom, mpt, x_slopes):
        torch.testing.assert_close(alibi_slopes(heads), theirs, rtol=2e-6, atol=0)


@pytest.mark.parametrize("heads", HEAD_COUNTS)
def test_alibi_bias_equals_x_transformers(heads: int) -> None:
    theirs = x_transformers.AlibiPositionalBias(heads)(20, 50)
    ours = alibi_bias(torch.arange(30, 50), torch.arange(50), alibi_slopes(heads))
    torch.testing.assert_close(ours, theirs, rtol=2e-6, atol=0)
    scheme = SCHEMES["alibi"](heads=heads).build()
    q, k = torch.zeros(1, heads, 20, 2), torch.zeros(1, heads, 50, 2)
    torch.testing.assert_close(
        scheme.bias(q, k, torch.arange(30, 50))[0], theirs, rtol=2e-6, atol=0
    )


@pytest.mark.parametrize("heads", [1, 6, 8, 12])
def test_bloom_s_and_mpt_s_rows_are_alibi_only_inside_a_causal_softmax(heads: int) -> None:
    """Both add slope * j (or slope * (j - last)) to key j: each row differs by a constant."""
    n = 30
    q, k, v = random(3, 1, heads, n, 8)
    later = torch.arange(n) > torch.arange(n)[:, None]
    scheme = SCHEMES["alibi"](heads=heads).build()
    ours = attention(q, k, v, scheme)
    bloom = modeling_bloom.build_alibi_tensor(torch.ones(1, n), heads, torch.float32)[None]
    mpt = modeling_mpt.build_mpt_alibi_tensor(heads, n)[None]
    true_bias = scheme.bias(q, k)
    for rows in (bloom, mpt):
        causal = (q @ k.mT / math.sqrt(8) + rows).masked_fill(later, -math.inf)
        close(causal.softmax(-1) @ v, ours, atol=3e-6)
        assert (rows - true_bias).abs().max() > 0.1, "as a picture of the bias the rows are wrong"
        both_ways = (q @ k.mT / math.sqrt(8) + rows).softmax(-1) @ v
        assert (both_ways - attention(q, k, v, scheme, causal=False)).abs().max() > 1e-2


def test_alibi_decoding_equals_x_transformers_decoding() -> None:
    q, k, v = random(1, 12, 1, 8), random(1, 12, 40, 8, seed=1), random(1, 12, 40, 8, seed=2)
    bias = x_transformers.AlibiPositionalBias(12)(1, 40)
    theirs = (q @ k.mT / math.sqrt(8) + bias).softmax(-1) @ v
    ours = attention(q, k, v, SCHEMES["alibi"](heads=12).build(), q_positions=torch.tensor([39]))
    close(ours, theirs, atol=1e-6)


# Sinusoidal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [2, 8, 64, 512, 1_024])
def test_sinusoidal_in_halves_equals_marian_and_roformer(width: int) -> None:
    """Both compute in float64 and store halves; RoFormer adds them to nothing else."""
    marian = modeling_marian.MarianSinusoidalPositionalEmbedding(300, width).create_weight()
    roformer = modeling_roformer.RoFormerSinusoidalPositionalEmbedding(300, width).create_weight()
    ours = sinusoidal_table(300, width, layout="half")
    for theirs in (marian, roformer):
        close(ours, theirs, atol=6.1e-8)
    scheme = SCHEMES["sinusoidal"](dim=width, layout="half").build()
    close(scheme.embed(torch.zeros(1, 300, width))[0], marian, atol=6.1e-8)


@pytest.mark.parametrize("width", [4, 64, 512])
def test_sinusoidal_equals_gpt_j_s_table(width: int) -> None:
    theirs = modeling_gptj.create_sinusoidal_positions(300, width)
    close(sinusoidal_table(300, width, layout="half"), theirs, angle_error(300))


@pytest.mark.parametrize("width", [8, 64, 512])
def test_speech_to_text_uses_tensor2tensor_s_ladder_which_is_not_the_paper_s(width: int) -> None:
    """It divides by d/2 - 1 instead of d/2, so that the last wavelength is 2 pi 10000 exactly."""
    theirs = modeling_speech_to_text.Speech2TextSinusoidalPositionalEmbedding.get_embedding(
        300, width
    )
    ours = sinusoidal_table(300, width, layout="half")
    assert (ours - theirs).abs().max() > 0.3
    # The same ladder from the paper's formula: base^(-2m/d) with base = 10000^(d/(d-2)).
    same = sinusoidal_table(300, width, base=10000.0 ** (width / (width - 2)), layout="half")
    close(same, theirs, angle_error(300))


@pytest.mark.parametrize("width", [2, 64, 512])
@pytest.mark.parametrize("theta", [10000, 100])
def test_x_transformers_scales_the_same_table_by_one_over_sqrt_width(
    width: int, theta: int
) -> None:
    peer = x_transformers.ScaledSinusoidalEmbedding(width, theta=theta)
    theirs = peer(torch.zeros(1, 300, width), offset=70).detach()
    scheme = SCHEMES["sinusoidal"](dim=width, base=float(theta), layout="half").build()
    ours = position_vectors(scheme, 300, start=70) * width**-0.5
    close(ours, theirs, angle_error(370))


# A whole attention layer ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_llama_attention_layer_with_grouped_queries_gives_the_same_output(
    dtype: torch.dtype,
) -> None:
    config = LlamaConfig(
        hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        attn_implementation="eager",
    )  # fmt: skip
    torch.manual_seed(0)
    peer = modeling_llama.LlamaAttention(config, layer_idx=0).to(dtype)
    x = random(2, 40, 64, dtype=dtype)
    positions = torch.arange(40)[None]
    mask = torch.full((40, 40), -math.inf).triu(1)[None, None].to(dtype)
    embeddings = modeling_llama.LlamaRotaryEmbedding(config)(x, positions)
    with torch.no_grad():
        theirs = peer(x, position_embeddings=embeddings, attention_mask=mask)[0]
        q, k, v = (
            projection(x).unflatten(-1, (-1, 16)).transpose(1, 2)
            for projection in (peer.q_proj, peer.k_proj, peer.v_proj)
        )
        rope = SCHEMES["rope"](dim=16, base=500000.0, layout="half").build()
        ours = peer.o_proj(attention(q, k, v, rope).transpose(1, 2).flatten(-2))
    close(ours, theirs, atol=16 * torch.finfo(dtype).eps)
