"""The methods to read a longer context with RoPE, the config of each, and why one is left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from posenc.analysis import BaseWindow
from posenc.planner.evidence import EVIDENCE, Evidence
from posenc.planner.facts import Fact
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.base import ScaledRopeConfig
from posenc.schemes.rope_scaling.ntk import RopeDynamicConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig

CONFIGURED, CONFIGURED_LABEL = "configured", "As configured"  # a model's own scaling


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to read a longer context.

    name: its key in METHODS. label: its name in sentences. evidence: what its sources say. scaling: class
    of the config that reads the target; None for unscaled frequencies, as trained or of another base.
    known: what is computed or read from the config, in place of a published statement.
    """

    name: str
    label: str
    evidence: Evidence
    scaling: type[ScaledRopeConfig] | None = None
    known: Fact | None = None

    @property
    def kind(self) -> str:
        """Its name in the evidence: the kind of its scaling, or its own name."""
        return self.evidence.kind or self.name

    @property
    def words(self) -> str:
        """Its name inside a sentence."""
        if self.scaling is not None:
            return self.scaling.scaling_name
        names = {"none": "no scaling", CONFIGURED: "its own scaling"}
        return names.get(self.name, f"a {self.label.lower()}")

    @property
    def advanced(self) -> bool:
        """Whether it is of interest for its formula only."""
        return self.scaling is not None and self.scaling.advanced


def _unscaled(evidence: Evidence, known: Fact | None = None) -> Method:
    return Method(name="none", label="Unscaled", evidence=evidence, known=known)


UNSCALED = _unscaled(EVIDENCE["none"])
NO_NEW_DISTANCE = _unscaled(Evidence(training="trained"), Fact("no_new_distance", {}))
NEW_LENGTH = _unscaled(Evidence(training="new length"), Fact("new_length", {}))
LARGER_BASE = Method(name="base", label="Larger base", evidence=EVIDENCE["base"])


def as_configured(target: int, own: int | None, *, was_trained: bool) -> Method:
    """Return the scaling that a model's own config has, as a method.

    own: tokens that the scaling is made for. was_trained: whether training with it may be taken from the
    config.
    """
    if own is None:
        taken, unknown = "configured_without_length", "configured_untrained_without_length"
    else:
        taken, unknown = "configured", "configured_untrained"
    inside: Literal["trained", "made"] = "trained" if was_trained else "made"
    return Method(
        name=CONFIGURED,
        label=CONFIGURED_LABEL,
        evidence=Evidence(training=inside if own is not None and target <= own else "unknown"),
        known=Fact(taken if was_trained else unknown, {"own": own}),
    )


def scaled_length(scheme: RopeConfig) -> int:
    """Return the tokens that a scaling by the ratio of two lengths is made for, 0 for other scalings."""
    return round(scheme.factor * scheme.trained_length) if isinstance(scheme, RopeYarnConfig) else 0


_SCALINGS = (
    Method(
        name=kind.removeprefix("rope_"),
        label=config.scaling_name[:1].upper() + config.scaling_name[1:],
        evidence=EVIDENCE[kind],
        scaling=config,
    )
    for kind, config in SCHEMES.items()
    if kind in EVIDENCE and issubclass(config, ScaledRopeConfig)
)
METHODS: dict[str, Method] = {method.name: method for method in (UNSCALED, *_SCALINGS, LARGER_BASE)}
NAMES = (CONFIGURED, *METHODS)  # of every method that a plan may have, in their order
# What the library, the command and the page compare unless they are asked for others.
DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if not method.advanced)


def scaled_for(
    scaling: type[ScaledRopeConfig],
    trained: RopeConfig,
    *,
    text: int,
    reach: int,
    trained_length: int,
) -> RopeConfig | None:
    """Return the config that reads a text with weights of `trained`; None if the scaling has none.

    reach: how many tokens of the text a query sees, which a layer's window limits.
    """
    if scaling is not RopeDynamicConfig:
        return scaling.extending(trained, reach, trained_length)
    # Dynamic NTK depends on the length of the text, whatever a query sees of it. With factor 1 the base
    # grows by n / L (Peng et al. 2023, section 3.3); a larger factor divides the slowest pair by more.
    config = scaling.extending(trained, text, trained_length)
    return None if config is None else config.replace(factor=1.0)


def left_out(
    method: Method,
    trained: RopeConfig,
    current: RopeConfig,
    window: BaseWindow | None,
    *,
    configured: bool,
    searched: bool,
    behind: Sequence[str],
) -> Fact:
    """Return why a method is not compared.

    configured: whether the model's config has it already. searched: whether a larger base was looked for.
    behind: planned methods that direct comparisons put behind a larger base.
    """
    numbers: dict[str, Any] = {
        "label": method.label,
        "current": current.words,
        "scheme": trained.label,
        "base": trained.base,
    }
    if configured:
        word = "configured"
    elif method.name == UNSCALED.name:
        word = "as_trained"
    elif method is LARGER_BASE:
        word = "no_base" if window is None else "base_enough"
        if type(trained) is not RopeConfig:
            word = "not_plain"
        elif not searched:
            word, numbers["behind"] = "not_searched_ahead" if behind else "not_searched", behind
    else:
        word = "out_of_range" if type(trained) is RopeConfig else "not_plain"
    return Fact(word, numbers)
