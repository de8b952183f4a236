"""What names a run: every field of it counts, what is equal has one name, nonsense is refused."""

import dataclasses
import json
from typing import Any

import pytest

from posenc import ConfigError, Setting
from posenc.errors import RunError, RunOfAnotherVersion
from posenc.lab import Specification
from posenc.lab.model import ModelConfig
from posenc.lab.summary import comparison
from posenc.lab.tasks import Language
from posenc.schemes import SCHEMES
from posenc.schemes.rope import RopeConfig
from posenc.schemes.rope_scaling import ROPE_SCALINGS
from posenc.schemes.scheme import SchemeConfig
from tests.conftest import alternatives
from tests.small_runs import small


def changed(specification: Specification, **others: Any) -> Specification:
    return dataclasses.replace(specification, **others)


def other_configs(config: SchemeConfig) -> dict[str, SchemeConfig]:
    """The config with one field changed, for every field."""
    found: dict[str, SchemeConfig] = {}
    for field in dataclasses.fields(config):
        now, rule = getattr(config, field.name), field.metadata.get("rule")
        choices = list(alternatives(rule)) if rule is not None else []
        choices += ["minilm", "trained"] if field.name == "source" else []
        choices += [now // 2, now * 2] if type(now) is int else []
        choices += [now / 2] if type(now) is float else []
        for value in choices:
            if value == now:
                continue
            try:
                found[field.name] = config.replace(**{field.name: value})
            except ConfigError:
                continue
    return found


def test_the_name_changes_with_every_field_of_the_specification() -> None:
    plain = small()
    others: dict[str, Any] = {
        "scheme": small("alibi").scheme, "corpus": "0" * 64,
        "train_length": 17, "steps": 13, "batch": 5, "learning_rate": 0.011, "weight_decay": 0.2,
        "seed": 1, "longest": 5, "segments": 9, "device": "cuda", "threads": 2, "compiled": True,
        "scalings": ("rope_yarn",),
        "versions": (("posenc", "0.0"), ("torch", "2.0")),
        "model": dataclasses.replace(plain.model, layers=2),
    }  # fmt: skip
    names = {plain.run_id, changed(plain, task="copy", corpus="").run_id,
             changed(plain, task="recall", corpus="").run_id}  # fmt: skip
    for name, value in others.items():
        names.add(changed(plain, **{name: value}).run_id)
    assert {field.name for field in dataclasses.fields(plain)} == {*others, "task", "corpus_name"}
    assert len(names) == len(others) + 3
    assert all(len(name) == 20 and int(name, 16) >= 0 for name in names)


def test_the_same_text_under_another_name_is_the_same_run() -> None:
    plain, other = small(), changed(small(), corpus_name="another title")
    assert plain.record != other.record  # people are told which name it had
    assert (plain.run_id, comparison(plain)) == (other.run_id, comparison(other))
    assert plain == other
    assert Specification.from_record(other.record).corpus_name == "another title"


def test_the_name_changes_with_every_field_of_the_model() -> None:
    plain = small("none")
    sizes = {"layers": 2, "width": 32, "heads": 4}
    models = [dataclasses.replace(plain.model, **{name: value}) for name, value in sizes.items()]
    assert set(sizes) == {field.name for field in dataclasses.fields(plain.model)}
    assert len({plain.run_id, *(changed(plain, model=model).run_id for model in models)}) == 4


def model_for(config: SchemeConfig, model: ModelConfig) -> ModelConfig:
    """The model, of the width and heads that a scheme asks for."""
    heads = getattr(config, "heads", model.heads)
    width = getattr(config, "dim", model.width)
    width *= heads if config.shared.get("dim") in ("rope_width", "head_dim") else 1
    return dataclasses.replace(model, heads=heads, width=width)


def trained_on(config: SchemeConfig, otherwise: int = 16) -> int:
    """The training length that a scheme asks for: a row for every position, or its text's length."""
    return int(getattr(config, "max_len", getattr(config, "length", otherwise)))


def test_the_name_changes_with_every_field_of_the_scheme(kind: str) -> None:
    plain = small(kind)
    others = other_configs(plain.scheme)
    assert set(others) == {field.name for field in dataclasses.fields(plain.scheme)} - {"kind"}
    names = {plain.run_id}
    for config in others.values():
        # A size is the model's too: what counts is that the record tells both.
        other = changed(
            plain,
            scheme=config,
            model=model_for(config, plain.model),
            train_length=trained_on(config, plain.train_length),
        )
        assert other.record["scheme"] == config.record()
        names.add(other.run_id)
    assert len(names) == 1 + len(others)


@pytest.mark.parametrize("kind", ["rope", *ROPE_SCALINGS])
def test_every_scaling_of_rope_comes_back_from_its_record(kind: str) -> None:
    specification = small(kind)
    back = Specification.from_record(json.loads(json.dumps(specification.record)))
    assert back == specification
    assert back.run_id == specification.run_id
    assert (back.run_id == small("rope").run_id) == (kind == "rope")


def test_plain_rope_is_recorded_as_while_its_config_held_a_scaling() -> None:
    record = small("rope").record["scheme"]
    assert record == {
        "kind": "rope", "dim": 8, "base": 10_000.0, "layout": "interleaved",
        "partial_rotary_factor": 1.0, "scaling": {"kind": "none"},
    }  # fmt: skip
    assert RopeConfig.from_record(record) == RopeConfig(dim=8)
    with pytest.raises(ConfigError, match="rope_linear"):
        RopeConfig.from_record(record | {"scaling": {"kind": "linear", "factor": 2.0}})


def test_scalings_are_told_apart_where_something_is_read_by_them() -> None:
    plain, alibi = small("rope"), small("alibi")
    assert "scalings" not in plain.record  # as runs were named before there was a choice
    other = changed(plain, scalings=("rope_linear", "rope_yarn"))
    assert other.run_id != plain.run_id
    assert comparison(other) == comparison(plain)
    assert Specification.from_record(json.loads(json.dumps(other.record))) == other
    assert changed(alibi, scalings=("rope_yarn",)) == alibi


def test_a_specification_comes_back_from_its_record(variant: str, config: SchemeConfig) -> None:
    model = dataclasses.replace(small().model, width=80, heads=10)
    length = max(trained_on(config), 16)
    if hasattr(config, "length"):
        config = config.replace(length=length)
    specification = changed(small(), model=model, scheme=config, train_length=length)
    back = Specification.from_record(json.loads(json.dumps(specification.record)))
    assert back == specification
    assert back.run_id == specification.run_id
    assert back.versions == specification.versions


def test_equal_specifications_have_one_name(no_shape_checks: None) -> None:
    """1 and 1.0 are equal, and JSON writes them apart."""
    long = small("rope_longrope").scheme
    for first, second in (
        (changed(small(), weight_decay=1), changed(small(), weight_decay=1.0)),
        (
            changed(small(), scheme=small().scheme.replace(base=500)),
            changed(small(), scheme=small().scheme.replace(base=500.0)),
        ),
        (
            changed(small("rope_longrope"), scheme=long.replace(long_factor=(1, 2, 3, 4))),
            changed(small("rope_longrope"), scheme=long.replace(long_factor=(1.0, 2.0, 3.0, 4.0))),
        ),
        (
            changed(small(), scheme=SCHEMES["rope_linear"](dim=8, factor=2)),
            changed(small(), scheme=SCHEMES["rope_linear"](dim=8, factor=2.0)),
        ),
    ):
        assert first == second
        assert first.run_id == second.run_id


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: record.pop("scheme"),
        lambda record: record.pop("protocol"),
        lambda record: record.update(colour="red"),
        lambda record: record.update(scheme="rope"),
        lambda record: record.update(versions=3),
        lambda record: record["scheme"].update(colour="red"),
        lambda record: record["model"].pop("layers") and record["model"].update(depth=1),
        lambda record: record.update(protocol=Language.protocol + 1),
        lambda record: record["scheme"].update(kind="abacus"),
        lambda record: record.update(steps=0),
        lambda record: record.update(start=2),
    ],
)
def test_a_record_that_is_not_known_is_refused_in_one_sentence(
    damage: Any, no_shape_checks: None
) -> None:
    record = json.loads(json.dumps(small().record))
    damage(record)
    with pytest.raises(RunError) as caught:
        Specification.from_record(record)
    assert "\n" not in str(caught.value)


def test_recall_with_its_pairs_at_the_first_positions_is_of_another_version() -> None:
    record = small(task="recall").record
    assert record["protocol"] == 3
    with pytest.raises(RunOfAnotherVersion, match="made by protocol 2, this is 3"):
        Specification.from_record(record | {"protocol": 2})


def test_a_run_whose_model_started_in_an_older_way_is_of_another_version() -> None:
    record = json.loads(json.dumps(small("t5").record))
    assert Specification.from_record(record) == small("t5")
    record.pop("start")
    with pytest.raises(RunOfAnotherVersion, match="are drawn smaller now"):
        Specification.from_record(record)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({"device": "abacus"}, "device"),
        ({"threads": 0}, "threads"),
        ({"steps": 0}, "steps"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"train_length": 15}, "train_length"),
        ({"task": "poetry"}, "task"),
        ({"corpus": ""}, "corpus"),
        ({"task": "copy"}, "corpus"),
        ({"corpus": "zz"}, "corpus must be 64"),
        ({"corpus": 5}, "corpus must be 64"),
        ({"corpus_name": 5}, "corpus_name"),
        ({"corpus_name": "two\nlines"}, "corpus_name must be printable"),
        ({"corpus_name": "\udcff"}, "corpus_name must be printable"),
        ({"scheme": "rope"}, "scheme must be a SchemeConfig"),
        ({"model": None}, "model must be a ModelConfig"),
        ({"versions": 5}, "versions"),
        ({"versions": "abc"}, "versions"),
        ({"versions": (("a", [1]),)}, "versions"),
        ({"scheme": Setting(dim=80, heads=10).config("alibi")}, "heads must be 2 .*, got 10"),
        ({"scheme": small("learned", train_length=17).scheme}, "max_len must be 16 .*, got 17"),
        ({"scheme": Setting(dim=80, heads=2).config("rope")}, "scheme.dim must be 8 .*, got 40"),
        ({"scheme": Setting(dim=80).config("sinusoidal")}, "dim must be 16 for .*16 with 2 heads"),
    ],
)
@pytest.mark.usefixtures("no_shape_checks")
def test_impossible_values_are_refused_by_name(others: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        changed(small(), **others)


def test_a_compiled_run_has_a_name_of_its_own_and_others_keep_theirs() -> None:
    plain = small()
    compiled = changed(plain, compiled=True)
    assert "compiled" not in plain.record  # as runs were named before there was a choice
    assert compiled.run_id != plain.run_id
    for one in (plain, compiled):
        assert Specification.from_record(one.record) == one
