"""Simulation-based calibration: ranks of the truth among posterior draws, uniform if they hold.

Draw z from the prior and y from the model, then draw from the posterior of z given y. The rank of a
quantity of the true z among those draws is uniform (Talts et al. 2018). Ties, at the atom at zero,
are broken at random. Three quantities, each chosen before the truth is looked at: a coordinate at
random, the coordinate with the largest posterior standard deviation, and a random sum of all.
Every problem gives one rank of each, so ranks of one quantity are independent.
"""

from dataclasses import dataclass

import numpy as np
from learning_cases import KnownPrior
from scipy.stats import chisquare, norm

import cofem
from cofem.learning.certificate import Certificate
from cofem.learning.ends.best_end import reported
from cofem.learning.loop import iterate
from cofem.learning.moments.registry import make_esteps
from cofem.learning.sites.propagation import Propagation
from cofem.learning.starts import End
from cofem.learning.supports.chain import run_chain
from cofem.learning.supports.nonnegative import run_nonnegative_chain
from cofem.model.methods import EM, Banded, CoFEM
from cofem.model.model import Model, Task, Tie
from cofem.operators import Autoregressive, Dense
from cofem.result.assembly import posterior_of

DRAWS, BINS = 99, 10
N, D, BETA = 30, 40, 25.0
WEIGHTS, POWERS = np.array([0.8, 0.12, 0.08]), np.array([0.0, 0.5, 5.0])
QUANTITIES = ("a coordinate", "the least certain one", "a sum")


@dataclass(frozen=True)
class Kind:
    """A model with its generative form."""

    learned_prior: bool
    complex_: bool = False
    tasks: int = 1
    groups: int = 1  # coordinates in a group
    nonnegative: bool = False
    banded: bool = False
    sparsifier: str = ""
    method: str = "auto"
    chains: bool = False


KINDS = {
    "known precisions": Kind(False),
    "known precisions, probes": Kind(False, method="cofem"),
    "known precisions, complex": Kind(False, complex_=True),
    "known precisions, joint": Kind(False, tasks=2),
    "known precisions, banded": Kind(False, banded=True),
    "known precisions, z ≥ 0": Kind(False, nonnegative=True),
    "square sparsifier": Kind(False, sparsifier="square"),
    "tall sparsifier": Kind(False, sparsifier="tall"),
    "mixture": Kind(True),
    "mixture, complex": Kind(True, complex_=True),
    "mixture, joint": Kind(True, tasks=2),
    "mixture, groups": Kind(True, groups=2),
    "mixture, z ≥ 0": Kind(True, nonnegative=True),
    "mixture, banded": Kind(True, banded=True),
    "known precisions, z ≥ 0, probes": Kind(False, nonnegative=True, method="cofem"),
    "known precisions, z ≥ 0, joint": Kind(False, nonnegative=True, tasks=2),
    "mixture, probes": Kind(True, method="cofem"),
    "mixture, complex, joint": Kind(True, complex_=True, tasks=2),
    "mixture, sampled": Kind(True, chains=True),
    "mixture, sampled, z ≥ 0": Kind(True, chains=True, nonnegative=True),
}


def _normal(random, shape, complex_):
    if not complex_:
        return random.normal(size=shape)
    return (random.normal(size=shape) + 1j * random.normal(size=shape)) / 2**0.5


def _operator(kind, random):
    if kind.banded:
        return Autoregressive(np.array([0.9]), D)
    return Dense(_normal(random, (N, D), kind.complex_) / np.sqrt(N))


def _known(kind, random, operator):
    """Precisions over three decades; return z (L, D) and its posterior."""
    sparsifier = {}
    rows = D + 10 if kind.sparsifier == "tall" else D
    alpha = 10 ** random.uniform(-1, 2, rows)
    z = _normal(random, (kind.tasks, rows), kind.complex_) / np.sqrt(alpha)
    if kind.sparsifier:
        r = np.eye(rows, D) - 0.9 * np.eye(rows, D, k=-1)
        r += 0.1 * random.normal(size=r.shape) / np.sqrt(D)
        sparsifier = {"sparsifier": Dense(r)}
        # x ~ N(0, (RᵀAR)⁻¹), and for a square R that is R⁻¹ of the draw above.
        root = np.linalg.cholesky(np.linalg.inv(r.T @ (alpha[:, None] * r)))
        z = random.normal(size=(kind.tasks, D)) @ root.T
    z = np.abs(z) if kind.nonnegative else z
    y = _data(kind, random, operator, z)
    post = cofem.posterior(
        operator, y if kind.tasks > 1 else y[0], precision=alpha, noise_precision=BETA,
        nonnegative=kind.nonnegative, method=kind.method, **sparsifier,
    )  # fmt: skip
    return z, post


def _data(kind, random, operator, z):
    noise = _normal(random, (len(z), operator.shape[0]), kind.complex_) / np.sqrt(BETA)
    return operator.forward(z) + noise


def _mixture(kind, random, operator):
    """Spike and two slabs with known weights, by expectation propagation to its rest."""
    labels = np.arange(D) // kind.groups
    which = random.choice(len(WEIGHTS), size=labels.max() + 1, p=WEIGHTS)[labels]
    theta = operator.column_norms_squared(np.zeros(D))
    std = np.sqrt(POWERS[which] / theta)
    z = std * _normal(random, (kind.tasks, D), kind.complex_)
    z = np.abs(z) if kind.nonnegative else z
    y = _data(kind, random, operator, z)
    tie = Tie(labels) if kind.groups > 1 else Tie()
    tasks = tuple(Task(operator, row, BETA) for row in y)
    model = Model(tasks, tie, kind.nonnegative)
    method = Banded() if kind.banded else CoFEM() if kind.method == "cofem" else EM()
    rule = Propagation(model, 10.0, given=True, tol=1e-5)
    half = 1.0 if kind.complex_ else 0.5
    scales = POWERS * BETA
    rule.prior = KnownPrior(scales, WEIGHTS, tie, half, 1.0, WEIGHTS, kind.nonnegative)
    found = iterate(model, make_esteps(model, method, 0), rule, max_iter=300, tol=1e-5)
    end = End(rule, found, Certificate.GIVEN)
    learned = reported(end, lambda m: make_esteps(m, method, 0), True)
    return z, posterior_of(learned, method, kind.tasks > 1, {})


# The chains' prior has weights that are drawn too, and values of equal magnitude; they need few
# unknowns, so that no set is too large for them.
CHAIN_D, SLABS, SPREADS, REACH = 12, np.array([3.0, 60.0]), np.array([0.05, 1.0]), 8.0
WARMING, THINNED = 100, 6


def _chains(kind, random):
    """The sampler's whole prior, its weights and magnitude included; return z, std and draws."""
    phi = random.normal(size=(CHAIN_D, N))
    phi[1] = phi[0] + 0.3 * random.normal(size=N)  # two columns nearly alike
    phi /= np.linalg.norm(phi, axis=1)[:, None]
    sigma = BETA**-0.5
    counts = np.concatenate([[1.0], np.full(len(SLABS), 0.5), [1.0]])  # of the spike, …, equal
    slab = random.choice(len(counts), size=CHAIN_D, p=random.dirichlet(counts))
    magnitude = REACH * random.uniform(0 if kind.nonnegative else -1, 1) * sigma
    scales = np.concatenate([[0.0], SLABS, random.choice(SPREADS, 1)])
    means = np.where(slab == len(counts) - 1, magnitude, 0.0) * random.choice([-1, 1], CHAIN_D)
    std = sigma * np.sqrt(scales[slab])
    z = abs(means) if kind.nonnegative else means
    z = _above_zero(z, std, random) if kind.nonnegative else z + std * random.normal(size=CHAIN_D)
    y = z @ phi + sigma * random.normal(size=N)
    none, start = np.empty(0, np.int64), np.array([REACH * sigma / 2, SPREADS[0]])
    values = (np.empty(0), BETA) if kind.nonnegative else ()
    run = run_nonnegative_chain if kind.nonnegative else run_chain
    found = run(
        phi, y, SLABS, 0.5, SPREADS, REACH * sigma, none, none, start, *values, BETA, CHAIN_D,
        np.ones(WARMING + THINNED * DRAWS), WARMING, random,
    )  # fmt: skip
    sizes, places, kept, (first, second) = *found[:3], found[5:7]
    draws = np.zeros((DRAWS, CHAIN_D))
    for row, at in zip(draws, range(THINNED - 1, THINNED * DRAWS, THINNED), strict=True):
        row[places[at, : sizes[at]]] = kept[at, : sizes[at]]
    return z, np.sqrt(np.maximum(second - first**2, 0.0)), draws


def _above_zero(mean, std, random):
    """Draw normal values that are above zero; those of no spread are zero."""
    width = np.where(std > 0, std, 1.0)
    low = norm.cdf(0, mean, width)
    drawn = norm.ppf(low + (1 - low) * random.uniform(size=len(mean)), mean, width)
    return np.where(std > 0, drawn, 0.0)


def draws_of(post, n, seed):
    return post.sample(n, seed=seed)


def ranks(name, seed):
    """Return the ranks of the three quantities, 0 … DRAWS, in one problem."""
    kind, random = KINDS[name], np.random.default_rng([seed, list(KINDS).index(name)])
    if kind.chains:
        truth, spread, draws = _chains(kind, random)
    else:
        operator = _operator(kind, random)
        z, post = (_mixture if kind.learned_prior else _known)(kind, random, operator)
        draws = np.asarray(draws_of(post, DRAWS, seed)).reshape(DRAWS, -1)
        truth, spread = z.ravel(), np.asarray(post.std).ravel()
    random_one = int(random.integers(len(truth)))
    widest = int(np.argmax(spread))
    direction = random.normal(size=len(truth))
    pairs = [
        (truth[random_one], draws[:, random_one]),
        (truth[widest], draws[:, widest]),
        (truth @ direction, draws @ direction),
    ]
    return [_rank(np.real(t), np.real(d), random) for t, d in pairs]


def _rank(truth, draws, random):
    ties = int(np.sum(draws == truth))
    return int(np.sum(draws < truth)) + int(random.integers(ties + 1))


def histogram(found):
    """Return how many ranks lie in each of BINS bins of equal width."""
    return np.bincount(np.asarray(found) * BINS // (DRAWS + 1), minlength=BINS)


def p_value(found):
    """Return the probability of a histogram as uneven as this one, if ranks are uniform."""
    return float(chisquare(histogram(found)).pvalue)
