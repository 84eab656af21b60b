"""Smooth and positive: distributions of relaxation times."""
# %% [markdown]
# The impedance of a battery or a fuel cell is Z(ω) = R∞ + ∫ γ(ln τ) / (1 + iωτ) d ln τ. The
# distribution γ of relaxation times shows its different processes. It is smooth and not negative,
# and to recover it from Z is an ill-posed problem.
#
# Smooth functions are not sparse, but this one is a sum of few bumps. So γ = Bw with a dictionary B
# of bumps of several widths, and the weights w are sparse and not negative.

# %%
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

import cofem

frequencies = np.logspace(-2, 6, 41)
log_tau = np.linspace(np.log(1e-7), np.log(1e3), 161)
h = log_tau[1] - log_tau[0]
omega = 2 * np.pi * frequencies


def zarc(tau, exponent, resistance):
    """Return impedance and exact γ of a resistor beside a constant-phase element."""
    turn = (1 - exponent) * np.pi
    bell = np.cosh(exponent * (log_tau - np.log(tau))) - np.cos(turn)
    gamma = resistance / (2 * np.pi) * np.sin(turn) / bell
    return resistance / (1 + (1j * omega * tau) ** exponent), gamma


slow, fast = zarc(1.0, 0.85, 1.0), zarc(4e-4, 0.8, 0.8)
gamma = slow[1] + fast[1]
rng = np.random.default_rng(0)
sigma = 0.004
noise = sigma * (rng.standard_normal(41) + 1j * rng.standard_normal(41))
impedance = 0.2 + slow[0] + fast[0] + noise

# %% [markdown]
# Φ has a column for R∞ and one for every bump. Data are complex and unknowns real: `real=True`.
# The noise of the instrument is known; E|noise|² of a complex number is 2σ².

# %%
kernel = h / (1 + 1j * omega[:, None] * np.exp(log_tau))
offsets = log_tau[:, None] - log_tau[None, ::4]
widths = (0.4, 0.8, 1.6)
bumps = np.concatenate([np.exp(-0.5 * (offsets / w) ** 2) / w for w in widths], axis=1)
phi = np.concatenate([np.ones((41, 1)), kernel @ bumps], axis=1)
print(phi.shape, phi.dtype)


to_gamma = np.concatenate([np.zeros((161, 1)), bumps], axis=1)  # R∞ is no part of γ
known = {"noise_precision": 1 / (2 * sigma**2), "real": True}


def by_cofem():
    """Return the posterior mean of γ and its standard deviation."""
    post = cofem.fit(phi, impedance, **known)
    return to_gamma @ post.mean, np.sqrt(post.variance_of(to_gamma))


# %% [markdown]
# ## γ ≥ 0
#
# With `nonnegative=True` and `prior="ard"` the posterior of every weight is cut off at zero
# *separately*. This is good where columns differ, but not for a sum of weights whose columns are
# nearly the same: each of them may be large, but not all at once. `filtered_mode` does not have
# this fault. It is the most probable z ≥ 0 of all weights together, at the precisions that the
# fit has learned. The error bars are those of the Gaussian posterior at the same precisions.


# %%
def by_cofem_positive():
    """Return the most probable γ ≥ 0, and the deviation of the Gaussian posterior."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        post = cofem.fit(phi, impedance, nonnegative=True, prior="ard", max_iter=300, **known)
    gaussian = cofem.posterior(phi, impedance, precision=post.precision, **known)
    return to_gamma @ post.filtered_mode(q=0.5), np.sqrt(gaussian.variance_of(to_gamma))


# %% [markdown]
# ## Beside ridge regression
#
# The usual programs of this field (such as DRTtools) penalise γ'' with a weight that the user
# chooses or that cross-validation finds, and keep γ ≥ 0.


# %%
second = np.diff(np.eye(161), 2, axis=0) / h**2 * np.sqrt(h)
penalty = np.concatenate([np.zeros((159, 1)), second], axis=1)
with_offset = np.concatenate([np.ones((41, 1)), kernel], axis=1)


def by_ridge(weight):
    """Return γ of least squares with a penalty, not negative."""
    tall = np.concatenate([with_offset.real, with_offset.imag, np.sqrt(weight) * penalty])
    data = np.concatenate([impedance.real, impedance.imag, np.zeros(159)])
    return scipy.optimize.nnls(tall, data)[0][1:], None


methods = {
    "cofem": by_cofem,
    "cofem, γ ≥ 0": by_cofem_positive,
    "ridge, weight 1e-4": lambda: by_ridge(1e-4),
    "ridge, weight 1e-3": lambda: by_ridge(1e-3),
    "ridge, weight 1e-2": lambda: by_ridge(1e-2),
}
found = {}
print(f"{'':20} error of γ (%)   least γ   seconds")
for name, method in methods.items():
    began = time.perf_counter()
    found[name] = method()
    estimate = found[name][0]
    error = 100 * np.linalg.norm(estimate - gamma) / np.linalg.norm(gamma)
    took = time.perf_counter() - began
    print(f"{name:20} {error:14.1f} {estimate.min():9.3f} {took:9.2f}")

# %%
figure, ax = plt.subplots(figsize=(8, 3.5))
tau = np.exp(log_tau)
ax.semilogx(tau, gamma, "k:", label="truth")
mean, std = found["cofem"]
ax.fill_between(tau, mean - 2 * std, mean + 2 * std, alpha=0.3)
ax.semilogx(tau, mean, label="cofem, ± 2 std")
ax.semilogx(tau, found["ridge, weight 1e-3"][0], label="ridge, weight 1e-3")
ax.set(xlabel="τ (s)", ylabel="γ (Ω)", ylim=(-0.1, 1.3 * gamma.max()))
ax.legend()
plt.show()

# %% [markdown]
# `benchmarks/fields_drt.py` has four problems a row, two levels of noise, cross-validated weights,
# and the noise unknown: [the tables](../../benchmarks/results/fields_drt.md). There the error of γ
# is 9 to 18 %, and 20 to 25 % of ridge regression, which is ten times faster and more. The error
# bars are the weak point: two of them cover γ in 31 to 55 % of the places, and in 72 to 90 % with γ
# ≥ 0. They include the noise, but not that γ is only nearly a sum of few bumps.
