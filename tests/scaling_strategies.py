"""Configs of every scaling of RoPE, of sizes that public models have and of odd ones."""

import functools
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from posenc import (
    SCHEMES,
    rope_frequencies,
)
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import ROPE_SCALINGS

KINDS = ("rope", *ROPE_SCALINGS)


def exact(config: RopeConfig, length: int | None = None) -> list[float]:
    found: list[float] = rope_frequencies(config, length=length)[0].tolist()
    return found


REALS = st.floats(1, 64).map(lambda x: round(x, 3))
SIZES = st.fixed_dictionaries(
    {
        "dim": st.integers(1, 96).map(lambda half: 2 * half),
        "base": st.sampled_from([1.5, 10.0, 500.0, 1e4, 5e5, 1e6, 1e12]),
    }
)
OWN: dict[str, Any] = {
    "rope": {},
    "rope_linear": {"factor": REALS},
    "rope_ntk": {"factor": REALS},
    "rope_dynamic": {
        "factor": REALS, "trained_length": st.integers(2, 9_999), "length": st.integers(0, 10**6),
    },
    "rope_yarn": {
        "factor": REALS, "trained_length": st.integers(2, 10**6), "truncate": st.booleans(),
        "beta_fast": st.sampled_from([1.0, 4.0, 32.0, 64.5]), "beta_slow": st.sampled_from([0.25, 1.0]),
        "mscale": st.sampled_from([0.0, 0.707, 1.0]),
        "mscale_all_dim": st.sampled_from([0.0, 0.5, 1.0]),
        "attention_factor": st.sampled_from([0.0, 1.25]),
    },
    "rope_yarn_paper": {
        "factor": REALS, "trained_length": st.integers(2, 10**6),
        "beta_fast": st.sampled_from([2.0, 32.0]), "beta_slow": st.sampled_from([0.25, 1.0]),
        "attention_factor": st.sampled_from([0.0, 1.25]),
    },
    "rope_longrope": {
        "factor": REALS, "trained_length": st.integers(2, 9_999), "length": st.integers(0, 20_000),
        "short_factor": st.sampled_from([(), (1.5,)]), "long_factor": st.sampled_from([(), (3.25,)]),
        "attention_factor": st.sampled_from([0.0, 1.25]),
    },
    "rope_llama3": {
        "factor": REALS, "trained_length": st.integers(2, 10**6),
        "low_freq_factor": st.sampled_from([0.5, 1.0]), "high_freq_factor": st.sampled_from([2.0, 4.0]),
    },
    "rope_proportional": {
        "factor": REALS, "partial_rotary_factor": st.integers(0, 100).map(lambda n: n / 100),
    },
    "rope_sections": {
        "grid": st.integers(0, 40), "interleaved": st.booleans(), "sections": st.just(()),
        "ladders": st.sampled_from(["one", "each"]),
    },
}  # fmt: skip


def configs(kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Callable[[], RopeConfig]]:
    """Makers of configs of every scaling, of sizes that public models have and of odd ones.

    Makers, because what checks the types of a config draws by chance which entries it looks at, and
    no strategy may: the same example would not come again.
    """
    return st.one_of(
        *(
            st.tuples(SIZES, st.fixed_dictionaries({}, optional=OWN[kind])).map(
                lambda given, kind=kind: functools.partial(SCHEMES[kind], **given[0], **given[1])
            )
            for kind in kinds
        )
    )
