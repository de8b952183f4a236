"""Deliberate faults in what guards against hostile files, names and addresses; see tests/mutants.py."""

from tests.mutant_runs import Mutant

MUTANTS_OF_HOSTILE = (
    # Files.
    Mutant("a run of any number of rows", "lab/runs.py",
           "if told.num_rows > limits.MAX_RUN_ROWS or not 0 <= unpacked <= limits.MAX_RUN_BYTES:",
           "if told.num_rows < 0:", ("hostile_files",)),
    Mutant("a damaged run told by the kind of its error", "lab/runs.py",
           'raise RunError("The file is no readable run: it is damaged or another file.")',
           'raise RunError(f"The file is no readable run: {type(error).__name__}.")',
           ("hostile_files",)),
    Mutant("a pipe waited for", "interop/number_tables.py",
           "if stat.S_ISREG(os.stat(source).st_mode):", "if os.stat(source):", ("hostile_files",)),
    Mutant("a text from a device", "lab/sweep.py",
           "if not stat.S_ISREG(found.st_mode):", "if stat.S_ISDIR(found.st_mode):",
           ("hostile_files",)),
    Mutant("a text of any size", "lab/sweep.py",
           "if found.st_size > limits.MAX_FILE_BYTES:", "if found.st_size < 0:", ("hostile_files",)),
    Mutant("an array shorter than its shape", "interop/number_tables.py",
           "if len(data) != count * dtype.itemsize:", "if len(data) < 0:", ("hostile_files",)),
    Mutant("an array of objects", "interop/number_tables.py",
           'if dtype.newbyteorder("=") not in _DTYPES:', 'if dtype.kind == "i":',
           ("hostile_files",)),
    Mutant("a .npy header without a cap", "interop/number_tables.py",
           "_HEADER_BYTES = 10_000", "_HEADER_BYTES = 10**9", ("hostile_files",)),
    Mutant("a key of a config twice", "interop/models/json_text.py",
           "        if key in found:\n            name = printable_name(key)",
           "        if key is None:\n            name = printable_name(key)", ("hostile_files",)),
    # Names.
    Mutant("a type of a model as it is", "interop/models/rope_models.py",
           'model_type "{printable_name(model_type)}"', 'model_type "{model_type}"',
           ("hostile_files", "hostile_mutations")),
    Mutant("a terminal's command in a model's type", "commands/planning.py",
           "    kind = printable_name(model.model_type)\n    click.echo(",
           "    kind = model.model_type\n    click.echo(", ("hostile_files",)),
    # Cells.
    Mutant("a formula that begins with @", "csv_cells.py", '_FORMULA = "=+-@', '_FORMULA = "=+-',
           ("hostile_names",)),
    Mutant("a number marked as a formula", "csv_cells.py",
           " and _NUMBER.fullmatch(begin) is None", "", ("hostile_names",)),
    Mutant("a line end in a cell", "csv_cells.py",
           'text = _CONTROL.sub(" ", value)', "text = value", ("hostile_names",)),
)  # fmt: skip
