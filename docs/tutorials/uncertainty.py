"""Uncertainty, and what it does not promise."""
# %% [markdown]
# A posterior is a statement under a model: Gaussian noise of known size, and prior precisions α
# that are taken as known once they are learned. This page measures what that is worth.

# %%
import numpy as np

import cofem
from cofem import simulate


def coverage(post, z, where, level=0.95):
    """Return how often the interval holds the truth, among the coordinates ``where``."""
    low, high = post.interval(level)
    return np.mean(((low <= z) & (z <= high))[where])


# %% [markdown]
# ## With known hyperparameters it is exact
#
# Draw z from the prior itself and give the fit the α and β that made it: a 95 % interval then
# holds the truth 95 times in 100, up to chance.

# %%
rng = np.random.default_rng(0)
D, N, beta = 400, 200, 100.0
held = []
for _ in range(12):
    phi = rng.normal(size=(N, D)) / np.sqrt(N)
    alpha = np.where(rng.random(D) < 0.2, 0.5, 1e4)
    z = rng.normal(size=D) / np.sqrt(alpha)
    y = phi @ z + rng.normal(size=N) / np.sqrt(beta)
    post = cofem.posterior(phi, y, precision=alpha, noise_precision=beta)
    held.append(coverage(post, z, alpha < 1))
print(f"{100 * np.mean(held):.1f} % of the large coordinates are inside their interval")
assert abs(np.mean(held) - 0.95) < 0.02

# %% [markdown]
# ## With learned ones it is narrower
#
# α is learned from the same data. Its own uncertainty is not in the intervals, so they are too
# narrow, as in every empirical Bayes method; how much depends on how well the data determine z.

# %%
for noise_std in (0.01, 0.1, 0.3):
    held = []
    for seed in range(3):
        problem = simulate.gaussian(D=400, seed=seed, noise_std=noise_std)
        beta = problem.noise_precision
        post = cofem.fit(problem.phi, problem.y, noise_precision=beta, max_iter=1000)
        held.append(coverage(post, problem.z, problem.z != 0))
    print(f"σ = {noise_std}: {100 * np.mean(held):.0f} % of the non-zeros inside")

# %% [markdown]
# Two things happen at high noise. Intervals are narrow for the reason above; and small
# coefficients are switched off: α grows without bound, the mean goes to zero, and the interval
# with it. **A coordinate that was switched off has a tiny standard deviation. It says "the model
# chose zero", not "the data prove zero".** Entries below a few times σ/‖φ_j‖ are easily missed,
# and larger ones where columns are alike.

# %%
problem = simulate.gaussian(D=400, seed=0, noise_std=0.3)
post = cofem.fit(
    problem.phi, problem.y, noise_precision=problem.noise_precision, max_iter=1000
)
off = (problem.z != 0) & ~post.support()
print(f"{off.sum()} of {(problem.z != 0).sum()} non-zeros are not in the support;")
print(f"their median size is {np.median(np.abs(problem.z[off])):.2f}, the others'", end=" ")
print(f"{np.median(np.abs(problem.z[(problem.z != 0) & ~off])):.2f}")

# %% [markdown]
# ## Functions of z
#
# Coordinates are correlated, so do not add their variances. `variance_of` takes any linear map;
# `sample` draws from the whole posterior, for anything that is not linear.

# %%
total = np.ones((1, 400))
direct = post.variance_of(total)[0]
draws = post.sample(2000, seed=0).sum(axis=1)
print(f"std of the sum: {direct**0.5:.3f}; from draws {draws.std():.3f};", end=" ")
print(f"if they were independent {post.variance.sum() ** 0.5:.3f}")
mean, std = post.predict(total)
print(f"a new measurement of the sum: {mean[0]:.2f} ± {std[0]:.2f}, noise included")

# %% [markdown]
# ## What is not in it
#
# - A wrong Φ. If the operator is 5 % off, the error bars do not know.
# - Noise that is not Gaussian, or not white.
# - The uncertainty of α and of an estimated β.
# - Other solutions: EM finds one maximum of the evidence. Far into undersampling it can be a wrong
#   one, with small error bars.
#
# When intervals must hold whatever happens, use conformal prediction on held-out measurements;
# when you can afford it, run a sampler over α as well.
