"""The usual values of numbers: the stops of the dials that set them, by the name of the field."""

from collections.abc import Mapping

# Even stops that are dense where people work and reach the caps: about equal steps by ratio.
_WIDTHS: tuple[int, ...] = (2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 448, 512, 640)
_WIDTHS += (768, 896, 1024, 1280, 1536, 1600, 2048, 2560, 3072, 4096)
_LENGTHS: tuple[int, ...] = (8, 16, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512)
_LENGTHS += (640, 768, 1024, 1280, 1536, 2048)
_MANTISSAS = (1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8)  # ten steps a decade, equal by ratio

STOPS: Mapping[str, tuple[float, ...]] = {
    "dim": _WIDTHS,
    "base": (*(mantissa * 10.0**decade for decade in range(1, 8) for mantissa in _MANTISSAS), 1e8),
    "length": _LENGTHS,
    "train_length": (*(n for n in _LENGTHS if n <= 1024), *(2**n for n in range(11, 21))),
    "xpos.origin": (0, 64, 512, 2_048),
    "rope_sections.grid": (0, 2, 4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 96, 128, 256),
}
stop_text = "{:,.15g}".format  # a stop as a dial says it
