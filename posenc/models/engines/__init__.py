"""One config.json as inference engines read it: frequencies, factors and lengths side by side.

A rule is a function of the engine's module; the file and the release that it was read from are in
data/engines.json. Nothing is guessed: a model type or a scaling whose file was not read has no numbers.
"""

from posenc.models.engines.differences import Difference, differences
from posenc.models.engines.reading import SOURCES, EngineReading, Refusal, Source
from posenc.models.engines.readings import ENGINES, engine_readings

__all__ = [
    "ENGINES",
    "SOURCES",
    "Difference",
    "EngineReading",
    "Refusal",
    "Source",
    "differences",
    "engine_readings",
]
