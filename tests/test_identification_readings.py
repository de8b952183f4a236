"""Orders of columns and frequencies that published models use are named for what they are."""

import numpy as np
import pytest
import torch
from torch import Tensor

from posenc.identification import identify
from posenc.identification.words import headline, record
from posenc.schemes import SCHEMES
from tests.formula_tables import beside, exact, kinds

pytestmark = pytest.mark.usefixtures("no_shape_checks")

T2T = "Tensor2Tensor's sinusoidal (as in Whisper, M2M100 and DDPM)"


def timing_signal(rows: int, width: int, base: float) -> tuple[Tensor, Tensor]:
    """Sines and cosines (rows, d/2) as tensor2tensor's get_timing_signal_1d defines them, in longdouble."""
    pairs = width // 2
    ladder = np.power(np.longdouble(base), -np.arange(pairs, dtype=np.longdouble) / (pairs - 1))
    angles = np.arange(rows, dtype=np.longdouble)[:, None] * ladder
    return torch.tensor(np.sin(angles).astype(float)), torch.tensor(np.cos(angles).astype(float))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("width", "base"), [(64, 1e4), (384, 1e4), (128, 5e5)])
def test_tensor2tensor_frequencies_are_named_with_their_own_base(
    width: int, base: float, dtype: torch.dtype
) -> None:
    sin, cos = timing_signal(300, width, base)
    found = identify(torch.cat((sin, cos), 1).to(dtype))
    assert headline(found) == (
        f"{T2T}, base {base:,.0f} with the exponent 2m/(d - 2), all sines, then all cosines, "
        "from position 0."
    )
    assert kinds(found) == set()
    # The other reading of the same numbers: Vaswani's exponent, and the base that takes.
    other = base ** (width / (width - 2))
    assert found.also == (f"base {other:,.6g} with the exponent 2m/d of Vaswani et al. 2017",)
    assert record(found)["base"] == pytest.approx(other, rel=1e-9)


def test_the_table_of_whisper_is_named_for_what_it_is() -> None:
    from transformers.models.whisper.modeling_whisper import sinusoids

    found = identify(sinusoids(1_500, 384))
    assert headline(found).startswith(f"{T2T}, base 10,000 with the exponent 2m/(d - 2), all sines")
    assert kinds(found) == {"angles"}  # Whisper's float32
    assert found.largest == 0


def test_tensor2tensor_frequencies_with_cosines_first_are_named() -> None:
    """As diffusers' get_timestep_embedding with flip_sin_to_cos and its default shift of 1."""
    sin, cos = timing_signal(500, 128, 1e4)
    found = identify(torch.cat((cos, sin), 1).float())
    assert headline(found).startswith("Tensor2Tensor's sinusoidal, cosines first (flip_sin_to_cos")
    assert "base 10,000 with the exponent 2m/(d - 2)" in headline(found)
    assert kinds(found) == set()


def test_tensor2tensor_frequencies_side_by_side_stay_a_deviation() -> None:
    """No model is published with them; the base that was meant still leads."""
    sin, cos = timing_signal(300, 64, 1e4)
    found = identify(beside(sin, cos).float())
    assert headline(found).startswith(
        "Sinusoidal, base 10,000 with the exponent 2m/(d - 2), sine and"
    )
    assert kinds(found) == {"exponent"}


@pytest.mark.parametrize("start", [0, 7])
def test_cosines_before_sines_at_a_large_base_are_a_rope_cache(start: int) -> None:
    cos, sin = exact(400, 128, 5e5, start)
    found = identify(torch.cat((cos, sin), 1).float())
    assert headline(found) == (
        "RoPE cache in one tensor (as in vLLM), base 500,000, all cosines, then all sines, "
        f"from position {start}."
    )
    assert found.config == SCHEMES["rope"](dim=128, base=5e5)  # type: ignore[call-arg]
    assert kinds(found) == ({"start"} if start else set())
    assert record(found)["layout"] is None  # each frequency stands once
    assert found.also == ("a sinusoidal table whose sines and cosines have changed places",)


def test_cosines_before_sines_at_base_ten_thousand_have_two_uses_in_one_sentence() -> None:
    cos, sin = exact(400, 64, 1e4)
    found = identify(torch.cat((cos, sin), 1).float())
    assert headline(found) == (
        "RoPE cache in one tensor (as in vLLM) or timestep embedding with flip_sin_to_cos (as in Stable "
        "Diffusion), base 10,000, all cosines, then all sines, from position 0."
    )
    assert found.also == ("a sinusoidal table whose sines and cosines have changed places",)
    assert kinds(found) == set()


def test_a_scaled_cache_with_cosines_before_sines_is_told_with_its_scaling() -> None:
    """Llama 3's rule in a plain loop, as vLLM keeps a cache of Llama 3.1."""
    ladder = []
    for m in range(64):
        rate = 5e5 ** (-2 * m / 128)
        turns = 8_192 * rate / (2 * np.pi)
        share = min(1.0, max(0.0, (turns - 1) / (4 - 1)))
        ladder.append((1 - share) * rate / 8 + share * rate)
    angles = np.arange(2_048)[:, None] * np.array(ladder)
    table = torch.tensor(np.concatenate((np.cos(angles), np.sin(angles)), 1)).float()
    found = identify(table)
    assert found.config is not None
    assert found.config.kind == "rope_llama3"
    assert "cache in one tensor (as in vLLM), base 500,000, all cosines" in headline(found)
    assert found.largest < 1e-6
