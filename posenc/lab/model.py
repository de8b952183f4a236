"""A small causal Transformer that meets position through one scheme's hooks and nowhere else.

Vaswani et al. 2017, arXiv 1706.03762; pre-norm as Xiong et al. 2020, arXiv 2002.04745; tied
embeddings as Press and Wolf 2017, arXiv 1608.05859. Axes: b batch, t tokens, h heads.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from posenc import fields
from posenc.errors import ConfigError
from posenc.schemes.base import Scheme
from posenc.sdpa import attention


@dataclass(frozen=True, kw_only=True)
class ModelSize:
    """Size of a model; every scheme of a comparison shares it."""

    layers: int = fields.IntRange(low=1, high=24).field(3)
    width: int = fields.IntRange(low=8, high=1_024, multiple_of=2).field(128)
    heads: int = fields.IntRange(low=1, high=64).field(4)

    def __post_init__(self) -> None:
        fields.check(self)
        if self.width % (2 * self.heads):
            raise ConfigError(
                "ModelSize.width must be a multiple of twice the heads, so that every head has an "
                f"even width, got {self.width} for {self.heads} heads."
            )


class _Linear(nn.Linear):
    """A map without bias from inputs of unit variance to outputs of standard deviation `scale`.

    first_rows: how many of its first rows start smaller, and their factor.
    """

    first_rows: tuple[int, float] = (0, 1.0)

    def __init__(self, inputs: int, outputs: int, scale: float = 1.0) -> None:
        self.std = scale * inputs**-0.5
        super().__init__(inputs, outputs, bias=False, device="meta")  # where nothing is drawn
        self.to_empty(device="cpu")

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights from `generator`, or from torch's own; none without storage."""
        if self.weight.is_meta:  # to draw none there would import torch's compiler, for a second
            return
        nn.init.normal_(self.weight, std=self.std, generator=generator)
        rows, factor = self.first_rows
        if factor != 1:
            self.weight[:rows] *= factor


class _Embedding(nn.Embedding):
    """Vectors of tokens, of length 1 on average."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__(vocabulary, width, device="meta")  # where nothing is drawn
        self.to_empty(device="cpu")

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the vectors from `generator`, or from torch's own; none without storage."""
        if self.weight.is_meta:
            return
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5, generator=generator)


class Block(nn.Module):
    """Attention, then a perceptron, each behind its own norm and added to the stream."""

    def __init__(self, config: ModelSize) -> None:
        super().__init__()
        width = config.width
        self.heads = config.heads
        self.norm_attention = nn.LayerNorm(width, bias=False)
        added = (2 * config.layers) ** -0.5  # the more maps add to the stream, the less each adds
        self.qkv = _Linear(width, 3 * width)
        self.out = _Linear(width, width, added)
        self.norm_mlp = nn.LayerNorm(width, bias=False)
        self.up = _Linear(width, 4 * width)
        self.down = _Linear(4 * width, width, added)

    def queries_keys_values(
        self, x: Float[Tensor, "b t d"], scheme: Scheme
    ) -> tuple[Float[Tensor, "b h t c"], Float[Tensor, "b h t c"], Float[Tensor, "b h t e"]]:
        """Return what attention receives: queries, keys and values by head, before any rotation."""
        normed = self.norm_attention(x)
        qkv: Tensor = self.qkv(normed).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        return *scheme.with_input(q, k, normed), v

    def forward(self, x: Float[Tensor, "b t d"], scheme: Scheme) -> Float[Tensor, "b t d"]:
        q, k, v = self.queries_keys_values(x, scheme)
        mixed = attention(q, k, v, scheme)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(functional.gelu(self.up(self.norm_mlp(x))))


class LanguageModel(nn.Module):
    """Token logits at every position. The scheme is a part of the model, trained where it can be."""

    def __init__(
        self, config: ModelSize, vocabulary: int, scheme: Scheme, generator: torch.Generator
    ) -> None:
        """Draw the shared weights from `generator`, which no scheme touches.

        Where a scheme does not divide scores by sqrt(head_dim), queries start so much smaller, as T5's
        own do (Raffel et al. 2020, arXiv 1910.10683, by its public code): the first scores of every
        scheme have one spread.
        """
        super().__init__()
        self.config = config
        self.tokens = _Embedding(vocabulary, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width, bias=False)
        head_dim = config.width // config.heads
        smaller = head_dim**-0.5 / scheme.softmax_scale(head_dim)
        self.tokens.reset_parameters(generator)
        for block in self.blocks:
            assert isinstance(block, Block)
            block.qkv.first_rows = (config.width, smaller)
            for linear in (block.qkv, block.up, block.out, block.down):
                linear.reset_parameters(generator)
        self.scheme = scheme

    def forward(
        self,
        tokens: Int[Tensor, "b t"],
        positions: Int[Tensor, " t"] | None = None,
        scheme: Scheme | None = None,
    ) -> Float[Tensor, "b t v"]:
        """Return logits.

        positions: what `embed` is told, contiguous from 0 if None. Attention goes by the order of the
        tokens in any case: two tokens at one repeated position must not see each other's future.
        scheme: another encoding of position, under which the trained weights are read.
        """
        scheme = self.scheme if scheme is None else scheme
        x = self.embedded(tokens, positions, scheme)
        for index, block in enumerate(self.blocks):
            x = block(x, scheme.layer(index))
        return functional.linear(self.norm(x), self.tokens.weight)

    def embedded(
        self, tokens: Int[Tensor, "b t"], positions: Int[Tensor, " t"] | None, scheme: Scheme
    ) -> Float[Tensor, "b t d"]:
        """Return the vectors that the first layer receives."""
        # Token vectors of unit variance, as Vaswani et al. section 3.4 has them by sqrt(d_model).
        return scheme.embed(self.tokens(tokens) * self.config.width**0.5, positions)
