"""Deliberate faults in what people call runs, and in the log of a server."""

from tests.mutant_runs import Mutant

MUTANTS_OF_LABELS = (
    Mutant("a label's name may go on after its end", "lab/labels.py",
           "if not _NAME.fullmatch(bare)", "if not _NAME.match(bare)", ("labels",)),
    Mutant("a label of one owner is all of them", "lab/labels.py",
           "self.owner.encode()", "b''", ("labels",)),
    Mutant("a label that one owner hides hides the run", "lab/labels.py",
           "all(label.hidden for label in found)", "any(label.hidden for label in found)",
           ("labels",)),
    Mutant("a label is changed by whoever asks", "lab/labels.py",
           "label = self.of(run_id, owner)\n",
           "label = self.of(run_id, owner) or Label(run_id, owner)\n", ("labels",)),
    Mutant("a label's file may speak of another run", "lab/labels.py",
           "return label if label.file_name == name else None", "return label", ("labels",)),
    Mutant("a label that is there is written over", "lab/labels.py",
           "return self.files.create(label.file_name, _content(label))",
           "self.files.put(label.file_name, _content(label)); return True", ("labels",)),
    Mutant("a log of labels and links quotes messages", "lab/log_lines.py",
           "_constant(record)", "record.getMessage()", ("logs",)),
)  # fmt: skip
