"""From checked data to the posterior of the model ``image``, in the user's units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cofem import backend
from cofem.mri.image.countdown import Call, Countdown
from cofem.mri.image.fit import Draws, ImageFit, Measured, fit_image
from cofem.mri.image.held_out import Evidence, choose_folds, not_predicted
from cofem.mri.image.hidden import Hidden
from cofem.mri.image.intervals import Spread, dark_pixels
from cofem.mri.image.options import ImageOptions
from cofem.mri.image.rule import Learned
from cofem.mri.result import Reconstruction

PHASES = ("auto", "smooth", "none")
# Fits without some samples need not be as exact: they are compared with others like them.
FOLD_TOL, FOLD_ITERATIONS = 4.0, 25
# The most folds with which it is chosen whether a phase is smooth.
CHOOSING_FOLDS = 2
# With so many samples for each pixel (of several coils) the data know the phase themselves,
# also where it is not smooth, as between fat and water.
ENOUGH_SAMPLES = 0.5


def reconstruct_image(
    data: Measured,
    real: bool,
    phase: str,
    noise_std: np.ndarray | None,
    options: ImageOptions,
    max_iter: int | None,
    tol: float | None,
    n_samples: int,
    seed: int,
    callback: Call | None = None,
    show: Call | None = None,
) -> Reconstruction:
    """Learn, with all samples and without some, then report.

    ``callback`` sees the iterations of the fit to all samples, ``show`` those of every fit.
    """
    if not isinstance(options, ImageOptions):
        raise TypeError(f"options must be an ImageOptions, got {type(options).__name__}")
    if max_iter is not None:
        options = replace(options, max_iter=max_iter)
    if tol is not None:
        options = replace(options, tol=tol)
    n_contrasts = len(data.mask)
    folds = choose_folds(data, options.folds, seed) if options.folds else []
    smooth = np.full(n_contrasts, phase == "smooth")
    evidence = Evidence.empty(n_contrasts)
    choose = phase == "auto" and not real and _needs_phase(data)
    if choose and not folds:
        smooth[:] = True  # nothing can be held out to compare with

    coarse = replace(
        options, tol=FOLD_TOL * options.tol, max_iter=min(options.max_iter, FOLD_ITERATIONS)
    )

    choose = choose and bool(folds)
    tries = 2 * CHOOSING_FOLDS if choose else 0
    lengths = [coarse.max_iter] * tries + [options.max_iter] + [coarse.max_iter] * len(folds)
    count = Countdown(show, lengths)

    def fitted(kept: Measured, chosen: np.ndarray, phase: np.ndarray | None = None) -> ImageFit:
        return fit_image(kept, real, noise_std, chosen, coarse, seed, count.stage(), phase)

    if choose:
        smooth = _chosen_phase(fitted, data.coarser(), seed)
        count.skip_to(tries)
    final = fit_image(data, real, noise_std, smooth, options, seed, count.stage(callback))
    for index, left_out in enumerate(folds):
        # A smooth phase is a few hundred numbers, which all samples together may tell the folds.
        fold = fitted(data.without(left_out), smooth, final.phases if smooth.any() else None)
        evidence.add(fold, data, left_out, seed + index)
    hidden = Hidden(final, ~dark_pixels(final.image, data), data.visible(), seed)
    put_back, marks = hidden.put_back()
    plain = final.draws(n_samples, seed)
    evidence.excess = final.excess
    spread = Spread.learned(data, final.image, plain, evidence, marks)
    found = _report(data, final, final.image + put_back, spread, plain, hidden)
    return replace(found, phase=() if real else tuple(np.where(smooth, "smooth", "none").tolist()))


def _needs_phase(data: Measured) -> bool:
    counts = data.mask.sum(axis=tuple(range(1, data.mask.ndim))) * data.n_coils
    return data.n_sets == 1 and bool(counts.max() < ENOUGH_SAMPLES * np.prod(data.shape))


def _chosen_phase(
    fitted: Callable[[Measured, np.ndarray], ImageFit], data: Measured, seed: int
) -> np.ndarray:
    """Fit with and without a smooth phase; the better predicts left-out samples better.

    Large pixels are enough for that, and a quarter of the work. Where it is the better for some
    contrasts and not for others, other samples are left out too: a phase may be found wrongly once.
    """
    n_contrasts = len(data.mask)
    gains: list[np.ndarray] = []
    for left_out in choose_folds(data, CHOOSING_FOLDS, seed):
        kept = data.without(left_out)
        missed = []
        for value in (False, True):
            fit = fitted(kept, np.full(n_contrasts, value))
            pairs = zip(not_predicted(fit, data), left_out, strict=True)
            missed.append(np.array([power[..., chosen].sum() for power, chosen in pairs]))
        least = np.finfo(float).tiny
        gains.append(np.log(np.maximum(missed[0], least) / np.maximum(missed[1], least)))
        smooth = np.asarray(np.mean(gains, axis=0) > 0)
        if smooth.all() or not smooth.any():
            break
    return smooth if gains else np.ones(n_contrasts, dtype=bool)


def _report(
    data: Measured,
    fit: ImageFit,
    image: np.ndarray,
    spread: Spread,
    plain: Draws,
    hidden: Hidden,
) -> Reconstruction:
    def sampler(number: int, stream: int) -> Any:
        return data.handed_back(data.restored(spread.draws(fit.draws(number, stream))))

    def limit(radius: float) -> Any:
        return data.handed_back(data.restored(hidden.detection_limit(radius)))

    units, learned = fit.units, fit.learned
    history = {name: list(values) for name, values in learned.history.items()}
    history["noise_std"] = [value * units[:, 0] for value in history["noise_std"]]
    edges = backend.to_numpy(learned.prior.spread).astype(float) * np.mean(units**2)
    return Reconstruction(
        image=data.handed_back(data.restored(image)),
        std=data.handed_back(data.restored(spread.std(plain))),
        precision=data.handed_back(data.restored(1 / edges)),
        noise_std=fit.noise_std,
        history=history,
        converged=learned.verdict.converged and bool(np.isfinite(image).all()),
        model="image",
        _sampler=sampler,
        _limit=limit,
        message=_message(learned, fit.model.options, image),
    )


def _message(learned: Learned, options: ImageOptions, image: np.ndarray) -> str:
    if not np.isfinite(image).all():
        return "the images are not finite: check noise_std and the scale of the sensitivities"
    facts = {"change": learned.history["change"][-1], "tol": options.tol}
    sentence = learned.verdict.value.format(max_iter=options.max_iter, **facts)
    return f"{sentence} ({len(learned.history['iteration'])} iterations)"
