"""Choosing probes and tolerances."""
# %% [markdown]
# Covariance-free expectation maximisation (EM) replaces a matrix inverse by a few linear systems
# with random right-hand sides, called probes. Two numbers decide what that costs: how many probes
# K, and how many steps U of conjugate gradients. The defaults (`CoFEM()`) are good for the
# problems we know. This page is for when you want to know why, or want something else.

# %%
import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem import simulate, theory

problem = simulate.dct(D=1200, seed=0)  # 400 samples, 144 non-zeros
advice = theory.recommend(problem.phi, n_active=144)
print(advice.n_probes, advice.cg_steps)
print(advice.reason)

# %% [markdown]
# ## What K does
#
# For coefficient j, let $h_j = α_jΣ_{jj}$ be the share of its prior variance that the data leave.
# With probes scaled by √α, the estimate of $h_j$ has a standard deviation of at most
# $1/(2\sqrt{K})$, for every Φ and every D. This bound is the reason for K = 4. Ask for more
# accuracy and you get more probes:

# %%
for accuracy in (0.25, 0.1, 0.05):
    asked = theory.recommend(problem.phi, n_active=144, accuracy=accuracy)
    print(f"accuracy {accuracy:4.2f}: K = {asked.n_probes}")

# %% [markdown]
# Are more probes worth the work? The same problem with more and more probes, all else equal.
# `products` counts rows multiplied by Φ or Φᴴ, which is nearly all of the work.

# %%
counts, errors, products = (1, 2, 4, 16), [], []
for n_probes in counts:
    method = cofem.CoFEM(n_probes=n_probes)
    post = cofem.fit(
        problem.phi, problem.y, noise_precision=problem.noise_precision, method=method,
        prior="ard", max_iter=40, tol=0,
    )  # fmt: skip
    errors.append(simulate.nrmse(post.mean, problem.z))
    products.append(post.history["products"][-1])
    print(f"K = {n_probes:2d}: error {errors[-1]:.2f} %, {products[-1]:6d} products")

figure, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.plot(products, errors, "o-")
for i, (count, x, y) in enumerate(zip(counts, products, errors, strict=True)):
    place = (0, 8 if i % 2 else -18)  # above and below in turn, as some are close together
    ax.annotate(f"K = {count}", (x, y), xytext=place, textcoords="offset points", ha="center")
ax.set(xlabel="products with Φ in 40 iterations", ylabel="error (%)", ylim=(0, 2 * max(errors)))

# %% [markdown]
# ## What the tolerances do
#
# Each system has its own. `mean_rtol` is that of the mean and must be tight: near the limit of
# what can be recovered 1e-4 already fails. `probe_rtol` may be loose, because the Monte Carlo
# error is larger anyway. `mean_balance` is a second condition on the mean, for high noise
# precision; the second line below is without this condition too.

# %%
for mean_rtol in (1e-6, 1e-2):
    method = cofem.CoFEM(mean_rtol=mean_rtol, mean_balance=0.0 if mean_rtol > 1e-4 else 0.01)
    post = cofem.fit(
        problem.phi, problem.y, noise_precision=problem.noise_precision, method=method,
        prior="ard", max_iter=40, tol=0,
    )  # fmt: skip
    error = simulate.nrmse(post.mean, problem.z)
    print(f"mean_rtol = {mean_rtol:g}: error {error:.2f} %")

# %% [markdown]
# ## The error bars have probes of their own
#
# When learning is done one more step with `report_probes=32` gives the variances.
# `post.variance_error` is their standard error; more probes make it smaller.

# %%
for report_probes in (8, 32, 128):
    post = cofem.posterior(
        problem.phi, problem.y, precision=post.precision,
        noise_precision=problem.noise_precision,
        method=cofem.CoFEM(report_probes=report_probes),
    )  # fmt: skip
    relative = np.median(post.variance_error / post.variance)
    print(f"{report_probes:3d} probes: variances to {100 * relative:.0f} %")

# %% [markdown]
# Small problems are solved exactly (`method="auto"` chooses), and then `variance_error` is zero.
# The theorems are on [the page about theory](../notes/theory.md), the measurements behind the
# defaults on [the page about probes](../notes/probes.md).

# %%
plt.show()
