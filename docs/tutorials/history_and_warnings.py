"""Reading the history and a warning."""
# %% [markdown]
# Three attributes say how a fit went: `post.converged`, `post.message` and `post.history`.

# %%
import pathlib
import tempfile
import warnings

import matplotlib.pyplot as plt
import numpy as np

import cofem
from cofem import plot, simulate

problem = simulate.dct(D=1500, seed=1)
post = cofem.fit(problem.phi, problem.y, noise_precision=1e4)
print(post.converged, "|", post.message)
print({name: values[-1] for name, values in post.history.items() if name != "seconds"})

# %% [markdown]
# `history` is a dict of lists, one entry per iteration:
#
# | | |
# |---|---|
# | `change` | by how much the estimate moved, relative to its size |
# | `cg_steps` | conjugate-gradient steps of that iteration |
# | `products` | rows multiplied by Φ or Φᴴ until then |
# | `log_evidence` | of the last iteration always; of others where it costs nothing |
# | `seconds` | since the start |

# %%
plot.history(post)

# %% [markdown]
# What to look for: `change` should fall; near the end it varies at random, because the variances
# are estimated with random vectors. `cg_steps` should stay level. If they grow with every
# iteration, the linear systems become harder: columns of Φ are probably alike.
#
# The fit stops when no coefficient moves by more than a small part of its own error bar ([when a
# fit is done](../notes/stopping.md)).
#
# ## A fit that did not finish
#
# Too few iterations give a `ConvergenceWarning`. There is a result all the same, which can be
# looked at; the message says what to do.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    short = cofem.fit(problem.phi, problem.y, noise_precision=1e4, max_iter=5)
print(caught[0].category.__name__, "|", caught[0].message)
print(short.converged, simulate.nrmse(short.mean, problem.z) > simulate.nrmse(post.mean, problem.z))

# %% [markdown]
# In a program you may want the warning to be an error: `warnings.simplefilter("error",
# cofem.ConvergenceWarning)`. With `tol=0` you ask for exactly `max_iter` iterations, and there is
# no warning.
#
# ## Watching, and stopping by yourself
#
# `progress=True` shows a bar. `callback` gets the state after every iteration; returning True
# stops.

# %%
seen = []


def watch(state):
    """Note the change, and stop at three per cent."""
    seen.append(state.change)
    return state.change < 0.03


stopped = cofem.fit(problem.phi, problem.y, noise_precision=1e4, callback=watch)
print(len(seen), stopped.converged, "|", stopped.message)

# %% [markdown]
# ## Long runs
#
# `checkpoint="state.npz"` writes the state every ten iterations. Call again with the same
# arguments after a power cut and the fit goes on, to the same answer as an unbroken one.

# %%
with tempfile.TemporaryDirectory() as folder:
    state = pathlib.Path(folder, "state.npz")
    options = {"noise_precision": 1e4, "checkpoint": state, "tol": 0}
    cofem.fit(problem.phi, problem.y, max_iter=20, **options)
    resumed = cofem.fit(problem.phi, problem.y, max_iter=30, **options)
unbroken = cofem.fit(problem.phi, problem.y, noise_precision=1e4, tol=0, max_iter=30)
print(np.array_equal(resumed.mean, unbroken.mean))

# %%
plt.show()
