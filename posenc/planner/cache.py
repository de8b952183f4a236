"""Memory that the keys and values of one sequence take, in GiB by number type."""

from posenc.interop.models.model_config import ModelConfig
from posenc.limits import check_count

BYTES: dict[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2, "8 bit": 1}
MAX_CONTEXT = 2**24  # planned for; float32 holds every whole position up to here


def cache_gib(model: ModelConfig, length: int, *, windows: bool = True) -> dict[str, float]:
    """Return GiB (2^30 bytes) of the whole cache of one sequence of `length` tokens, by number type.

    layers x (numbers per token) x tokens x bytes: two times key/value heads times head width of each
    layer, or the latent vector of multi-head latent attention. windows: whether a layer with a window
    keeps at most its window, which not every server does. Numbers alone: the scales of an 8-bit cache and
    a server's page size come on top. Raises SchemeArgumentError for a length outside 1 .. 2^24.
    """
    check_count("length", length, 1, MAX_CONTEXT)
    numbers = model.cache_numbers(length, windows=windows)
    return {name: numbers * size / 2**30 for name, size in BYTES.items()}


def windows_said(model: ModelConfig, length: int) -> str:
    """Say what a server that keeps every token needs, "" where no layer drops any."""
    kept, whole = (cache_gib(model, length, windows=one)["bfloat16"] for one in (True, False))
    if kept == whole:
        return ""
    return (
        f"Layers with a window are counted with their window alone; a server that keeps every token of "
        f"them needs {whole:,.4g} GiB in bfloat16."
    )
