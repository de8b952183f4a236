"""Clocks whose hands are the pairs of sinusoidal and rotary encodings; `component` draws them."""

from dashboard.components.clock.faces import Face, encode

__all__ = ["Face", "encode"]
