"""Train as Python."""

from dashboard.pages.train.options import TrainingChoice
from posenc.settings import Setting

BODY = """
from posenc.lab import Store, run_once, standard_library
from posenc.lab.sweep import specifications

corpus = {corpus}
plan = specifications(
    {schemes!r}, seeds={seeds}, bases=({base!r},), widths=({width},), layers={layers}, heads={heads},
    corpus=corpus, train_length={length}, task={task!r}, steps={steps},
)
store = Store()  # your own, a folder of your user data
print("run,scheme,seed,last loss")
for specification in plan:
    run = run_once(specification, corpus, store)
    print(run.run_id, specification.scheme.label, specification.seed, run.losses[-1], sep=",")
"""


def script(setting: Setting, chosen: TrainingChoice) -> str:
    """Return a script that makes the runs a start would make, on the default text."""
    return (
        BODY.strip().format(
            corpus="standard_library()" if chosen.task == "language" else None,
            schemes=setting.schemes,
            seeds=chosen.seeds,
            base=setting.base,
            width=chosen.width,
            layers=chosen.layers,
            heads=chosen.run_heads,
            length=chosen.run_length,
            task=chosen.task,
            steps=chosen.steps,
        )
        + "\n"
    )
