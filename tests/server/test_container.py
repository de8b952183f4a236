"""The container and what it is made of: one lock, hashes, nobody's root, and files that agree."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.installed_wheel import SOURCES
from tests.server.served_process import ROOT, free_port, load_script

FOLDER = ROOT / ".container"
LOCK = (FOLDER / "requirements.lock").read_text()
CONTAINERFILE = (FOLDER / "Containerfile").read_text()
supply = load_script(FOLDER / "supply.py")


def pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z][\w.-]*)==([^\s;#\\]+)", text, re.MULTILINE))


def test_lock_pins_the_versions_of_requirements_with_hashes_and_no_address() -> None:
    required = pins((ROOT / "requirements.txt").read_text())
    asked = pins((FOLDER / "requirements.in").read_text())
    assert asked == required | {"torch": required["torch"] + "+cpu"}
    locked = supply.locked()
    assert {name: locked[name] for name in asked} == asked
    assert len(locked) == len(re.findall(r"^[A-Za-z]", LOCK, re.MULTILINE)) > 40
    with pytest.raises(ValueError, match="click has no hash"):
        supply.locked("click==8.5.1 \\\n    # via x\ntqdm==4.70.1 --hash=sha256:" + "0" * 64)
    assert not re.search(r"://|--index|--find|--extra|@ |nvidia|cuda|triton", LOCK)


def test_container_listens_on_all_addresses() -> None:
    command = json.loads(re.findall(r"^CMD (\[.*\])", CONTAINERFILE, re.MULTILINE)[-1])
    assert "--server.address=0.0.0.0" in command


def test_container_is_built_of_all_files_of_the_wheel() -> None:
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE.split("\nFROM")[1], re.MULTILINE
    )
    assert {*SOURCES} <= {name for line in copied for name in line.split()}
    sent = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert {*SOURCES} <= {*sent}


def test_scripts_are_executable_and_the_health_check_fails_without_a_server() -> None:
    for name in ("install", "check", "health"):
        assert (FOLDER / name).stat().st_mode & 0o111
        if (FOLDER / name).read_text().startswith("#!/usr/bin/env bash"):
            subprocess.run(["bash", "-n", str(FOLDER / name)], check=True)
    health = [sys.executable, str(FOLDER / "health"), str(free_port())]
    assert subprocess.run(health, capture_output=True, check=False).returncode == 1


Found = list[dict[str, object]]


def test_audit_covers_every_locked_package_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def answering(change: Callable[[Found], Found], status: int = 0) -> Callable[..., object]:
        def ask(packages: list[str], service: str) -> tuple[int, Found]:
            split = (one.split("==") for one in packages)
            found: Found = [{"name": name, "version": said, "vulns": []} for name, said in split]
            return status, change(found) if len(found) > 1 else found

        return ask

    whole = supply.audit(answering(lambda found: found))
    assert whole.startswith(f"{len(supply.locked())} packages audited")
    for change, status, sentence in (
        (lambda found: found[1:], 0, r"\d+ of \d+ packages were audited"),
        (lambda found: [found[0] | {"skip_reason": "x"}, *found[1:]], 0, r"\d+ of \d+ packages"),
        (lambda found: [found[0] | {"vulns": ["CVE-0"]}, *found[1:]], 0, "against altair"),
        (lambda found: found, 1, "against them"),
    ):
        with pytest.raises(ValueError, match=sentence):
            supply.audit(answering(change, status))
    monkeypatch.delenv("POSENC_REQUIRE_AUDIT", raising=False)
    assert supply.audit(lambda *_: (1, [])).startswith("not audited: no service")
    monkeypatch.setenv("POSENC_REQUIRE_AUDIT", "1")
    with pytest.raises(ValueError, match="No service"):
        supply.audit(lambda *_: (1, []))


def test_bill_of_materials_without_a_locked_package_is_refused(tmp_path: Path) -> None:
    parts = [{"name": name, "version": version} for name, version in supply.locked().items()]
    path = tmp_path / "bill.json"
    path.write_text(json.dumps({"components": parts[1:]}))
    with pytest.raises(ValueError, match="differ"):
        supply.bill(path)
