"""The ways to read a longer context with RoPE, and what their sources say about training.

Each is a config of `posenc.schemes.rope_scaling` made from the trained one and two lengths. Whether it
works without training is not computed: it is a statement of a paper, kept here with its source.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling.dynamic import RopeDynamicConfig
from posenc.schemes.rope_scaling.linear import RopeLinearConfig
from posenc.schemes.rope_scaling.llama3 import RopeLlama3Config
from posenc.schemes.rope_scaling.ntk import RopeNtkConfig
from posenc.schemes.rope_scaling.yarn import RopeYarnConfig
from posenc.schemes.rope_scaling.yarn_paper import RopeYarnPaperConfig

Training = Literal["trained", "without", "fine-tuning", "untold", "fails"]

# In the order of the ranking; the words are those of a table's cell.
TRAINING: dict[Training, str] = {
    "trained": "made for it",
    "without": "usable without training",
    "fine-tuning": "needs fine-tuning",
    "untold": "past its context",
    "fails": "fails past the trained length",
}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a source says of a method: `statement`, one sentence; `source`: author, year, place."""

    training: Training
    statement: str
    source: str


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to read a longer context.

    name: the word that asks for it. label: for people. evidence: what its source says about training.
    make: from the trained config, target and trained length to the config that reads the target.
    """

    name: str
    label: str
    evidence: Evidence
    make: Callable[[RopeConfig, int, int], RopeConfig | None]


def _unscaled(trained: RopeConfig, target: int, trained_length: int) -> RopeConfig | None:
    return trained


def _scaled(kind: type) -> Callable[[RopeConfig, int, int], RopeConfig | None]:
    def make(trained: RopeConfig, target: int, trained_length: int) -> RopeConfig | None:
        found: RopeConfig | None = kind.stretching(trained, target, trained_length)  # type: ignore[attr-defined]
        return found

    return make


def _dynamic(trained: RopeConfig, target: int, trained_length: int) -> RopeConfig | None:
    # With factor 1 the base grows by n / L, the s of the paper's section 3.3; a larger factor, which
    # public code allows, divides the slowest pair by more than the text is longer.
    found = RopeDynamicConfig.stretching(trained, target, trained_length)
    return None if found is None else found.replace(factor=1.0)


_YARN = "Peng et al. 2023, arXiv 2309.00071"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="none",
            label="Unscaled",
            evidence=Evidence(
                training="fails",
                statement="Read past its trained length, RoPE can give attention scores so high "
                "that they ruin attention.",
                source="Chen et al. 2023, arXiv 2306.15595, abstract",
            ),
            make=_unscaled,
        ),
        Method(
            name="linear",
            label="Position interpolation",
            evidence=Evidence(
                training="fine-tuning",
                statement="Works after fine-tuning of up to 1,000 steps.",
                source="Chen et al. 2023, arXiv 2306.15595, abstract",
            ),
            make=_scaled(RopeLinearConfig),
        ),
        Method(
            name="ntk",
            label="NTK-aware",
            evidence=Evidence(
                training="without",
                statement="Extends a model that was not fine-tuned much better than position "
                "interpolation does; the length it reaches falls short of the factor.",
                source=f"{_YARN}, section 3.1",
            ),
            make=_scaled(RopeNtkConfig),
        ),
        Method(
            name="dynamic",
            label="Dynamic NTK",
            evidence=Evidence(
                training="without",
                statement="Made for models that were not fine-tuned; keys must be kept unrotated.",
                source=f"{_YARN}, sections 1 and 3.3",
            ),
            make=_dynamic,
        ),
        Method(
            name="yarn",
            label="YaRN",
            evidence=Evidence(
                training="fine-tuning",
                statement="Its models were fine-tuned; without that, only its dynamic variant is "
                "reported, to a little more than twice the length.",
                source=f"{_YARN}, section 1",
            ),
            make=_scaled(RopeYarnConfig),
        ),
        Method(
            name="yarn_paper",
            label="YaRN as printed",
            evidence=Evidence(
                training="fine-tuning",
                statement="The printed formula; the authors' own code ramps over pairs instead.",
                source=f"{_YARN}, eqs. 17 to 22, against the authors' code",
            ),
            make=_scaled(RopeYarnPaperConfig),
        ),
        Method(
            name="llama3",
            label="Llama 3 scaling",
            evidence=Evidence(
                training="fine-tuning",
                statement="Llama 3.1 was trained on long texts in stages up to 128K.",
                source="Grattafiori et al. 2024, arXiv 2407.21783, section 3.4.2",
            ),
            make=_scaled(RopeLlama3Config),
        ),
        Method(
            name="base",
            label="Larger base",
            evidence=Evidence(
                training="fine-tuning",
                statement="A larger base is followed by continued training on long texts.",
                source="Xiong et al. 2023, arXiv 2309.16039, section 2.1",
            ),
            make=_unscaled,  # the base is known once B(k) was searched: see context_plan
        ),
    )
}


def as_configured(target: int, context: int | None) -> Method:
    """Return the scaling that a model's own config has, as a method."""
    inside = context is not None and target <= context
    told = f"of {context:,} tokens" if context else "that its config does not name"
    return Method(
        name="configured",
        label="As configured",
        evidence=Evidence(
            training="trained" if inside else "untold",
            statement=f"The model's own scaling, for a context {told}.",
            source="its config",
        ),
        make=_unscaled,
    )


NOTHING_NEW = Method(
    name="none",
    label="Unscaled",
    evidence=Evidence(
        training="trained",
        statement="No distance occurs that training did not show.",
        source="computed",
    ),
    make=_unscaled,
)
