"""Check my encoding as Python: what the chosen table is, or how well positions are decoded, as CSV."""

from dashboard.limits import MAX_PROBED_ROWS
from dashboard.pages.check_my_encoding import examples, logit_samples
from dashboard.pages.check_my_encoding.identified import FIELDS
from dashboard.pages.check_my_encoding.options import DECODING, LOGITS, Options
from dashboard.script import to_python
from dashboard.settings import Setting
from dashboard.settings.setting import MAX_SHOWN_ELEMENTS
from dashboard.visitor_files import UploadedNumbers, cached_numbers, max_rows
from posenc.errors import CheckpointError

_SCRIPT = """\
import csv
import sys

{imports}
from posenc.analysis.probes import probe
from posenc.errors import SchemeArgumentError
from posenc.identification import identify
from posenc.identification.columns import TableInput
from posenc.identification.identify import from_exact
from posenc.identification.sentences import deviation_sentences, fit_sentence, headline
from posenc.identification.sentences import leading_error, record

{table}
rows = csv.writer(sys.stdout, lineterminator="\\n")
try:
    result = {call}
except SchemeArgumentError as error:
    sys.exit(str(error))
"""
_IDENTIFY = """\
apart = from_exact(result, table, sines) if result.known else None
print(f"{leading_error(result, apart)} {headline(result)}".strip(), fit_sentence(result), file=sys.stderr)
for sentence in deviation_sentences(result):
    print(sentence, file=sys.stderr)
values = record(result)
values["scheme"] = values["config"]["kind"] if values["config"] else None
names = NAMES
rows.writerow(names)
rows.writerow([values[name] for name in names])
"""
_PROBE = """\
# The table, then random numbers of its shape.
rows.writerow(["positions", "index error (MAE)", "MAE of guessing", "order accuracy",
               "spread at equal distance", "first rise at distance",
               "rank agreement with distance (Kendall tau)"])
for index, order, numbers in (
    (result.index_error.value, result.order_accuracy.value, result.properties),
    (result.index_error.control, result.order_accuracy.control, result.control_properties),
):
    rows.writerow([result.positions, index, result.guessing, order, numbers.translation_invariance_error,
                   numbers.first_rise, numbers.kendall_tau])
"""


def script(setting: Setting, chosen: Options) -> str:
    """Return a script that checks the chosen table; an upload is read from its owner's files."""
    if chosen.part == LOGITS:
        return _of_logits(chosen)
    if chosen.table in examples.EXAMPLES:
        sizes = examples.without_model(setting).sizes
        imports, recipe = examples.IMPORTS, examples.code(chosen.table)
        table = f"\n{recipe}\n\nsizes = {to_python(sizes)}\ntable, sines = recipe(sizes)"
        if sizes.dtype is not None:
            table += f"\ntable = table.to({sizes.dtype})"
            table += f"\nsines = None if sines is None else sines.to({sizes.dtype})"
    else:
        try:
            numbers = cached_numbers.get(chosen.table)
        except CheckpointError:
            numbers = None
        imports = "from posenc.checkpoints.array_files import read_number_table"
        table = _of_upload(chosen.table, numbers)
    call, body = "identify(table, sines)", _IDENTIFY.replace("NAMES", repr(["scheme", *FIELDS]))
    if chosen.part == DECODING:
        rows = f"min({MAX_PROBED_ROWS}, {MAX_SHOWN_ELEMENTS} // vectors.shape[1])"
        table += "\nvectors = TableInput.of(table, sines).columns"
        call, body = f"probe(vectors[: {rows}], seed={setting.seed})", _PROBE
    return _SCRIPT.format(imports=imports, table=table, call=call) + body


_LOGITS = """\
import csv
import sys

{imports}
from posenc.logits.match import match_logits
from posenc.logits.sentences import match_sentences

{sample}
match = match_logits(rule, q, k, logits)
print(*match_sentences(match), file=sys.stderr)
rows = csv.writer(sys.stdout, lineterminator="\\n")
rows.writerow(["head", "softmax scale", "expected"])
for head, scale in enumerate(match.scales.tolist()):
    rows.writerow([head, scale, rule.softmax_scale])
"""
_UPLOADED_LOGITS = """\
# Uploaded: put the paths of your own files here.
q, k, logits = map(read_array, ("queries.npy", "keys.npy", "logits.npy"))
rule = rule_of_scheme(posenc.NoneConfig(), len(q), q.shape[-1])  # or logit_rules(read_config(...))"""


def _of_logits(chosen: Options) -> str:
    """Return a script that checks a sample, or an upload from its owner's files."""
    imports = logit_samples.IMPORTS
    sample = f"\n{logit_samples.code(chosen.sample)}\n\nrule, q, k, logits = sample()"
    if chosen.logits:
        imports, sample = f"{imports}\n{_READ_ARRAY}", _UPLOADED_LOGITS
    return _LOGITS.format(imports=imports, sample=sample)


_READ_ARRAY = "from posenc.checkpoints.array_files import read_array"


def _of_upload(name: str, numbers: UploadedNumbers | None) -> str:
    """Return what reads an upload again: one file or two, by the names they came with."""
    files = (numbers and numbers.files) or ("table.npy",)
    code = f"# Uploaded as {name}: put the paths of your own files here.\n"
    if len(files) == 2:
        cosines, sines = files
        code += (
            f"cosines, sines = read_number_table({cosines!r}), read_number_table({sines!r})\n"
            "table, sines = cosines.table, sines.table"
        )
    else:
        tensor = "" if numbers is None or numbers.tensor is None else f", {numbers.tensor!r}"
        code += (
            f"read = read_number_table({files[0]!r}{tensor})\ntable, sines = read.table, read.sines"
        )
    if numbers is None:
        return code
    rows, width = numbers.table.table.shape
    if rows >= max_rows(width):  # the page looks at the first rows alone
        code += f"\ntable = table.reshape(-1, {width})[:{rows}]"
        if numbers.table.sines is not None:
            code += f"\nsines = sines.reshape(-1, {width})[:{rows}]"
    return code
