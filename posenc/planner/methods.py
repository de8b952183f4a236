"""The ways to read a longer context with RoPE, and what their sources say about training.

Scalings come from the registry: each says in its own file what it makes of a trained model and what its
source says. What that means at a factor is decided in posenc/planner/readiness.py.
"""

from dataclasses import dataclass

from posenc.schemes import SCHEMES
from posenc.schemes.known_rope import Evidence
from posenc.schemes.rope_scaling.scaled import ScaledRopeConfig

CONFIGURED = "configured"  # the name of a model's own scaling, which nobody asks for


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to read a longer context.

    name: the word that asks for it. label: for people. evidence: what its source says about training.
    scaling: the config that reads the target; None for the ladder as trained, or of another base.
    """

    name: str
    label: str
    evidence: Evidence
    scaling: type[ScaledRopeConfig] | None = None

    @property
    def advanced(self) -> bool:
        """Whether it is for those who look into a formula itself."""
        return self.scaling is not None and self.scaling.advanced


def _of_scaling(kind: str, scaling: type[ScaledRopeConfig], evidence: Evidence) -> Method:
    label = scaling.reading[:1].upper() + scaling.reading[1:]
    return Method(name=kind.removeprefix("rope_"), label=label, evidence=evidence, scaling=scaling)


UNSCALED = Method(
    name="none",
    label="Unscaled",
    evidence=Evidence(
        training="fails",
        statement="Read past its trained length, RoPE can give attention scores so high that they "
        "ruin attention.",
        source="Chen et al. 2023, arXiv 2306.15595, abstract",
    ),
)
NOTHING_NEW = Method(
    name=UNSCALED.name,
    label=UNSCALED.label,
    evidence=Evidence(
        training="trained",
        statement="No distance occurs that training did not show.",
        source="computed",
    ),
)
NEW_LENGTH = Method(
    name=UNSCALED.name,
    label=UNSCALED.label,
    evidence=Evidence(
        training="new length",
        statement="No distance occurs that training did not show, but no training on texts of this length "
        "is known here.",
        source="computed",
    ),
)
LARGER_BASE = Method(
    name="base",
    label="Larger base",
    evidence=Evidence(
        training="fine-tuning",
        statement="Llama 2 with a larger base was trained further from 4,096 to 32,768 tokens (x8), on "
        "400B tokens, with base 500,000; Llama-3-8B in steps from 8,192 to 4,194,304 (x512), on 1.6B. The "
        "base planned here is the smallest that satisfies B(k), which no source recommends as such.",
        source="Xiong et al. 2023, arXiv 2309.16039, section 2.1; model card of "
        "Llama-3-8B-Instruct-Gradient-4194k",
        trained_to=512.0,
    ),
)
_SCALINGS = tuple(
    _of_scaling(kind, config, config.evidence)
    for kind, config in SCHEMES.items()
    if issubclass(config, ScaledRopeConfig) and config.evidence is not None
)
METHODS: dict[str, Method] = {method.name: method for method in (UNSCALED, *_SCALINGS, LARGER_BASE)}
CONFIGURED_LABEL = "As configured"


def as_configured(target: int, context: int | None) -> Method:
    """Return the scaling that a model's own config has, as a method."""
    inside = context is not None and target <= context
    told = f"of {context:,} tokens" if context else "that its config does not name"
    return Method(
        name=CONFIGURED,
        label=CONFIGURED_LABEL,
        evidence=Evidence(
            training="trained" if inside else "untold",
            statement=f"The model's own scaling, for a context {told}; that it was trained so is taken "
            "from its config.",
            source="its config",
        ),
    )
