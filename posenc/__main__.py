"""The command line: `posenc inspect`, `plan`, `identify`, `engines`, `pairs`, `attention`, `train`,
`protocol`, `runs`, `export`, `app`, `gallery`.
"""

import importlib
import os
import sys
from typing import Any

import click

from posenc import __version__
from posenc.errors import PosencError
from posenc.text import install_command

_COMMANDS = {
    "train": "posenc.cli.train:train_schemes",
    "protocol": "posenc.cli.protocol:run_protocol",
    "runs": "posenc.cli.runs:list_runs",
    "export": "posenc.cli.runs:export_runs",
    "inspect": "posenc.cli.inspect:inspect_config",
    "plan": "posenc.cli.plan:plan_context",
    "identify": "posenc.cli.identify:identify_table",
    "engines": "posenc.cli.engines:compare_engines",
    "pairs": "posenc.cli.pairs:rotary_pairs",
    "attention": "posenc.cli.captured:captured_attention",
    "app": "dashboard.__main__:start_app",
    "gallery": "dashboard.write_gallery:write_gallery",
}

REFUSED = 2  # exit status of every error, as of grep and diff: 1 is an answer, such as a difference
INTERRUPTED = 130  # as a shell has it


class _Refusal(click.ClickException):
    exit_code = REFUSED


class _Commands(click.Group):
    """Commands that are imported when used, and whose expected errors are one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, function = _COMMANDS[cmd_name].split(":")
        try:
            command: click.Command = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as error:
            if not error.name or error.name.partition(".")[0] == "posenc":
                raise
            return _without_package(cmd_name, error.name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PosencError as error:
            raise _Refusal(str(error)) from error
        except click.UsageError as error:
            if not isinstance(error, click.exceptions.NoArgsIsHelpError):
                error.ctx = None  # with it, three lines on usage come before the sentence
            raise
        except click.ClickException as error:
            raise _Refusal(error.format_message()) from error
        except BrokenPipeError:  # for which click exits with 1
            _drop_output()
            sys.exit(REFUSED)
        except KeyboardInterrupt:  # the same
            sys.exit(INTERRUPTED)

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            return super().main(*args, **options)
        except OSError as error:
            _drop_output()
            where = error.filename or "The output"
            click.echo(f"Error: {where} cannot be read or written: {error.strerror}.", err=True)
            sys.exit(REFUSED)


def _drop_output() -> None:
    """Send what is left to write at the end nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _without_package(name: str, package: str) -> click.Command:
    """Return a command that says which packages are missing."""
    extra = "dashboard" if name in ("app", "gallery") else "lab"
    sentence = f"{name} needs the package {package}: {install_command(extra)}."

    @click.command(name=name, help=sentence, context_settings={"ignore_unknown_options": True})
    @click.argument("arguments", nargs=-1)
    def missing(arguments: tuple[str, ...]) -> None:
        raise click.ClickException(sentence)

    return missing


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    help="Positional encodings: identify tables, plan longer contexts, train and compare schemes.",
)
@click.version_option(__version__, prog_name="posenc", message="%(prog)s %(version)s")
def main() -> None:
    pass


if __name__ == "__main__":
    main(prog_name="posenc")
