"""What is done to k-space beside the solves is done where the caller's data are."""

import numpy as np
import pytest
import scipy.fft

from cofem import backend, mri
from cofem.mri.image.fit import Draws, fit_image
from cofem.mri.image.hidden import Hidden
from cofem.mri.image.intervals import Spread
from cofem.mri.scanner.checks import checked_data

torch = pytest.importorskip("torch")
SHAPE = (24, 32)


def both_kinds(coils):
    """Return the same data as NumPy's and as tensors."""
    truth = mri.phantom(SHAPE)
    mask = mri.power_rule_mask(truth.shape, factor=3, power=4, seed=1)
    maps = None
    kspace = mri.to_kspace(truth)
    if coils:
        y, x = np.mgrid[:24, :32] / 32
        maps = np.stack([np.exp(2j * a - (x - a) ** 2 - (y - b) ** 2)
                         for a, b in ((0, 0), (1, 0), (0, 1))])  # fmt: skip
        kspace = mri.to_kspace(truth[:, None] * maps)
    kspace = kspace * (mask[:, None] if coils else mask)
    tensors = [x if x is None else torch.asarray(x) for x in (kspace, mask, maps)]
    options = {"real": False, "centered": True}
    return checked_data(kspace, mask, maps, **options), checked_data(*tensors, **options)


@pytest.fixture
def no_transforms_of_numpy(monkeypatch):
    """Nothing may be transformed on the host."""

    def refuse(*arguments, **options):
        raise AssertionError("a transform of NumPy's arrays")

    def forbid():
        for module in (np.fft, scipy.fft):
            for name in ("fftn", "ifftn", "rfftn", "irfftn"):
                monkeypatch.setattr(module, name, refuse)

    return forbid


@pytest.mark.parametrize("coils", [False, True])
def test_transforms_of_tensors_are_torch_s_and_say_the_same(coils, no_transforms_of_numpy):
    here, there = both_kinds(coils)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 3, 24 * 32)) + 1j * rng.normal(size=(2, 3, 24 * 32))
    spread = Spread(here, 1 + rng.random((3, *SHAPE)), rng.random((3, 24 * 32)))
    plain = Draws(0.3 * x, x)
    wanted = [here.predicted(x), here.predicted(x.real), spread.draws(plain), spread.std(plain)]
    no_transforms_of_numpy()
    spread = Spread(there, spread.filters, spread.map)
    found = [there.predicted(x), there.predicted(x.real), spread.draws(plain), spread.std(plain)]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10 * np.abs(other).max())


def test_discs_are_looked_for_where_the_data_are(no_transforms_of_numpy):
    data = both_kinds(coils=False)[1]
    options = mri.ImageOptions(max_iter=3)
    fit = fit_image(data, False, None, np.zeros(3, dtype=bool), options, 0)
    no_transforms_of_numpy()
    found = Hidden(fit, np.ones(24 * 32, dtype=bool), data.visible(), seed=0)
    put_back, variance = found.put_back()
    assert put_back.shape == variance.shape == (3, 24 * 32)
    assert np.isfinite(put_back).all()
    assert (variance >= 0).all()
    assert (found.detection_limit(2.0) > 0).all()


def test_a_product_of_one_kind_is_the_same_for_other_samples():
    """Graphs are shared by kind: nothing but the inputs may tell two products apart."""
    rng = np.random.default_rng(0)
    rows = torch.asarray(rng.normal(size=(2, 6 * 24 * 32)), dtype=torch.float32)
    factor = torch.full((6, 1), 3.0)
    products = []
    for seed in (1, 2):
        mask = mri.power_rule_mask((3, *SHAPE), factor=3, power=4, seed=seed)
        kspace = mri.to_kspace(mri.phantom(SHAPE)) * mask
        data = checked_data(
            torch.asarray(kspace), torch.asarray(mask), None, real=False, centered=True
        )
        products.append(data.encoding(real=False))
    first, second = products
    assert first.kind == second.kind
    x = rows.reshape(2, 6, -1)
    borrowed = first.moved(second.moving(factor)).gram(x, factor)
    assert torch.allclose(borrowed, second.gram(x, factor))
    assert not torch.allclose(borrowed, first.gram(x, factor))


def test_real_products_of_one_kind_too():
    rng = np.random.default_rng(0)
    x = torch.asarray(rng.normal(size=(2, 3, 24 * 32)), dtype=torch.float32)
    factor = torch.full((3, 1), 3.0)
    encodings = []
    for seed in (1, 2):
        mask = mri.power_rule_mask((3, *SHAPE), factor=3, power=4, seed=seed)
        kspace = mri.to_kspace(mri.phantom(SHAPE)) * mask
        data = checked_data(kspace, mask, None, real=True, centered=True)
        data.__dict__["like"] = x
        encodings.append(data.encoding(real=True))
    first, second = encodings
    assert first.kind == second.kind
    borrowed = first.moved(second.moving(factor)).gram(x, factor)
    assert torch.allclose(borrowed, second.gram(x, factor))
    assert not torch.allclose(borrowed, first.gram(x, factor))


def test_a_whole_reconstruction_of_tensors_is_that_of_arrays():
    rng = np.random.default_rng(0)
    truth = mri.phantom((32, 32))
    mask = mri.power_rule_mask(truth.shape, factor=3, power=4, seed=1)
    kspace = mri.to_kspace(truth)
    kspace = kspace + 0.01 * (rng.normal(size=kspace.shape) + 1j * rng.normal(size=kspace.shape))
    kspace = kspace * mask
    here = mri.reconstruct(kspace, mask, real=True)
    there = mri.reconstruct(torch.asarray(kspace), torch.asarray(mask), real=True)
    assert backend.library(there.image) == "torch"
    # Draws of torch are its own, so that the fits differ as those of two seeds do.
    error = mri.nrmse(there.image.numpy(), truth)
    assert error < 1.2 * mri.nrmse(here.image, truth) + 0.005
    np.testing.assert_allclose(there.noise_std, here.noise_std, rtol=0.25)
