"""Devices: the best that works, and the CPU when an accelerator's memory runs out."""

import weakref

import pytest
import torch

from posenc import best_device, device, device_name, run_with_fallback
from tests.devices import needs_cuda


@pytest.mark.parametrize(
    ("present", "working", "best"),
    [("", "", "cpu"), ("mps", "mps", "mps"), ("cuda mps", "cuda mps", "cuda"),
     ("cuda mps", "mps", "mps"), ("cuda mps", "", "cpu"), ("", "cuda mps", "cpu")],
)  # fmt: skip
def test_best_device_is_the_first_that_is_present_and_works(
    present: str, working: str, best: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in present)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in present)
    monkeypatch.setattr(device, "works", lambda name: str(name) in working)
    assert best_device() == torch.device(best)
    result = run_with_fallback(lambda place: place.type)
    assert result.value == result.device.type == best
    assert result.notice is None


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("CUDA error: no kernel image is available for execution on the device"),
        AssertionError("Torch not compiled with CUDA enabled"),
        NotImplementedError("The operator 'aten::add' is not implemented for this device"),
        torch.AcceleratorError("CUDA error: device-side assert triggered"),
        KeyboardInterrupt(),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_device_whose_first_operation_fails_does_not_work(
    monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    def fails(*args: object, **kwargs: object) -> torch.Tensor:
        raise fault

    assert device.works("cpu")
    monkeypatch.setattr(torch, "ones", lambda *args, **kwargs: torch.full((1,), 1.5))
    assert not device.works("cpu"), "it cannot add"
    monkeypatch.setattr(torch, "ones", fails)
    if isinstance(fault, Exception):
        assert not device.works("cuda")
    else:
        with pytest.raises(KeyboardInterrupt):
            device.works("cpu")


@pytest.mark.parametrize(
    ("place", "name"),
    [("cuda", "cuda: NVIDIA H200"), ("cpu", "CPU"), ("mps", "mps: Apple GPU"), ("meta", "meta")],
)
def test_device_name_is_the_one_on_the_card(
    monkeypatch: pytest.MonkeyPatch, place: str, name: str
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda chosen: "NVIDIA H200")
    assert device_name(place) == name


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("cuda", torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")),
        ("mps", RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB)")),
    ],
)
def test_cpu_computes_when_memory_runs_out_and_a_notice_says_so(
    monkeypatch: pytest.MonkeyPatch, name: str, fault: RuntimeError
) -> None:
    emptied, places, failed = [], [], []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))

    def compute(place: torch.device) -> bool:
        places.append(place.type)
        if place.type != "cpu":
            large = torch.ones(1_000)
            failed.append(weakref.ref(large))
            raise type(fault)(*fault.args)  # the parameter itself would hold its traceback
        return failed[0]() is None

    result = run_with_fallback(compute, name)
    assert result.value, "tensors of the failed attempt are alive during the second"
    assert places == [name, "cpu"]
    assert result.device == torch.device("cpu")
    assert name in (result.notice or "")
    assert "CPU" in (result.notice or "")
    assert bool(emptied) == (name == "cuda")


@pytest.mark.parametrize(
    ("fault", "name"),
    [(torch.OutOfMemoryError("out of memory"), "cpu"), (RuntimeError("shapes"), "cuda")],
)
def test_lack_of_memory_on_the_cpu_and_other_errors_are_raised(
    fault: RuntimeError, name: str
) -> None:
    def compute(place: torch.device) -> None:
        raise fault

    with pytest.raises(type(fault), match=str(fault)):
        run_with_fallback(compute, name)


@needs_cuda
def test_cuda_device_that_runs_out_of_memory_falls_back_to_the_cpu() -> None:
    def compute(place: torch.device) -> str:
        if place.type == "cuda":
            torch.empty(2**50, dtype=torch.uint8, device=place)
        return place.type

    assert run_with_fallback(compute, "cuda").value == "cpu"
