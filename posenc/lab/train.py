"""Training: the same data, steps and shared initial weights for every scheme of a comparison.

AdamW (Loshchilov and Hutter 2019, arXiv 1711.05101) with linear warm-up, a cosine to a tenth of the
rate (arXiv 1608.03983) and gradients clipped to norm 1. A resumed run gives the same bits.
"""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from posenc.checkpoints.file_store import write_whole
from posenc.device import fixed_threads, works
from posenc.errors import RunError
from posenc.lab.corpus import Corpus
from posenc.lab.model import LanguageModel
from posenc.lab.specification import Specification, name_of
from posenc.lab.tasks import IGNORED, Task, generator_for

WARM_UP = 0.05  # share of the steps
LAST_RATE = 0.1  # of the learning rate
CLIP = 1.0
BETAS = (0.9, 0.99)
CHECKPOINT_EVERY = 100  # steps

Report = Callable[[int, float], None]


class Trainer:
    """The state of a run between two steps. losses: of every step. seconds: of all steps."""

    def __init__(self, specification: Specification, corpus: Corpus | None = None) -> None:
        """Build the model and its optimizer. Raises RunError for another corpus than the run's."""
        self.specification = specification
        self.device = torch.device(specification.device)
        if not works(self.device):
            raise RunError(f"There is no device {specification.device} on this machine.")
        self.stage, *self._later = specification.stages
        self._tasks = {stage: stage.make_task(corpus) for stage in specification.stages}
        self.model = build_model(self.stage, self.task)
        self.optimizer = _optimizer(self.model, self.stage)
        self.losses: list[float] = []
        self.seconds = 0.0
        self.whole = True  # weights and losses are of the same step
        self._before = 0  # steps of earlier stages
        self._forward: Callable[..., Tensor] = self.model
        self._compile()

    def _compile(self) -> None:
        if self.specification.compiled:
            self._forward = torch.compile(self.model)

    @property
    def task(self) -> Task:
        """The task of the current stage."""
        return self._tasks[self.stage]

    def _reach(self, steps: int) -> None:
        """Begin the next stage where `steps` steps, those of all earlier stages, are done.

        The weights stay; parameters of the new scheme start anew unless those before have their names and
        shapes.
        """
        while self._later and steps >= self._before + self.stage.steps:
            self._before += self.stage.steps
            self.stage = self._later.pop(0)
            scheme = self.stage.scheme.build(seed=self.stage.seed)
            new, old = scheme.state_dict(), self.model.scheme.state_dict()
            if {name: value.shape for name, value in new.items()} == {
                name: value.shape for name, value in old.items()
            }:
                scheme.load_state_dict(old)
            self.model.scheme = scheme.to(self.device)
            self.optimizer = _optimizer(self.model, self.stage)
            self._compile()

    @property
    def done(self) -> bool:
        """Whether training has ended, at its last step or early."""
        return len(self.losses) >= self.specification.all_steps or self.stopped is not None

    @property
    def stopped(self) -> str | None:
        """Why the run ended early, None if it did not."""
        if self.losses and not math.isfinite(self.losses[-1]):
            return (
                f"The loss or its gradient was {self.losses[-1]} at step {len(self.losses):,}; "
                "training stopped."
            )
        return None

    def step(self) -> float:
        """Make one step and return its loss; a loss that is not finite changes no weight."""
        begin = time.perf_counter()
        number = len(self.losses)
        self._reach(number)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate_at(number - self._before, self.stage) * group["factor"]
        inputs, targets = self.task.batch(
            self.stage.batch,
            generator_for(self.specification.trial.data_seed, "data", number),
        )
        inputs, targets = inputs.to(self.device), targets.to(self.device)
        dtype = _low_precision(self.device)
        with torch.autocast(self.device.type, dtype, enabled=dtype is not None):
            logits = self._forward(inputs)
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED
        )
        value = loss.item()
        if math.isfinite(value):
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.model.parameters(), CLIP).item()
            if math.isfinite(norm):
                self.whole = False
                self.optimizer.step()
            else:
                value = norm
        self.losses.append(value)
        self.whole = True
        self.seconds += time.perf_counter() - begin
        return value

    def save(self, path: Path) -> None:
        """Write the state to a safetensors file atomically."""
        names = {id(value): name for name, value in self.model.named_parameters()}
        tensors = dict(self.model.state_dict())
        for parameter, state in self.optimizer.state.items():
            for key, value in state.items():
                tensors[f"optimizer.{names[id(parameter)]}.{key}"] = value
        tensors["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        content = save(
            {name: value.detach().cpu().contiguous() for name, value in tensors.items()},
            {"run": json.dumps(self.specification.record), "seconds": repr(self.seconds)},
        )
        write_whole(path, content)

    def load(self, path: Path) -> None:
        """Restore the state that `save` wrote. Raises RunError for another run's or a broken file."""
        try:
            with safe_open(path, "pt") as file:
                record, seconds = json.loads(file.metadata()["run"]), file.metadata()["seconds"]
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if name_of(record) != self.specification.run_id:
                raise RunError("The checkpoint belongs to another run.")
            losses = tensors.pop("losses")
            if losses.ndim != 1 or len(losses) > self.specification.all_steps:
                raise ValueError("not one loss per step")
            # A state at the end of a stage was written before the next began.
            self._reach(len(losses) - 1)
            for name, parameter in self.model.named_parameters():
                prefix = f"optimizer.{name}."
                keys = [key for key in tensors if key.startswith(prefix)]
                state = {key.removeprefix(prefix): tensors.pop(key) for key in keys}
                shapes = {value.shape for key, value in state.items() if key != "step"}
                if len(losses) and shapes != {parameter.shape}:
                    raise ValueError("not the state of each parameter")
                # Fused AdamW needs its step count on the device, too.
                self.optimizer.state[parameter] = {
                    key: value.to(parameter.device) for key, value in state.items()
                }
            self.model.load_state_dict(tensors)
            self.losses, self.seconds = losses.tolist(), float(seconds)
        except RunError:
            raise
        except (
            OSError, SafetensorError, LookupError, TypeError, ValueError, RuntimeError, AttributeError,
        ) as error:  # fmt: skip
            raise RunError("The checkpoint cannot be read; remove it to start again.") from error


def train(
    specification: Specification,
    corpus: Corpus | None = None,
    *,
    checkpoint: Path | None = None,
    report: Report | None = None,
) -> Trainer:
    """Train to the end, from the checkpoint if it exists, and return the end state.

    report: called after every step with its number, from 1, and its loss; an exception ends training.
    KeyboardInterrupt saves first.
    """
    with fixed_threads(specification.threads):
        trainer = Trainer(specification, corpus)
        if checkpoint is not None and checkpoint.exists():
            trainer.load(checkpoint)
        try:
            while not trainer.done:
                loss = trainer.step()
                number = len(trainer.losses)
                if checkpoint is not None and (number % CHECKPOINT_EVERY == 0 or trainer.done):
                    trainer.save(checkpoint)
                if report is not None:
                    report(number, loss)
        except KeyboardInterrupt:
            # Within a step only some weights may be updated.
            if checkpoint is not None and trainer.whole:
                trainer.save(checkpoint)
            raise
    return trainer


def build_model(specification: Specification, task: Task) -> LanguageModel:
    """Return the untrained model; the weights besides the scheme's depend on the seed alone."""
    scheme = specification.scheme.build(seed=specification.seed)
    model = LanguageModel(
        specification.model, task.vocabulary, scheme, generator_for(specification.seed, "weights")
    )
    return model.to(specification.device)


def learning_rate_at(step: int, specification: Specification) -> float:
    """Return the learning rate of a step, from 0: linear warm-up, then a cosine to a tenth."""
    steps = specification.steps
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return specification.learning_rate * (step + 1) / warm
    past = (step - warm) / max(1, steps - warm)
    cosine = (1 + math.cos(math.pi * past)) / 2
    return specification.learning_rate * (LAST_RATE + (1 - LAST_RATE) * cosine)


def _optimizer(model: LanguageModel, specification: Specification) -> torch.optim.AdamW:
    """Return AdamW without decay of norms and of the scheme's parameters.

    factor: of a group, of the learning rate.
    """
    of_scheme = list(model.scheme.parameters())
    owned = {id(parameter) for parameter in of_scheme}
    shared = [parameter for parameter in model.parameters() if id(parameter) not in owned]
    matrices = [parameter for parameter in shared if parameter.ndim >= 2]
    vectors = [parameter for parameter in shared if parameter.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": specification.weight_decay, "factor": 1.0},
        {"params": vectors, "weight_decay": 0.0, "factor": 1.0},
        {"params": of_scheme, "weight_decay": 0.0, "factor": specification.scheme_rate},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=specification.learning_rate,
        betas=BETAS,
        fused=True,
    )


def _low_precision(device: torch.device) -> torch.dtype | None:
    """Return bfloat16 where the device multiplies it at full speed, None for float32."""
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if fast else None
