"""The configs of transformers' own rope tests: the same frequencies bit for bit, and the printed ones.

Configs and printed frequencies are facts of its tests/utils/test_modeling_rope_utils.py: those of commit
087e800256786f75d7392f947c17dfb5fac2dc3b (Llama, five digits), and of version 5, which adds the
proportional type and Gemma 3 with a block for each type of layer.
"""

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from posenc import rope_frequencies
from posenc.interop import read_config
from posenc.schemes.rope import RopeConfig

pytest.importorskip("transformers", minversion="5")

from transformers import Gemma3TextConfig, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gemma3.modeling_gemma3 import Gemma3RotaryEmbedding
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

PAIRS = 64  # of LlamaConfig(): 4,096 wide, 32 heads
CONTEXT = 2_048
FACTORS = (2.0, 10.0, 20.0)
SHORT = [2.0] * PAIRS
LONG = [float(m) for m in range(1, PAIRS + 1)]
LLAMA3 = {"original_max_position_embeddings": 2_048, "low_freq_factor": 1}

BLOCKS: list[dict[str, Any]] = [
    {"rope_type": "default"},
    *({"rope_type": "linear", "factor": s} for s in FACTORS),
    *({"rope_type": "dynamic", "factor": s} for s in FACTORS),
    *({"rope_type": "yarn", "factor": s} for s in FACTORS),
    *({"rope_type": "yarn", "factor": s, "attention_factor": 0.5} for s in FACTORS),
    {"rope_type": "yarn", "factor": 10.0, "beta_fast": 32, "beta_slow": 1},
    {"rope_type": "yarn", "factor": 10.0, "beta_fast": 1_000, "beta_slow": 1},
    *({"rope_type": "longrope", "factor": s} for s in (1.0, *FACTORS)),
    *({"rope_type": "longrope", "factor": s, "attention_factor": 0.5} for s in FACTORS),
    *({"rope_type": "llama3", "factor": s, "high_freq_factor": 4} | LLAMA3 for s in FACTORS),
    {"rope_type": "llama3", "factor": 10.0, "high_freq_factor": 1_000} | LLAMA3,
    *({"rope_type": "proportional", "partial_rotary_factor": r} for r in (1.0, 0.5, 0.25)),
    *(
        {"rope_type": "proportional", "partial_rotary_factor": r, "factor": s}
        for r, s in ((1.0, 1.0), (1.0, 2.0), (1.0, 10.0), (0.5, 1.0), (0.5, 2.0))
    ),
]
LENGTHS = (None, 1, CONTEXT, CONTEXT + 1, 16_384)


def named(block: Mapping[str, Any]) -> str:
    return "-".join(f"{value}" for value in block.values())


def whole(block: Mapping[str, Any], pairs: int = PAIRS) -> dict[str, Any]:
    """The block with its base, and the two lists of LongRoPE."""
    lists: dict[str, Any] = {}
    if block["rope_type"] == "longrope":
        lists = {"short_factor": SHORT[:1] * pairs, "long_factor": [*range(1, pairs + 1)]}
        lists = {name: [float(one) for one in values] for name, values in lists.items()}
    return {"rope_theta": 10_000.0} | dict(block) | lists


def read(block: Mapping[str, Any]) -> RopeConfig:
    """The scheme of a default Llama with this block."""
    config = LlamaConfig(rope_parameters=whole(block))
    assert (config.hidden_size, config.num_attention_heads) == (4_096, 32)
    assert config.max_position_embeddings == CONTEXT
    scheme = read_config(config.to_dict()).main.scheme
    assert isinstance(scheme, RopeConfig)
    return scheme


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_llama_of_its_tests_turns_by_its_frequencies_bit_for_bit(block: dict[str, Any]) -> None:
    kind, scheme = block["rope_type"], read(block)
    for length in LENGTHS:
        theirs = LlamaConfig(rope_parameters=whole(block))
        if kind == "default":
            inv_freq, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(theirs)
        else:
            inv_freq, factor = ROPE_INIT_FUNCTIONS[kind](theirs, "cpu", seq_len=length)
        found, own = rope_frequencies(scheme, length=length, mode="transformers")
        assert torch.equal(found, inv_freq), length
        assert own == factor
        exact, own = rope_frequencies(scheme, length=length)
        torch.testing.assert_close(exact, inv_freq.double(), rtol=1e-6, atol=0)
        assert own == factor


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("everywhere", [True, False], ids=["both", "full"])
@pytest.mark.parametrize("block", BLOCKS, ids=named)
def test_a_gemma_of_its_tests_has_them_on_its_types_of_layers(
    block: dict[str, Any], everywhere: bool
) -> None:
    """head_dim is 256 there, the width 2,304 and the heads 8: their quotient is not the head width."""
    given = whole(block, 128)
    plain = {"rope_type": "default", "rope_theta": 10_000.0}
    config = Gemma3TextConfig(
        rope_parameters={
            "full_attention": given, "sliding_attention": dict(given) if everywhere else plain
        }
    )  # fmt: skip
    assert (config.hidden_size, config.num_attention_heads) == (2_304, 8)
    kinds = read_config(config.to_dict()).layer_kinds
    assert {kind.name for kind in kinds} == {"full_attention", "sliding_attention"}
    past = config.max_position_embeddings + 1
    for kind in kinds:
        assert isinstance(kind.scheme, RopeConfig)
        written = config.rope_parameters[kind.name]["rope_type"]
        assert written == (block["rope_type"] if everywhere or "full" in kind.name else "default")
        for length in (None, 1, past):
            if written == "default":
                compute = Gemma3RotaryEmbedding.compute_default_rope_parameters
                inv_freq, factor = compute(config, layer_type=kind.name)
            else:
                compute = ROPE_INIT_FUNCTIONS[written]
                inv_freq, factor = compute(config, "cpu", seq_len=length, layer_type=kind.name)
            found, own = rope_frequencies(kind.scheme, length=length, mode="transformers")
            assert torch.equal(found, inv_freq), (kind.name, length)
            assert own == factor


# What the tests print ------------------------------------------------------------------------------


def digits(row: str) -> list[str]:
    return row.split()


PLAIN = digits("""
1.0000e+00 8.6596e-01 7.4989e-01 6.4938e-01 5.6234e-01 4.8697e-01 4.2170e-01 3.6517e-01
3.1623e-01 2.7384e-01 2.3714e-01 2.0535e-01 1.7783e-01 1.5399e-01 1.3335e-01 1.1548e-01
1.0000e-01 8.6596e-02 7.4989e-02 6.4938e-02 5.6234e-02 4.8697e-02 4.2170e-02 3.6517e-02
3.1623e-02 2.7384e-02 2.3714e-02 2.0535e-02 1.7783e-02 1.5399e-02 1.3335e-02 1.1548e-02
1.0000e-02 8.6596e-03 7.4989e-03 6.4938e-03 5.6234e-03 4.8697e-03 4.2170e-03 3.6517e-03
3.1623e-03 2.7384e-03 2.3714e-03 2.0535e-03 1.7783e-03 1.5399e-03 1.3335e-03 1.1548e-03
1.0000e-03 8.6596e-04 7.4989e-04 6.4938e-04 5.6234e-04 4.8697e-04 4.2170e-04 3.6517e-04
3.1623e-04 2.7384e-04 2.3714e-04 2.0535e-04 1.7783e-04 1.5399e-04 1.3335e-04 1.1548e-04
""")
DYNAMIC = digits("""
1.0000e+00 8.0931e-01 6.5498e-01 5.3008e-01 4.2900e-01 3.4720e-01 2.8099e-01 2.2741e-01
1.8404e-01 1.4895e-01 1.2055e-01 9.7558e-02 7.8955e-02 6.3899e-02 5.1714e-02 4.1853e-02
3.3872e-02 2.7413e-02 2.2185e-02 1.7955e-02 1.4531e-02 1.1760e-02 9.5176e-03 7.7027e-03
6.2339e-03 5.0451e-03 4.0831e-03 3.3045e-03 2.6744e-03 2.1644e-03 1.7517e-03 1.4176e-03
1.1473e-03 9.2852e-04 7.5146e-04 6.0817e-04 4.9220e-04 3.9834e-04 3.2238e-04 2.6091e-04
2.1115e-04 1.7089e-04 1.3830e-04 1.1193e-04 9.0585e-05 7.3312e-05 5.9332e-05 4.8018e-05
3.8861e-05 3.1451e-05 2.5453e-05 2.0600e-05 1.6672e-05 1.3492e-05 1.0920e-05 8.8374e-06
7.1522e-06 5.7883e-06 4.6845e-06 3.7912e-06 3.0683e-06 2.4832e-06 2.0097e-06 1.6265e-06
""")
YARN = digits("""
1.0000e+00 8.6596e-01 7.4989e-01 6.4938e-01 5.6234e-01 4.8697e-01 4.2170e-01 3.6517e-01
3.1623e-01 2.7384e-01 2.3714e-01 2.0535e-01 1.7783e-01 1.5399e-01 1.3335e-01 1.1548e-01
1.0000e-01 8.3479e-02 6.9590e-02 5.7925e-02 4.8136e-02 3.9931e-02 3.3061e-02 2.7315e-02
2.2515e-02 1.8512e-02 1.5177e-02 1.2403e-02 1.0101e-02 8.1924e-03 6.6143e-03 5.3120e-03
4.2400e-03 3.3599e-03 2.6396e-03 2.0520e-03 1.5746e-03 1.1882e-03 8.7713e-04 6.2810e-04
4.3007e-04 2.7384e-04 2.3714e-04 2.0535e-04 1.7783e-04 1.5399e-04 1.3335e-04 1.1548e-04
1.0000e-04 8.6596e-05 7.4989e-05 6.4938e-05 5.6234e-05 4.8697e-05 4.2170e-05 3.6517e-05
3.1623e-05 2.7384e-05 2.3714e-05 2.0535e-05 1.7783e-05 1.5399e-05 1.3335e-05 1.1548e-05
""")
LLAMA_3 = [
    *PLAIN[:31],
    *digits("""1.0730e-02 7.7785e-03 5.6009e-03 3.9991e-03 2.8248e-03 1.9675e-03 1.3449e-03 8.9549e-04
    5.7363e-04 3.4539e-04"""),
    *YARN[41:],
]
PROPORTIONAL = [*PLAIN[:16], *["0.0000e+00"] * 48]
PRINTED: dict[str, tuple[dict[str, Any], int | None, list[str]]] = {
    "default": ({"rope_type": "default"}, None, PLAIN),
    "dynamic": ({"rope_type": "dynamic", "factor": 10.0}, 16_384, DYNAMIC),
    "dynamic, short": ({"rope_type": "dynamic", "factor": 10.0}, 1, PLAIN),
    "yarn": ({"rope_type": "yarn", "factor": 10.0, "beta_fast": 32, "beta_slow": 1}, None, YARN),
    "llama3": ({"rope_type": "llama3", "factor": 10.0, "high_freq_factor": 4} | LLAMA3, None,
               LLAMA_3),
    "proportional": ({"rope_type": "proportional", "partial_rotary_factor": 0.25}, None,
                     PROPORTIONAL),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PRINTED)
def test_frequencies_round_to_those_that_its_tests_print(name: str) -> None:
    """Independent of the copy that is installed."""
    block, length, printed = PRINTED[name]
    assert len(printed) == PAIRS
    for mode in ("exact", "transformers"):
        found, _ = rope_frequencies(read(block), length=length, mode=mode)  # type: ignore[arg-type]
        for value, shown in zip(found.tolist(), printed, strict=True):
            last = 1e-4 * float("1e" + shown.split("e")[1])
            # Half of the last digit, and a little that float32 rounded before these were printed.
            assert abs(value - float(shown)) <= 0.505 * last, shown


@pytest.mark.filterwarnings("ignore")
def test_what_its_tests_say_of_the_others() -> None:
    plain = torch.tensor([1e4 ** (-m / PAIRS) for m in range(PAIRS)], dtype=torch.float64)
    for s in FACTORS:
        linear, _ = rope_frequencies(read({"rope_type": "linear", "factor": s}))
        torch.testing.assert_close(linear, plain / s)
        long = read({"rope_type": "longrope", "factor": s})
        for length, divisors in ((None, SHORT), (0, SHORT), (CONTEXT + 1, LONG)):
            inv_freq, factor = rope_frequencies(long, length=length or None)
            torch.testing.assert_close(inv_freq, plain / torch.tensor(divisors).double())
            assert factor == math.sqrt(1 + math.log(s) / math.log(CONTEXT))
        yarn = read({"rope_type": "yarn", "factor": s})
        assert rope_frequencies(yarn)[1] == 0.1 * math.log(s) + 1.0
        for kind in ("yarn", "longrope"):
            own = read({"rope_type": kind, "factor": s, "attention_factor": 0.5})
            assert rope_frequencies(own, length=1)[1] == 0.5
    # A beta_fast of 1,000 leaves the first pair alone, and the last 20 are divided whole.
    fast = {"rope_type": "yarn", "factor": 10.0, "beta_fast": 1_000, "beta_slow": 1}
    inv_freq, _ = rope_frequencies(read(fast))
    assert inv_freq[0] == 1
    assert (inv_freq[1:] < plain[1:] + 1e-8).all()
    torch.testing.assert_close(inv_freq[-20:], plain[-20:] / 10)
    # A high_freq_factor of 1,000 leaves none alone.
    high = {"rope_type": "llama3", "factor": 10.0, "high_freq_factor": 1_000} | LLAMA3
    assert (rope_frequencies(read(high))[0] < plain).all()
