"""Directions of arrival: cofem beside MUSIC and the beamformers of Bartlett and Capon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import cofem
from common import Claim, Result, Table
from fields_common import compare

ANTENNAS = 16
GRID = np.arange(-90, 90, 1.0)
SOURCES = np.array([-30.0, 11.0, 17.0])  # the last two are closer than the beam is wide


def steering(degrees: np.ndarray) -> np.ndarray:
    """Return the answer of a line of antennas half a wavelength apart, (M, angles)."""
    delay = np.sin(np.deg2rad(degrees))
    return np.exp(1j * np.pi * np.arange(ANTENNAS)[:, None] * delay) / np.sqrt(ANTENNAS)


@dataclass(frozen=True)
class Snapshots:
    """Data (L, M), and the true angles."""

    y: np.ndarray
    angles: np.ndarray


def simulate(seed: int, n_snapshots: int, sigma: float, correlation: float) -> Snapshots:
    """Draw snapshots; ``correlation`` 1 makes the last two sources echoes of each other."""
    rng = np.random.default_rng([seed, 17])

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)

    amplitude = normal(n_snapshots, 3)
    amplitude[:, 2] = correlation * amplitude[:, 1] * np.exp(0.7j) + (
        np.sqrt(1 - correlation**2) * amplitude[:, 2]
    )
    angles = SOURCES + rng.integers(-3, 4)
    y = amplitude @ steering(angles).T + sigma * normal(n_snapshots, ANTENNAS)
    return Snapshots(y, angles)


def peaks(spectrum: np.ndarray) -> np.ndarray:
    """Return the angles of the three highest peaks."""
    padded = np.pad(spectrum, 1, constant_values=-np.inf)
    tops = np.flatnonzero((spectrum >= padded[:-2]) & (spectrum > padded[2:]))
    return np.sort(GRID[tops[np.argsort(-spectrum[tops])[:3]]])


def by_cofem(problem: Snapshots) -> np.ndarray:
    """Fit with the noise unknown; the number of sources only counts the peaks that are read."""
    post = cofem.fit(steering(GRID), problem.y)
    return peaks(np.mean(np.abs(post.mean) ** 2, axis=0))


def by_bartlett(problem: Snapshots) -> np.ndarray:
    """Return the peaks of the conventional beamformer."""
    return peaks(np.mean(np.abs(problem.y @ steering(GRID).conj()) ** 2, axis=0))


def by_capon(problem: Snapshots) -> np.ndarray:
    """Return those of Capon's (1969), with a little loading for few snapshots."""
    R = problem.y.T @ problem.y.conj() / len(problem.y)
    R += 1e-3 * np.trace(R).real / ANTENNAS * np.eye(ANTENNAS)
    A = steering(GRID)
    return peaks(1 / np.sum(A.conj() * np.linalg.solve(R, A), axis=0).real)


def by_music(problem: Snapshots) -> np.ndarray:
    """Return those of MUSIC (Schmidt 1986), which is told that there are three sources."""
    R = problem.y.T @ problem.y.conj() / len(problem.y)
    noise_space = np.linalg.eigh(R)[1][:, : ANTENNAS - 3]
    return peaks(1 / np.sum(np.abs(noise_space.conj().T @ steering(GRID)) ** 2, axis=0))


def judge(problem: Snapshots, found: np.ndarray) -> tuple[float, float]:
    """Whether all three are found within 2°, and the error in degrees (20 for a missing one)."""
    nearest = np.array([np.min(np.abs(found - angle), initial=20.0) for angle in problem.angles])
    return float(100 * np.all(nearest <= 2)), float(np.sqrt(np.mean(nearest**2)))


SETTINGS = {
    "20 snapshots, σ = 0.1": (20, 0.1, 0.0),
    "20 snapshots, σ = 0.3": (20, 0.3, 0.0),
    "3 snapshots, σ = 0.1": (3, 0.1, 0.0),
    "20 snapshots, σ = 0.1, two sources are echoes": (20, 0.1, 1.0),
}


def run(quick: bool) -> Result:
    """Measure easy, noisy, short and coherent data."""
    methods = {
        "cofem, noise and number unknown": by_cofem,
        "MUSIC, number known": by_music,
        "Capon": by_capon,
        "beamformer": by_bartlett,
    }
    tables: list[Table] = []
    for name, setting in list(SETTINGS.items())[: 1 if quick else None]:
        problems = [simulate(seed, *setting) for seed in range(2 if quick else 20)]
        measures = ("all three found (%)", "error (degrees)")
        tables.append(compare(name, measures, methods, problems, judge, "mean"))
    found = {row[0].split(",")[0]: float(row[2]) for row in tables[-1].rows}
    claim = Claim("with echoes cofem's error is the smallest",
                  found["cofem"] <= min(found.values()),
                  ", ".join(f"{name} {value:g}°" for name, value in found.items()))  # fmt: skip
    return Result("Directions of arrival", tables, [claim])
