"""The server: `posenc app`, with the settings of the environment and the options of Streamlit.

A setting that cannot be used ends it before anything is served, with one sentence that names the
variable. `--check` says what the settings are and ends.
"""

import itertools
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from streamlit import config
from streamlit.web import cli

from dashboard.server import identity, logs, settings
from dashboard.server.settings import ServerSettingError, ServerSettings
from posenc.checkpoints.file_store import ENVIRONMENT, WORK_ENVIRONMENT

FOLDER = Path(__file__).parent
THIS_MACHINE = "127.0.0.1"
MOST_COOKIES = 64 * 2**10  # bytes, as the proxy of .deploy takes


def options(allowed: ServerSettings, arguments: Sequence[str] = ()) -> list[str]:
    """Return the options of Streamlit that these settings mean, beside those of the command line.

    Who can reach a server past its proxy can say in the header who they are. With one, only this machine
    is listened to, unless the command line, Streamlit's environment or its config.toml has an address.
    """
    # The text of an upload that no page asks for is not worth its memory either.
    most = allowed.upload_mb if allowed.uploads else 1
    ours = [f"--server.maxUploadSize={most}", f"--server.baseUrlPath={allowed.base_path}"]
    ours += [f"--server.allowedHosts={host}" for host in allowed.hosts.split(",") if host]
    if allowed.user_header:
        known = json.dumps({allowed.user_header: identity.KEY})
        ours.append(f"--server.trustedUserHeaders={known}")
        if not _has_address(arguments):
            ours.append(f"--server.address={THIS_MACHINE}")
    return ours


def _has_address(arguments: Sequence[str]) -> bool:
    ours = itertools.takewhile(lambda word: word != "--", arguments)  # what follows is the script's
    if any(word.partition("=")[0] == "--server.address" for word in ours):
        return True
    # Streamlit's command line takes the variable as its option: it is not among what is read so far.
    return bool(os.environ.get("STREAMLIT_SERVER_ADDRESS") or config.get_option("server.address"))


def _make_folders_absolute() -> None:
    """Resolve relative folders of the environment where the command was given."""
    for variable in (ENVIRONMENT, WORK_ENVIRONMENT):
        folder = os.environ.get(variable)
        if folder and "://" not in folder:
            os.environ[variable] = os.path.abspath(folder)


def main(arguments: list[str]) -> int:
    """Serve until the process is told to end; 2 for settings that cannot be used."""
    if (FOLDER.parent / ".streamlit").is_dir():  # where config.toml and secrets.toml lie
        _make_folders_absolute()
        os.chdir(FOLDER.parent)
    try:
        allowed = settings.current()
        settings.check_places(allowed)
        identity.offered()
    except ServerSettingError as error:
        print(f"posenc: {error}", file=sys.stderr)
        return 2
    if "--check" in arguments:
        useless = [f"{one} is no variable of a server; it" for one in settings.unknown()]
        if identity.passed_over():
            useless.append("[auth] of secrets.toml")
        for one in useless:
            print(f"posenc: {one} changes nothing.", file=sys.stderr)
        for variable, text in settings.as_variables(allowed).items():
            print(f"{variable}={text}")
        return 0
    ours = options(allowed, arguments)
    # Asked for the secrets, Streamlit has read its options; else it would warn that ours come late.
    config._config_options = None
    if identity.offered():
        # The cookies of somebody in many groups; else a page of theirs would never connect again.
        os.environ.setdefault("WEBSOCKETS_MAX_LINE_LENGTH", str(MOST_COOKIES))
    logs.make_output_safe()  # before the log, which keeps where it writes
    logs.install()
    # On SIGTERM the server ends in good order and raises it again, which would end this process at once.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    cli.main(["run", str(FOLDER / "app.py"), *ours, *arguments], prog_name="dashboard")
    return 0


@click.command(
    name="app",
    context_settings={"ignore_unknown_options": True},
    help="Open the dashboard. Options of Streamlit may follow, such as --server.port=8600; --check prints "
    "the settings of the server and ends.",
)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def start_app(options: tuple[str, ...]) -> None:
    """End this process with the exit status of the server."""
    sys.exit(main(list(options)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
