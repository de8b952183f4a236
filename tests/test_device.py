"""Devices: the best that really works, and the CPU when an accelerator's memory runs out."""

import gc
import weakref

import pytest
import torch

from posenc import best_device, device, device_name, run_with_fallback


@pytest.fixture
def claim(monkeypatch: pytest.MonkeyPatch):
    """Make torch report these devices as present, and these as working."""

    def claimed(present: set[str], working: set[str]) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: "cuda" in present)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: "mps" in present)
        monkeypatch.setattr(device, "works", lambda name: str(name) in working)

    return claimed


@pytest.mark.parametrize(
    ("present", "working", "best"),
    [
        (set(), set(), "cpu"),
        ({"cuda"}, {"cuda"}, "cuda"),
        ({"mps"}, {"mps"}, "mps"),
        ({"cuda", "mps"}, {"cuda", "mps"}, "cuda"),
        ({"cuda", "mps"}, {"mps"}, "mps"),
        ({"cuda", "mps"}, set(), "cpu"),
        (set(), {"cuda", "mps"}, "cpu"),
    ],
)
def test_the_best_device_is_the_first_that_is_there_and_works(
    claim, present: set[str], working: set[str], best: str
) -> None:
    claim(present, working)
    assert best_device() == torch.device(best)


@pytest.mark.parametrize(
    "fault",
    [
        RuntimeError("CUDA error: no kernel image is available for execution on the device"),
        AssertionError("Torch not compiled with CUDA enabled"),
        NotImplementedError("The operator 'aten::add' is not implemented for this device"),
        torch.AcceleratorError("CUDA error: device-side assert triggered"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_a_device_whose_first_operation_fails_does_not_work(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def broken(*args: object, **kwargs: object) -> torch.Tensor:
        raise fault

    monkeypatch.setattr(torch, "ones", broken)
    assert not device.works("cuda")


def test_a_device_that_cannot_add_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "ones", lambda *args, **kwargs: torch.full((1,), 1.5))
    assert not device.works("cpu")


def test_the_cpu_works_and_other_faults_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert device.works("cpu")

    def interrupted(*args: object, **kwargs: object) -> torch.Tensor:
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "ones", interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.works("cpu")


def test_every_device_has_a_name_people_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda chosen: "NVIDIA H200")
    assert device_name("cuda") == "cuda: NVIDIA H200"
    assert device_name("cpu") == "CPU"
    assert device_name("mps") == "mps: Apple GPU"
    assert device_name("meta") == "meta"


def test_a_computation_that_fits_runs_where_it_was_asked_to() -> None:
    ran = run_with_fallback(lambda place: torch.ones(2, device=place), "cpu")
    assert ran.value.tolist() == [1, 1]
    assert ran.device == torch.device("cpu")
    assert ran.notice is None


def test_without_a_device_the_best_is_taken(claim) -> None:
    claim(set(), set())
    ran = run_with_fallback(lambda place: place)
    assert ran.value == ran.device == torch.device("cpu")


@pytest.mark.parametrize("name", ["cuda", "mps"])
@pytest.mark.parametrize(
    "fault",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("MPS backend out of memory (MPS allocated: 8.00 GB, max allowed: 9.07 GB)"),
    ],
    ids=["OutOfMemoryError", "MPS"],
)
def test_when_memory_runs_out_the_cpu_computes_and_the_caller_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, fault: RuntimeError
) -> None:
    emptied = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    asked = []

    def compute(place: torch.device) -> str:
        asked.append(place.type)
        if place.type != "cpu":
            raise fault
        return "done"

    ran = run_with_fallback(compute, name)
    assert ran.value == "done"
    assert asked == [name, "cpu"]
    assert ran.device == torch.device("cpu")
    assert name in ran.notice
    assert "CPU" in ran.notice
    assert ran.notice.endswith(".")
    assert bool(emptied) == (name == "cuda")


def test_what_the_failed_attempt_held_is_free_before_the_second_begins() -> None:
    held = []

    def compute(place: torch.device) -> bool:
        if place.type != "cpu":
            large = torch.ones(1_000)
            held.append(weakref.ref(large))
            raise torch.OutOfMemoryError("out of memory")
        gc.collect()
        return held[0]() is None

    assert run_with_fallback(compute, "cuda").value


def test_running_out_on_the_cpu_and_other_errors_are_the_caller_s() -> None:
    def exhausted(place: torch.device) -> None:
        raise torch.OutOfMemoryError("out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        run_with_fallback(exhausted, "cpu")

    def wrong(place: torch.device) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes"):
        run_with_fallback(wrong, "cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_real_accelerator_that_runs_out_falls_back() -> None:
    def compute(place: torch.device) -> str:
        if place.type == "cuda":
            torch.empty(2**50, dtype=torch.uint8, device=place)
        return place.type

    assert run_with_fallback(compute, "cuda").value == "cpu"
