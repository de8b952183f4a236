"""Where the chance in an analysis comes from: a seed or a generator, never the global state."""

import torch

from posenc.limits import check_count

Seed = int | torch.Generator


def as_generator(seed: Seed) -> torch.Generator:
    """Return the generator given, or a new one on the CPU that starts from the integer given."""
    if not isinstance(seed, torch.Generator):
        check_count("seed", seed, 0, 2**63 - 1)
    return seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
