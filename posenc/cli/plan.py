"""`posenc inspect`, `plan` and `identify`: read a config.json, or a table of numbers."""

import contextlib
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from torch import Tensor

from posenc import limits
from posenc.analysis.base_search import MAX_LENGTH
from posenc.checkpoints.array_files import NumberTable, read_number_table
from posenc.device import fixed_threads
from posenc.errors import PosencError
from posenc.identification import Identification, identify, match_model, match_rotation, rotation_of
from posenc.identification.corrected import corrected_code
from posenc.identification.identify import fit_sentence, from_exact, headline, leading_error, record
from posenc.identification.model_match import ModelMatch
from posenc.models import read_config
from posenc.models.model_config import ModelConfig, full_cache_note
from posenc.planner import (
    METHODS,
    RANKING,
    RANKING_RULES,
    ContextPlan,
    layer_notes,
    loss_by_position_script,
    paste,
    plan,
    recommendation,
    warnings_of,
)
from posenc.planner.advice import advice_of, at_inference
from posenc.planner.methods import UNSCALED
from posenc.planner.report import EXPLAINED, layer_rows, model_record, plan_record, ranked
from posenc.planner.warnings import bound_sentence, precision_sentence, suggested
from posenc.schemes.base import SchemeConfig
from posenc.schemes.rope import RopeConfig
from posenc.text import printable_name, with_advanced

_CONFIG = click.argument("config", metavar="CONFIG.JSON")
_ASSUME = click.option(
    "--assume",
    metavar="TYPE",
    help="Read a config that would be refused: a model type that is not known as this one, such as "
    "llama, and without keys that cannot be read. The answer's first line says so.",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print every number in full, as JSON.")


class _UsageError(click.ClickException):
    """An argument or a config that cannot be used: one sentence, exit status 2."""

    exit_code = 2


@click.command(
    name="inspect",
    help="Describe how each layer of a model encodes position, from its config.json. - is stdin.",
)
@_CONFIG
@_ASSUME
@_JSON
def inspect_config(config: str, assume: str | None, as_json: bool) -> None:
    model, name = _read(config, assume)
    if as_json:
        click.echo(json.dumps(model_record(model), indent=2))
        return
    _print_assumptions(model, model.assumed)
    context, trained = (
        "not given" if length is None else f"{length:,}"
        for length in (model.context, model.trained_length)
    )
    kind = printable_name(model.model_type)
    click.echo(f"{name}: {kind}, {model.layers} layers of width {model.hidden_size:,}")
    click.echo(f"context {context}, trained length {trained}\n")
    _print_table(layer_rows(model))
    notes = [*model.notes, *(note for kind in model.layer_kinds for note in kind.notes)]
    _print_list("Notes", list(dict.fromkeys(notes)))
    _print_list("Not read", model.ignored)


@click.command(
    name="plan", help="Plan a longer context for a model, from its config.json. - is stdin."
)
@_CONFIG
@click.option("--context", required=True, type=int, help="Tokens to read.")
@click.option(
    "--trained", type=int, help="Training length in tokens, where the config does not give it."
)
@click.option(
    "--methods",
    help=with_advanced(
        f"Some of {','.join(METHODS)}, with commas between them; default all.",
        (name for name, method in METHODS.items() if method.advanced),
    ),
)
@click.option(
    "--search",
    is_flag=True,
    help="Search the base at which B(k), the bound of Men et al. 2024, stays at or above 0. This takes up "
    "to a minute. The method base searches it, too.",
)
@click.option("--script", type=click.Choice(list(METHODS)), help="Print the script that measures.")
@_ASSUME
@_JSON
def plan_context(
    config: str, context: int, trained: int | None, methods: str | None, search: bool,
    script: str | None, assume: str | None, as_json: bool,
) -> None:  # fmt: skip
    model, name = _read(config, assume)
    names = None if methods is None else [word.strip() for word in methods.split(",")]
    search = search or "base" in (script, *(names or ()))
    if search:
        click.echo(
            "Searching the base at which B(k) stays at or above 0: up to a minute.", err=True
        )
    try:
        with fixed_threads(1):  # more threads wait longer than they compute
            context_plan = plan(
                model, context, name=name, trained_length=trained,
                methods=[script] if script else names, search_base=search,
            )  # fmt: skip
    except PosencError as error:
        raise _UsageError(str(error)) from None
    if script:
        click.echo(_script(context_plan, script))
    elif as_json:
        click.echo(json.dumps(plan_record(context_plan), indent=2))
    else:
        _print_plan(context_plan)


@click.command(
    name="identify", help="Say which scheme made the table in a .npy or .safetensors file."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--tensor", help="Its name, where a .safetensors file holds several tables.")
@click.option(
    "--sines",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of the sines, where FILE holds the cosines.",
)
@click.option(
    "--before",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Queries or keys before the rotation, where FILE holds the same after it: positions x "
    "features, or 2 x positions x features with queries first.",
)
@click.option("--config", help="A config.json: does the table belong to this model? - is stdin.")
@click.option("--json", "as_json", is_flag=True, help="Print every number in full, as JSON.")
def identify_table(
    file: Path, tensor: str | None, sines: Path | None, before: Path | None, config: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    model = None if config is None else _read(config, None)[0]
    schemes = None if model is None else {kind.name: kind.scheme for kind in model.layer_kinds}
    if before is not None and (sines is not None or tensor is not None):
        raise _UsageError("--before goes with neither --sines nor --tensor.")
    try:
        table = read_number_table(file, tensor)
        second = table.sines if sines is None else read_number_table(sines).table
        vectors = None if before is None else read_number_table(before)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}.") from None
    with _search_notice(), fixed_threads(1):
        if vectors is not None:
            _print_rotations(_parts(vectors), _parts(table), schemes, as_json)
            return
        result = identify(table.table, second)
    match = None if schemes is None else match_model(result, schemes, table.table, second)
    if as_json:
        values = _table_record(result, table.table, second, match)
        click.echo(
            json.dumps(values | {"tensor": table.name, "notes": list(table.notes)}, indent=2)
        )
    else:
        _print_identification(result, table.table, second, match, table.notes)


@contextlib.contextmanager
def _search_notice() -> Iterator[None]:
    """Say on standard error what takes long, if it takes more than a second."""
    text = "Comparing the numbers with known tables: about 10 seconds where none is near."
    timer = threading.Timer(1.0, click.echo, (text,), {"err": True})
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _parts(table: NumberTable) -> list[Tensor]:
    return [table.table] if table.sines is None else [table.table, table.sines]


def _print_rotations(
    before: Sequence[Tensor], after: Sequence[Tensor], schemes: dict[str, SchemeConfig | None] | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Print how queries, and keys where there are two arrays, were rotated."""
    if len(before) != len(after):
        raise _UsageError("FILE and --before must have one shape.")
    records = []
    for part, (x, y) in enumerate(zip(before, after, strict=True)):
        rotation = rotation_of(x, y)
        name = ("queries", "keys")[part] if len(before) == 2 else "vectors"
        match = None if schemes is None else match_rotation(rotation, schemes)
        values = {"vectors": name, "layout": rotation.layout, "rotated": rotation.features}
        if not as_json:
            click.echo(f"{name.capitalize()}: {rotation.sentence}")
        if rotation.cosines is not None and (result := rotation.identified) is not None:
            tables = rotation.cosines, rotation.sines
            if as_json:
                values = _table_record(result, *tables, match) | values
            else:
                _print_identification(result, *tables, match, of_vectors=True)
        elif match is not None and not as_json:
            click.echo(match.sentence)
        records.append(values)
    if as_json:
        click.echo(json.dumps(records, indent=2))


def _table_record(
    result: Identification, table: Tensor, sines: Tensor | None, match: ModelMatch | None
) -> dict[str, Any]:
    exact = from_exact(result, table, sines) if result.known else None
    return record(result) | {
        "belongs": None if match is None else match.belongs,
        "match": None if match is None else match.sentence,
        "code": _codes(result, match),
        "largest_error": None if exact is None else exact.largest,
    }


def _codes(result: Identification, match: ModelMatch | None) -> dict[str, str]:
    codes = corrected_code(result)
    if match is not None and match.code:
        codes["Code of the model's table"] = match.code
    return codes


def _print_identification(
    result: Identification, table: Tensor, sines: Tensor | None, match: ModelMatch | None,
    notes: Sequence[str] = (), of_vectors: bool = False,
) -> None:  # fmt: skip
    exact = from_exact(result, table, sines) if result.known else None
    if leading := leading_error(result, exact):
        click.echo(leading)
    if (
        result.known or match is None or not match.belongs
    ):  # else the model's own scaling is the answer
        click.echo(headline(result))
        if not of_vectors:  # whose angles have the rounding of two numbers
            click.echo(fit_sentence(result))
    if match is not None:
        click.echo(match.sentence)
    also = [f"It may also be {words}." for words in result.also]
    for line in (*(deviation.sentence for deviation in result.deviations), *also, *notes):
        click.echo(f"  {line}")
    for title, code in _codes(result, match).items():
        click.echo(f"\n{title}\n\n{code}")


def _read(config: str, assume: str | None) -> tuple[ModelConfig, str]:
    """Return a model and its name: that of the file, or of the folder of a config.json."""
    if not config:
        raise _UsageError("CONFIG.JSON must name a file, or be - for stdin.")
    stdin, path = config == "-", Path(config)
    if not (stdin or path.is_file()):
        fault = "is no regular file" if path.exists() else "does not exist"
        raise _UsageError(
            f"{printable_name(path.name)} {fault}: give the path of a config.json, or - for stdin."
        )
    try:
        source = sys.stdin.buffer.read(limits.MAX_CONFIG_BYTES + 1) if stdin else path
        model = read_config(source, assume)
    except PosencError as error:
        raise _UsageError(str(error)) from None
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    return model, ("" if stdin else printable_name(name)) or printable_name(model.model_type)


def _script(plan: ContextPlan, name: str) -> str:
    for method in plan.methods:
        if method.method.name == name and (script := loss_by_position_script(plan, method)):
            return script
    raise _UsageError(
        f"There is no script for {METHODS[name].label}: nothing to paste, or no scaling."
    )


def _print_plan(plan: ContextPlan) -> None:
    _print_assumptions(plan.model, (*plan.assumed, *plan.model.assumed))
    for line in filter(None, (recommendation(plan), _next_step(plan))):
        click.echo(line)
    _print_list(
        "Advice by amount of training",
        [
            f"{advice.title}: {advice.method}. Logit change on short context: {advice.short}. "
            f"{advice.sentence} ({advice.source})"
            if advice.method
            else f"{advice.title}: {advice.sentence}"
            for advice in advice_of(plan)
        ],
    )
    _print_list(
        "Other methods at inference",
        [
            f"{x.label}: {x.statement} Available in {x.support}. ({x.source})"
            for x in at_inference(plan)
        ],
    )
    if plan.methods:
        click.echo()
        for title, rows in ranked(plan).items():
            click.echo(title)
            _print_table([{"#": str(rank)} | row for rank, row in enumerate(rows, start=1)])
            click.echo()
        click.echo(f"{RANKING}\n{EXPLAINED}")
        _print_list("How this is ranked", RANKING_RULES)
    _print_list("Left out", plan.left_out)
    sizes = ", ".join(f"{gib:,.4g} GiB in {name}" for name, gib in plan.cache.items())
    click.echo(f"\nKV cache of one sequence of {plan.target:,} tokens: {sizes}.")
    notes = full_cache_note(plan.model, plan.target), precision_sentence(plan), bound_sentence(plan)
    for sentence in filter(None, notes):
        click.echo(sentence)
    if type(plan.trained) is RopeConfig and not plan.base_searched and plan.reach <= MAX_LENGTH:
        click.echo("Add --search to search the base, which takes up to a minute.")
    layers = layer_notes(plan.model, plan.target, plan.trained_length)
    _print_list("Layers", [f"{note.layers}: {note.sentence} ({note.source})" for note in layers])
    _print_list(
        "Sources",
        [
            f"{method.method.label}: {statement} ({source})"
            for method in plan.methods
            for statement, source in method.statements
        ],
    )
    _print_list(
        "Warnings",
        [f"{x.sentence} ({x.rule} Source: {x.source})" for x in warnings_of(plan)],
    )
    if plan.longer:
        _print_blocks(plan)


def _next_step(plan: ContextPlan) -> str:
    """Name the option that prints a script for the suggested method, or for the next that has one."""
    if plan.trained_length is None or plan.target <= plan.trained_length:
        return ""
    first = suggested(plan)
    for method in (*([first] if first else []), *plan.methods):
        name = method.method.name
        if name in METHODS and paste(plan, method).rope_parameters:
            return (
                "Next: measure it on your own checkpoint and texts. Add --script "
                f"{name} to print the script."
            )
    return ""


def _print_blocks(plan: ContextPlan) -> None:
    """Print what to paste for every method."""
    blocks = [(method.method, paste(plan, method)) for method in plan.methods]
    if where := next((block.where for _, block in blocks if block.where), ""):
        _print_list("What to paste", [f"Keys of config.json: {where}"])
    for method, block in blocks:
        if method.name == UNSCALED.name:
            continue
        click.echo(f"\n{method.label}")
        for version, keys in ((5, block.rope_parameters), (4, block.rope_scaling)):
            if keys:
                click.echo(f"  config.json, transformers {version}:  {json.dumps(keys)}")
        for line in filter(None, (block.vllm, block.sglang, block.llama_cpp, *block.why)):
            click.echo(f"  {line}")


def _print_assumptions(model: ModelConfig, assumed: Sequence[str]) -> None:
    """Print what numbers rest on, before any of them."""
    if model.assumption:
        click.echo(f"{model.assumption}\n")
    if assumed:
        click.echo("\n  ".join(["Assumed", *assumed]) + "\n")


def _print_table(rows: Sequence[dict[str, str]]) -> None:
    header = {name: name for name in rows[0]}
    widths = {name: max(len(row[name]) for row in (header, *rows)) for name in header}
    for row in (header, *rows):
        click.echo("  ".join(row[name].ljust(widths[name]) for name in header).rstrip())


def _print_list(title: str, sentences: Sequence[str]) -> None:
    if sentences:
        click.echo("\n  ".join([f"\n{title}", *sentences]))
