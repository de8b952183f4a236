"""Chance by name: every use of it has its own stream, so that nothing drawn shifts anything else."""

import hashlib

import torch


def stream(seed: int, use: str, index: int = 0) -> torch.Generator:
    """Return the CPU generator of one use ("weights", "data", ...) and one index of it."""
    digest = hashlib.sha256(f"{seed}/{use}/{index}".encode()).digest()
    return torch.Generator("cpu").manual_seed(int.from_bytes(digest[:8], "big") >> 1)
