"""Where the chance in an analysis comes from: a seed or a generator, never the global state."""

import torch

Seed = int | torch.Generator


def as_generator(seed: Seed) -> torch.Generator:
    """Return the generator given, or a new one on the CPU that starts from the integer given."""
    return seed if isinstance(seed, torch.Generator) else torch.Generator().manual_seed(seed)
