"""Where conjugate gradients are slow, exact moments take the place of a few probes."""

import warnings

import numpy as np
import pytest

import cofem


def coherent(seed, n=40, d=150):
    """A smooth kernel: neighbouring columns are nearly the same."""
    rng = np.random.default_rng(seed)
    x, centres = np.sort(rng.uniform(size=n)), np.linspace(0, 1, d)
    phi, z = np.exp(-((x[:, None] - centres) ** 2) / (2 * 0.03**2)), np.zeros(d)
    z[rng.choice(d, 4, replace=False)] = rng.choice([-1.0, 1.0], 4)
    return phi, phi @ z + 0.01 * rng.normal(size=n)


def fitted(*data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cofem.ConvergenceWarning)
        return cofem.fit(*data, **options)


@pytest.mark.parametrize(
    ("prior", "noise", "seeds"), [("ard", 1e4, 3), ("ard", None, 1), ("auto", 1e4, 1)]
)
def test_the_answer_is_that_of_exact_moments(prior, noise, seeds):
    for seed in range(seeds):
        data = coherent(seed)
        ours = fitted(*data, method="cofem", prior=prior, noise_precision=noise)
        exact = fitted(*data, method="woodbury", prior=prior, noise_precision=noise)
        assert ours.method == "woodbury"
        assert "with exact moments, because" in ours.message
        np.testing.assert_allclose(ours.mean, exact.mean, rtol=1e-9, atol=1e-9)
        assert ours.history["products"][-1] > exact.history["products"][-1]


def test_the_callback_sees_both_runs_and_ends_them():
    data, seen = coherent(0), []

    def third(state):
        seen.append((state.iteration, state.cg_steps))
        return len(seen) == 3

    fitted(*data, method="cofem", prior="ard", noise_precision=1e4,
           callback=lambda state: seen.append((state.iteration, state.cg_steps)))  # fmt: skip
    begins = [i for i, (iteration, _) in enumerate(seen) if iteration == 1]
    assert len(begins) == 2  # with probes, and anew
    hard = begins[1] - 1
    assert seen[hard][1] > 40 >= max((steps for _, steps in seen[:hard]), default=0)
    assert not any(steps for _, steps in seen[begins[1] :])
    seen.clear()
    post = fitted(*data, method="cofem", prior="ard", noise_precision=1e4, callback=third)
    assert len(seen) == 3
    assert post.message.startswith("stopped by the callback")


@pytest.mark.parametrize(
    "options",
    [
        {"method": cofem.CoFEM(n_probes=6)},
        {"method": cofem.CoFEM(preconditioner=np.full(150, 0.5))},
        {"method": "cofem", "tol": 0, "max_iter": 8},
    ],
)
def test_options_of_the_users_own_are_not_replaced(options):
    post = fitted(*coherent(1), prior="ard", noise_precision=1e4, **options)
    assert post.method == "cofem"
    assert max(post.history["cg_steps"]) > 40


def test_columns_that_are_not_coherent_keep_their_probes():
    rng = np.random.default_rng(2)
    phi = rng.normal(size=(80, 200)) / 9
    y = phi[:, :5].sum(axis=1) + 0.05 * rng.normal(size=80)
    assert cofem.fit(phi, y, method="cofem", prior="ard", noise_precision=400.0).method == "cofem"
