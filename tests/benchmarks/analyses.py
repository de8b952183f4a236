"""The analyses beside the general methods that they replace, and scikit-learn's, on one thread.

python -m tests.benchmarks.analyses [--rounds 7]

Prints how many times faster, by the median of paired samples, and the largest error against float64,
all from one run. Targets: the offset curve alone 300x the full Gram matrix at 4,096 positions of width
512; principal components 3x scikit-learn's "auto" at 32,768 positions of width 512, within 1e-5.
"""

import argparse
from collections.abc import Callable, Mapping

import numpy as np
import torch
from sklearn.decomposition import PCA, KernelPCA
from threadpoolctl import threadpool_limits
from torch import Tensor

from posenc import offset_curve, position_kernel
from posenc.analysis import expand_curve, fit_dense, project, project_gram, project_waves
from posenc.schemes.alibi import AlibiConfig
from posenc.schemes.sinusoidal import SinusoidalConfig
from posenc.toeplitz import toeplitz
from tests.benchmarks.timing import paired_seconds, ratio, table

Contenders = Mapping[str, Callable[[], Tensor]]


def compare(title: str, contenders: Contenders, to: str, exact: Tensor, rounds: int) -> None:
    """Print how much faster than `to` each contender is, and how far from `exact`.

    Errors are largest differences over the largest value of `exact`, columns up to their sign.
    """
    samples = paired_seconds(contenders, rounds=rounds)
    print(table(title, {name: {"faster": ratio(samples, to, name)} for name in contenders}))
    width = max(len(name) for name in contenders)
    print("largest error against float64, over the largest value")
    for name, call in contenders.items():
        print(f"{name.ljust(width)}  {difference(call(), exact):14.1e}")
    print()


def difference(found: Tensor, exact: Tensor) -> float:
    """Largest difference of columns, each up to its sign, over the largest value."""
    found = found.double()
    signs = (found * exact).sum(0).sign()
    return ((found * signs - exact).abs().amax() / exact.abs().amax()).item()


def similarity(rounds: int) -> None:
    """One curve by offset, and the matrix written out from it, against all inner products."""
    scheme = SinusoidalConfig(dim=512).build()
    wide = scheme.vectors(4_096)
    rows = wide.float()
    curve = offset_curve(scheme, 4_096)
    half = sinusoidal_inner_products(4_096, 512)
    compare(
        "one row of the kernel, T=4096, d=512",
        {
            "Gram, float32": lambda: (rows @ rows.T)[0, :, None],
            "Gram, float64": lambda: (wide @ wide.T)[0, :, None],
            "offset curve": lambda: offset_curve(scheme, 4_096)[4_095:, None],
        },
        "Gram, float32",
        half[:, None],
        rounds,
    )
    compare(
        "the whole kernel, T=4096, d=512",
        {
            "Gram, float32": lambda: rows @ rows.T,
            "Gram, float64": lambda: wide @ wide.T,
            "from the curve at hand": lambda: expand_curve(curve),
            "position_kernel": lambda: position_kernel(scheme, 4_096),
        },
        "Gram, float32",
        toeplitz(torch.cat([half[1:].flip(0), half])),
        rounds,
    )


def sinusoidal_inner_products(length: int, width: int) -> Tensor:
    """The kernel by offset, one frequency after the other in extended precision."""
    offsets = np.arange(length, dtype=np.longdouble)
    total = np.zeros(length, dtype=np.longdouble)
    for m in range(width // 2):
        total += np.cos(offsets * np.longdouble(10_000) ** (np.longdouble(-2 * m) / width))
    return torch.from_numpy(total.astype(np.float64))


def principal_components(rounds: int) -> None:
    """Scores of a sinusoidal table on three components."""
    scheme = SinusoidalConfig(dim=512).build()
    rows = scheme.vectors(32_768)
    single = rows.float()

    def peer(given: Tensor, solver: str) -> Callable[[], Tensor]:
        return lambda: torch.from_numpy(
            PCA(n_components=3, svd_solver=solver).fit_transform(given.numpy())
        )

    compare(
        "PCA, 32768x512, k=3",
        {
            "scikit-learn auto": peer(rows, "auto"),
            "scikit-learn auto, float32": peer(single, "auto"),
            "scikit-learn full": peer(rows, "full"),
            "project": lambda: project(rows).scores,
            "project, float32 given": lambda: project(single).scores,
            "project_waves": lambda: project_waves(scheme.inv_freq, 32_768).scores,
        },
        "scikit-learn auto",
        peer(rows, "full")(),
        rounds,
    )


def kernel_components(rounds: int) -> None:
    """Scores from ALiBi's kernel on three components, without its vectors."""
    kernel = position_kernel(AlibiConfig(heads=8).build(), 2_048)
    centring = torch.eye(2_048, dtype=torch.float64) - 1 / 2_048
    centred = centring @ kernel @ centring

    def general() -> Tensor:
        values, axes = torch.linalg.eigh(centred)
        return (axes[:, -3:] * values[-3:].sqrt()).flip(1)

    def peer() -> Tensor:
        found = KernelPCA(n_components=3, kernel="precomputed", eigen_solver="dense")
        return torch.from_numpy(found.fit_transform(kernel.numpy()))

    compare(
        "PCA of ALiBi's kernel, T=2048, k=3",
        {
            "scikit-learn KernelPCA": peer,
            "torch.linalg.eigh": general,
            "project_gram": lambda: project_gram(kernel).scores,
        },
        "scikit-learn KernelPCA",
        general(),
        max(3, rounds // 2),
    )


def dense_fit(rounds: int) -> None:
    """The dense fit with its control, rank and held-out scores, against one bare solution."""
    rows = SinusoidalConfig(dim=512).build().vectors(2_048)
    found = fit_dense(rows, 1)
    before, after = rows[: found.fitted].numpy(), rows[1 : found.fitted + 1].numpy()
    contenders: dict[str, Callable[[], object]] = {
        "one numpy.linalg.lstsq": lambda: np.linalg.lstsq(before, after, rcond=None),
        "fit_dense": lambda: fit_dense(rows, 1),
    }
    samples = paired_seconds(contenders, rounds=max(3, rounds // 2))
    name = "one numpy.linalg.lstsq"
    shares = {one: {"slower": ratio(samples, one, name)} for one in contenders}
    print(table("dense fit, 2048x512", shares))
    print(f"held out {found.held_out_error:.1e}, random table {found.control_held_out:.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    with threadpool_limits(limits=1):
        similarity(rounds)
        principal_components(rounds)
        kernel_components(rounds)
        dense_fit(rounds)


if __name__ == "__main__":
    main()
