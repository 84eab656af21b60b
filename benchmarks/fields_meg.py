"""Sources of MEG: cofem beside MNE's gamma_map, Champagne and eLORETA.

COFEM_DATA names a folder that holds meg/leadfield_fixed_204x4686.npz; without it only the
sphere is measured. MNE is an optional rival.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cofem
from common import Claim, Result, Table
from fields_common import compare, optional

SAMPLES = 20
# Sources, and signal over noise in decibel: an easy recording and a hard one.
SETTINGS = ((3, 20.0), (8, 10.0))
LEADFIELD = Path("meg", "leadfield_fixed_204x4686.npz")


@dataclass(frozen=True)
class Recording:
    """Field patterns (N, D), ``orientations`` columns a place, data (L, N) and the truth."""

    leadfield: np.ndarray
    orientations: int
    y: np.ndarray
    places: np.ndarray
    variance: float
    snr_db: float
    positions: np.ndarray | None = None


def sphere(n_sensors: int, n_places: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return Sarvas' field of current dipoles in a conducting sphere (1987), and where they are.

    Radial magnetometers on the upper half at 12 cm see dipoles inside of 8 cm. For radial
    sensors the volume currents drop out: B_r ∝ (p × q) · r / |r − p|³.
    """
    r = _upper_half(n_sensors) * 0.12
    p = _upper_half(n_places) * rng.uniform(0.04, 0.08, (n_places, 1))
    distance = np.linalg.norm(r[:, None] - p[None], axis=2) ** 3
    field = np.empty((n_sensors, n_places, 3))
    for axis in range(3):
        moment = np.cross(p, np.eye(3)[axis])
        field[:, :, axis] = (r @ moment.T) / (distance * 0.12)
    return field.reshape(n_sensors, -1) / np.abs(field).max(), p


def _upper_half(n: int) -> np.ndarray:
    """Return n directions spread evenly over the upper half (a Fibonacci spiral)."""
    k = np.arange(n) + 0.5
    z, angle = 1 - k / n, np.pi * (1 + 5**0.5) * k
    radius = np.sqrt(1 - z**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


def record(
    leadfield: Any, orientations: int, seed: int, setting: tuple[int, float], positions: Any = None
) -> Recording:
    """Draw a few sources with their own time courses, and noise of the given ratio."""
    rng, (active, snr_db) = np.random.default_rng([seed, 5]), setting
    n_places = leadfield.shape[1] // orientations
    places = np.sort(rng.choice(n_places, active, replace=False))
    time = np.linspace(0, 1, SAMPLES)
    z = np.zeros((SAMPLES, n_places, orientations))
    for place in places:
        course = np.sin(2 * np.pi * (rng.uniform(0.5, 2) * time + rng.random()))
        direction = rng.standard_normal(orientations)
        z[:, place] = course[:, None] * direction / np.linalg.norm(direction)
        norm = np.linalg.norm(leadfield.reshape(len(leadfield), n_places, -1)[:, place])
        z[:, place] *= np.sqrt(orientations) / norm  # all are seen about equally well
    signal = z.reshape(SAMPLES, -1) @ leadfield.T
    variance = float(np.mean(signal**2)) * 10 ** (-snr_db / 10)
    y = signal + np.sqrt(variance) * rng.standard_normal(signal.shape)
    return Recording(leadfield, orientations, y, places, variance, snr_db, positions)


def by_cofem(problem: Recording, known: bool = False) -> np.ndarray:
    """Return the power of every place; the noise is unknown unless it is said to be known."""
    groups = np.repeat(np.arange(problem.leadfield.shape[1] // problem.orientations),
                       problem.orientations)  # fmt: skip
    post = cofem.fit(
        problem.leadfield, problem.y,
        noise_precision=[1 / problem.variance] * len(problem.y) if known else None,
        groups=groups if problem.orientations > 1 else None,
    )  # fmt: skip
    return power(post.mean, problem.orientations)


def by_gamma_map(problem: Recording, mode: int) -> np.ndarray:
    """Run MNE's solver on the arrays; it is told the noise. Mode 1 MacKay, 2 Champagne."""
    from mne.inverse_sparse._gamma_map import _gamma_map_opt

    gain = problem.leadfield / np.abs(problem.leadfield).max()
    found, active = _gamma_map_opt(
        problem.y.T.copy(), gain.copy(), alpha=problem.variance, tol=1e-6, maxit=2000,
        update_mode=mode, group_size=problem.orientations, verbose=False,
    )  # fmt: skip
    z = np.zeros((gain.shape[1], len(problem.y)))
    z[active] = found
    return power(z.T, problem.orientations)


def by_eloreta(problem: Recording) -> np.ndarray:
    """Weigh until single sources are localised exactly: eLORETA (Pascual-Marqui 2007)."""
    K, k = problem.leadfield, problem.orientations
    n, places = len(K), K.shape[1] // k
    blocks = K.reshape(n, places, k)
    W = np.tile(np.eye(k), (places, 1, 1))  # inverse weights
    for _ in range(20):
        G = np.einsum("nik,ikl,mil->nm", blocks, W, blocks, optimize=True)
        M = np.linalg.inv(G + 10 ** (-problem.snr_db / 10) * np.trace(G) / n * np.eye(n))
        inner = np.einsum("nik,nm,mil->ikl", blocks, M, blocks, optimize=True)
        values, vectors = np.linalg.eigh(inner)
        roots = 1 / np.sqrt(np.maximum(values, 1e-12 * values.max()))
        W = np.einsum("ikl,il,iml->ikm", vectors, roots, vectors)
    z = np.einsum("ikl,nil,nm,tm->tik", W, blocks, M, problem.y, optimize=True)
    return power(z.reshape(len(z), -1), k)


def power(z: np.ndarray, orientations: int) -> np.ndarray:
    """Return the mean square over time and orientations, one number a place."""
    return np.mean(z.reshape(len(z), -1, orientations) ** 2, axis=(0, 2))


def judge(problem: Recording, found: np.ndarray) -> tuple[float, float, float]:
    """Return the share of sources among as many strongest places, how near, and active places.

    Near is a distance in millimetres where positions are known, and otherwise the mean
    correlation of a source's pattern with the most similar one that was found.
    """
    strongest = np.argsort(-found)[: len(problem.places)]
    exact = 100 * len(set(strongest) & set(problem.places)) / len(problem.places)
    if problem.positions is not None:
        apart = np.linalg.norm(
            problem.positions[problem.places][:, None] - problem.positions[strongest], axis=2
        )
        near = 1000 * float(np.mean(np.min(apart, axis=1)))
    else:
        columns = problem.leadfield / np.linalg.norm(problem.leadfield, axis=0)
        alike = np.abs(columns[:, problem.places].T @ columns[:, strongest])
        near = float(np.mean(np.max(alike, axis=1)))
    return exact, near, int(np.sum(found > 0.01 * found.max()))


def run(quick: bool) -> Result:
    """Measure the sphere with free orientations, and the real leadfield where it is there."""
    has_mne = optional("mne") is not None
    seeds = range(2 if quick else 10)
    field, positions = sphere(64, 100 if quick else 300, np.random.default_rng(0))
    heads: list[tuple[str, Any, int, Any]] = [
        ("Sphere, free orientation, groups of three", field, 3, positions)
    ]
    folder = os.environ.get("COFEM_DATA")
    if folder and not quick:
        real = np.load(Path(folder) / LEADFIELD)["leadfield"].astype(float)
        heads.append(("Real leadfield 204 × 4686, fixed", real / np.abs(real).max(), 1, None))
    tables, claims = [], []
    for title, leadfield, orientations, where in heads:
        for setting in SETTINGS[: 1 if quick else None]:
            problems = [record(leadfield, orientations, s, setting, where) for s in seeds]
            name = f"{title}, {setting[0]} sources, {setting[1]:g} dB"
            tables.append(_table(name, problems, has_mne))
            claims.append(_claim(name, tables[-1]))
    return Result("Sources of MEG", tables, claims)


def _claim(name: str, table: Table) -> Claim:
    found = {row[0]: row[1] for row in table.rows if row[1] != "not installed"}
    best = max(float(share) for method, share in found.items() if "cofem" not in method)
    ours = float(next(v for k, v in found.items() if k.startswith("cofem, noise unknown")))
    return Claim(f"{name}: without the noise as many found as by the best rival that knows it",
                 ours >= best, f"{ours:g} % and {best:g} %")  # fmt: skip


def _table(title: str, problems: list[Recording], has_mne: bool) -> Table:
    methods = {
        "cofem, noise unknown": by_cofem,
        "cofem, noise known": lambda p: by_cofem(p, known=True),
        "MNE gamma_map, noise known": (lambda p: by_gamma_map(p, 1)) if has_mne else None,
        "Champagne (MNE), noise known": (lambda p: by_gamma_map(p, 2)) if has_mne else None,
        "eLORETA, noise known": by_eloreta,
    }
    near = "correlation" if problems[0].positions is None else "distance (mm)"
    measures = ("sources found (%)", near, "active places")
    return compare(title, measures, methods, problems, judge, "mean")
