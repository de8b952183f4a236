"""Deliberate faults in what guards against hostile files, names and addresses; see tests/mutants.py."""

from tests.mutant_runs import Mutant

_AT_HOME = "hostile_files.py::test_a_hostile_file_is_refused_at_home_for_the_right_reason"
_BOMB = "test_a_run_of_twenty_million_rows_in_half_a_megabyte_is_never_unpacked"
_PIPE = ("hostile_files.py::test_a_path_to_something_else_is_refused_at_once[pipe]",)
_RUN, _NUMBERS, _CONFIG = ((f"{_AT_HOME}[{kind}]",) for kind in ("run", "numbers", "config"))
_CELLS = (
    "hostile_names.py::test_a_file_reads_back_as_its_cells_and_numbers_stay_numbers",
    "hostile_names.py::test_the_cells_of_a_matrix_are_safe_and_exact",
)

MUTANTS_OF_HOSTILE = (
    # Files.
    Mutant("a run of any number of rows", "lab/run.py",
           "if told.num_rows > limits.MAX_RUN_ROWS or not 0 <= unpacked <= limits.MAX_RUN_BYTES:",
           "if told.num_rows < 0:", (f"hostile_files.py::{_BOMB}",)),
    Mutant("a damaged run told by the kind of its error", "lab/run.py",
           'raise RunError("The file is no readable run: it is damaged or another file.")',
           'raise RunError(f"The file is no readable run: {type(error).__name__}.")', _RUN),
    Mutant("a pipe waited for", "interop/number_tables.py",
           "if stat.S_ISREG(os.stat(source).st_mode):", "if os.stat(source):", _PIPE),
    Mutant("a text from a pipe", "lab/sweep.py",
           "if not stat.S_ISREG(found.st_mode):", "if stat.S_ISDIR(found.st_mode):", _PIPE),
    Mutant("an array shorter than its shape", "interop/number_tables.py",
           "if len(data) != count * dtype.itemsize:", "if len(data) < 0:", _NUMBERS),
    Mutant("an array of objects", "interop/number_tables.py",
           'if dtype.newbyteorder("=") not in _DTYPES:', 'if dtype.kind == "i":', _NUMBERS),
    Mutant("a .npy header without a cap", "interop/number_tables.py",
           "_HEADER_BYTES = 10_000", "_HEADER_BYTES = 10**9", _NUMBERS),
    Mutant("a key of a config twice", "interop/models/json_text.py",
           "        if key in found:\n            name = printable_name(key)",
           "        if key is None:\n            name = printable_name(key)", _CONFIG),
    # Names.
    Mutant("a type of a model as it is", "interop/models/config_reader.py",
           "return printable_name(own_type)[:_SHOWN]", "return own_type[:_SHOWN]",
           ("model_config_refused",)),
    Mutant("a terminal's command in a model's type", "commands/planning.py",
           "    kind = printable_name(model.model_type)\n    click.echo(",
           "    kind = model.model_type\n    click.echo(", ("command_planning",)),
    # Cells.
    Mutant("a formula that begins with @", "csv_cells.py", '_FORMULA = "=+-@', '_FORMULA = "=+-',
           _CELLS),
    Mutant("a number marked as a formula", "csv_cells.py",
           " and _NUMBER.fullmatch(begin) is None", "", _CELLS),
    Mutant("a line end in a cell", "csv_cells.py",
           'text = _CONTROL.sub(" ", value)', "text = value", _CELLS),
)  # fmt: skip
