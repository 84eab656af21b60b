"""z ≥ 0 beside the unconstrained mean cut off at zero, on 20 problems of each kind.

Both are means of a posterior, so on one problem either may be nearer to the truth, and where all
values are equal the half-normal law costs some per cent (docs/notes/prior.md). The median of the
ratio of the errors of 20 problems has a standard error of about .03 where single ratios scatter by
a tenth: a median of 1.1 is more than three of them above 1. The root mean square is not compared:
one missed coefficient of the twenty problems decides it. Coherent columns, whose posterior is
sampled, are not among the kinds: there it is worse by more where all values are equal.
"""

import numpy as np
import pytest

import cofem


def gaussian(rng, n, d):
    return rng.normal(size=(n, d)) / np.sqrt(n)


def blurred(width, n=200):
    apart = np.arange(n)[:, None] - np.arange(n)
    phi = np.exp(-(apart**2) / (2 * width**2))
    return phi / np.linalg.norm(phi[:, n // 2])


KINDS = {  # matrix, non-zeros, noise
    "plain": (lambda rng: gaussian(rng, 100, 250), 10, 0.05),
    "few data": (lambda rng: gaussian(rng, 20, 30), 3, 0.05),
    "noisy": (lambda rng: gaussian(rng, 100, 250), 10, 0.1),
    "blur": (lambda rng: blurred(1), 10, 0.01),
}


def errors(kind, law, seeds):
    """Return the errors with z ≥ 0, and of the unconstrained mean cut off at zero."""
    make, k, sigma = KINDS[kind]
    found = []
    for seed in seeds:
        rng = np.random.default_rng([50, seed])
        phi = make(rng)
        z = np.zeros(phi.shape[1])
        where = rng.choice(len(z), k, replace=False)
        z[where] = 1.0 if law == "equal" else np.abs(rng.normal(size=k))
        y = phi @ z + sigma * rng.normal(size=len(phi))
        post = cofem.fit(phi, y, nonnegative=True)
        assert np.all(post.mean >= 0)
        free = np.maximum(cofem.fit(phi, y).mean, 0)
        found.append([np.linalg.norm(m - z) / np.linalg.norm(z) for m in (post.mean, free)])
    return np.array(found).T


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::cofem.ConvergenceWarning")
@pytest.mark.parametrize("law", ["equal", "normal"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_it_is_not_worse_than_cutting_off(kind, law):
    positive, free = errors(kind, law, range(20))
    assert np.median(positive / free) <= 1.1


@pytest.mark.parametrize("kind", list(KINDS))
def test_it_is_not_worse_on_a_few(kind):
    positive, free = errors(kind, "normal", range(20, 25))
    assert np.median(positive / free) <= 1.25
