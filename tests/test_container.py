"""The container and what it is made of: one lock, hashes, nobody's root, and files that agree."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dashboard import server_settings
from dashboard.__main__ import options
from tests.served_process import ROOT, free_port

FOLDER = ROOT / ".container"
LOCK = (FOLDER / "requirements.lock").read_text()


def load() -> Any:
    spec = importlib.util.spec_from_file_location("supply", FOLDER / "supply.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


supply = load()


def pins(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z][\w.-]*)==([^\s;#\\]+)", text, re.MULTILINE))


def test_the_lock_has_what_is_required_at_the_same_version() -> None:
    required = pins((ROOT / "requirements.txt").read_text())
    asked = pins((FOLDER / "requirements.in").read_text())
    assert len(required) > 15
    assert asked == required | {"torch": required["torch"] + "+cpu"}
    locked = supply.locked()
    assert {name: locked[name] for name in asked} == asked
    assert len(locked) == len(re.findall(r"^[A-Za-z]", LOCK, re.MULTILINE)) > 40


def test_everything_locked_has_a_hash_and_nothing_a_place() -> None:
    supply.locked()
    with pytest.raises(ValueError, match="click has no hash"):
        supply.locked("click==8.5.1 \\\n    # via x\ntqdm==4.70.1 --hash=sha256:" + "0" * 64)
    assert not re.search(r"://|--index|--find|--extra|@ ", LOCK)
    assert not re.search(r"nvidia|cuda|triton", LOCK)


def test_no_file_of_a_deployment_names_a_host_but_public_ones() -> None:
    public = {"docker.io", "download.pytorch.org", "127.0.0.1", "demo.example.org", "servers"}
    for path in [*FOLDER.iterdir(), *(ROOT / ".deploy").iterdir()]:
        for host in re.findall(r"https?://([\w.-]+)", path.read_text()):
            assert host in public, path


def test_the_image_is_made_by_the_steps_that_ci_checks() -> None:
    text = (FOLDER / "Containerfile").read_text()
    check = (FOLDER / "check").read_text()
    assert ".container/install /opt/posenc" in text
    assert '.container/install "$folder/posenc"' in check
    users = re.findall(r"^USER (\S+)", text, re.MULTILINE)
    assert users == ["10001:10001"]
    assert "--reuid 10001 --regid 10001" in check
    assert 'env "$one" -c \'import sys, ensurepip' in check  # as what runs it is found, too
    assert text.index("USER 10001") < text.index("CMD [")
    command = json.loads(re.findall(r"^CMD (\[.*\])", text, re.MULTILINE)[-1])
    assert command[:3] == ["python", "-m", "dashboard"]
    assert "HEALTHCHECK" in text
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        for name in source.split():
            assert (ROOT / name).exists(), name
            ignored = (ROOT / ".dockerignore").read_text()
            assert any(f"!{part}" in ignored for part in (name, name.split("/")[0])), name


def environment(text: str) -> dict[str, str]:
    """The words NAME=value of a text, without those that name places."""
    found = dict(re.findall(r"\b([A-Z][A-Z_]+)=(\S+)", text))
    return {name: value for name, value in found.items() if not re.search(r"[/$]", value)}


def test_a_server_is_checked_and_documented_with_the_environment_of_the_image() -> None:
    (image,) = re.findall(
        r"^ENV ((?:.+\\\n)*.+)", (FOLDER / "Containerfile").read_text(), re.MULTILINE
    )
    wanted = environment(image)
    assert {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "OMP_NUM_THREADS"} < set(wanted)
    check = (FOLDER / "check").read_text()
    (start,) = re.findall(r"^image=\(((?:.+\n)+?.*)\)$", check, re.MULTILINE)
    assert environment(start) == wanted
    assert check.count('env -i "${image[@]}"') == check.count("env -i ") == 3
    section = (ROOT / "README.md").read_text().partition("## Deployment")[2]
    (command,) = re.findall(r"```bash\n((?:.+\n)+?)```", section)[:1]
    assert "python -m dashboard" in command
    assert environment(command) | {"PYTHONUNBUFFERED": "1"} == wanted


def test_ci_keeps_the_bill_of_materials_where_git_ignores_it() -> None:
    (place,) = re.findall(
        r"^\.container/check(.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE
    )
    assert re.fullmatch(r" \S+", place)
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    assert f"{place.strip()}/" in ignored
    assert f"`{place.strip()}`" in (ROOT / "README.md").read_text()


def test_the_container_is_reached_from_outside_whoever_is_known() -> None:
    text = (FOLDER / "Containerfile").read_text()
    command = json.loads(re.findall(r"^CMD (\[.*\])", text, re.MULTILINE)[-1])
    known = server_settings.read({"POSENC_USER_HEADER": "X-Posenc-User"})
    assert "--server.address=0.0.0.0" in command
    assert not [one for one in options(known, command[3:]) if "server.address" in one]


@pytest.mark.parametrize("name", ["install", "check", "health", "Containerfile"])
def test_scripts_can_be_read_and_run(name: str) -> None:
    path = FOLDER / name
    if name == "Containerfile":
        assert not path.stat().st_mode & 0o111
        return
    assert path.stat().st_mode & 0o111
    if path.read_text().startswith("#!/usr/bin/env bash"):
        subprocess.run(["bash", "-n", str(path)], check=True)


def test_health_is_a_failure_where_nobody_answers() -> None:
    ran = subprocess.run(
        [sys.executable, str(FOLDER / "health"), str(free_port())], capture_output=True, check=False
    )
    assert ran.returncode == 1


# The audit ----------------------------------------------------------------------------------------


def answer(packages: list[str], **vulns: list[str]) -> list[dict[str, object]]:
    split = [one.split("==") for one in packages]
    return [
        {"name": a, "version": b, "vulns": vulns.get(a.replace("-", "_"), [])} for a, b in split
    ]


def test_an_audit_counts_what_was_looked_at() -> None:
    asked: list[list[str]] = []

    def ask(packages: list[str], service: str) -> tuple[int, list[dict[str, object]]]:
        asked.append(packages)
        return 0, answer(packages)

    assert supply.audit(ask).startswith(f"{len(supply.locked())} packages audited, as locked")
    assert f"torch=={pins(LOCK)['torch'].removesuffix('+cpu')}" in asked[1]


def test_an_audit_that_left_something_out_fails() -> None:
    for cut in (
        lambda found: found[:-1],
        lambda found: [*found[:-1], found[-1] | {"skip_reason": "x"}],
    ):

        def ask(packages: list[str], service: str, cut: Any = cut) -> Any:
            found = answer(packages)
            return 0, cut(found) if len(found) > 1 else found

        with pytest.raises(ValueError, match=r"\d+ of \d+ packages were audited"):
            supply.audit(ask)


def test_an_audit_fails_on_what_is_known() -> None:
    with pytest.raises(ValueError, match="against streamlit"):
        supply.audit(lambda packages, service: (1, answer(packages, streamlit=["CVE-0"])))


def test_an_audit_that_nobody_answers_is_said_or_required(monkeypatch: pytest.MonkeyPatch) -> None:
    services = []

    def ask(packages: list[str], service: str) -> tuple[int, list[dict[str, object]]]:
        services.append(service)
        return 1, []

    monkeypatch.delenv("POSENC_REQUIRE_AUDIT", raising=False)
    assert supply.audit(ask) == "not audited: no service of vulnerabilities answers here"
    assert services == ["pypi", "osv"]
    monkeypatch.setenv("POSENC_REQUIRE_AUDIT", "1")
    with pytest.raises(ValueError, match="No service"):
        supply.audit(ask)


def test_a_bill_names_every_package(tmp_path: Path) -> None:
    parts = [{"name": name, "version": version} for name, version in supply.locked().items()]
    path = tmp_path / "bill.json"
    path.write_text(json.dumps({"components": parts}))
    assert supply.bill(path) == f"{len(parts)} packages, as locked"
    path.write_text(json.dumps({"components": parts[1:]}))
    with pytest.raises(ValueError, match="differ"):
        supply.bill(path)
