"""Which schemes a law leaves out, each with the reason; every other scheme of the registry joins."""

from collections.abc import Mapping

import pytest

from posenc import SCHEMES, Scheme
from tests.library.small_schemes import SMALL_CONFIGS, code_paths, small_scheme

# Every kind of the registry, and the variants of a kind that run other code.
LAW_VARIANTS = tuple(name for name in SMALL_CONFIGS if name in SCHEMES or name in code_paths())
ROTATING = tuple(
    name for name in LAW_VARIANTS if type(small_scheme(name)).rotate is not Scheme.rotate
)

GROWS = {
    "ssmax": "its logits grow with the query's position",
    "ssmax_rope": "its logits grow with the query's position",
}
NOT_STATIONARY = {
    "learned": "a row of its own for every position",
    "rope_sections": "its pairs turn by row and column of a grid",
    "fire": "the bias depends on the query's position past the threshold",
    **GROWS,
}
NO_KERNEL = {
    "shaw": "what position adds depends on the query",
    "cope": "what position adds depends on the query",
    "stick_breaking": "its weights depend on the keys between",
}
NOT_SYMMETRIC = {
    "transformer_xl": "it tells before from after",
    "t5": "the causal buckets put all later keys into one",
    "t5.bidirectional=True": "later keys have buckets of their own",
    "fire": "the kernel is not symmetric past the threshold",
    "xpos": "the kernel grows towards later keys",
    **GROWS,
    "pope": "its phases tell before from after",
}
NO_VECTORS = {
    **NO_KERNEL,
    **NOT_SYMMETRIC,
    "none": "the kernel is constant",
    "kerple_log": "no closed form of the vectors is known",
    "kerple_power": "no closed form of the vectors is known",
    "sandwich": "no closed form of the vectors is known",
    "fox": "its gates depend on the input",
}
NO_ROUNDED_VECTORS = {**NO_VECTORS, "alibi": "the rounded bias is no straight line"}
NO_OFFSET_MAP = {**NO_VECTORS, **NOT_STATIONARY}
SAME_MIRRORED = {
    "none": "it adds nothing",
    "alibi": "the bias depends on the distance alone, before a word and after it",
    "kerple_log": "the bias depends on the distance alone",
    "kerple_power": "the bias depends on the distance alone",
    "sandwich": "the bias depends on the distance alone",
    "fire": "up to its threshold the bias depends on the distance alone",
}
COUNTS_KEYS = {"cope": "it counts the keys between, and here some are left out"}
SCALES_PAIRS = {
    "xpos": "it scales pairs by their position, it does not only turn them",
    "ssmax": "it scales queries by their position",
    "ssmax_rope": "it scales queries by their position, it does not only turn them",
    "pope": "it turns sizes into vectors twice as wide",
}
OWN_WEIGHTS = {"stick_breaking": "it has no softmax"}
PUTS_NOTHING_IN = {"none": "it adds nothing", "ssmax": "it scales queries and adds nothing"}
WITHOUT_WIDTH = {"ssmax": "it scales vectors of any width, and has no last position"}


def for_schemes(
    *without: Mapping[str, str], among: tuple[str, ...] = LAW_VARIANTS
) -> pytest.MarkDecorator:
    """Parametrize a law over the schemes `among` that no table in `without` names."""
    excluded = {name for table in without for name in table}
    return pytest.mark.parametrize("variant", [name for name in among if name not in excluded])
