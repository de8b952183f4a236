"""Deliberate faults in the maths, one at a time: every one of them must fail a test.

python tests/mutants.py            run all, print killed or survived, exit 1 on a survivor
python tests/mutants.py --list     name them
python tests/mutants.py NAME ...   run those whose name contains one of these words

Each mutant is one replacement in a copy of the package in a temporary folder; its tests run there,
quickest first, until one fails. Nothing in the working tree is touched.
"""

import argparse
import contextlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

# Loaded once here, so that each mutant's process, a fork of this one, has them already.
import hypothesis  # noqa: F401
import mpmath  # noqa: F401
import pytest
import torch

ROOT = Path(__file__).parents[1]
SECONDS = 150  # a mutant that hangs is as good as caught
CORE = ("goldens", "laws", "attention")


@dataclass(frozen=True)
class Mutant:
    """A fault: `old`, found exactly once in posenc/`path`, becomes `new`; `tests` must notice."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...] = CORE


MUTANTS = (
    # The ladder and its angles.
    Mutant("exponent m/d instead of 2m/d", "phases.py", ".ln() * -2 / dim", ".ln() * -1 / dim"),
    Mutant("exponent 2m/(d-2), tensor2tensor's ladder", "phases.py",
           ".ln() * -2 / dim", ".ln() * -2 / max(dim - 2, 1)"),
    Mutant("angles in float32", "phases.py",
           "torch.cos(angle).view(torch.int64), torch.sin(angle).view(torch.int64)",
           "angle.float().cos().double().view(torch.int64), "
           "angle.float().sin().double().view(torch.int64)"),
    Mutant("angles too large by a thousandth", "phases.py",
           "(math.tau * 2.0**-64)", "(math.tau * 1.001 * 2.0**-64)"),
    Mutant("a lost carry between limbs", "phases.py", ".add_(low >> 32)", ".add_(0)"),
    Mutant("a half turn without its sign", "phases.py",
           "negate = turn.bitwise_xor_(folded)", "negate = turn.bitwise_xor_(folded) * 0"),
    Mutant("blocks counted from the window's start", "blocks.py",
           "divmod(start + row, BLOCK)", "divmod(row, BLOCK)"),
    Mutant("blocks one position too long", "blocks.py",
           "device=device) * BLOCK\n", "device=device) * (BLOCK + 1)\n"),
    Mutant("sine of a sum with the wrong sign", "products.py",
           "sin_a * cos_b + cos_a * sin_b", "sin_a * cos_b - cos_a * sin_b"),
    Mutant("half precision rounded twice", "products.py",
           "if dtype not in (torch.bfloat16, torch.float16):\n        return x",
           "if dtype is not None:\n        return x"),
    # Rows for the hooks.
    Mutant("positions from 1", "rows.py",
           "return _scaled_rows(positions.to(device), phases",
           "return _scaled_rows(positions.to(device) + 1, phases"),
    Mutant("kept rotary windows from 1", "rows.py",
           "return _scaled_rows(torch.arange(count, device=device)",
           "return _scaled_rows(1 + torch.arange(count, device=device)"),
    Mutant("kept sinusoidal windows from 1", "rows.py",
           "rows = cos_sin(torch.arange(count, device=device)",
           "rows = cos_sin(1 + torch.arange(count, device=device)"),
    Mutant("cosine before sine", "rows.py",
           "torch.stack((sin, cos), dim=-1)", "torch.stack((cos, sin), dim=-1)"),
    Mutant("cosine half before sine half", "rows.py",
           "torch.cat((sin, cos), dim=-1)", "torch.cat((cos, sin), dim=-1)"),
    Mutant("curve with a plus in cos(a + b)", "rows.py",
           "torch.cat((cos, -sin), dim=-1)", "torch.cat((cos, sin), dim=-1)"),
    Mutant("kernel summed over sines", "rows.py",
           "dtype=torch.float64)[0].sum", "dtype=torch.float64)[1].sum"),
    # Rotation.
    Mutant("clockwise rotation", "schemes/rotary.py",
           "apply_rope(x, cos, sin,", "apply_rope(x, cos, -sin,"),
    Mutant("clockwise in the interleaved layout", "rotation.py",
           "product = numbers * factors", "product = numbers * factors.conj()"),
    Mutant("no minus in the half-split layout", "rotation.py",
           "turned = torch.cat((x0 * cos - x1 * sin,", "turned = torch.cat((x0 * cos + x1 * sin,"),
    Mutant("layouts exchanged", "rotation.py",
           '    if layout == "half":\n        x0, x1 = head.chunk(2, -1)',
           '    if layout != "half":\n        x0, x1 = head.chunk(2, -1)'),
    Mutant("keys of a decoding step taken for queries", "rotation.py",
           "both[:, q.shape[1] :]", "both[:, : k.shape[1]]", ("rotation",)),
    Mutant("small exponentials never leave what was seen", "analysis/extrapolation.py",
           "below, above = 1e-12 * low.abs(), 1e-12 * high.abs()",
           "below = above = 1e-12 * values.abs().amax()", ("extrapolation",)),
    Mutant("the absolute value of the least int8", "schemes/alibi.py",
           "offsets.to(slopes.device).double().abs()", "offsets.abs().to(slopes.device)",
           ("refusals",)),
    Mutant("untouched features lost", "rotation.py",
           "torch.cat((turned, x[..., 2 * pairs :]), -1)",
           "torch.cat((turned, 0 * x[..., 2 * pairs :]), -1)"),
    Mutant("keys not rotated", "schemes/rotary.py",
           "self.turn(q, q_positions), self.turn(k, k_positions)",
           "self.turn(q, q_positions), k"),
    Mutant("keys at the queries' positions", "schemes/rotary.py",
           "self.turn(k, k_positions)", "self.turn(k, q_positions)"),
    Mutant("partial rotary with the ladder of the whole width", "schemes/rope.py",
           "return Phases.geometric(self.rotary_dim, self.base)",
           "return Phases.given("
           "Phases.geometric(self.dim, self.base).inv_freq[: self.rotary_dim // 2])"),
    Mutant("kernel without the untouched tail", "schemes/rotary.py",
           " + self.unpaired) / self.width", ") / self.width"),
    Mutant("vectors without the untouched tail", "schemes/rotary.py",
           "self.unpaired), self.width**-0.5", "self.unpaired), 0.0"),
    # ALiBi.
    Mutant("distance rewarded", "schemes/alibi.py",
           "biases = -slopes.reshape", "biases = slopes.reshape"),
    Mutant("even slopes of the power above", "schemes/alibi.py",
           "_power_of_two_slopes(2 * power)[::2]", "_power_of_two_slopes(2 * power)[1::2]"),
    Mutant("slopes in rising order", "schemes/alibi.py",
           "for h in range(1, heads + 1)]", "for h in range(heads, 0, -1)]"),
    Mutant("slopes from 2^0", "schemes/alibi.py",
           "for h in range(1, heads + 1)]", "for h in range(heads)]"),
    Mutant("slope 2^(-8/n) for every head", "schemes/alibi.py",
           "2.0 ** (-8 * h / heads)", "2.0 ** (-8 / heads)"),
    Mutant("row form plotted as the bias", "schemes/alibi.py",
           "distances = offsets.to(slopes.device).double().abs()",
           "distances = -offsets.to(slopes.device).double()"),
    Mutant("mean of one head", "schemes/scheme.py", "factors.mean(dim=0)", "factors[0]"),
    Mutant("vectors with 1 - r under the root", "schemes/alibi.py",
           "torch.expm1(-2 * chosen)", "torch.expm1(-chosen)"),
    Mutant("heads' vectors not scaled", "schemes/alibi.py",
           " / math.sqrt(len(chosen))", " / 1.0"),
    # Learned.
    Mutant("positions past the table wrap around", "schemes/learned.py",
           "self._check_range(int(positions.min()), int(positions.max()))",
           "wanted = wanted % self.config.max_len"),
    Mutant("the last row refused", "schemes/learned.py",
           "last >= self.config.max_len:", "last >= self.config.max_len - 1:"),
    Mutant("a random start ten times too wide", "schemes/learned.py",
           "INITIAL_STD = 0.02", "INITIAL_STD = 0.2"),
    # Scores and attention.
    Mutant("no 1/sqrt(d)", "schemes/scheme.py", "return head_dim**-0.5", "return 1.0"),
    Mutant("offset query minus key", "hook_arguments.py",
           "return keys[..., None, :] - queries[..., :, None]",
           "return queries[..., :, None] - 2 * keys[..., None, :]"),
    Mutant("offsets in the positions' own dtype", "hook_arguments.py",
           "device=like.device, dtype=torch.int64)", "device=like.device)", ("hooks",)),
    Mutant("key heads in the wrong groups", "schemes/scheme.py",
           "rotated_k.repeat_interleave(shared, dim=1)", "rotated_k.repeat(1, shared, 1, 1)"),
    Mutant("bias in the query's precision", "schemes/scheme.py",
           "batched.to(torch.promote_types(q.dtype, torch.float32))", "batched.to(q.dtype)"),
    Mutant("a trained curve without its gradient", "trained_curve.py",
           "of_curve[..., first : first + per_offset.shape[-1]] += per_offset", "pass",
           ("trained_curve",)),
    Mutant("a trained curve's gradient one offset off", "trained_curve.py",
           "first = queries - stop", "first = queries - stop + 1", ("trained_curve",)),
    Mutant("keys' gradient without the scale", "trained_curve.py",
           "block = (q[..., rows, :].to(wide) * scale).flip(-2)",
           "block = q[..., rows, :].to(wide).flip(-2)", ("trained_curve",)),
    Mutant("outputs beside other queries' weights", "trained_curve.py",
           "shared[..., rows, :].flip(-2)", "shared[..., rows, :]", ("trained_curve",)),
    Mutant("the next token seen", "attention.py", "offsets > 0", "offsets > 1"),
    Mutant("a token blind to itself", "attention.py", "offsets > 0", "offsets >= 0"),
    Mutant("the next token seen under a key mask", "attention.py",
           "later = k_positions[..., None, :] > q_positions[..., :, None]",
           "later = k_positions[..., None, :] > q_positions[..., :, None] + 1"),
    Mutant("causal by shape", "attention.py", "        if shift == 0:\n", "        if True:\n"),
    Mutant("key mask ignored", "attention.py", "else visible & keys", "else visible"),
    Mutant("window moved the wrong way", "attention.py",
           "shift = first_query - first_key", "shift = first_key - first_query"),
    Mutant("no bias", "attention.py",
           "curve = scheme.offset_bias(offsets)", "curve = None if queries else offsets"),
    Mutant("queries of a block not flipped", "attention.py",
           "rows = q[..., start:stop, :].flip(-2)", "rows = q[..., start:stop, :]"),
    Mutant("answers of a block not flipped back", "attention.py",
           "mask, scale).flip(-2)", "mask, scale)"),
    Mutant("every block masked as the first", "attention.py",
           "flipped_rows(curve, queries, start, stop, seen)",
           "flipped_rows(curve, queries, 0, stop - start, seen)"),
    Mutant("a query without keys sees all", "attention.py",
           "torch.where(sees_any, _sdpa(q, k, v, mask, scale), 0.0)",
           "_sdpa(q, k, v, mask, scale)"),
    Mutant("a curve read one offset late", "toeplitz.py", "queries - stop :", "queries - stop + 1 :"),
    Mutant("a Toeplitz matrix upside down", "toeplitz.py", "[..., ::-1, :]", "[..., :, :]"),
    # Modules and setting.
    Mutant("token embedding not scaled", "modules.py",
           "math.sqrt(d_model)", "1.0", ("modules",)),
    Mutant("RoPE on the model's width", "setting.py",
           "return self.dim if self.equal_width else self.head_dim", "return self.dim",
           ("setting",)),
    # Closed forms of M_k.
    Mutant("M_k turns backwards", "offset_maps.py",
           'above = sin if first == "sin" else -sin', 'above = -sin if first == "sin" else sin'),
    Mutant("ALiBi's shift keeps its length", "offset_maps.py",
           "*= ((1 - ratio) * (1 + ratio)) ** 0.5", "*= (1 - ratio) ** 0.5"),
    # Analyses.
    Mutant("cosine over one norm", "analysis/similarity.py",
           "torch.mul(norms[rows, None], norms, out=values[rows])",
           "torch.mul(norms[rows, None], norms[rows, None], out=values[rows])", ("similarity",)),
    Mutant("cosine row from the other side", "analysis/similarity.py",
           "first = count - 1 - reference", "first = reference", ("similarity",)),
    Mutant("spread with n - 1", "analysis/similarity.py",
           "(squares / counts).sqrt()", "(squares / (counts - 1)).sqrt()", ("similarity",)),
    Mutant("wavelength 2 pi theta", "analysis/spectrum.py",
           "wavelengths = 2 * math.pi / inv_freq", "wavelengths = 2 * math.pi * inv_freq",
           ("spectrum",)),
    Mutant("quarter turn at pi", "analysis/spectrum.py",
           "(angles < math.pi / 2)", "(angles < math.pi)", ("spectrum",)),
    Mutant("B(k) of sines", "analysis/extrapolation.py",
           "torch.cat([cos, -sin], 1)", "torch.cat([sin, cos], 1)", ("extrapolation",)),
    Mutant("critical dimension without 2 pi", "analysis/extrapolation.py",
           "math.log(length / (2 * math.pi))", "math.log(length)", ("extrapolation",)),
    Mutant("first negative offset one early", "analysis/extrapolation.py",
           "index * _CHUNK + int(negative[0])", "index * _CHUNK + int(negative[0]) - 1",
           ("extrapolation",)),
    Mutant("kernel past L read on the other side", "analysis/extrapolation.py",
           "values = curve[:count].flip(0)", "values = curve[:count]", ("extrapolation",)),
    Mutant("nearest seen includes the unseen", "analysis/extrapolation.py",
           "source[rows], source[:train_length]", "source[rows], source[: train_length + 1]",
           ("extrapolation",)),
    Mutant("components not centred", "analysis/projection.py", ".sub_(drift)", ".sub_(0 * drift)",
           ("projection",)),
    Mutant("explained variance over n", "analysis/projection.py",
           "size, degrees = min(components, count, width), max(count - 1, 1)",
           "size, degrees = min(components, count, width), count", ("projection",)),
    Mutant("signs as they fall", "analysis/projection.py",
           "[0].sign()", "[0].sign().abs()", ("projection",)),
    Mutant("a fit scored on its own half", "analysis/linear_map_fit.py",
           "shuffled[:half], shuffled[half:], later", "shuffled[:half], shuffled[:half], later",
           ("linearity",)),
    Mutant("fitted pairs turn backwards", "analysis/linear_map_fit.py",
           "(before.conj() * after)", "(before * after.conj())", ("linearity",)),
    Mutant("R^2 against the wrong offsets", "analysis/linearity.py",
           "slope = (steps @ centred) / (steps @ steps)",
           "slope = (steps @ centred) / (steps @ steps) * 1.001", ("linearity",)),
    Mutant("spread of rows instead of diagonals", "analysis/linearity.py",
           "return (short.mean() / overall).item(), None",
           "return (overall / short.mean()).item(), None", ("linearity",)),
    Mutant("distance without the square root", "analysis/properties.py",
           "squared[second].clamp(min=0).sqrt()", "squared[second].clamp(min=0)",
           ("properties",)),
    Mutant("first rise one late", "analysis/properties.py",
           "int(rises[0]) + 1 if", "int(rises[0]) + 2 if", ("properties",)),
    Mutant("tau without its ties", "analysis/properties.py",
           "math.sqrt(pairs * untied)", "pairs", ("properties",)),
    # The lab.
    Mutant("targets are the bytes themselves", "lab/tasks.py",
           "return window[:, :-1], window[:, 1:]", "return window[:, :-1], window[:, :-1]",
           ("lab_tasks",)),
    Mutant("a value asked for one token early", "lab/tasks.py",
           "distance - 2 * (self.PAIRS - 1) - 1)", "distance - 2 * (self.PAIRS - 1) - 2)",
           ("lab_tasks",)),
    Mutant("letters are scored before the mark", "lab/tasks.py",
           "(place > n + 1) & (place <= 2 * n + 2)", "(place > 0) & (place <= 2 * n + 2)",
           ("lab_tasks",)),
    Mutant("validation is trained on", "lab/corpus.py",
           "% VALIDATION_SHARE == 0", "% VALIDATION_SHARE < 0", ("lab_corpus",)),
    Mutant("names of files do not count", "lab/corpus.py",
           "(path.encode(), content)", "(content,)", ("lab_corpus",)),
    Mutant("replaced characters counted, not bytes", "lab/corpus.py",
           '"[\\udc80-\\udcff]"', '"[\\udc80-\\udcff]+"', ("lab_corpus",)),
    Mutant("the model sees the next token", "lab/model.py",
           "attention(q, k, v, scheme)", "attention(q, k, v, scheme, causal=False)",
           ("lab_model",)),
    Mutant("a repeated row shows the future", "lab/model.py",
           "x = block(x, scheme.layer(index))",
           "x = block(x, scheme.layer(index)); "
           "x = x if positions is None else x + 0.1 * x.roll(-1, 1)", ("lab_evaluate",)),
    Mutant("weights drawn from the global generator", "lab/model.py",
           "nn.init.normal_(self.tokens.weight, std=width**-0.5, generator=generator)",
           "nn.init.normal_(self.tokens.weight, std=width**-0.5)", ("lab_model", "lab_train")),
    Mutant("the scheme is left out of training", "lab/model.py",
           "self.scheme = scheme\n", "self.scheme = scheme.requires_grad_(False)\n",
           ("lab_model", "lab_train")),
    Mutant("data order depends on the scheme", "lab/train.py",
           'stream(self.specification.seed, "data", number)',
           'stream(self.specification.seed, self.specification.scheme.kind, number)',
           ("lab_train",)),
    Mutant("a checkpoint forgets the optimiser", "lab/train.py",
           "for parameter, state in self.optimizer.state.items():",
           "for parameter, state in ():", ("lab_resume",)),
    Mutant("an interrupted update is kept", "lab/train.py",
           "if checkpoint is not None and trainer.whole:", "if checkpoint is not None:",
           ("lab_resume",)),
    Mutant("half a file after a kill", "run_files.py",
           "temporary = path.with_name(f\".{path.name}.{uuid.uuid4().hex}\")",
           "temporary = path", ("lab_faults",)),
    Mutant("a loss that is no number moves the weights", "lab/train.py",
           "if math.isfinite(value):", "if True:", ("lab_train",)),
    Mutant("no warm-up", "lab/train.py", "if step < warm:", "if step < 0:", ("lab_train",)),
    Mutant("gradients not clipped", "lab/train.py", "CLIP = 1.0", "CLIP = 1e9", ("lab_train",)),
    Mutant("other targets at every length", "lab/evaluate.py",
           "window[:, -scored:]", "window[:, -scored - 1 : -1]", ("lab_evaluate",)),
    Mutant("targets shifted by one", "lab/evaluate.py",
           "window[:, 1:].flatten()", "window[:, :-1].flatten()", ("lab_evaluate",)),
    Mutant("evaluation on what was trained on", "lab/evaluate.py",
           "text = task.corpus.validation\n    lengths", "text = task.corpus.train\n    lengths",
           ("lab_evaluate",)),
    Mutant("a repeated row read as trained", "lab/evaluate.py",
           "yield Variant(CLAMPED, clamp=scheme.max_length - 1)",
           "yield Variant(TRAINED, clamp=scheme.max_length - 1)", ("lab_evaluate",)),
    Mutant("the first row repeated", "lab/evaluate.py",
           ".clamp(max=self.clamp)", " % (self.clamp + 1)", ("lab_evaluate",)),
    Mutant("one fault in a copy forgiven", "lab/evaluate.py",
           ".all(dim=1).sum()", ".any(dim=1).sum()", ("lab_evaluate",)),
    # Scalings of RoPE.
    Mutant("NTK-aware by the factor alone", "schemes/rope_scaling/ntk.py",
           "share = pair_numbers(pairs) / max(pairs - 1, 1)",
           "share = pair_numbers(pairs) / max(pairs, 1)", ("rope_scaling",)),
    Mutant("NTK-aware exponent turned over", "schemes/rope_scaling/ntk.py",
           "float(factor) ** share", "float(factor) ** (1 - share)", ("rope_scaling",)),
    Mutant("interpolation multiplies", "schemes/rope_scaling/linear.py",
           "torch.full_like(pair_numbers(self.rotary_dim // 2), self.factor)",
           "torch.full_like(pair_numbers(self.rotary_dim // 2), 1 / self.factor)",
           ("lab_evaluate",)),
    Mutant("dynamic NTK that also grows below the trained length",
           "schemes/rope_scaling/dynamic.py",
           "max(self.length, self.trained_length), self.trained_length",
           "self.length or self.trained_length, self.trained_length", ("rope_scaling",)),
    Mutant("dynamic NTK of a context that is all new", "schemes/rope_scaling/dynamic.py",
           " - (self.factor - 1)", "", ("rope_scaling",)),
    Mutant("YaRN's ramp with its ends exchanged", "schemes/rope_scaling/yarn.py",
           "for turns in (self.beta_fast, self.beta_slow)",
           "for turns in (self.beta_slow, self.beta_fast)", ("rope_scaling",)),
    Mutant("YaRN's upper end cut at the last pair", "schemes/rope_scaling/yarn.py",
           "min(high, rotary_dim - 1)", "min(high, rotary_dim // 2 - 1)", ("rope_scaling",)),
    Mutant("YaRN's ends always rounded", "schemes/rope_scaling/yarn.py",
           "        if self.truncate:\n            low, high = math",
           "        if True:\n            low, high = math", ("rope_scaling",)),
    Mutant("one mscale without the other", "schemes/rope_scaling/yarn.py",
           "if self.mscale and self.mscale_all_dim:", "if self.mscale:", ("rope_scaling",)),
    Mutant("the paper's YaRN over pairs", "schemes/rope_scaling/yarn_paper.py",
           "self.unscaled().inv_freq / (2 * math.pi)", "self.unscaled().inv_freq",
           ("rope_scaling",)),
    Mutant("LongRoPE's attention factor beyond the trained length alone",
           "schemes/rope_scaling/longrope.py",
           "if self.factor <= 1:", "if self.factor <= 1 or not self.is_long:", ("rope_scaling",)),
    Mutant("LongRoPE long at the trained length", "schemes/rope_scaling/longrope.py",
           "self.length > self.trained_length", "self.length >= self.trained_length",
           ("rope_scaling",)),
    Mutant("p-RoPE on the ladder of a part", "schemes/rope_scaling/proportional.py",
           '        """The whole width: pairs that stand still are pairs too."""\n'
           "        return self.dim",
           "        return 2 * max(self.turning, 1)", ("rope_scaling",)),
    Mutant("a blend that keeps what it should divide", "schemes/rope_scaling/scaled.py",
           "(1 - kept) + kept * factor", "kept + (1 - kept) * factor", ("rope_scaling",)),
    Mutant("the attention factor applied once to the kernel", "schemes/rotary.py",
           "self.attention_factor**2 * cosines", "self.attention_factor * cosines",
           ("rope_scaling",)),
    Mutant("a rotation without the attention factor", "rows.py",
           "((scale * plane).to(dtype)", "(plane.to(dtype)", ("rope_scaling",)),
    Mutant("columns read as rows", "schemes/rope_scaling/sections.py",
           "return [rest, *reversed(found)]", "return [*found, rest]", ("rope_scaling",)),
    Mutant("float32 frequencies rounded from the exact ones", "schemes/rope.py",
           "return 1.0 / float32_powers(self.base, rotary_dim)",
           "return self.unscaled().inv_freq.float()", ("rope_scaling",)),
    Mutant("a scheme read as of its training length at every length", "lab/evaluate.py",
           "if config == model.scheme.config:", "if True:", ("lab_evaluate",)),
    Mutant("runs renamed by the scaling they no longer hold", "schemes/rope.py",
           'found | {"scaling": {"kind": "none"}} if', "found if", ("lab_specification",)),
    Mutant("the seed left out of a run's name", "lab/specification.py",
           "plain[\"model\"] = dataclasses.asdict(self.model)",
           "plain[\"model\"] = dataclasses.asdict(self.model); plain[\"seed\"] = 0",
           ("lab_specification",)),
    Mutant("what was set aside is overwritten", "run_files.py",
           "while self.files.exists(self.path(place)):", "while False:", ("lab_faults",)),
    Mutant("a run of another version set aside", "lab/runs.py",
           "except RunOfAnotherVersion:\n                self.foreign.append(run_id)",
           "except RunOfAnotherVersion:\n                self._break(run_id)", ("lab_faults",)),
    Mutant("a stop that nobody hears", "lab/worker.py",
           "if report.queue.stopping(report.name):", "if False:", ("lab_worker",)),
    Mutant("a worker that outlives its server", "lab/worker.py",
           "threading.Thread(target=_leave_with_parent, daemon=True).start()", "pass",
           ("lab_worker",)),
    Mutant("two workers at once", "lab/worker.py",
           "stack.enter_context(FileLock(queue.folder / f\"worker-{place}.lock\", timeout=0.2))",
           "pass", ("lab_worker",)),
    Mutant("the same start queued twice", "lab/queue.py",
           "if not entry.name.endswith(digest):", "if True:", ("lab_queue",)),
    Mutant("a queue without an end", "lab/queue.py",
           "if len(here) >= self.running + self.waiting:", "if False:", ("lab_queue",)),
    Mutant("a text dropped while it is needed", "lab/queue.py",
           "if path.name.encode() not in needed:", "if True:", ("lab_queue",)),
    Mutant("a killer tried for ever", "lab/queue.py",
           "if again.attempts >= ATTEMPTS:", "if False:", ("lab_queue",)),
    Mutant("a curve of last losses", "lab/queue.py",
           "sum(self._open) / len(self._open)", "self._open[-1]", ("lab_queue",)),
    Mutant("an estimate without the reading", "lab/estimate.py",
           "return self.step(specification) * specification.steps + read",
           "return self.step(specification) * specification.steps", ("page_train",)),
    Mutant("a comparison that forgets the size of its models", "lab/summary.py",
           'del alike["scheme"],', 'del alike["model"], alike["scheme"],', ("lab_summary",)),
    Mutant("the table of another run", "interop/sources.py",
           'source.removeprefix("run-"))', "TRAINED)", ("sources",)),
    Mutant("a checkpoint without its optimiser taken", "lab/train.py",
           "if self.losses and not states:", "if False:", ("lab_resume",)),
    Mutant("a stretched ladder stretched anew", "schemes/rope_scaling/scaled.py",
           "if type(trained) is not RopeConfig or", "if not isinstance(trained, RopeConfig) or",
           ("lab_evaluate",)),
    Mutant("a shorter reading of other text", "lab/evaluate.py",
           "ends - longest + length, length", "ends, length", ("lab_evaluate",)),
    Mutant("the later of two machines counts", "run_files.py",
           "content, new=True)", "content)", ("lab_faults",)),
    Mutant("a run set aside for want of memory", "lab/runs.py",
           "except MemoryError as error:", "except ZeroDivisionError as error:", ("lab_faults",)),
    Mutant("a run lost on a cluster called done", "__main__.py",
           "if outcome.error or store.has(", "if True or store.has(", ("command",)),
    Mutant("a run named by what its text is called", "lab/specification.py",
           'if name != "corpus_name"}', "}", ("lab_specification",)),
    Mutant("an attempt counted for a server's end", "lab/worker.py",
           "if not _heard.wait(HEARD_WITHIN):", "if False:", ("lab_worker",)),
    Mutant("a checkpoint swept up while it is used", "lab/upkeep.py",
           "lock.acquire(timeout=0)\n", "pass\n", ("lab_upkeep",)),
    Mutant("a bucket across the training length", "lab/evaluate.py",
           "octave = train_length\n", "octave = train_length // 8 * 8\n",
           ("lab_evaluate",)),
    Mutant("a scheme wider than its model", "lab/specification.py",
           "if source in sizes and found", "if source in () and found",
           ("lab_specification",)),
    Mutant("buckets of one run taken for all", "lab/summary.py",
           "until.setdefault(key, {})", "until.setdefault(next(iter(first)), {})",
           ("lab_summary",)),
    Mutant("a band of the first seed", "lab/summary.py", "min(found[x])", "found[x][0]",
           ("lab_summary",)),
    Mutant("the elbow counts what is shorter", "lab/summary.py",
           "past = (point for point in curve.points if point.x > length)",
           "past = (point for point in curve.points)", ("lab_summary",)),
    # What a page asks of one scheme, and what stands behind the newer pages.
    Mutant("lowest head called the highest", "analysis/of_scheme.py",
           "return heads.amin(dim=0), heads.amax(dim=0)", "return heads.amax(dim=0), heads.amin(dim=0)",
           ("page_numbers",)),
    Mutant("A minus B", "analysis/of_scheme.py",
           "return _square(now.cosine, count) - _square(then.cosine, count)",
           "return _square(then.cosine, count) - _square(now.cosine, count)", ("page_pins",)),
    Mutant("outputs of the other order not sorted back", "analysis/order.py",
           "outputs[1][places]", "outputs[1]", ("order",)),
    Mutant("patterns sorted back by rows alone", "analysis/order.py",
           "back = patterns[1][:, places][:, :, places]", "back = patterns[1][:, places]", ("order",)),
    Mutant("a repeated word drawn anew", "analysis/order.py",
           "drawn[vocabulary.index(word)] for word in words", "drawn[n % len(drawn)] for n, word in "
           "enumerate(words)", ("order",)),
    Mutant("Xavier without the vocabulary", "analysis/embedding_sum.py",
           "(2 / (vocabulary + dim)) ** 0.5", "(1 / dim) ** 0.5", ("encoding",)),
    Mutant("a uniform start of the wrong width", "analysis/embedding_sum.py",
           "(math.sqrt(3) * deviation)", "deviation", ("encoding",)),
    Mutant("a bias drawn upside down", "encoding.py",
           'Encoding(toeplitz(curve), "logit", ())', 'Encoding(-toeplitz(curve), "logit", ())',
           ("encoding",)),
    Mutant("formulas of another base", "formula.py",
           "return number(getattr(self.config, field)) if self.numbers else _SYMBOLS[field]",
           "return number(2 * getattr(self.config, field)) if self.numbers else _SYMBOLS[field]",
           ("encoding",)),
    Mutant("62,832 for every ladder", "claims/wavelengths.py",
           "said = 2 * math.pi * setting.base", "said = 2 * math.pi * 10_000", ("claims",)),
    Mutant("a claim of similarity never false", "claims/offsets.py",
           "State.FALSE if curve[1] <= further else State.HOLDS if", "State.HOLDS if", ("claims",)),
    Mutant("a preset of another width", "presets.py", "dim=768", "dim=512", ("presets",)),
)  # fmt: skip


def copied(folder: Path) -> None:
    """Copy the library, the dashboard, their tests and settings."""
    ignored = shutil.ignore_patterns("__pycache__", "artifacts")
    for name in ("posenc", "dashboard", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)


class FirstFailure:
    """A pytest plugin that remembers what failed first."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid.removeprefix("tests/test_")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.name:
            self.name = f"{report.nodeid} cannot be read"


def run_tests(folder: Path, tests: tuple[str, ...], answer: Path) -> None:
    """In a process of its own: test the package in `folder`, leave the outcome in `answer`."""
    with open(folder / "output", "w") as output, contextlib.redirect_stdout(output):
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.chdir(folder)
        os.environ |= {"POSENC_SHAPES": "0", "CI": "1"}
        sys.path.insert(0, str(folder))
        sys.dont_write_bytecode = True
        for name in [name for name in sys.modules if name.split(".")[0] in ("posenc", "tests")]:
            del sys.modules[name]
        first = FirstFailure()
        files = [f"tests/test_{name}.py" for name in tests]
        options = [
            "-x",
            "-q",
            "-n",
            "0",
            "-m",
            "not browser and not long",
            "-p",
            "no:cacheprovider",
        ]
        status = pytest.main([*files, *options], plugins=[first])
        imported = getattr(sys.modules.get("posenc"), "__file__", None) or str(folder / "posenc")
        if not Path(imported).resolve().is_relative_to(folder.resolve()) or status > 2:
            first.name, status = f"cannot be tested, pytest says {int(status)}", 9
    answer.write_text(f"{int(status)} {first.name}", encoding="utf-8")


@dataclass
class Run:
    """One mutant (or none) in a process of its own."""

    mutant: Mutant | None
    tests: tuple[str, ...]
    folder: tempfile.TemporaryDirectory = field(default_factory=tempfile.TemporaryDirectory)
    begin: float = field(default_factory=time.perf_counter)

    def start(self) -> "Run":
        """Make the copy, put the fault in and start the tests."""
        folder = Path(self.folder.name)
        copied(folder)
        if self.mutant is not None:
            path = folder / "posenc" / self.mutant.path
            text = path.read_text(encoding="utf-8")
            if text.count(self.mutant.old) != 1:
                raise SystemExit(f"{self.mutant.name}: the source has changed meanwhile")
            path.write_text(text.replace(self.mutant.old, self.mutant.new), encoding="utf-8")
        given = (folder, self.tests, folder / "answer")
        self.process = multiprocessing.get_context("fork").Process(target=run_tests, args=given)
        self.process.start()
        return self

    def outcome(self) -> tuple[bool, str]:
        """Return whether all tests passed, and what failed first."""
        answer = Path(self.folder.name) / "answer"
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
            return False, f"took over {SECONDS} s"
        if not answer.exists():
            return False, f"ended the process with {self.process.exitcode}"
        status, name = answer.read_text(encoding="utf-8").split(" ", 1)
        if status == "9":
            raise SystemExit(f"{self.mutant}: {name}")
        return status == "0", name


def outcomes(mutants: list[Mutant], jobs: int) -> Iterator[tuple[Mutant, bool, str, float]]:
    """Run all, `jobs` at a time; yield each with whether it was killed, by what, in what time."""
    waiting, running = list(mutants), []
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop(0)
            running.append(Run(mutant, mutant.tests).start())
        wait([run.process.sentinel for run in running], timeout=1)
        for run in list(running):
            seconds = time.perf_counter() - run.begin
            if run.process.is_alive() and seconds < SECONDS:
                continue
            running.remove(run)
            passed, by = run.outcome()
            run.folder.cleanup()
            yield run.mutant, not passed, by, seconds


def main() -> int:
    """Run the mutants asked for and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "words", nargs="*", help="run only mutants whose name contains one of these"
    )
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    chosen = [m for m in MUTANTS if not asked.words or any(word in m.name for word in asked.words)]
    if asked.list:
        for mutant in chosen:
            print(f"{mutant.path:<28}{mutant.name}")
        return 0
    for mutant in chosen:  # before anything is run
        found = (ROOT / "posenc" / mutant.path).read_text(encoding="utf-8").count(mutant.old)
        if found != 1:
            raise SystemExit(f"{mutant.name}: {mutant.old!r} found {found} times in {mutant.path}")
    torch.set_num_threads(1)
    needed = tuple(dict.fromkeys(name for mutant in chosen for name in mutant.tests))
    halves = [Run(None, part).start() for part in (needed[::2], needed[1::2]) if part]
    for plain in halves:
        plain.process.join(4 * SECONDS)
        passed, by = plain.outcome()
        if not passed:
            raise SystemExit(f"the tests fail without any mutant: {by}")
    survived = 0
    for mutant, killed, by, seconds in outcomes(chosen, asked.jobs):
        survived += not killed
        verdict = "killed" if killed else "SURVIVED"
        print(f"{verdict:<9}{seconds:5.1f} s  {mutant.name}  {by}", flush=True)
    print(f"{len(chosen) - survived} of {len(chosen)} killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
