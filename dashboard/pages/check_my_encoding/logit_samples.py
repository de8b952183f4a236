"""Samples of attention logits, as code in use makes them, right or with a known fault."""

import inspect
import math
from collections.abc import Callable

import torch
from torch import Tensor

import posenc
from posenc.logits import LogitRule, predict_logits, rule_of_scheme
from posenc.models import read_config
from posenc.models.logit_rules import logit_rules

Sample = tuple[LogitRule, Tensor, Tensor, Tensor]  # of a layer: the rule, queries, keys, logits

IMPORTS = """\
import math
import posenc
import torch
from torch import Tensor
from posenc.logits import LogitRule, predict_logits, rule_of_scheme
from posenc.models import read_config
from posenc.models.logit_rules import logit_rules"""


def code(name: str) -> str:
    """Return the source of a sample, for a script with IMPORTS; sample() makes it."""
    function = SAMPLES[name]
    source = inspect.getsource(function).replace(function.__name__, "sample")
    helpers = f"{inspect.getsource(_vectors)}\n\n{inspect.getsource(_causal)}"
    return f"{helpers}\n\n{source}".replace(
        "-> Sample", "-> tuple[LogitRule, Tensor, Tensor, Tensor]"
    )


def _vectors(heads: int, tokens: int, width: int, seed: int) -> Tensor:
    """Normal random queries or keys."""
    return torch.randn(heads, tokens, width, generator=torch.Generator().manual_seed(seed))


def _causal(logits: Tensor) -> Tensor:
    """Logits with minus infinity for later keys; the queries are the last of the keys."""
    ahead = logits.shape[-1] - logits.shape[-2]
    return logits.masked_fill(
        ~torch.ones(logits.shape[-2:], dtype=torch.bool).tril(ahead), -math.inf
    )


def _gemma() -> Sample:
    """Gemma 3 27B divides by sqrt(168), of query_pre_attn_scalar; this code by sqrt(head_dim)."""
    config = {
        "model_type": "gemma3_text", "hidden_size": 5376, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 128, "query_pre_attn_scalar": 168,
        "num_hidden_layers": 6,
    }  # fmt: skip
    rule = logit_rules(read_config(config))["full_attention"]
    q, k = _vectors(32, 24, 128, 0), _vectors(16, 24, 128, 1)  # rotated already
    return rule, q, k, _causal(q @ k.repeat_interleave(2, 0).mT / math.sqrt(128))


def _deepseek() -> Sample:
    """DeepSeek's factor of the softmax scale is made of mscale_all_dim; this code takes mscale."""
    scaling = {
        "type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 0.707,
        "original_max_position_embeddings": 4096,
    }  # fmt: skip
    config = {
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_attention_heads": 16,
        "num_key_value_heads": 16, "num_hidden_layers": 27, "rope_scaling": scaling,
    }  # fmt: skip
    rule = logit_rules(read_config(config))["full_attention"]
    q, k = _vectors(16, 24, 192, 0), _vectors(16, 24, 192, 1)
    factor = (0.1 * 1.0 * math.log(40) + 1) ** 2
    return rule, q, k, _causal(factor * q @ k.mT / math.sqrt(192))


def _twelve_heads() -> Sample:
    """ALiBi's slopes for 12 heads as 2^(-8 i/12), which holds for a power of two alone."""
    q, k = _vectors(12, 24, 64, 0), _vectors(12, 24, 64, 1)
    slopes = 2.0 ** (-8 * torch.arange(1, 13) / 12)
    distance = torch.arange(24)[None, :] - torch.arange(24)[:, None]
    rule = rule_of_scheme(posenc.AlibiConfig(heads=12), 12, 64)
    return rule, q, k, _causal(q @ k.mT / 8 + slopes[:, None, None] * distance)


def _rank() -> Sample:
    """Rank 1 of 2 of 16 heads, whose 8 heads take the slopes of a layer with 8."""
    q, k = _vectors(8, 24, 64, 0), _vectors(8, 24, 64, 1)
    slopes = 2.0 ** (-torch.arange(1.0, 9))
    distance = torch.arange(24)[None, :] - torch.arange(24)[:, None]
    rule = rule_of_scheme(posenc.AlibiConfig(heads=16), 16, 64)
    return rule, q, k, _causal(q @ k.mT / 8 + slopes[:, None, None] * distance)


def _decoding() -> Sample:
    """A decoding step with 23 cached keys: ALiBi's bias is built over the query alone, and is 0."""
    q, k = _vectors(8, 1, 64, 0), _vectors(8, 24, 64, 1)
    distance = torch.arange(q.shape[1])[None, :] - torch.arange(q.shape[1])[:, None]
    slopes = 2.0 ** (-torch.arange(1.0, 9))
    rule = rule_of_scheme(posenc.AlibiConfig(heads=8), 8, 64)
    return rule, q, k, q @ k.mT / 8 + slopes[:, None, None] * distance


def _soft_cap() -> Sample:
    """Logits of large queries and keys without the soft cap of Gemma 2, at 50."""
    q, k = _vectors(8, 24, 64, 0) * 3, _vectors(8, 24, 64, 1) * 3
    rule = rule_of_scheme(posenc.RopeConfig(dim=64, layout="half"), 8, 64).replace(softcap=50.0)
    return rule, q, k, _causal(q @ k.mT / 8)


def _window() -> Sample:
    """A window of 8 tokens that lets a query see one key more."""
    q, k = _vectors(8, 24, 64, 0), _vectors(8, 24, 64, 1)
    rule = rule_of_scheme(posenc.RopeConfig(dim=64, layout="half"), 8, 64).replace(window=8)
    far = torch.ones(24, 24, dtype=torch.bool).tril(-9)
    return rule, q, k, _causal(q @ k.mT / 8).masked_fill(far, -math.inf)


def _right() -> Sample:
    """ALiBi of 8 heads as its paper has it."""
    q, k = _vectors(8, 24, 64, 0), _vectors(8, 24, 64, 1)
    rule = rule_of_scheme(posenc.AlibiConfig(heads=8), 8, 64)
    return rule, q, k, predict_logits(rule, q, k).float()


# By name, broken ones first; the docstring says how it is made.
SAMPLES: dict[str, Callable[[], Sample]] = {
    "Gemma 3, scale by head_dim": _gemma,
    "DeepSeek, mscale": _deepseek,
    "ALiBi, 12 heads": _twelve_heads,
    "ALiBi, rank 1 of 2": _rank,
    "ALiBi, decoding": _decoding,
    "no soft cap": _soft_cap,
    "window off by one": _window,
    "right ALiBi": _right,
}
