#!/usr/bin/env python3
"""What a server is made of: `supply.py bill FILE` and `supply.py audit PYTHON`, both against the lock.

bill: whether a bill of materials (CycloneDX, JSON) names every package of the lock and its version.
audit: ask pip-audit, installed for PYTHON, what is known against them. It must have audited as many as are
locked, because it says nothing of those that it left out; where no service of vulnerabilities answers,
that is said, and it is no fault unless POSENC_REQUIRE_AUDIT is 1.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

LOCK = Path(__file__).with_name("requirements.lock")
SERVICES = ("pypi", "osv")
Ask = Callable[[list[str], str], "tuple[int, list[dict[str, object]]]"]


def locked(text: str | None = None) -> dict[str, str]:
    """Return the version of every package of the lock. Raises ValueError for one without a hash."""
    text = LOCK.read_text() if text is None else text
    found = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", text):
        pinned = re.match(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", block)
        if pinned is None:
            continue
        if not re.search(r"--hash=sha256:[0-9a-f]{64}", block):
            raise ValueError(f"{pinned[1]} has no hash.")
        found[re.sub(r"[-_.]+", "-", pinned[1]).lower()] = pinned[2]
    return found


def bill(path: Path) -> str:
    """Say how many packages a bill names. Raises ValueError unless it names those of the lock."""
    parts = json.loads(path.read_text())["components"]
    named = {re.sub(r"[-_.]+", "-", one["name"]).lower(): one["version"] for one in parts}
    if named != locked():
        differ = sorted(set(named.items()) ^ set(locked().items()))
        raise ValueError(f"The bill of materials and the lock differ: {differ}.")
    return f"{len(named)} packages, as locked"


def audit(ask: Ask) -> str:
    """Say what is known against the lock. Raises ValueError for what is known, or was not looked at."""
    # A local part such as +cpu names a build; what is known is known of the version.
    asked = [f"{name}=={version.partition('+')[0]}" for name, version in locked().items()]
    for service in SERVICES:
        status, found = ask(["pip==24.0"], service)  # a release that has been there for long
        if len(found) != 1:
            continue  # nobody answers
        status, found = ask(asked, service)
        left_out = [one["name"] for one in found if "skip_reason" in one]
        if left_out or len(found) != len(asked):
            raise ValueError(f"{len(found) - len(left_out)} of {len(asked)} packages were audited.")
        known = [f"{one['name']} {one['version']}" for one in found if one["vulns"]]
        if known or status:
            raise ValueError(f"Something is known against {', '.join(known) or 'them'}.")
        return (
            f"{len(found)} packages audited, as locked; nothing is known against them ({service})"
        )
    if os.environ.get("POSENC_REQUIRE_AUDIT") == "1":
        raise ValueError("No service of vulnerabilities answers.")
    return "not audited: no service of vulnerabilities answers here"


def pip_audit(python: str) -> Ask:
    """Return what asks pip-audit: its exit status, and what it found of each package."""

    def ask(packages: list[str], service: str) -> tuple[int, list[dict[str, object]]]:
        with tempfile.TemporaryDirectory() as folder:
            asked, answer = Path(folder, "asked.txt"), Path(folder, "answer.json")
            asked.write_text("\n".join(packages))
            words = ["--strict", "--no-deps", "--disable-pip", "--progress-spinner", "off"]
            words += ["-s", service, "-r", str(asked), "-f", "json", "-o", str(answer)]
            ran = subprocess.run(
                [python, "-m", "pip_audit", *words], capture_output=True, timeout=600, check=False
            )
            if not answer.exists():
                return ran.returncode, []
            return ran.returncode, json.loads(answer.read_text())["dependencies"]

    return ask


def main(arguments: list[str]) -> int:
    """Do what is asked; 1 where something is wrong."""
    try:
        if len(arguments) == 2 and arguments[0] == "bill":
            print(bill(Path(arguments[1])))
        elif len(arguments) == 2 and arguments[0] == "audit":
            print(audit(pip_audit(arguments[1])))
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
