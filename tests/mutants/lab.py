"""Deliberate faults in the lab: texts, training, checkpoints and readings."""

from tests.mutants.runs import Mutant

MUTANTS_OF_LAB = (
    # The lab.
    Mutant("far questions on pairs at trained positions", "lab/tasks.py",
           "start = -(-length // 2) + torch", "start = torch", ("tasks",)),
    Mutant("validation is trained on", "lab/corpus.py",
           "% VALIDATION_SHARE == 0", "% VALIDATION_SHARE < 0", ("corpus",)),
    Mutant("the model sees the next token", "lab/model.py",
           "attention(q, k, v, scheme)", "attention(q, k, v, scheme, causal=False)",
           ("language_model",)),
    Mutant("data order depends on the scheme", "lab/train.py",
           'generator_for(self.specification.trial.data_seed, "data", number)',
           'generator_for(self.specification.seed, self.specification.scheme.kind, number)',
           ("training",)),
    Mutant("an interrupted update is kept", "lab/train.py",
           "if checkpoint is not None and trainer.whole:", "if checkpoint is not None:",
           ("training",)),
    Mutant("half a file after a kill", "checkpoints/file_store.py",
           "temporary = path.with_name(f\".{path.name}.{uuid.uuid4().hex}\")",
           "temporary = path", ("store",)),
    Mutant("evaluation on what was trained on", "lab/evaluate.py",
           "text = task.corpus.validation\n    lengths", "text = task.corpus.train\n    lengths",
           ("evaluation",)),
    Mutant("the seed left out of a run's name", "lab/specification.py",
           "plain[\"model\"] = dataclasses.asdict(self.model)",
           "plain[\"model\"] = dataclasses.asdict(self.model); plain[\"seed\"] = 0",
           ("specification",)),
    Mutant("a difference called so without its interval", "lab/summary.py",
           "(self.low > 0 or self.high < 0) and abs", "abs", ("summary",)),
    Mutant("processes of a sweep without the schemes of a plugin", "cli/train.py",
           "SweepTask(spec.record, opened.url, path, plugins)",
           "SweepTask(spec.record, opened.url, path)", ("plugin_runs",)),
    Mutant("queries of a scheme without division start large after to_empty", "lab/model.py",
           "        if factor != 1:", "        if False:", ("language_model",)),
)  # fmt: skip
