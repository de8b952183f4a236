"""The server: `posenc app`, with the settings of the environment and the options of Streamlit.

The options of config.toml hold where the user sets no others. In a checkout Streamlit reads that file
itself, at the root; of an installed wheel it is passed on.

A setting that cannot be used ends it before anything is served, with one sentence that names the
variable. `--check` says what the settings are and ends.
"""

import argparse
import json
import os
import signal
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import click
from streamlit import config
from streamlit.web import cli

from dashboard.server import identity, output, settings
from dashboard.server.settings import ServerSettingError, ServerSettings
from posenc.checkpoints.file_store import ENVIRONMENT, WORK_ENVIRONMENT
from posenc.errors import PluginError
from posenc.plugins import load_plugin

FOLDER = Path(__file__).parent
CONFIG = "config.toml"
OF_STREAMLIT = FOLDER.parent / ".streamlit"  # of a checkout: config.toml and secrets.toml
ADDRESS = "STREAMLIT_SERVER_ADDRESS"  # Streamlit's variable of the option server.address


def options(allowed: ServerSettings) -> list[str]:
    """Return the options of Streamlit that these settings mean, beside those of the command line."""
    # The text of an upload that no page asks for is not worth its memory either.
    most = allowed.upload_mb if allowed.uploads else 1
    ours = [f"--server.maxUploadSize={most}", f"--server.baseUrlPath={allowed.base_path}"]
    ours += [f"--server.allowedHosts={host}" for host in allowed.hosts.split(",") if host]
    if allowed.user_header:
        known = json.dumps({allowed.user_header: identity.KEY})
        ours.append(f"--server.trustedUserHeaders={known}")
    return ours


def printed_address(arguments: Sequence[str]) -> list[str]:
    """Return the option that makes the address of the command line the printed one, if one is given.

    Of all addresses (0.0.0.0) the printed one stays localhost: Streamlit would ask another host for ours.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--server.address", dest="address")
    address = parser.parse_known_args(arguments)[0].address or os.environ.get(ADDRESS)
    everywhere = address in (None, "", "0.0.0.0", "::")  # noqa: S104 - compared alone
    return [] if everywhere else [f"--browser.serverAddress={address}"]


def defaults() -> dict[str, str]:
    """Return the options of config.toml that Streamlit has not read in a file, by their parameters."""
    shipped = _by_name(tomllib.loads(_config_file().read_text(encoding="utf-8")))
    return {
        # As on a command line, where a list is one text.
        name.replace(".", "_"): value if isinstance(value, str) else json.dumps(value)
        for name, value in shipped
        if not config.is_manually_set(name)
    }


def _config_file() -> Path:
    """Return config.toml of the checkout, or the one that the wheel put beside its packages."""
    if OF_STREAMLIT.is_dir():
        return OF_STREAMLIT / CONFIG
    (installed,) = (file for file in metadata.files("posenc") or () if file.name == CONFIG)
    return Path(str(installed.locate()))


def _by_name(tables: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        if isinstance(value, dict):
            yield from _by_name(value, f"{section}{key}.")
        else:
            yield f"{section}{key}", value


def _make_folders_absolute() -> None:
    """Resolve relative folders of the environment where the command was given."""
    for variable in (ENVIRONMENT, WORK_ENVIRONMENT):
        folder = os.environ.get(variable)
        if folder and "://" not in folder:
            os.environ[variable] = os.path.abspath(folder)


def main(arguments: list[str], plugins: Sequence[str] = ()) -> int:
    """Serve until the process is told to end; 2 for settings or plugins that cannot be used."""
    try:
        for file in plugins:
            load_plugin(file)  # before the folder changes
    except PluginError as error:
        print(f"posenc: {error}", file=sys.stderr)
        return 2
    if OF_STREAMLIT.is_dir():
        _make_folders_absolute()
        os.chdir(FOLDER.parent)
    try:
        allowed = settings.current()
        settings.check_places(allowed)
    except ServerSettingError as error:
        print(f"posenc: {error}", file=sys.stderr)
        return 2
    if "--check" in arguments:
        for name in settings.unknown():
            print(
                f"posenc: {name} is no variable of a server; it changes nothing.", file=sys.stderr
            )
        for variable, text in settings.as_variables(allowed).items():
            print(f"{variable}={text}")
        return 0
    ours = [*options(allowed), *printed_address(arguments)]
    shipped = {"run": defaults()}
    # Asked for the secrets, Streamlit has read its options; else it would warn that ours come late.
    config._config_options = None
    output.make_output_safe()  # before the log, which keeps where it writes
    output.begin_log(quotes=allowed.one_person)
    # On SIGTERM the server ends in good order and raises it again, which would end this process at once.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    words = ["run", str(FOLDER / "app.py"), *ours, *arguments]
    # Of click, a default counts less than an argument and than a variable of the environment.
    cli.main(words, prog_name="dashboard", default_map=shipped)
    return 0


class _PassedOn(click.Command):
    """A command that keeps the first `--`, behind which the arguments of the script stand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            args.insert(args.index("--"), "--")  # click drops the first
        return super().parse_args(ctx, args)


@click.command(
    cls=_PassedOn,
    name="app",
    context_settings={"ignore_unknown_options": True},
    help="Open the dashboard. Options of Streamlit may follow, such as --server.port=8600; --check prints "
    "the settings of the server and ends.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE",
    help="Python file that registers schemes of your own. May be repeated.",
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def start_app(options: tuple[str, ...], plugins: tuple[str, ...]) -> None:
    """End this process with the exit status of the server."""
    sys.exit(main(list(options), plugins))


if __name__ == "__main__":
    start_app(prog_name="python -m dashboard")
