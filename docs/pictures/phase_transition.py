"""How many non-zeros can be recovered: the numbers of docs/who.md.

    python docs/pictures/phase_transition.py --problems 10

A DCT of D = 1,024 coefficients is sampled at a third of its points, noise 0.002; the non-zeros are
normal. A problem counts as solved if the relative error is below 5 %.
"""

import argparse
import warnings

import cofem
from cofem import simulate

D, NOISE = 1024, 0.002
SHARES = (0.10, 0.13, 0.15, 0.17, 0.19)


def solved(share, seed):
    """Whether one problem is solved, with nothing told."""
    problem = simulate.dct(D, seed, sparsity=share, noise_std=NOISE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)  # unsolved ones need not settle
        post = cofem.fit(problem.phi, problem.y)
    return simulate.nrmse(post.mean, problem.z) < 5.0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=10)
    count = parser.parse_args().problems
    for share in SHARES:
        done = sum(solved(share, seed) for seed in range(count))
        print(f"{100 * share:.0f} % non-zeros: {done} of {count} solved", flush=True)
