"""Tests of pages with the schemes of a plugin, run by test_new_entries.py where it is loaded first."""

import math
from pathlib import Path

import pytest

from tests.dashboard.pages import PLACES, drawn, exported, opened, script_of, visit, visit_place
from tests.dashboard.script_runner import run

pytestmark = pytest.mark.usefixtures("no_shape_checks")


@pytest.mark.usefixtures("fixed_speed")
@pytest.mark.parametrize("place", PLACES)
def test_schemes_with_one_hook_open_and_export_with_every_page(place: str) -> None:
    link = {"schemes": "rope,ramp,growth,root", "length": "30", "train_length": "20"}
    at = drawn(visit_place(place, link, **opened()))
    assert {"README.txt", "settings.json"} < {*exported(at)}


def test_script_of_a_page_loads_the_file_of_its_schemes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    at = drawn(visit("similarity", {"schemes": "alibi,root", "length": "30"}, **opened()))
    script = script_of(at)
    assert "\nposenc.load_plugin('one_hook_each.py')\nrequests = {" in script
    printed = run(script)
    assert printed.returncode == 0, printed.stderr
    assert f"\nRoot,29,{math.exp(-math.sqrt(29)):.9f}"[:-2] in printed.stdout
