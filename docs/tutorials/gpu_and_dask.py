"""A GPU, several processes, a cluster."""
# %% [markdown]
# ## GPU
#
# No option is needed: pass torch tensors on a GPU, and the fit runs there; the posterior is made of
# tensors on the same device.

# %%
import importlib.util

import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem.operators import DCT

rng = np.random.default_rng(0)
phi = DCT(512, rows=np.sort(rng.choice(512, size=256, replace=False)))
z = np.zeros(512)
z[[7, 100, 400]] = [1.0, -2.0, 1.5]
y = phi.forward(z) + 0.01 * rng.standard_normal(256)

if importlib.util.find_spec("torch"):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = torch.asarray(y, dtype=torch.float32, device=device)
    post = cofem.fit(phi, data, noise_precision=1e4, method="cofem")
    print(type(post.mean).__name__, post.mean.dtype)
    print(torch.nonzero(post.support(0.9999)).ravel().tolist())
else:
    print("torch is not installed here")

# %% [markdown]
# Operators follow their argument to its library, device and precision. float32 takes half of the
# memory of float64. [The page on GPUs](../gpu.md) has times and sizes.
#
# ## Many problems
#
# `cofem.fit_many(phi, Y)` fits every row of Y separately. It goes through joblib: `n_jobs=-1`
# uses all cores.

# %%
Z = rng.normal(size=(12, 512)) * (rng.random((12, 512)) < 0.02)
Y = phi.forward(Z) + 0.01 * rng.standard_normal((12, 256))
many = cofem.fit_many(phi, Y, noise_precision=1e4, max_iter=500, tol=1e-3)
print(many)
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
drawn = ax.imshow(many.mean[:, :120], aspect="auto", cmap="RdBu_r", vmin=-2, vmax=2)
ax.set(xlabel="coefficient (the first 120)", ylabel="problem", title="twelve fits, one a row")
figure.colorbar(drawn, ax=ax, label="mean of z")

# %% [markdown]
# ## Dask
#
# Around the same call, `joblib.parallel_config("dask")` sends the work to a cluster. Results can
# go to a folder or a zarr group as they come (`store=`), and an interrupted run goes on. Here the
# "cluster" is two threads of this process; on a real one, give the address of the scheduler.

# %%
if importlib.util.find_spec("distributed"):
    import joblib

    from distributed import Client

    with (
        Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None),
        joblib.parallel_config("dask"),
    ):
        spread = cofem.fit_many(phi, Y, noise_precision=1e4, max_iter=500, tol=1e-3)
    print(np.allclose(spread.mean, many.mean))
else:
    print("dask.distributed is not installed here")

# %% [markdown]
# [Many problems at once](../many.md) has the rest. One problem that is too large for one GPU can
# be shared by several processes with `process_group=`, for which `torchrun` starts the processes.

# %%
plt.show()
