"""Deliberate faults in the maths, one at a time: every one of them must fail a test.

python tests/mutants.py            run all, print killed or survived, exit 1 on a survivor
python tests/mutants.py --list     name them
python tests/mutants.py NAME ...   run those whose name contains one of these words

Each mutant is one replacement in a copy of the package in a temporary folder; its tests run there,
quickest first, until one fails. Nothing in the working tree is touched.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

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
    Mutant("the last limb dropped", "phases.py",
           "angle.add_(low.bitwise_and_(_LIMB)", "angle.add_(0 * low.bitwise_and_(_LIMB)"),
    Mutant("a half turn without its sign", "phases.py",
           "negate = turn.bitwise_xor_(folded)", "negate = turn.bitwise_xor_(folded) * 0"),
    Mutant("blocks counted from the window's start", "phases.py",
           "divmod(start + row, BLOCK)", "divmod(row, BLOCK)"),
    Mutant("blocks one position too long", "phases.py",
           "device=device) * BLOCK\n", "device=device) * (BLOCK + 1)\n"),
    Mutant("sine of a sum with the wrong sign", "phases.py",
           "sin_a * cos_b + cos_a * sin_b", "sin_a * cos_b - cos_a * sin_b"),
    Mutant("half precision rounded twice", "phases.py",
           "if dtype not in (torch.bfloat16, torch.float16):\n        return x",
           "if dtype is not None:\n        return x"),
    # Rows for the hooks.
    Mutant("positions from 1", "rows.py",
           "return cos_sin(positions.to(device), phases",
           "return cos_sin(positions.to(device) + 1, phases"),
    Mutant("kept rotary windows from 1", "rows.py",
           "return cos_sin(torch.arange(count, device=device)",
           "return cos_sin(1 + torch.arange(count, device=device)"),
    Mutant("kept sinusoidal windows from 1", "rows.py",
           "rows = cos_sin(torch.arange(count, device=device)",
           "rows = cos_sin(1 + torch.arange(count, device=device)"),
    Mutant("cosine before sine", "rows.py",
           "torch.stack((sin, cos), dim=-1)", "torch.stack((cos, sin), dim=-1)"),
    Mutant("cosine half before sine half", "rows.py",
           "torch.cat((sin, cos), dim=-1)", "torch.cat((cos, sin), dim=-1)"),
    Mutant("kernel summed over sines", "rows.py",
           "dtype=torch.float64)[0].sum", "dtype=torch.float64)[1].sum"),
    # Rotation.
    Mutant("clockwise rotation", "schemes/rope.py",
           "apply_rope(x, cos, sin,", "apply_rope(x, cos, -sin,"),
    Mutant("clockwise in the interleaved layout", "rotation.py",
           "(numbers * factors)", "(numbers * factors.conj())"),
    Mutant("no minus in the half-split layout", "rotation.py",
           "torch.addcmul(x0 * cos, x1, sin, value=-1)", "torch.addcmul(x0 * cos, x1, sin)"),
    Mutant("layouts exchanged", "rotation.py",
           '    if layout == "half":\n', '    if layout != "half":\n'),
    Mutant("untouched features lost", "rotation.py",
           "torch.cat((turned, x[..., 2 * pairs :]), -1)",
           "torch.cat((turned, 0 * x[..., 2 * pairs :]), -1)"),
    Mutant("keys not rotated", "schemes/rope.py",
           "self.turn(q, q_positions), self.turn(k, k_positions)",
           "self.turn(q, q_positions), k"),
    Mutant("keys at the queries' positions", "schemes/rope.py",
           "self.turn(k, k_positions)", "self.turn(k, q_positions)"),
    Mutant("partial rotary with the ladder of the whole width", "schemes/rope.py",
           "phases.Phases.geometric(config.rotary_dim, config.base)",
           "phases.Phases.given(phases.Phases.geometric(config.dim, config.base)"
           ".inv_freq[: config.rotary_dim // 2])"),
    Mutant("kernel without the untouched tail", "schemes/rope.py",
           " + (width - rotary)) / width", ") / width"),
    Mutant("vectors without the untouched tail", "schemes/rope.py",
           "width - rotary), width**-0.5", "width - rotary), 0.0"),
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
           "distances = offsets.abs()", "distances = -offsets"),
    Mutant("mean of one head", "schemes/alibi.py", "factors.mean(dim=0)", "factors[0]"),
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
    Mutant("offset query minus key", "schemes/scheme.py",
           "return keys[..., None, :] - queries[..., :, None]",
           "return queries[..., :, None] - 2 * keys[..., None, :]"),
    Mutant("offsets in the positions' own dtype", "schemes/scheme.py",
           "device=like.device, dtype=torch.int64)", "device=like.device)", ("hooks",)),
    Mutant("key heads in the wrong groups", "schemes/scheme.py",
           "rotated_k.repeat_interleave(shared, dim=1)", "rotated_k.repeat(1, shared, 1, 1)"),
    Mutant("bias in the query's precision", "schemes/scheme.py",
           "batched.to(torch.promote_types(q.dtype, torch.float32))", "batched.to(q.dtype)"),
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
    Mutant("a Toeplitz matrix upside down", "toeplitz.py", "length).flip(-2)", "length)"),
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
)  # fmt: skip


def copied(folder: Path) -> None:
    """Copy the package, its tests and their settings."""
    ignored = shutil.ignore_patterns("__pycache__", "artifacts")
    for name in ("posenc", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)


def tested(folder: Path, tests: tuple[str, ...]) -> tuple[bool, str]:
    """Run these test files against the package in `folder`; return whether all passed, and how."""
    command = [sys.executable, "-m", "pytest", *(f"tests/test_{name}.py" for name in tests)]
    command += ["-x", "-q", "-m", "not browser and not long", "-p", "no:cacheprovider"]
    environment = os.environ | {
        "PYTHONPATH": str(folder), "POSENC_SHAPES": "0", "CI": "1", "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    where = "import posenc; print(posenc.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", where], env=environment, cwd=folder, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if found.returncode:
        return False, "does not import"
    if not Path(found.stdout.strip()).is_relative_to(folder.resolve()):
        raise SystemExit(f"the copy in {folder} is not what Python imports")
    try:
        ran = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, check=False,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False, "took too long"
    if ran.returncode > 2:  # 1: a test failed, 2: a file of tests could not be read
        raise SystemExit(f"pytest itself failed: {ran.stdout[-300:]}")
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return ran.returncode == 0, failed[0].split(" ")[1] if failed else ""


def tried(mutant: Mutant) -> tuple[bool, str, float]:
    """Return whether the tests notice the mutant, what noticed it, and in how many seconds."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        path = Path(folder) / "posenc" / mutant.path
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.name}: found {text.count(mutant.old)} times in {mutant.path}")
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        passed, by = tested(Path(folder), mutant.tests)
    return not passed, by, time.perf_counter() - begin


def main() -> int:
    """Run the mutants asked for and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="run only mutants whose name contains one of these")
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
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        needed = tuple(dict.fromkeys(name for mutant in chosen for name in mutant.tests))
        passed, by = tested(Path(folder), needed)
        if not passed:
            raise SystemExit(f"the tests fail without any mutant: {by}")
    survived = 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        for mutant, (killed, by, seconds) in zip(chosen, pool.map(tried, chosen), strict=True):
            survived += not killed
            print(f"{'killed' if killed else 'SURVIVED':<9}{seconds:5.1f} s  {mutant.name}  {by}",
                  flush=True)  # fmt: skip
    print(f"{len(chosen) - survived} of {len(chosen)} killed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
