"""The command line: `python -m posenc train`, `runs`, `label`, `export`, `inspect`, `plan`, `identify`."""

import click

from posenc.cli.identify import identify_table
from posenc.cli.plan import inspect_config, plan_context
from posenc.cli.runs import export_runs, label_run, list_runs
from posenc.cli.train import train_schemes
from posenc.errors import PosencError


class _Kind(click.Group):
    """Commands whose expected errors are one sentence and no trace."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PosencError as error:
            raise click.ClickException(str(error)) from error


@click.group(
    cls=_Kind,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    help="Measure positional encodings, plan with them, and tell what a table is.",
)
def main() -> None:
    pass


for _command in (
    train_schemes,
    list_runs,
    export_runs,
    label_run,
    inspect_config,
    plan_context,
    identify_table,
):
    main.add_command(_command)


if __name__ == "__main__":
    main(prog_name="python -m posenc")
