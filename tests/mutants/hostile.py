"""Deliberate faults in what guards against hostile files, names and addresses; see __main__.py."""

from tests.mutants.runs import Mutant

_OWN_DOOR = "hostile_files.py::test_hostile_file_is_refused_at_its_door_for_the_right_reason"
_PIPE = ("hostile_files.py::test_path_to_something_else_is_refused[pipe]",)
_RUN, _NUMBERS, _CONFIG = ((f"{_OWN_DOOR}[{kind}]",) for kind in ("run", "numbers", "config"))
_CELLS = ("csv_cells",)
_HEADER = ("safetensors_file",)

MUTANTS_OF_HOSTILE = (
    # Files.
    Mutant("a pipe waited for", "checkpoints/safetensors_file.py",
           'getattr(os, "O_NONBLOCK", 0)', "0", _PIPE),
    Mutant("an array of objects", "checkpoints/array_files.py",
           'if dtype.newbyteorder("=") not in _DTYPES:', 'if dtype.kind == "i":', _NUMBERS),
    Mutant("a key of a config twice", "models/config_json.py",
           "        if key in record:\n            name = printable_name(key)",
           "        if key is None:\n            name = printable_name(key)", _CONFIG),
    Mutant("a hole between tensors", "checkpoints/safetensors_file.py",
           "if entry.start != end:", "if entry.start < end:", _HEADER),
    Mutant("a tensor inside another", "checkpoints/safetensors_file.py",
           "if entry.start != end:", "if entry.start > end:", _HEADER),
    Mutant("bytes behind the last tensor", "checkpoints/safetensors_file.py",
           "    if end < data_bytes:", "    if end + 1 < data_bytes:", _HEADER),
    Mutant("a tensor named twice", "checkpoints/safetensors_file.py",
           "        if key in content:", "        if key == content:", _HEADER),
    Mutant("a shape that does not fit its bytes", "checkpoints/safetensors_file.py",
           "if 8 * (stop - start) != elements * BITS[dtype]:",
           "if 8 * (stop - start) < elements * BITS[dtype]:", _HEADER),
    Mutant("a product past 64 bits", "checkpoints/safetensors_file.py",
           "for axis in shape) > MAX_ELEMENTS_STATED:", "for axis in shape) > 2**80:", _HEADER),
    Mutant("headers of any number of lists", "checkpoints/safetensors_file.py",
           'if sum(map(header.count, b"{[,")) >', 'if header.count(b"{") >', _HEADER),
    Mutant("half of a character", "checkpoints/safetensors_file.py",
           "                text.encode()", "                len(text)", _HEADER),
    # Names.
    Mutant("a terminal's command in a model's type", "cli/inspect.py",
           "    kind = printable_name(model.model_type)\n    click.echo(",
           "    kind = model.model_type\n    click.echo(", ("command_planning",)),
    # Cells.
    Mutant("a formula that begins with @", "text.py", '_FORMULA = "=+-@', '_FORMULA = "=+-',
           _CELLS),
)  # fmt: skip
