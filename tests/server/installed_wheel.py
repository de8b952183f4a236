"""The wheel, built of a copy of the sources and installed in a new environment outside the checkout."""

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from tests.server.served_process import ROOT

SOURCES = ["posenc", "dashboard", ".streamlit/config.toml", "pyproject.toml", "README.md"]
ALONE = {"PYTHONPATH": ""}  # by which the checkout would be imported


@dataclass(frozen=True)
class InstalledWheel:
    """python: the interpreter that imports the wheel. outside: an empty folder, not in the checkout."""

    wheel: Path
    python: str
    outside: Path

    def run(
        self, *words: str, stdin: str = "", cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run the interpreter, by default in the folder outside the checkout; it must succeed."""
        ran = subprocess.run(
            [self.python, *words], input=stdin, cwd=cwd or self.outside, env=os.environ | ALONE | variables,
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran


def install_wheel(folder: Path) -> InstalledWheel:
    """Build the wheel and install it in a new environment, which has all other packages from this one."""
    # A copy, because a build in the checkout would leave files, and take those that an earlier one left.
    source, wheels, place = folder / "source", folder / "wheels", folder / "environment"
    for name in SOURCES:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    alone = ("--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    _pip("wheel", *alone, "--no-build-isolation", "-w", str(wheels), str(source))
    (wheel,) = wheels.glob("*.whl")
    venv.create(place, symlinks=True)
    python = str(place / "bin" / "python")
    # Before the other packages are seen: among them may be this checkout.
    _pip("--python", python, "install", *alone, str(wheel))
    words = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    others = [one for one in sys.path if Path(one).name in ("site-packages", "dist-packages")]
    (Path(packages) / "others.pth").write_text("\n".join(others))
    (outside := folder / "outside").mkdir()
    return InstalledWheel(wheel, python, outside)


def _pip(*words: str) -> None:
    command = [sys.executable, "-m", "pip", *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
