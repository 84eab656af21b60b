"""Small things at the edges that users run into."""

import numpy as np
import pytest

import cofem
from cofem.operators import FiniteDifference, Identity
from cofem.solvers.compiled import interrupts_as_themselves


def small():
    random = np.random.default_rng(0)
    phi = random.standard_normal((20, 30))
    z = np.zeros(30)
    z[[3, 17]] = 2.0, -1.0
    return phi, phi @ z + 0.1 * random.standard_normal(20)


def test_an_interrupt_inside_compiled_code_is_an_interrupt():
    def interrupted():
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as cause:
            raise SystemError("returned a result with an exception set") from cause

    with pytest.raises(KeyboardInterrupt), interrupts_as_themselves():
        interrupted()
    with pytest.raises(SystemError), interrupts_as_themselves():
        raise SystemError("something else")


def test_a_saved_posterior_comes_back_to_its_library(tmp_path):
    torch = pytest.importorskip("torch")
    phi, y = (torch.from_numpy(a) for a in small())
    post = cofem.fit(phi, y, noise_precision=100.0)
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", phi)
    assert torch.is_tensor(again.mean)
    assert torch.equal(again.sample(2, seed=0), post.sample(2, seed=0))
    mean, std = again.predict(phi[:3])
    assert torch.is_tensor(mean)
    assert torch.is_tensor(std)


def test_a_matrix_in_lists_is_one_operator(tmp_path):
    phi, y = small()
    post = cofem.fit(phi, y, noise_precision=100.0)
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", phi.tolist())
    np.testing.assert_array_equal(again.sample(2, seed=0), post.sample(2, seed=0))


def test_tasks_of_which_only_one_is_complex(tmp_path):
    phi, y = small()
    both = [phi + 1j * phi[::-1], phi]
    data = [both[0] @ np.eye(30)[3], y]
    post = cofem.fit(both, data, noise_precision=100.0, real=True, max_iter=5, tol=0)
    post.save(tmp_path / "p.npz")
    again = cofem.load(tmp_path / "p.npz", both)
    np.testing.assert_array_equal(again.sample(2, seed=0), post.sample(2, seed=0))


def test_a_tensor_with_a_graph_leaves_it_behind():
    torch = pytest.importorskip("torch")
    phi, y = (torch.from_numpy(a) for a in small())
    y.requires_grad_()
    post = cofem.fit(phi, y, noise_precision=100.0, max_iter=3, tol=0)
    assert not post.mean.requires_grad


def test_shapes_of_a_list_of_one_task():
    phi, y = small()
    mean, std = cofem.fit(phi, y[None], noise_precision=100.0).predict(phi[:3])
    assert mean.shape == std.shape == (1, 3)
    alone = cofem.fit(phi, y, noise_precision=100.0).predict(phi[:3])
    # One task or a list of it: where the fit is sampled they differ by the chains' noise.
    assert np.all(abs(mean[0] - alone[0]) < 0.5 * alone[1])
    np.testing.assert_allclose(std[0], alone[1], rtol=0.15)


def test_missing_folders_are_named_before_any_work(tmp_path):
    phi, y = small()
    with pytest.raises(FileNotFoundError, match="checkpoint: the directory"):
        cofem.fit(phi, y, noise_precision=100.0, checkpoint=tmp_path / "no" / "c.npz")
    post = cofem.fit(phi, y, noise_precision=100.0)
    with pytest.raises(FileNotFoundError, match="the directory"):
        post.save(tmp_path / "no" / "p.npz")


def test_no_evidence_has_no_error():
    post = cofem.fit(
        Identity(9), np.ones(9), noise_precision=1.0, max_iter=2, tol=0,
        sparsifier=FiniteDifference((9,), 0), method="em",
    )  # fmt: skip
    assert np.isnan(post.log_evidence)
    assert np.isnan(post.log_evidence_error)


def test_masked_frames_are_missing():
    from cofem.calcium import deconvolve, simulate

    dff, _ = simulate(n_cells=1, n_frames=600, framerate=30.0, seed=0)
    hidden = np.arange(600) < 100
    masked = deconvolve(np.ma.array(dff[0], mask=hidden), 30.0)
    missing = deconvolve(np.where(hidden, np.nan, dff[0]), 30.0)
    np.testing.assert_array_equal(masked.spikes, missing.spikes)


@pytest.mark.parametrize("tau_d", [1e-6, 1e6])
def test_extreme_decay_times_do_not_break(tau_d):
    from cofem.calcium import deconvolve, simulate

    dff, _ = simulate(n_cells=1, n_frames=600, framerate=30.0, seed=0)
    # No such decay explains the trace, and the user is told.
    with pytest.warns(UserWarning, match="is not white"):
        found = deconvolve(dff[0], 30.0, tau_d=tau_d)
    assert np.isfinite(found.spikes).all()


def test_no_jobs_at_all():
    phi, y = small()
    with pytest.raises(ValueError, match="n_jobs"):
        cofem.fit_many(phi, y[None], n_jobs=0)
