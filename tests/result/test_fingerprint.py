"""A file knows its operator again: another of the same shape is refused, rounding is not."""

import numpy as np
import pytest
import scipy.sparse

import cofem
from cofem.operators import DCT, RowSplit, Sparse
from cofem.result.fingerprint import TOLERANCE, fingerprint

N, D = 40, 60


def matrix(seed=0, n=N, d=D):
    return np.random.default_rng(seed).standard_normal((n, d))


def saved(path, phi, **options):
    y = np.random.default_rng(9).standard_normal(np.shape(phi)[0])
    post = cofem.posterior(phi, y, precision=np.ones(np.shape(phi)[1]), noise_precision=2.0,
                           **options)  # fmt: skip
    post.save(path)
    return post


def flipped(phi):
    return phi * np.where(np.arange(D) == 7, -1.0, 1.0)


ANOTHER = {
    "another draw": lambda phi: matrix(1),
    "its columns in another order": lambda phi: phi[:, ::-1],
    "two columns exchanged": lambda phi: phi[:, [1, 0, *range(2, D)]],
    "its rows in another order": lambda phi: np.roll(phi, 1, axis=0),
    "two rows exchanged": lambda phi: phi[[8, *range(1, 8), 0, *range(9, N)]],
    "one column with another sign": flipped,
    "another unit": lambda phi: 1.001 * phi,
    "one entry": lambda phi: phi + np.eye(N, D, 3) * (np.arange(N) == 5)[:, None],
    "zeros": np.zeros_like,
}


@pytest.mark.parametrize("kind", ANOTHER)
def test_another_matrix_of_the_same_shape_is_refused(tmp_path, kind):
    phi = matrix()
    saved(tmp_path / "p.npz", phi)
    with pytest.raises(ValueError, match="phi is not the one that the posterior was fitted with"):
        cofem.load(tmp_path / "p.npz", ANOTHER[kind](phi))
    assert cofem.load(tmp_path / "p.npz", phi).sample(1, seed=0).shape == (1, D)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("change", "refused"), [(1e-2, True), (1e-3, True), (1e-6, False)])
def test_how_sure_it_is(tmp_path, seed, change, refused):
    # 18 numbers of normal size ‖Δ‖: for 1e-3 all of them lie within the tolerance with a
    # probability below 1e-10; for 1e-6 one of them would have to be a hundred deviations off.
    phi = matrix(seed)
    apart = np.abs(
        fingerprint(cofem.operators.Dense(phi + change * matrix(seed + 100)), phi[:, 0])
        - fingerprint(cofem.operators.Dense(phi), phi[:, 0])
    ).max() / np.linalg.norm(phi)  # fmt: skip
    saved(tmp_path / "p.npz", phi)
    other = phi + change * matrix(seed + 100)
    if refused:
        assert apart > TOLERANCE / 4
        with pytest.raises(ValueError, match="phi is not the one"):
            cofem.load(tmp_path / "p.npz", other)
    else:
        assert apart < TOLERANCE / 10
        cofem.load(tmp_path / "p.npz", other)


@pytest.mark.parametrize("wide", [False, True])
def test_single_and_double_precision_are_the_same_matrix(tmp_path, wide):
    phi = matrix(n=500, d=3000)
    narrow = phi.astype(np.float32)
    kept, given = (phi, narrow) if wide else (narrow, phi)
    saved(tmp_path / "p.npz", kept)
    assert cofem.load(tmp_path / "p.npz", given).mean.shape == (3000,)


def test_the_same_operator_in_another_form_is_the_same(tmp_path):
    rows = np.arange(0, 64, 2)
    saved(tmp_path / "p.npz", DCT(64, rows).to_dense())
    dense = scipy.sparse.csr_array(DCT(64, rows).to_dense())
    for phi in (DCT(64, rows), Sparse(dense), DCT(64, rows).to_scipy()):
        assert len(cofem.load(tmp_path / "p.npz", phi).tasks) == 1
    with pytest.raises(ValueError, match="phi is not the one"):
        cofem.load(tmp_path / "p.npz", DCT(64, rows + 1))


def test_every_task_has_its_own(tmp_path):
    phis = [matrix(0), matrix(1)]
    ys = [np.ones(N), np.ones(N)]
    cofem.posterior(phis, ys, precision=np.ones(D), noise_precision=[1.0, 1.0]).save(
        tmp_path / "p.npz"
    )
    assert len(cofem.load(tmp_path / "p.npz", phis).tasks) == 2
    with pytest.raises(ValueError, match="phi of task 0"):
        cofem.load(tmp_path / "p.npz", phis[::-1])


@pytest.mark.parametrize("options", [{"intercept": True}, {"weights": np.linspace(1, 2, N)}])
def test_weights_and_intercepts(tmp_path, options):
    saved(tmp_path / "p.npz", matrix(), **options)
    cofem.load(tmp_path / "p.npz", matrix())
    with pytest.raises(ValueError, match="phi is not the one"):
        cofem.load(tmp_path / "p.npz", matrix(1))


def test_complex_matrices_and_real_unknowns(tmp_path):
    phi = matrix(0) + 1j * matrix(1)
    y = phi[:, 3] + 0.1
    for real in (False, True):
        post = cofem.posterior(phi, y, precision=np.ones(D), noise_precision=1.0, real=real)
        post.save(tmp_path / "p.npz")
        cofem.load(tmp_path / "p.npz", phi)
        with pytest.raises(ValueError, match="phi is not the one"):
            cofem.load(tmp_path / "p.npz", phi.conj())


def test_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    saved(tmp_path / "p.npz", matrix())
    assert cofem.load(tmp_path / "p.npz", torch.asarray(matrix())).mean.dtype == torch.float64
    with pytest.raises(ValueError, match="phi is not the one"):
        cofem.load(tmp_path / "p.npz", torch.asarray(matrix(1)))


def test_files_from_before_still_load(tmp_path):
    saved(tmp_path / "p.npz", matrix())
    with np.load(tmp_path / "p.npz") as stored:
        assert stored["fingerprint"].shape == (1, 36)
        old = {name: stored[name] for name in stored.files if name != "fingerprint"}
    np.savez(tmp_path / "old.npz", **old)
    assert cofem.load(tmp_path / "old.npz", matrix(1)).tasks  # taken at its word


def test_an_operator_on_several_machines_is_not_multiplied_by_one_alone(tmp_path):
    phi = RowSplit(matrix(), None)
    post = cofem.posterior(2.0 * phi, np.ones(N), precision=np.ones(D), noise_precision=1.0)
    phi.forward = phi._forward = None  # any product would wait for the other machines for ever
    post.save(tmp_path / "p.npz")
    with np.load(tmp_path / "p.npz") as stored:
        assert "fingerprint" not in stored.files


def test_the_numbers_do_not_change_between_versions():
    # A file of today is read for years: these are the numbers of an identity of today.
    found = fingerprint(cofem.operators.Identity(4), np.zeros(4))
    np.testing.assert_allclose(
        found[[0, 2, 4]], [1.041705464947857, 1.502096131475154, 0.7435654851539866], rtol=1e-12
    )
