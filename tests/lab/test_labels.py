"""Labels of runs: who may change them, which names are text, what a kill leaves, and their command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies

from posenc.__main__ import main
from posenc.errors import RunError
from posenc.lab.labels import FOLDER, Label, Labels, check_name, hidden, is_owner, names
from tests.lab.small_runs import make_small_run
from tests.lab.worker_processes import killed_in_fork

pytestmark = pytest.mark.usefixtures("no_shape_checks")

RUN, OTHER = "0" * 20, "0123456789abcdef0123"
ANN, BOB = "ann@example.org", "bob@example.org"


@pytest.fixture(params=["folder", "bucket"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a folder, and a place of fsspec that stands for a bucket."""
    return str(tmp_path) if request.param == "folder" else f"memory://labels-{tmp_path.name}"


def test_label_is_read_back_by_another_server(url: str) -> None:
    ours, theirs = Labels(url), Labels(url)
    assert ours.all() == {}
    assert ours.add(Label(RUN, ANN, "First try"))
    assert theirs.all() == {RUN: (Label(RUN, ANN, "First try"),)}
    theirs.change(RUN, ANN, name="Second try")
    assert ours.all() == {RUN: (Label(RUN, ANN, "Second try"),)}
    assert not ours.add(Label(RUN, ANN, "Third"))
    assert ours.of(RUN, ANN) == Label(RUN, ANN, "Second try")


def test_only_the_owner_changes_a_label(url: str) -> None:
    labels = Labels(url)
    labels.add(Label(RUN, ANN, "Mine"))
    changes: list[dict[str, Any]] = [{"name": "Theirs"}, {"hidden": True}]
    for owner in (BOB, "", "Ann@example.org"):
        for change in changes:
            with pytest.raises(RunError, match="not yours"):
                labels.change(RUN, owner, **change)
    other = Label(RUN, BOB, "Another way", hidden=True)
    labels.put(other)
    assert set(labels.all()[RUN]) == {Label(RUN, ANN, "Mine"), other}


def test_run_is_hidden_when_all_its_owners_hide_it() -> None:
    ann, bob = Label(RUN, ANN, "A"), Label(RUN, BOB, "B")
    no_ann, no_bob = (replace(one, hidden=True) for one in (ann, bob))
    for labels, is_hidden, shown in (
        ((ann, bob), False, ("A", "B")), ((no_ann, bob), False, ("B",)),
        ((no_ann, no_bob), True, ()), ((), False, ()),
    ):  # fmt: skip
        assert (hidden(labels), names(labels)) == (is_hidden, shown)


GOOD_NAMES = ["a", "3 layers, base 500 (again)", "_x", "Ünïcode-1.0", "x" * 64, "名前"]
GOOD_NAMES += ["हिन्दी", "ไทยดี"]
BAD_NAMES = [
    "=cmd", "+1", "-1", "@x", " x", "x\n", "\tx", "<b>", "[a](b)", "a*b", "a`b", "x" * 65, "$x$", "a/b",
    "a:b", "a|b", "a\u202eb", "a\0b", "'x", "(x", ".x", "a\r\nb", "&amp;", "\u0301x",
    "x\u0300\u0301\u0302\u0303",
]  # fmt: skip


def test_names_are_words_that_could_be_nothing_but_text(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    for name in GOOD_NAMES:
        labels.put(Label(RUN, ANN, check_name(name)))
        assert names(labels.all()[RUN]) == (name,)
    assert check_name("Zoe\u0308 1") == "Zo\u00eb 1"
    for name in BAD_NAMES:
        with pytest.raises(RunError, match="begins with a letter, a digit or _"):
            check_name(name)
        with pytest.raises(RunError):
            labels.change(RUN, ANN, name=name)
    assert names(labels.all()[RUN]) == (GOOD_NAMES[-1],)


MARKUP = "=+@<>[]*`$|:/\\\"'\n\r\t#!~&"


@pytest.mark.parametrize("sign", MARKUP)
def test_sign_of_markup_is_refused_wherever_it_stands(sign: str) -> None:
    for name in (f"a{sign}b", f"{sign}a", f"a{sign}"):
        with pytest.raises(RunError):
            check_name(name)


@given(strategies.text(max_size=80))
def test_no_accepted_name_begins_a_formula_or_holds_markup(text: str) -> None:
    try:
        check_name(text)
    except RunError:
        return
    assert text[0].isalnum() or text[0] == "_"
    assert not set(text) & set(MARKUP)
    assert len(text) <= 64


def test_run_ids_and_owners_are_checked() -> None:
    for run_id in ("", "../x", "0" * 19, "0" * 21, "G" * 20, "0" * 19 + "\n"):
        with pytest.raises(RunError, match="20 hexadecimal"):
            Label(run_id)
    for good in (ANN, "Ann Example", "Łukasz", "x" * 128):
        assert is_owner(good)
    for bad in ("", " ", " ann", "a\nb", "a\u202eb", "a\u2028b", "a\0", "x" * 129):
        assert not is_owner(bad)
    with pytest.raises(RunError, match="owner"):
        Label(RUN, "a\nb")


def test_files_that_are_no_labels_are_ignored(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    labels.add(Label(RUN, ANN, "Good"))
    whole = Label(OTHER, BOB, "x")
    path = tmp_path / FOLDER / whole.file_name
    fine = {"run": OTHER, "owner": BOB, "name": "x", "hidden": False}
    for content in (
        b"", b"{", b"[]", b"[" * 50_000, b"\xff", b" " * 5_000,
        json.dumps(fine | {"run": RUN}).encode(),
        json.dumps(fine | {"owner": ANN}).encode(),
        json.dumps(fine | {"name": "=x"}).encode(),
        json.dumps({**fine, "name": None, "owner": 3}).encode(),
    ):  # fmt: skip
        path.write_bytes(content)
        assert labels.all() == {RUN: (Label(RUN, ANN, "Good"),)}
    path.write_text(json.dumps(fine))
    (tmp_path / FOLDER / "notes.txt").write_text("x")
    assert labels.all() == {RUN: (Label(RUN, ANN, "Good"),), OTHER: (whole,)}


def test_kill_leaves_the_old_name_or_the_new_one(tmp_path: Path) -> None:
    labels, old = Labels(tmp_path), Label(RUN, ANN, "old")
    for call, count in (("open", 1), ("fsync", 1), ("replace", 1), ("fsync", 2), ("unlink", 1)):
        labels.put(old)
        assert killed_in_fork(call, count, lambda: labels.put(Label(RUN, ANN, "new")))
        (label,) = Labels(tmp_path).all()[RUN]
        assert label.name == ("new" if (call, count) in (("fsync", 2), ("unlink", 1)) else "old")


def test_command_names_hides_and_lists(tmp_path: Path) -> None:
    store, run = make_small_run(tmp_path, "none", task="copy")

    def output(*words: str, status: int = 0) -> str:
        ran = CliRunner().invoke(main, [*words, "--store", store.url])
        assert ran.exit_code == status, ran.output
        return ran.output

    def label(*words: str) -> str:
        return output("label", run.run_id, *words)

    assert label("--name", "First try", "--owner", "ann") == f"{run.run_id}  First try for ann\n"
    assert "First try (ann)" in output("runs")
    label("--hide", "--owner", "ann")
    listed = output("runs")
    assert f"{run.run_id}  copy-16" not in listed
    assert "1 hidden" in listed
    assert "First try (ann), hidden" in output("runs", "--hidden")
    label("--show", "--owner", "ann")
    assert "not hidden for ann" in label("--hide", "--owner", "bob")  # so it stays in lists
    assert "First try (ann)" in output("runs")
    assert "no run" in output("label", RUN, "--name", "x", status=2)
    assert "20 hexadecimal" in output("label", "../../x", "--name", "x", status=2)
    assert "begins with a letter" in output("label", run.run_id, "--name", "=x", status=2)
    assert "--name, --hide or --show" in output("label", run.run_id, status=2)
