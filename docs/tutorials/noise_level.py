"""The noise: given, estimated, unequal."""
# %% [markdown]
# If you know the standard deviation σ of the noise (a dark frame, a repeated measurement, an empty
# part of the spectrum), give it: `noise_std=σ`, or `noise_precision=1/σ²`. If not, leave it out,
# and it is learned together with the prior.

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem import simulate

for noise_std in (0.01, 0.03, 0.1):
    problem = simulate.dct(D=600, seed=2, noise_std=noise_std, sparsity=0.08)
    post = cofem.fit(problem.phi, problem.y, max_iter=500)
    beta = problem.noise_precision
    known = cofem.fit(problem.phi, problem.y, noise_precision=beta, max_iter=500)
    errors = [simulate.nrmse(p.mean, problem.z) for p in (post, known)]
    print(
        f"σ = {noise_std}: estimated {post.noise_precision**-0.5:.4f}, "
        f"error of z {errors[0]:.1f} % (with the true σ {errors[1]:.1f} %)"
    )

# %% [markdown]
# [The page on noise](../noise.md) says how often the estimate is off, and
# [a note](../notes/noise.md) how it is made.
#
# ## What a wrong β does
#
# If β is too low (too much noise assumed), small coefficients are lost. If it is too high, the fit
# also fits noise, and more zeros are named as non-zero. A factor of three changes the error little.

# %%
problem = simulate.dct(D=600, seed=3, noise_std=0.1, sparsity=0.08)
factors, errors = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0), []
for factor in factors:
    beta = factor * problem.noise_precision
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)  # a wrong β need not settle
        post = cofem.fit(problem.phi, problem.y, noise_precision=beta, max_iter=500, tol=1e-3)
    false = post.support()[problem.z == 0].sum()
    errors.append(simulate.nrmse(post.mean, problem.z))
    print(f"β × {factor:6g}: error {errors[-1]:5.1f} %, {false:3d} zeros called non-zero")

figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogx(factors, errors, "o-", label="β given")
learned = simulate.nrmse(cofem.fit(problem.phi, problem.y).mean, problem.z)
ax.axhline(learned, color="0.6", linestyle="--", label="β learned")
ax.set(xlabel="given β / true β", ylabel="error of z (%)", ylim=(0, None))
ax.legend()

# %% [markdown]
# ## Unequal noise
#
# If measurement i has standard deviation $σ_i$, give `noise_precision` one number for every
# measurement: $1/σ_i^2$.

# %%
rng = np.random.default_rng(0)
z = np.zeros(300)
z[[40, 120, 260]] = [1.0, -2.0, 1.5]
phi = rng.normal(size=(150, 300)) / 12
sigma = np.where(np.arange(150) < 75, 0.01, 0.5)
y = phi @ z + sigma * rng.normal(size=150)
weighted = cofem.fit(phi, y, noise_precision=1 / sigma**2)
plain = cofem.fit(phi, y)
for name, post in (("each its own σ", weighted), ("one σ for all", plain)):
    print(f"{name}: error {simulate.nrmse(post.mean, z):.1f} %")

# %% [markdown]
# If you know the noise of each measurement only up to a common factor, give `weights=` with
# $1/σ_i^2$ and the factor is learned. For correlated noise, multiply Φ and y by the inverse of a
# Cholesky factor of its covariance.

# %%
plt.show()
