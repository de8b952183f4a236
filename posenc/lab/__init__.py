"""Measured extrapolation: train small models per scheme on real text, read them past their length.

One specification, one run: `make_run(specification, corpus, store)`. The same from a shell:
`python -m posenc train --scheme rope --scheme alibi --seeds 3`.
"""

from posenc.lab.evaluate import Score, evaluate
from posenc.lab.model import LanguageModel, ModelConfig
from posenc.lab.run_once import make_run
from posenc.lab.runs import Run, Store
from posenc.lab.specification import Specification
from posenc.lab.summary import Curve, curves, effect, elbow
from posenc.lab.sweep import Job, local_sweep, specifications, sweep
from posenc.lab.tasks import Copy, Corpus, Language, Recall, from_files, from_text, standard_library
from posenc.lab.train import Trainer, Training, train

__all__ = [
    "Copy",
    "Corpus",
    "Curve",
    "Job",
    "Language",
    "LanguageModel",
    "ModelConfig",
    "Recall",
    "Run",
    "Score",
    "Specification",
    "Store",
    "Trainer",
    "Training",
    "curves",
    "effect",
    "elbow",
    "evaluate",
    "from_files",
    "from_text",
    "local_sweep",
    "make_run",
    "specifications",
    "standard_library",
    "sweep",
    "train",
]
