"""What the MRI benchmarks measure on: objects, masks, coils, faint lesions.

The images are looked for in the folder that COFEM_DATA names, else in ../shared/data beside
the repository; an object whose file is not there is left out. Everything is centred.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import ndimage

from cofem import mri

ATLAS, PATIENT = "sri24_pd_t2_t1_200x200.npz", "ms07_t1_t2_flair_218x182.npz"
SAGITTAL, ECHOES = "se_t1_sagittal_256_complex.npz", "fat_water_echoes_pk1_complex.npz"
VOLUME = "sri24_t1_volume_56x200x200.npz"
# Radius in pixels and amplitude beside the brightest pixel: what a reader could overlook.
FAINT = {"wide": (4.0, 0.05), "small": (1.5, 0.2)}


@dataclass(frozen=True)
class Truth:
    """True images (L, *shape), and where lesions are, by name: boolean arrays (L, *shape)."""

    images: np.ndarray
    lesions: dict[str, np.ndarray]
    without: np.ndarray | None = None  # the images before faint lesions were drawn

    @property
    def real(self) -> bool:
        """Whether the images are real."""
        return not np.iscomplexobj(self.images)


def data_file(name: str) -> Path | None:
    """Return a file of the folder mri of the data where it is there."""
    root = os.environ.get("COFEM_DATA")
    folder = Path(root) if root else Path(__file__).resolve().parents[2] / "shared" / "data"
    path = folder / "mri" / name
    return path if path.is_file() else None


def load(name: str, seed: int = 0) -> Truth | None:
    """Return an object by name, None where its file is not there."""
    if name == "phantom":
        return Truth(mri.phantom((160, 160)), {})
    if name == "camera":
        try:
            from skimage import data
        except ImportError:
            return None
        return Truth(ndimage.zoom(data.camera() / 255.0, 200 / 512, order=1)[None], {})
    if name in ("coils", "espirit"):
        atlas = load("atlas")
        return None if atlas is None else Truth(atlas.images.astype(complex), {})
    if name == "faint":
        atlas = load("atlas")
        return None if atlas is None else with_lesions(atlas.images, seed)
    if name == "small":
        atlas = load("atlas")
        if atlas is None:
            return None
        return with_lesions(atlas.images[:, 4:196:2, 4:196:2], seed, each=3, margin=5, apart=9)
    files = {"atlas": ATLAS, "patient": PATIENT, "sagittal": SAGITTAL, "echoes": ECHOES,
             "volume": VOLUME}  # fmt: skip
    path = data_file(files[name])
    if path is None:
        return None
    with np.load(path) as archive:
        if name == "volume":
            images = archive["t1"][8:40, 20:180, 30:170].astype(float) / float(archive["scale"])
            return Truth(images[None], {})
        kind = complex if np.iscomplexobj(archive["images"]) else float
        images = archive["images"].astype(kind)
        lesions = {}
        if name == "patient":
            lesions["real"] = np.broadcast_to(archive["lesions"], images.shape)
        return Truth(images, lesions)


def with_lesions(
    images: np.ndarray, seed: int, each: int = 6, margin: int = 8, apart: int = 16
) -> Truth:
    """Draw faint discs, each into the tissue of one contrast, never two in one place.

    Their middles are ``margin`` pixels from the border of the object, and ``apart`` from others.
    """
    random = np.random.default_rng([seed, 7])
    tissue = ndimage.binary_erosion(np.all(images > 0.1 * images.max(), axis=0), iterations=margin)
    free, drawn = tissue.copy(), images.copy()
    rows, columns = np.indices(tissue.shape)
    lesions = {}
    for name, (radius, amplitude) in FAINT.items():
        where = np.zeros(images.shape, dtype=bool)
        for index in range(each):
            y, x = np.argwhere(free)[random.integers(free.sum())]
            distance = np.hypot(rows - y, columns - x)
            where[index % len(images)] |= distance <= radius
            free &= distance > apart
        drawn = drawn + amplitude * where
        lesions[name] = where
    return Truth(drawn, lesions, images)


def mask(kind: str, shape: tuple[int, ...], factor: float, seed: int) -> np.ndarray:
    """Return a centred mask (L, *shape) by the name of its kind.

    power: SparseMRI's rule. lines: random lines beside a calibration block, its own for every
    contrast. shared: the same for all contrasts. equispaced: every R-th line beside the block,
    as on a clinical scanner. radial: golden-angle spokes. poisson: points, denser in the
    middle.
    """
    random = np.random.default_rng([seed, 11])
    n_contrasts, *sides = shape
    if kind == "power":
        if len(sides) == 3:  # lines along the first axis: the plane of the others is sampled
            plane = np.stack([_points(sides[1:], factor, random) for _ in range(n_contrasts)])
            return np.broadcast_to(plane[:, None], shape).copy()
        return mri.power_rule_mask(shape, factor, 5, seed=seed)
    if kind == "radial":
        return np.stack([_spokes(sides, factor, random) for _ in range(n_contrasts)])
    if kind == "poisson":
        return np.stack([_points(sides, factor, random) for _ in range(n_contrasts)])
    n_masks = 1 if kind in ("shared", "equispaced") else n_contrasts
    lines = np.stack([_lines(kind, sides[-1], factor, random) for _ in range(n_masks)])
    lines = lines.reshape(n_masks, *[1] * (len(sides) - 1), sides[-1])
    return np.broadcast_to(lines, shape).copy()


def _lines(kind: str, n: int, factor: float, random: np.random.Generator) -> np.ndarray:
    """Return which lines are measured; the block is that of fastMRI: 0.32/R of them."""
    block = round(n * 0.32 / factor)
    lines = np.zeros(n, dtype=bool)
    first = n // 2 - block // 2
    lines[first : first + block] = True
    wanted = round(n / factor) - block
    outside = np.flatnonzero(~lines)
    if kind == "equispaced":
        step = n / max(wanted, 1)
        lines[(np.arange(0, n, step) + random.integers(int(step))).astype(int) % n] = True
    else:
        lines[random.choice(outside, wanted, replace=False)] = True
    return lines


def _spokes(sides: list[int], factor: float, random: np.random.Generator) -> np.ndarray:
    found = np.zeros(sides, dtype=bool)
    angle = random.uniform(0, np.pi)
    along = np.linspace(-0.5, 0.5, 2 * max(sides))
    while found.mean() < 1 / factor:
        y = np.round(sides[0] // 2 + along * sides[0] * np.sin(angle)).astype(int)
        x = np.round(sides[1] // 2 + along * sides[1] * np.cos(angle)).astype(int)
        keep = (y >= 0) & (y < sides[0]) & (x >= 0) & (x < sides[1])
        found[y[keep], x[keep]] = True
        angle += np.pi * (np.sqrt(5) - 1) / 2
    return found


def _points(sides: list[int], factor: float, random: np.random.Generator) -> np.ndarray:
    """Return points with a hard core that grows outwards, like a Poisson disc."""
    grids = np.meshgrid(*[np.arange(n) - n // 2 for n in sides], indexing="ij")
    radius = np.sqrt(sum((2 * g / n) ** 2 for g, n in zip(grids, sides, strict=True)))
    score = random.random(sides)
    # A point is taken where it is the lowest of its neighbourhood, the smaller the nearer.
    order = ndimage.percentile_filter(score, 50, size=3) - score + 0.1 * random.random(sides)
    density = 1 / (0.15 + radius**1.5)
    cut = np.quantile(order + 0.25 * np.log(density), 1 - 1 / factor)
    found = order + 0.25 * np.log(density) >= cut
    block = tuple(slice(n // 2 - 6, n // 2 + 6) for n in sides)
    found[block] = True
    return found


def coil_maps(shape: tuple[int, int], number: int = 8) -> np.ndarray:
    """Return smooth maps of coils on a ring, their squares summing to one."""
    rows, columns = np.indices(shape) / np.reshape(shape, (2, 1, 1)) - 0.5
    angles = 2 * np.pi * np.arange(number) / number
    maps = []
    for angle in angles:
        y, x = rows - 0.75 * np.sin(angle), columns - 0.75 * np.cos(angle)
        maps.append(np.exp(-2 * (y**2 + x**2)) * np.exp(2j * (x * np.cos(angle) - y + angle)))
    found = np.stack(maps)
    return found / np.sqrt(np.sum(np.abs(found) ** 2, axis=0))


def measured(
    truth: Truth, sampled: np.ndarray, sigma: float, seed: int, maps: np.ndarray | None = None
) -> np.ndarray:
    """Return the samples with complex white noise, E|ε|² = σ²."""
    random = np.random.default_rng([seed, 13])
    axes = truth.images.ndim - 1
    images = truth.images if maps is None else truth.images[:, None] * maps
    kspace = mri.to_kspace(images, n_axes=axes)
    noise = random.standard_normal(kspace.shape) + 1j * random.standard_normal(kspace.shape)
    kept = sampled if maps is None else sampled[:, None]
    return np.where(kept, kspace + noise * sigma / 2**0.5, 0)
