"""The noise: given, estimated, unequal."""
# %% [markdown]
# `noise_precision` is β = 1/σ². If you know it (a dark frame, a repeat, an empty part of the
# spectrum), give it. If not, leave it out, and it is estimated first.

# %%
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
# Maximising the evidence over β does not work when N < D: it always finds that there is no
# noise. So fits with more and more β are pruned on the way, and the one that describes the data
# most shortly decides. [The page on noise](../noise.md) tells how, what else was tried, and how
# often it is off.
#
# ## What a wrong β does
#
# Too low (too much noise assumed) loses small coefficients. Too high fits noise, which shows
# first in zeros that are called non-zero. A factor of three changes the error little.

# %%
problem = simulate.dct(D=600, seed=3, noise_std=0.1, sparsity=0.08)
for factor in (0.01, 0.3, 1.0, 3.0, 100.0):
    beta = factor * problem.noise_precision
    post = cofem.fit(problem.phi, problem.y, noise_precision=beta, max_iter=500, tol=1e-3)
    false = post.support()[problem.z == 0].sum()
    error = simulate.nrmse(post.mean, problem.z)
    print(f"β × {factor:6g}: error {error:5.1f} %, {false:3d} zeros called non-zero")

# %% [markdown]
# ## Unequal noise
#
# The model has one β. If measurement i has standard deviation σ_i, divide row i of Φ and y_i by
# σ_i; then β = 1 for all of them.

# %%
rng = np.random.default_rng(0)
z = np.zeros(300)
z[[40, 120, 260]] = [1.0, -2.0, 1.5]
phi = rng.normal(size=(150, 300)) / 12
sigma = np.where(np.arange(150) < 75, 0.01, 0.5)
y = phi @ z + sigma * rng.normal(size=150)
weighted = cofem.fit(phi / sigma[:, None], y / sigma, noise_precision=1.0, max_iter=1000)
plain = cofem.fit(phi, y, noise_precision=1 / np.mean(sigma**2), max_iter=1000)
for name, post in (("weighted", weighted), ("one σ for all", plain)):
    print(f"{name}: error {simulate.nrmse(post.mean, z):.1f} %")

# %% [markdown]
# With an operator, the same is `operators.Diagonal(1 / sigma) @ phi`. For correlated noise, apply
# the inverse of a Cholesky factor of its covariance to Φ and y.
