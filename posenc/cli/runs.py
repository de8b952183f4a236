"""The commands `runs` and `export`: list a store of runs, write it as CSV."""

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import click

from posenc.checkpoints.file_store import reason, write_whole
from posenc.checkpoints.sources import RESULTS
from posenc.lab.best_rates import compared_runs, recorded_rates, tried_rates
from posenc.lab.listing import csv_text, result_lines, run_lines, run_name
from posenc.lab.parts import is_of_sweep, swept_part
from posenc.lab.protocol import read_protocol
from posenc.lab.protocol_record import read_record, shipped_record
from posenc.lab.ranks import Ranks, ranks
from posenc.lab.result_table import ResultTable, comparison_table
from posenc.lab.runs import Run, Store
from posenc.lab.summary import comparison, curves
from posenc.lab.tasks import Language
from posenc.plugins import load_plugin

FORMS: dict[str, Callable[[ResultTable | Ranks], str]] = {
    "markdown": lambda table: table.to_markdown(),
    "csv": lambda table: table.to_csv(),
    "latex": lambda table: table.to_latex(),
}
SHIPPED = "shipped"  # what --store calls the runs that ship


def _place_to_read(
    context: click.Context, option: click.Parameter, store: str | None
) -> str | None:
    return str(RESULTS) if store == SHIPPED else store


def _place_to_write(
    context: click.Context, option: click.Parameter, store: str | None
) -> str | None:
    if store == SHIPPED:
        refuse_to_write()
    return store


def refuse_to_write() -> NoReturn:
    """Say that the runs that ship are read alone. Raises click.BadParameter."""
    raise click.BadParameter(
        f"{SHIPPED} names the runs that ship, which no command changes.", param_hint="'--store'"
    )


STORE = click.option(
    "--store", callback=_place_to_write, help="Folder or URL of the runs; default $POSENC_RUNS."
)
READ_STORE = click.option(
    "--store",
    callback=_place_to_read,
    help=f"Folder or URL of the runs, or {SHIPPED} for those that ship; default $POSENC_RUNS.",
)


def _load(context: click.Context, option: click.Parameter, files: tuple[str, ...]) -> None:
    for file in files:
        load_plugin(file)


PLUGIN = click.option(
    "--plugin",
    multiple=True,
    metavar="FILE",
    callback=_load,
    expose_value=False,
    is_eager=True,  # before options that name a scheme
    help="Python file that registers schemes of your own. May be repeated.",
)


def open_store(store: str | None) -> Store:
    """Open a store to read it, with a hint if it is empty."""
    opened = Store(store)
    if not opened.ids():
        click.echo(
            f"There are no runs in {opened.url}. --store {SHIPPED} reads those that ship.",
            err=True,
        )
    return opened


def say_left_out(store: Store) -> None:
    """Print which files of the store were left out, and why."""
    for clause in store.left_out():
        click.echo(f"{clause[0].upper()}{clause[1:]}.", err=True)


@click.command(
    name="runs",
    help="List the runs of the store and their results, or, with --table, compare the schemes of one "
    "comparison: mean losses, paired differences from RoPE or --reference with their 95% intervals, and "
    "p-values after Holm's correction. A scheme with several learning rates stands at its best one. With "
    "--ranks, rank all schemes by task, as far as the runs of the plan of `posenc protocol` are there.",
)
@click.option("--table", "form", type=click.Choice([*FORMS]), help="Print a table in this form.")
@click.option(
    "--ranks", "ranks_form", type=click.Choice([*FORMS]), help="Print ranks in this form."
)
@click.option("--comparison", "name", help="Which models: a name of the list; for --table.")
@click.option("--reference", default="rope", help="The kind of scheme to compare with.")
@click.option(
    "--fine-tuned",
    is_flag=True,
    help="Compare the fine-tuned models instead, with the reference after the same steps; for --table, "
    "which leaves them out.",
)
@READ_STORE
@PLUGIN
def list_runs(
    form: str | None, ranks_form: str | None, name: str | None, reference: str, fine_tuned: bool,
    store: str | None,
) -> None:  # fmt: skip
    opened = open_store(store)
    if ranks_form is not None:
        record = (*shipped_record(), *read_record(opened))
        click.echo(FORMS[ranks_form](ranks(read_protocol(), opened, record)), nl=False)
        say_left_out(opened)
        return
    if form is not None:
        click.echo(_table(opened, form, name, reference, fine_tuned=fine_tuned), nl=False)
        say_left_out(opened)
        return
    listed = sorted(opened, key=lambda run: (run_name(run.specification), run.run_id))
    for line in run_lines(listed):
        click.echo(line)
    for line in result_lines(listed):
        click.echo(line)
    say_left_out(opened)


def _table(store: Store, form: str, name: str | None, reference: str, *, fine_tuned: bool) -> str:
    """Return the table of one comparison; without a name of the only one."""
    groups: dict[str, list[Run]] = {}
    for run in store:
        if run.specification.task == Language.kind:
            groups.setdefault(comparison(run.specification), []).append(run)
    if name is None and len(groups) == 1:
        (name,) = groups
    if name not in groups:
        known = ", ".join(sorted(groups)) or "none"
        raise click.UsageError(
            f"--comparison must be one of those with losses by context: {known}."
        )
    runs = groups[name]
    tried, protocol = tried_rates(runs), read_protocol()
    if (part := swept_part(protocol, runs)) is not None:
        swept = [run for run in store if is_of_sweep(part, run.specification)]
        record = (*shipped_record(), *read_record(store))
        tried += [*recorded_rates(record, part.name), *tried_rates(swept)]
    return FORMS[form](
        comparison_table(
            curves(compared_runs(runs), "context"), reference, tried, fine_tuned=fine_tuned
        )
    )


@click.command(name="export", help="Write every number of every run to FILE, one row each (CSV).")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@READ_STORE
@PLUGIN
def export_runs(file: Path, store: str | None) -> None:
    opened = open_store(store)
    content = csv_text(opened).encode()  # before the file is opened: a failure leaves the old one
    try:
        if file.exists() and not file.is_file():  # a device or a pipe
            file.write_bytes(content)
        else:
            write_whole(file.resolve(), content)
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {reason(error)}.") from None
    click.echo(f"Written to {file}.")
    say_left_out(opened)
