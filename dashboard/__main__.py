"""A hosted server: `python -m dashboard`, with the settings of the environment and Streamlit's options.

A setting that cannot be used ends it before anything is served, with one sentence that names the
variable. `--check` says what the settings are and ends.
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from streamlit import config
from streamlit.web import cli

from dashboard import counters, logs, server_settings, visitor
from dashboard.server_settings import ServerSettingError, ServerSettings

FOLDER = Path(__file__).parent


def options(allowed: ServerSettings) -> list[str]:
    """Return the options of Streamlit that these settings mean."""
    # The text of an upload that no page asks for is not worth its memory either.
    most = allowed.upload_mb if allowed.uploads else 1
    found = [f"--server.maxUploadSize={most}", f"--server.baseUrlPath={allowed.base_path}"]
    found += [f"--server.allowedHosts={host}" for host in allowed.hosts.split(",") if host]
    if allowed.user_header:
        known = json.dumps({allowed.user_header: visitor.KEY})
        found.append(f"--server.trustedUserHeaders={known}")
    return found


def main(arguments: list[str]) -> int:
    """Serve until the process is told to end; 2 for settings that cannot be used."""
    if (FOLDER.parent / ".streamlit").is_dir():  # where config.toml and secrets.toml lie
        os.chdir(FOLDER.parent)
    try:
        allowed = server_settings.current()
    except ServerSettingError as error:
        print(f"posenc: {error}", file=sys.stderr)
        return 2
    if arguments == ["--check"]:
        values = asdict(allowed)
        for variable, one in server_settings.FIELDS.items():
            print(f"{variable}={values[one.name]}")
        return 0
    # Asked for the secrets, Streamlit has read its options; else it would warn that ours come late.
    config._config_options = None
    logs.install()
    counters.here.serve()
    cli.main(["run", str(FOLDER / "app.py"), *options(allowed), *arguments], prog_name="dashboard")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
