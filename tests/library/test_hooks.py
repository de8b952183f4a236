"""The hooks of a scheme as a user calls them."""

import copy
import dataclasses
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from posenc import (
    SCHEMES,
    PosencError,
    PositionOutOfRange,
    Scheme,
    SchemeArgumentError,
    SchemeConfig,
    alibi_slopes,
    offset_curve,
    position_kernel,
    position_vectors,
    sinusoidal_table,
)
from posenc.schemes.learned import Learned
from tests.devices import needs_cuda
from tests.library.law_exceptions import NO_KERNEL, WITHOUT_WIDTH, for_schemes
from tests.library.small_schemes import (
    DIM,
    HEADS,
    PLACES,
    SMALL,
    WIDTH,
    code_paths,
    results,
    small_scheme,
)
from tests.library.tensors import assert_close, half_ulp, random

EMBEDDING = tuple(
    name for name in code_paths() if type(small_scheme(name)).embed is not Scheme.embed
)
ROTATING = tuple(
    name for name in code_paths() if type(small_scheme(name)).rotate is not Scheme.rotate
)
FIRST_OF_KIND = tuple(name for name in code_paths() if "." not in name)
KERNELS: tuple[Callable[..., Tensor], ...] = (position_kernel, offset_curve, position_vectors)


@for_schemes(among=code_paths())
def test_results_have_the_dtype_of_the_inputs(scheme: Scheme) -> None:
    for dtype, place in (
        (torch.float32, "from zero"), (torch.float64, "window"), (torch.bfloat16, "per entry"),
        (torch.float16, "window"),
    ):  # fmt: skip
        x, q = random(2, 9, DIM, dtype=dtype), random(2, HEADS, 9, WIDTH, dtype=dtype)
        for name, value in results(scheme, x, q, PLACES[place]).items():
            # A bias stays in float32 at least: half precision cannot tell far distances apart.
            expected = torch.promote_types(dtype, torch.float32) if name == "bias" else dtype
            assert value.dtype == expected, name
            assert value.isfinite().all(), name


@pytest.mark.parametrize("variant", [*EMBEDDING, *ROTATING])
def test_half_precision_is_the_exact_result_rounded_once_at_any_position(scheme: Scheme) -> None:
    """Angles in half precision are meaningless from position 2,000 on; xPos has a shorter range."""
    ends_early = scheme.max_length is not None or scheme.config.kind == "xpos"
    for dtype in (torch.bfloat16, torch.float16):
        for first in (0,) if ends_early else (0, 70_000, 2**31 - 20):
            at = torch.arange(9) + first
            q, x = random(1, HEADS, 9, WIDTH, dtype=dtype), torch.zeros(1, 9, DIM, dtype=dtype)
            wide_q, wide_x = q.double(), x.double()
            rounded = (*scheme.rotate(q, q, at, at), scheme.embed(x, at))
            exact = (*scheme.rotate(wide_q, wide_q, at, at), scheme.embed(wide_x, at))
            for value, wanted in zip(rounded, exact, strict=True):
                # The arithmetic of a rotation is in float32, of numbers up to 8.
                error = (value.double() - wanted).abs()
                assert (error <= half_ulp(wanted, dtype) * 1.001 + 1e-6).all()


@for_schemes(among=code_paths())
def test_casting_the_module_rounds_its_parameters_and_no_angle_or_slope(scheme: Scheme) -> None:
    """model.to(bfloat16) with angles in a buffer is meaningless from position 2,000 on."""
    cast, rounded = copy.deepcopy(scheme).to(torch.bfloat16), copy.deepcopy(scheme)
    with torch.no_grad():
        for parameter in rounded.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    x, q, at = torch.zeros(1, 9, DIM).double(), random(1, HEADS, 9, WIDTH), torch.arange(9) + 200
    expected = results(rounded, x, q, at)
    for name, value in results(cast, x, q, at).items():
        assert_close(value, expected[name].detach(), atol=1e-13, rtol=1e-13)
    if scheme.config.kind not in NO_KERNEL and not [*scheme.parameters()]:
        assert_close(position_kernel(cast, 9), position_kernel(scheme, 9), atol=1e-13 * DIM)


@pytest.mark.usefixtures("no_shape_checks")
@for_schemes(among=code_paths())
def test_positions_of_any_whole_dtype_mean_the_same(scheme: Scheme) -> None:
    """An offset of uint8 positions computed in uint8 wraps around: 0 - 5 = 251."""
    positions = torch.tensor([5, 0, 120, 3, 127, 1, 64, 2, 9])
    x, q = random(1, 9, DIM), random(1, HEADS, 9, WIDTH)
    expected = results(scheme, x, q, positions)
    for dtype in (torch.int16, torch.uint8):
        for name, value in results(scheme, x, q, positions.to(dtype)).items():
            assert_close(value, expected[name].detach(), atol=1e-13)


def test_least_offset_of_an_integer_type_has_its_distance() -> None:
    """The least int8 is its own absolute value in int8."""
    offsets = torch.tensor([-128, 3], dtype=torch.int8)
    bias = small_scheme("alibi").offset_bias(offsets)
    assert bias is not None
    assert_close(bias[:, 0] / bias[:, 1], torch.full((HEADS,), 128 / 3), atol=1e-5)


@pytest.mark.usefixtures("no_shape_checks")
@for_schemes(WITHOUT_WIDTH, among=(*EMBEDDING, *ROTATING))
def test_bad_positions_and_widths_are_refused(variant: str, scheme: Scheme) -> None:
    own = DIM if variant in EMBEDDING else WIDTH

    def call(width: int, positions: Tensor | None) -> object:
        if variant in EMBEDDING:
            return scheme.embed(torch.zeros(1, 3, width), positions)
        q = torch.zeros(1, HEADS, 3, width)
        return scheme.rotate(q, q, positions, positions)

    for dtype in (torch.float32, torch.bool, torch.uint64):  # of uint64, 2^63 would wrap around
        bad = torch.ones(3, dtype=dtype)
        with pytest.raises(SchemeArgumentError, match="positions must hold whole numbers"):
            call(own, bad)
    for width in (1, own // 2, 2 * own):
        for positions in (None, torch.arange(3)):
            with pytest.raises(SchemeArgumentError, match=f"width {own}"):
                call(width, positions)
    with pytest.raises(PositionOutOfRange):
        call(own, torch.tensor([0, 1, 2**31]))


@pytest.mark.usefixtures("no_shape_checks")
@pytest.mark.parametrize("kind", ["learned", "sinusoidal", "rope", "alibi", "fire", "xpos", "none"])
def test_impossible_lengths_are_refused(kind: str) -> None:
    scheme = SMALL.config(kind).build()
    for ask in KERNELS:
        for length in (0, -1, 2**31, 10**30, 2.0, True, "8", None):
            with pytest.raises(PosencError):
                ask(scheme, length)


@pytest.mark.usefixtures("no_shape_checks")
def test_impossible_options_of_kernels_are_refused() -> None:
    cases: dict[str, tuple[Any, ...]] = {
        "head": ("first", None, -1, 1.0, True, HEADS),
        "start": (0.5, 2**31),
        "dtype": (torch.int8, "float16"),
    }
    for name, values in cases.items():
        for ask in KERNELS if name != "start" else (position_kernel, position_vectors):
            for value in values:
                with pytest.raises(SchemeArgumentError, match=f"{name} must be"):
                    ask(small_scheme("alibi"), 4, **{name: value})


def assert_results_on(device: str, scheme: Scheme, place: str, dtype: torch.dtype) -> None:
    x, q = random(2, 9, DIM).to(dtype), random(2, HEADS, 9, WIDTH).to(dtype)
    at, eps = PLACES[place], 32 * torch.finfo(dtype).eps
    expected = results(scheme, x, q, at)
    moved = copy.deepcopy(scheme).to(device)
    for positions in (None,) if at is None else (at, at.to(device)):
        for name, value in results(moved, x.to(device), q.to(device), positions).items():
            assert value.device.type == device, name
            assert value.shape == expected[name].shape, name
            if device != "meta":
                assert_close(value.detach().cpu(), expected[name].detach(), atol=eps, rtol=eps)


def assert_kernels_on(device: str, scheme: Scheme) -> None:
    for ask in KERNELS:
        try:
            expected = ask(scheme, 7)
        except PosencError:
            continue
        value = ask(scheme, 7, device=device)
        assert (value.device.type, value.dtype) == (device, torch.float64)
        if device != "meta":
            assert_close(value.cpu(), expected, atol=1e-13 * DIM)


@pytest.mark.usefixtures("no_shape_checks")
@for_schemes(among=code_paths())
def test_results_are_on_the_device_of_the_inputs(scheme: Scheme) -> None:
    for place in ("from zero", "per entry"):
        assert_results_on("meta", scheme, place, torch.float32)
    assert_kernels_on("meta", scheme)


@needs_cuda
def test_results_on_cuda_equal_those_on_the_cpu() -> None:
    for scheme in map(small_scheme, code_paths()):
        for place in PLACES:
            assert_results_on("cuda", scheme, place, torch.float32)
        assert_results_on("cuda", scheme, "window", torch.bfloat16)
        assert_kernels_on("cuda", scheme)
        before = copy.deepcopy(scheme.state_dict())
        assert_kernels_on("cuda", scheme.to("cuda"))
        assert {parameter.device.type for parameter in scheme.parameters()} <= {"cuda"}
        built = SMALL.config(scheme.config.kind).build(device="cuda")
        assert built.state_dict().keys() == before.keys()
        for name, value in scheme.to("cpu").state_dict().items():
            assert torch.equal(value, before[name]), name  # moved, not computed


@pytest.fixture
def float64_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("no_shape_checks", "float64_by_default")
@for_schemes(among=code_paths())
def test_default_device_and_dtype_of_torch_do_not_matter(
    variant: str, config: SchemeConfig
) -> None:
    """`with torch.device("meta")` is how large models are made; caches must not keep its tensors."""
    assert sinusoidal_table(3, 4).dtype == alibi_slopes(3).dtype == torch.float32
    if "base" in config.uses:
        config = config.replace(base=9_876.5)  # frequencies that no other test has put into a cache
    x, q, positions = random(1, 9, DIM), random(1, HEADS, 9, WIDTH), torch.arange(9) + 3
    with torch.device("meta"):
        config.build()
        first = results(config.build(device="cpu", seed=2), x, q, positions)
    torch.set_default_dtype(torch.float32)
    expected = results(config.build(seed=2), x, q, positions)
    for name, value in first.items():
        assert (value.device.type, value.dtype) == ("cpu", expected[name].dtype), name
        assert_close(value.detach(), expected[name].detach(), atol=1e-13)
    if config.kind not in NO_KERNEL:
        assert position_kernel(config.build(), 3).isfinite().all()


@pytest.mark.usefixtures("no_shape_checks")
@for_schemes(among=FIRST_OF_KIND)
def test_scheme_is_saved_copied_and_restored(scheme: Scheme) -> None:
    """What comes back has the same bits: it is the same operation on the same numbers."""
    x, q = random(2, 9, DIM), random(2, HEADS, 9, WIDTH)
    expected = results(scheme, x, q, None)
    saved = io.BytesIO()
    torch.save(scheme.state_dict(), saved)
    saved.seek(0)
    restored, copied = scheme.config.build(seed=77), copy.deepcopy(scheme)
    restored.load_state_dict(torch.load(saved, weights_only=True), strict=True)
    assert copied.config == scheme.config
    for other in (restored, copied, scheme):
        for name, value in results(other, x, q, None).items():
            assert torch.equal(value, expected[name]), name
        with torch.no_grad():  # a copy shares no parameters
            for parameter in other.parameters():
                parameter.add_(1)
    model = nn.Sequential(nn.Linear(DIM, DIM), scheme)
    names = {f"1.{name}" for name, _ in scheme.named_parameters()}
    assert names == {name for name in model.state_dict() if name.startswith("1.")}
    assert scheme.layer(0) is scheme


@pytest.mark.usefixtures("no_shape_checks")
def test_config_is_hashable_and_equals_its_record_and_its_kind_is_fixed() -> None:
    for kind, owner in SCHEMES.items():
        config = SMALL.config(kind)
        again = owner.from_record(config.record())
        assert (again, hash(again)) == (config, hash(config))
        with pytest.raises(dataclasses.FrozenInstanceError):
            config.kind = "other"  # type: ignore[misc]
        with pytest.raises(PosencError, match="kind is fixed"):
            config.replace(kind="other")


@pytest.mark.usefixtures("no_shape_checks")
@for_schemes(among=FIRST_OF_KIND)
def test_results_depend_on_no_earlier_call_and_change_no_input(config: SchemeConfig) -> None:
    """Not on what inference mode left in a cache, nor on what a caller writes into a result."""
    x, q, positions = random(2, 9, DIM), random(2, HEADS, 9, WIDTH), torch.arange(9) + 4
    inputs = [value.clone() for value in (x, q, positions)]
    scheme = config.build(seed=5)
    first = results(scheme, x, q, None)
    expected = {name: value.detach().clone() for name, value in first.items()}
    results(scheme, x, q, positions)
    for value, before in zip((x, q, positions), inputs, strict=True):
        assert torch.equal(value, before)
    for value in first.values():
        value.detach().mul_(0)
    config.build(seed=6)
    with torch.inference_mode():
        results(config.build(seed=5), inputs[0], inputs[1], None)
    x, q = (value.clone().requires_grad_() for value in inputs[:2])
    again = results(config.build(seed=5), x, q, None)
    for name, value in again.items():
        assert_close(value.detach(), expected[name], atol=1e-14)
    (again["embed"].sum() + again["mixed"].sum()).backward()
    assert x.grad is not None
    assert q.grad is not None


@for_schemes(
    among=("learned", "sinusoidal", "rope.layout=half", "rope.partial_rotary_factor=0.5005",
           "rope_yarn", "rope_sections", "xpos")
)  # fmt: skip
def test_gradients_of_embed_and_rotate_pass_gradcheck(scheme: Scheme) -> None:
    x, q = random(2, 9, DIM).requires_grad_(), random(2, 2, 9, WIDTH).requires_grad_()
    at = PLACES["per entry"]

    def call(x: Tensor, q: Tensor) -> tuple[Tensor, ...]:
        return scheme.embed(x, at), *scheme.rotate(q, q.flip(-1), at, at)

    assert torch.autograd.gradcheck(call, (x, q), fast_mode=True)


def test_learned_table_refuses_positions_without_a_row() -> None:
    scheme = SMALL.config("learned").replace(dim=4, max_len=10).build()
    for position in (-1, 10, 2**40):
        with pytest.raises(PositionOutOfRange, match=f"position {position:,} has none") as refused:
            scheme.embed(torch.zeros(1, 1, 4), torch.tensor([position]))
        assert refused.value.limit == 10
    for ask in (lambda: position_kernel(scheme, 11), lambda: position_vectors(scheme, 2, start=9)):
        with pytest.raises(PositionOutOfRange, match="position 10 has none"):
            ask()
    assert scheme.embed(torch.zeros(1, 0, 4), torch.arange(0)).shape == (1, 0, 4)
    on_meta = copy.deepcopy(scheme).to("meta")  # values are not known on the host: NaN, no wrap
    rows = on_meta.embed(torch.zeros(1, 2, 4, device="meta"), torch.arange(2, device="meta"))
    assert rows.shape == (1, 2, 4)


def test_learned_table_gets_gradients_in_the_rows_it_gave_out_only() -> None:
    scheme = small_scheme("learned", dim=4, max_len=10)
    for positions, counts in ((torch.tensor([7, 2, 7]), {2: 1, 7: 2}), (None, {0: 2, 1: 2, 2: 2})):
        scheme.zero_grad()
        scheme.embed(torch.zeros(2 if positions is None else 1, 3, 4), positions).sum().backward()
        (weight,) = scheme.parameters()
        assert weight.grad is not None
        assert weight.grad.tolist() == [[counts.get(row, 0)] * 4 for row in range(10)]


def test_given_table_keeps_its_numbers_shape_and_provenance() -> None:
    table = random(7, 5, dtype=torch.float16)
    scheme = Learned.from_table(table, "from a test")
    assert (scheme.max_length, scheme.config.max_len, scheme.config.dim) == (7, 7, 5)
    assert (scheme.untrained, scheme.provenance) == (False, "from a test")
    assert torch.equal(scheme.weight, table)
    table.zero_()
    assert scheme.weight.any(), "the scheme holds its own copy"
    assert torch.equal(position_vectors(scheme, 7), scheme.weight.double())
    with pytest.raises(PosencError, match="from_table"):
        scheme.config.build()
    fresh = small_scheme("learned")
    assert isinstance(fresh, Learned)
    assert fresh.untrained
    assert "untrained" in fresh.provenance


@pytest.mark.usefixtures("no_shape_checks")
def test_tensor_that_is_no_table_is_refused() -> None:
    whole, complex_ = torch.zeros(3, 4, dtype=torch.int64), torch.zeros(3, 4, dtype=torch.complex64)
    for table in (torch.zeros(3), torch.zeros(0, 4), torch.zeros(1, 2, 3), whole, complex_):
        with pytest.raises(PosencError, match="table"):
            Learned.from_table(table, "from a test")
