"""Settings: bad values are refused by name; a setting gives every scheme its config."""

import pytest
import torch

from dashboard.settings import PRESETS, Setting, chosen_model, to_text
from dashboard.settings.stops import STOPS
from posenc import SCHEMES, ConfigError, PosencError, fields, limits
from posenc.models.presets import MODELS
from posenc.schemes.sizes import own_rules
from tests.library.configs import config_of

# Fields are checked by their own rules; checking types at every call as well doubles the time.
pytestmark = pytest.mark.usefixtures("no_shape_checks")

RULES = fields.rules(Setting) | own_rules()
SMALL_SETTING = Setting(dim=80, heads=10, length=16, train_length=300, learned_source="random")

BAD_VALUES: dict[str, list[object]] = {
    "schemes": [(), ("bogus",), ["rope"], ("alibi", "rope"), ("rope", "rope"), None,
                tuple(SCHEMES)[:7]],
    "dim": [0, 3, -2, 4_098, 10**5_000, 64.0, "64", True, None, float("nan")],
    "base": [1, 1.999, 1e13, float("nan"), float("inf"), "1e4", True, 10**5_000],
    "length": [1, 2_049, 1.5],
    "train_length": [0, limits.MAX_TRAIN_LENGTH + 1],
    "heads": [0, 65, 3, 8.0],
    "equal_width": [1, "true"],
    "alibi_head": [-1, 9, 65],
    "seed": [-1, 2**31],
    "learned_source": ["", "x.safetensors", "table-xyz", "minilm\n", "../random", 5],
    "precision": ["float64", "Float32", None, torch.float32],
    "device": ["gpu", "cuda:0"],
    "own": [
        (("rope.bogus", 1),), (("bogus.layout", "half"),), (("rope.layout", "Half"),),
        (("rope.partial_rotary_factor", 0.3),), (("rope.layout", "half"),) * 2,
        [("rope.layout", "half")], ("rope.layout", "half"), None, ((1, 2),),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_value_in_code_is_refused_by_name(name: str) -> None:
    for value in BAD_VALUES[name]:
        with pytest.raises(ConfigError) as refused:
            Setting(**{name: value})  # type: ignore[arg-type]
        message = str(refused.value)
        names = {
            "own": ("own", "RopeConfig"),
            "heads": ("Setting.heads", "Sizes.dim"),
            "dim": ("Setting.dim", "Sizes.dim"),
        }
        assert any(part in message for part in names.get(name, (f"Setting.{name}",))), message
        assert len(message) < 400
        assert isinstance(refused.value, ValueError)
        assert isinstance(refused.value, PosencError)


def test_setting_gives_every_scheme_its_config() -> None:
    setting = Setting(
        dim=96, heads=12, base=500.0, train_length=77, own=(("rope.layout", "half"),),
        learned_source="random",
    )  # fmt: skip
    expected: dict[str, dict[str, object]] = {
        "learned": {"dim": 96, "max_len": 77}, "sinusoidal": {"dim": 96, "base": 500.0},
        "rope": {"dim": 8, "base": 500.0, "layout": "half"}, "alibi": {"heads": 12}, "none": {},
    }  # fmt: skip
    for kind, values in expected.items():
        assert setting.config(kind) == config_of(kind, **values)
    assert getattr(setting.replace(equal_width=True).config("rope"), "dim", None) == 96
    assert [Setting(alibi_head=n).head for n in (0, 1, 8)] == ["mean", 0, 7]
    assert Setting(precision="bfloat16").sizes.dtype == torch.bfloat16
    assert Setting().sizes.dtype is None


def test_a_query_builds_its_scheme_on_its_own_device() -> None:
    request = SMALL_SETTING.request("t5", "meta")
    devices = {parameter.device.type for parameter in request.build().parameters()}
    assert devices == {"meta"}
    assert {parameter.device.type for parameter in request.build("cpu").parameters()} == {"cpu"}


def test_only_changes_from_the_default_are_written_and_compared() -> None:
    assert to_text(Setting()) == {}
    assert to_text(Setting(base=500000.0, heads=4)) == {"base": "500000", "heads": "4"}
    assert to_text(Setting(base=2.5)) == {"base": "2.5"}
    assert to_text(Setting(schemes=("rope", "none"))) == {"schemes": "rope,none"}
    assert Setting(own=(("rope.layout", "interleaved"),)) == Setting()
    own = (("rope.layout", "half"), ("sinusoidal.layout", "half"))
    assert Setting(own=own) == Setting(own=own[::-1])
    assert hash(Setting(own=own)) == hash(Setting(own=own[::-1]))
    assert to_text(Setting(own=own)) == {"rope.layout": "half", "sinusoidal.layout": "half"}


def test_numbers_that_a_scheme_ignores_change_no_config() -> None:
    for kind in SCHEMES:
        used = SMALL_SETTING.config(kind).uses
        for name, change in (("dim", 160), ("base", 123.0), ("heads", 5)):
            changed = SMALL_SETTING.replace(**{name: change}).config(kind)
            assert (changed == SMALL_SETTING.config(kind)) == (name not in used), kind


# Dimension, heads, base, training length; None where the paper does not say.
PAPERS: dict[str, tuple[int, int, float | None, int | None]] = {
    "transformer": (512, 8, 10_000.0, None),
    "bert": (768, 12, None, 512),
    "llama-2": (4_096, 32, 10_000.0, 4_096),
    "alibi": (1_024, 8, None, 512),
}


@pytest.mark.parametrize("name", PRESETS)
def test_preset_has_the_numbers_of_its_paper_and_changes_no_others(name: str) -> None:
    before = Setting(seed=9, length=64, base=500.0, train_length=99, schemes=("rope",))
    dim, heads, base, train_length = PAPERS[name]
    assert before.replace(**PRESETS[name].changes) == before.replace(
        dim=dim, heads=heads, base=base or 500.0, train_length=train_length or 99
    )


FACTORS = fields.Numbers(low=0.5, high=100.0, least=0, most=6, label="Factors")
SIZES = fields.Numbers(low=0, high=64, least=2, most=4, whole=True, label="Sizes")


def test_numbers_rule_refuses_other_values_and_states_its_range() -> None:
    for value in (None, 1.0, [1.0], (0.4,), (101.0,), (True,), ("1",), (float("nan"),), (1.0,) * 7):
        assert not FACTORS.accepts(value), value
    assert SIZES.accepts((16, 24))
    assert not SIZES.accepts((16.0, 24))
    assert "1 to 6 numbers from 0.5 to 100" in FACTORS.allowed()
    assert "2 to 4 whole numbers from 0 to 64" in SIZES.allowed()
    assert fields.described((1.0, 2.0, 3.0, 4.0, 5.0)) == "1, 2, ... (5 numbers)"


def test_every_preset_of_a_model_is_chosen_by_its_name() -> None:
    assert set(PRESETS) == {"transformer", "bert", "llama-2", "alibi"}  # of sizes alone
    for name, preset in MODELS.items():
        assert chosen_model(name).preset == preset


def test_stops_of_every_dial_are_legal_and_rise() -> None:
    for name, stops in STOPS.items():
        rule = RULES[name]
        assert isinstance(rule, fields.IntRange | fields.FloatRange)
        assert all(rule.accepts(stop) for stop in stops), name
        assert [*stops] == sorted({*stops}), name
