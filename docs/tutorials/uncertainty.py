"""Uncertainty, and what it does not include."""
# %% [markdown]
# A posterior is a statement under a model: Φ is right, the noise is Gaussian, and z comes from the
# learned prior. This page measures how often such statements are right, on problems with a known z.

# %%
import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem import simulate


def coverage(post, z, where, level=0.95):
    """Return how often the interval holds the truth, among the coordinates ``where``."""
    low, high = post.interval(level)
    return np.mean(((low <= z) & (z <= high))[where])


# %% [markdown]
# ## With known prior and noise it is exact
#
# Draw z from the prior itself and give the fit the precisions α and β that made it: a 95 % interval
# then holds the truth 95 times in 100, up to chance.

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
# ## With learned prior and noise
#
# `cofem.fit(phi, y)` learns the prior and the noise. Three questions, at three noise levels, eight
# problems each: how many of the coefficients in `support()` are false (5 % are expected)? How often
# does the interval hold the truth, among those in the support, and among all?

# %%
said, real = [], []
for noise_std in (0.01, 0.1, 0.3):
    false, named, inside, everywhere = 0, 0, [], []
    for seed in range(8):
        problem = simulate.gaussian(D=400, seed=seed, noise_std=noise_std)
        post = cofem.fit(problem.phi, problem.y)
        found = post.support()
        false, named = false + np.sum(found & (problem.z == 0)), named + np.sum(found)
        if found.any():
            inside.append(coverage(post, problem.z, found))
        everywhere.append(coverage(post, problem.z, slice(None)))
        said.append(post.probability)
        real.append(problem.z != 0)
    print(
        f"σ = {noise_std}: {100 * false / named:.0f} % of {named} named are false; intervals hold "
        f"{100 * np.mean(inside):.0f} % (named), {100 * np.mean(everywhere):.0f} % (all)"
    )

# %% [markdown]
# Does a probability of 0.7 mean 70 %? Sort all coefficients by their probability, and count.

# %%
said, real = np.concatenate(said), np.concatenate(real)
edges = np.array([0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0001])
which = np.digitize(said, edges) - 1
figure, ax = plt.subplots(figsize=(4.5, 4), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.7")
for k in range(len(edges) - 1):
    if np.sum(which == k) >= 10:
        n = np.sum(which == k)
        at, share = said[which == k].mean(), real[which == k].mean()
        ax.errorbar(at, share, np.sqrt(share * (1 - share) / n), fmt="o", color="C0", capsize=3)
ax.set(xlabel="probability that was said", ylabel="share that is not zero")

# %% [markdown]
# ## Classical sparse Bayesian learning
#
# With `prior="ard"` every coefficient has a precision of its own, learned from that one
# coefficient. The uncertainty of these precisions is not in the intervals, so they are too narrow,
# and much too narrow at high noise. **A coefficient that was switched off has a tiny standard
# deviation: the model chose zero; the data did not prove it.** This is why it is not the default.

# %%
for noise_std in (0.01, 0.1, 0.3):
    held = []
    for seed in range(3):
        problem = simulate.gaussian(D=400, seed=seed, noise_std=noise_std)
        beta = problem.noise_precision
        old = cofem.fit(problem.phi, problem.y, noise_precision=beta, prior="ard", max_iter=1000)
        held.append(coverage(old, problem.z, problem.z != 0))
    print(f'"ard", σ = {noise_std}: {100 * np.mean(held):.0f} % of the non-zeros inside')

# %% [markdown]
# ## Functions of z
#
# Coefficients are correlated, so do not add their variances. `variance_of` takes any linear map;
# `sample` draws from the posterior, for anything that is not linear.

# %%
total = np.ones((1, 400))
direct = post.variance_of(total)[0]
draws = post.sample(2000, seed=0).sum(axis=1)
print(f"std of the sum: {direct**0.5:.2f}; from draws {draws.std():.2f};", end=" ")
print(f"if they were independent {post.variance.sum() ** 0.5:.2f}")
mean, std = post.predict(total)
print(f"a new measurement of the sum: {mean[0]:.1f} ± {std[0]:.1f}, noise included")

# %% [markdown]
# ## What the error bars do not include
#
# - A wrong Φ. If the operator is wrong by 5 %, the error bars do not include this.
# - Noise that is not Gaussian, or not independent.
# - The uncertainty of the learned prior and noise. With the default prior these are few numbers,
#   so their uncertainty is small.
# - Other solutions: the iteration ends at one. With far too few measurements it can be a wrong
#   one, with small error bars.
#
# When intervals must hold whatever happens, use conformal prediction on measurements that were kept
# back.

# %%
plt.show()
