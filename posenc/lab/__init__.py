"""Train small models, one per scheme, and measure them past their training length.

One specification gives one run: `run_once(specification, corpus, store)`. From a shell:
`posenc train --scheme rope --scheme alibi --seeds 3`. See README.md in this folder.
"""

from posenc.lab.corpus import Corpus, from_files, from_text, standard_library
from posenc.lab.evaluate import Score, evaluate
from posenc.lab.model import LanguageModel, ModelSize
from posenc.lab.run_once import run_once
from posenc.lab.runs import Run, Store
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve, curves, effect, first_degraded_length
from posenc.lab.sweep import SweepTask, local_sweep, specifications, sweep
from posenc.lab.tasks import (
    Copy,
    FlipFlop,
    HintedParity,
    Indexing,
    Language,
    Parity,
    Recall,
)
from posenc.lab.train import Trainer, train

__all__ = [
    "Copy",
    "Corpus",
    "Curve",
    "FlipFlop",
    "HintedParity",
    "Indexing",
    "Language",
    "LanguageModel",
    "ModelSize",
    "Parity",
    "Recall",
    "Run",
    "Score",
    "Specification",
    "Store",
    "SweepTask",
    "Trainer",
    "curves",
    "effect",
    "evaluate",
    "first_degraded_length",
    "from_files",
    "from_text",
    "local_sweep",
    "run_once",
    "specifications",
    "standard_library",
    "sweep",
    "train",
]
