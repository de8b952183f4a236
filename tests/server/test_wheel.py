"""The wheel outside the checkout: the same app as in the checkout, the shipped runs, and its metadata."""

import email
import json
import shlex
import socket
import tomllib
import zipfile
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.browser import DASHBOARD, Visitor
from tests.longer import mostly
from tests.server.installed_wheel import ALONE, InstalledWheel, install_wheel
from tests.server.served_process import ROOT, Served, server, visiting


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledWheel:
    return install_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def apps(
    installed: InstalledWheel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Served, Served]]:
    """The app of the checkout, and that of the wheel, started outside the checkout."""
    folder = tmp_path_factory.mktemp("apps")
    python, cwd = installed.python, installed.outside
    with (
        server(folder, "checkout", ("streamlit", "run", str(DASHBOARD))) as checkout,
        server(folder, "wheel", ("posenc", "app"), python=python, cwd=cwd, **ALONE) as wheel,
    ):
        yield checkout, wheel


def test_tested_package_is_the_one_of_the_wheel(installed: InstalledWheel) -> None:
    printed = installed.run(
        "-c", "import posenc, dashboard; print(posenc.__path__, dashboard.__path__)"
    )
    assert printed.stdout.count(str(Path(installed.python).parents[1])) == 2, printed.stdout


@pytest.mark.long
def test_app_of_the_wheel_tells_browsers_what_that_of_the_checkout_tells(
    apps: tuple[Served, Served],
) -> None:
    told = []
    for app in apps:
        with visiting(app) as messages:
            (new,) = [
                one.new_session for one in messages if one.WhichOneof("type") == "new_session"
            ]
        assert new.config.gather_usage_stats is False
        told.append((new.config, new.custom_theme))
    assert told[0] == told[1]


LOOK = """() => {
  const style = (place) => {
    const {color, backgroundColor, fontFamily, fontSize, fontWeight} =
      getComputedStyle(document.querySelector(place));
    return {color, backgroundColor, fontFamily, fontSize, fontWeight};
  };
  const places = ["body", "[data-testid=stApp]", "[data-testid=stMain] h1", "[data-testid=stMain] p",
    "[data-testid=stSidebar]", "[data-testid=stMain] button", "[data-testid=stHeader]"];
  const ids = [...document.querySelectorAll("[data-testid=stToolbar] [data-testid]")];
  return {
    styles: Object.fromEntries(places.map((place) => [place, style(place)])),
    toolbar: ids.map((element) => element.dataset.testid),
  };
}"""


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_app_of_the_wheel_looks_like_that_of_the_checkout(
    scheme: str, apps: tuple[Served, Served], chromium: Browser
) -> None:
    looks = []
    for app in apps:
        visitor = Visitor(chromium, app.address, color_scheme=scheme)
        page = visitor.open()
        looks.append(page.evaluate(LOOK))
        assert "stAppDeployButton" not in looks[-1]["toolbar"]
        assert visitor.faults == []  # a request to another host is one
        visitor.context.close()
    assert looks[0] == looks[1]
    colors = THEME[scheme]
    assert (
        rgb(colors["backgroundColor"])
        == looks[1]["styles"]["[data-testid=stApp]"]["backgroundColor"]
    )


CONFIG = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
THEME = CONFIG["theme"]


def rgb(color: str) -> str:
    return f"rgb({', '.join(str(byte) for byte in bytes.fromhex(color[1:]))})"


def test_server_answers_this_machine_alone_by_default(apps: tuple[Served, Served]) -> None:
    """A server that listens on every address answers on all of 127.0.0.0/8."""
    for app in apps:
        with socket.create_connection(("127.0.0.1", app.port), timeout=20):
            pass
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", app.port), timeout=20)


# Prints the options that Streamlit has when it would begin to serve.
PRINT_OPTIONS = """
import json, sys
from streamlit import config
from streamlit.web import bootstrap
from dashboard import __main__ as launcher

names = sys.stdin.read().split()
bootstrap.run_asgi_app = lambda *_: print(json.dumps({name: config.get_option(name) for name in names}))
launcher.main(sys.argv[1:])
"""


def options_by_name(tables: dict[str, Any], section: str = "") -> dict[str, Any]:
    options: dict[str, Any] = {}
    for key, value in tables.items():
        name = f"{section}{key}"
        options |= options_by_name(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return options


SHIPPED = options_by_name(CONFIG)
ADDRESS, COLOR = "server.address", "theme.light.primaryColor"
OWN = f'{ADDRESS} = "10.0.0.1"\n{COLOR} = "#123456"\n'
CHOICES: dict[str, tuple[str, dict[str, str], list[str], dict[str, Any]]] = {
    "nothing": ("", {}, [], {}),
    "config.toml": (OWN, {}, [], {ADDRESS: "10.0.0.1", COLOR: "#123456"}),
    "a variable": (OWN, {"STREAMLIT_SERVER_ADDRESS": "::"}, [], {ADDRESS: "::", COLOR: "#123456"}),
    "an argument": (OWN, {}, [f"--{COLOR}=#654321"], {ADDRESS: "10.0.0.1", COLOR: "#654321"}),
    "a trusted header": ("", {"POSENC_USER_HEADER": "X-User"}, ["--", f"--{ADDRESS}=::"], {}),
}


@pytest.mark.parametrize("choice", mostly(CHOICES, "nothing", "an argument"))
def test_wheel_has_the_options_of_the_checkout_unless_the_user_sets_others(
    choice: str, installed: InstalledWheel, tmp_path: Path
) -> None:
    own, variables, arguments, changed = CHOICES[choice]
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "config.toml").write_text(own)
    home = {"HOME": str(tmp_path / "home"), "POSENC_WORK": str(tmp_path)}
    words, names = ("-c", PRINT_OPTIONS, *arguments), " ".join(SHIPPED)
    printed = installed.run(*words, cwd=tmp_path, stdin=names, **home, **variables)
    options = json.loads(printed.stdout.splitlines()[-1])
    for name, value in options.items():
        if isinstance(value, str) and not isinstance(SHIPPED[name], str):  # as on a command line
            options[name] = json.loads(value)
    assert options == SHIPPED | changed


def test_wheel_lists_the_shipped_runs_in_any_folder(installed: InstalledWheel) -> None:
    lines = installed.run("-m", "posenc", "runs", "--store", "shipped").stdout.splitlines()
    shipped = {path.stem for path in (ROOT / "posenc" / "lab" / "results").glob("*.parquet")}
    assert {line[:20] for line in lines} >= shipped != set()


def test_hint_for_a_missing_package_works_where_the_wheel_lies(installed: InstalledWheel) -> None:
    code = "from posenc.text import install_command; print(install_command('hub'))"
    pip, *words = shlex.split(installed.run("-c", code).stdout)
    assert (pip, *words) == ("pip", "install", f"{installed.wheel.name}[hub]")
    alone = ["--no-deps", "--no-index", "--dry-run", "--force-reinstall"]
    ran = installed.run("-m", pip, *words, *alone, cwd=installed.wheel.parent)
    assert f"Would install posenc-{installed.wheel.name.split('-')[1]}" in ran.stdout


@pytest.fixture(scope="module")
def metadata(installed: InstalledWheel) -> Message:
    with zipfile.ZipFile(installed.wheel) as file:
        (name,) = [one for one in file.namelist() if one.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(file.read(name))


def test_metadata_describes_the_package_by_the_readme(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert text.lstrip().startswith("# posenc\n")
    assert "](https://arxiv.org/" in text
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    assert metadata["Summary"]
    assert "Programming Language :: Python :: 3" in metadata.get_all("Classifier", [])
