"""Siemens raw data (twix, .dat) of Cartesian scans, through twixtools."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from cofem.mri.files.grid import Readout, calibration_on_grid, on_grid, scanner_affine
from cofem.mri.scanner.coils import noise_covariance

CARTESIAN, VOLUME = 1, 4  # ucTrajectory, ucDimension in the protocol
TRAPEZOID = 2  # alRegridMode from which samples were taken while the gradient was changing
OVERSAMPLING = 2.0  # along the readout, where the protocol does not say; every scanner's default
NOT_UNIT = 0.01  # what the length of a quaternion may differ from 1: the protocol has six digits
ELSEWHERE = "siemens_to_ismrmrd and a reconstruction chain of its own can prepare it"


def read_twix(file: Path, index: int | None = None) -> dict[str, Any]:
    """Return what :class:`cofem.mri.files.scan.Scan` is made of.

    Of several measurements in the file the last with images is read; noise scans of all of them
    give the covariance of the coils. Echoes and sets are contrasts, averages are averaged, of
    repetitions and phases of the heart the first is taken. Readouts are placed by the counters
    relative to the line and the sample that the scanner calls the centre. Readouts for calibration
    alone are kept apart.
    """
    messages = io.StringIO()
    with contextlib.redirect_stdout(messages):  # which belongs to the answer
        scans = _twixtools().read_twix(
            str(file), parse_pmu=False, parse_geometry=False, verbose=False, keep_syncdata=False
        )
    _refuse_cut(file, scans)
    with_images = [scan for scan in scans if any(m.is_image_scan() for m in scan["mdb"])]
    if not with_images:
        raise ValueError(f"path: {file} has no readouts of images")
    scan = with_images[-1]
    _refuse_others(file, scan)
    kept, notes = _chosen([m for m in scan["mdb"] if m.is_image_scan()], index, file)
    coils = kept[0].mdh.UsedChannels
    noise = [m.data for s in scans for m in s["mdb"] if m.is_flag_set("NOISEADJSCAN")]
    noise = [data for data in noise if len(data) == coils]
    found = _placed(kept, scan["hdr"], _apart(scan, kept[0]))
    if noise:
        found["coil_covariance"] = noise_covariance(np.concatenate(noise, axis=1))
        notes.append(f"{len(noise)} noise readouts")
    if "calibration" in found:
        notes.append(f"{len(_apart(scan, kept[0]))} readouts of a separate calibration")
    notes += [line for line in messages.getvalue().splitlines() if line.startswith("WARNING")]
    return found | {"notes": tuple(notes)}


def _chosen(lines: list[Any], index: int | None, file: Path) -> tuple[list[Any], list[str]]:
    """Return the readouts of one slice, first repetition and phase, and what that left out."""
    slices = sorted({m.cSlc for m in lines})
    chosen = slices[len(slices) // 2] if index is None else index
    if chosen not in slices:
        raise ValueError(f"path: {file} has no slice {chosen}; it has {slices}")
    lines = [m for m in lines if m.cSlc == chosen]
    notes = [f"Siemens twix, slice {chosen} of {len(slices)}"]
    times = sorted({(m.cRep, m.cPhs) for m in lines})
    if len(times) > 1:
        lines = [m for m in lines if (m.cRep, m.cPhs) == times[0]]
        notes.append(f"the first of {len(times)} repetitions and phases")
    return lines, [*notes, f"{len(lines)} readouts"]


def _refuse_cut(file: Path, scans: list[Any]) -> None:
    """Refuse a file that is shorter than its header says: it would be read as zeros."""
    for scan in scans:
        if "raidfile_hdr" not in scan:  # software before VD says no length
            continue
        entry = scan["raidfile_hdr"]
        end = int(entry["off_"]) + int(entry["len_"])
        if file.stat().st_size < end:
            raise ValueError(
                f"path: {file} is cut short: it has {file.stat().st_size} bytes, its header says "
                f"{end}"
            )


def _refuse_others(file: Path, scan: dict[str, Any]) -> None:
    """Refuse scans whose samples do not lie on a grid, or not of one slice."""
    protocol, meas = scan["hdr"].get("MeasYaps", {}), scan["hdr"].get("Meas", {})
    trajectory = _number(protocol, "sKSpace", "ucTrajectory", default=CARTESIAN)
    regrid = np.atleast_1d(meas.get("alRegridMode") or 1)[0]
    bands = _number(protocol, "sSliceAcceleration", "lMultiBandFactor", default=1)
    mirrored = any(m.is_flag_set("REFLECT") for m in scan["mdb"] if m.is_image_scan())
    corrected = any(m.is_flag_set("PHASCOR") for m in scan["mdb"])
    reasons = {
        "its trajectory is not Cartesian": trajectory != CARTESIAN,
        "it was sampled on the ramps of the gradient": regrid >= TRAPEZOID,
        "several slices were excited at once": bands > 1,
        "its lines go both ways and need a phase correction": mirrored and corrected,
    }
    for reason, there in reasons.items():
        if there:
            raise ValueError(f"path: {file} is not read here, because {reason}; {ELSEWHERE}")


def _apart(scan: dict[str, Any], like: Any) -> list[Any]:
    """Return the readouts that are for calibration alone, of the slice and coils of ``like``."""
    others = ("PHASCOR", "NOISEADJSCAN")
    return [
        m for m in scan["mdb"]
        if m.is_flag_set("PATREFSCAN") and not m.is_image_scan() and m.cSlc == like.cSlc
        and m.mdh.UsedChannels == like.mdh.UsedChannels and not any(map(m.is_flag_set, others))
    ]  # fmt: skip


def _placed(lines: list[Any], header: dict[str, Any], apart: list[Any]) -> dict[str, Any]:
    protocol = header.get("MeasYaps", {})
    contrasts = sorted({(m.cSet, m.cEco) for m in lines})
    oversampling = float(header.get("Dicom", {}).get("flReadoutOSFactor") or OVERSAMPLING)
    is_volume = _number(protocol, "sKSpace", "ucDimension", default=2) == VOLUME
    starts, ends = zip(*(_columns(m) for m in lines), strict=True)
    rows = [int(m.cLin) - int(m.mdh.CenterLin) for m in lines]
    planes = [int(m.cPar) - int(m.mdh.CenterPar) if is_volume else 0 for m in lines]
    base = _number(protocol, "sKSpace", "lBaseResolution", default=1)
    n_columns = _side(round(base * oversampling), min(starts), max(ends))
    n_rows = _side(_number(protocol, "sKSpace", "lPhaseEncodingLines"), min(rows), max(rows))
    n_planes = _side(_number(protocol, "sKSpace", "lPartitions"), min(planes), max(planes))
    n_planes = n_planes if is_volume else 1
    shape = (n_planes, n_rows, n_columns)

    def readout(m: Any) -> Readout:
        data = m.data[:, ::-1] if m.is_flag_set("REFLECT") else m.data
        start, end = _columns(m)
        first = start + int(m.mdh.CenterCol)
        plane = int(m.cPar) - int(m.mdh.CenterPar) if is_volume else 0
        contrast = (m.cSet, m.cEco)
        return Readout(
            contrasts.index(contrast) if contrast in contrasts else 0,
            plane + n_planes // 2, int(m.cLin) - int(m.mdh.CenterLin) + n_rows // 2,
            start + n_columns // 2, data[:, first : first + end - start + 1],
        )  # fmt: skip

    found = on_grid([readout(m) for m in lines], shape, round(n_columns / oversampling))
    calibration = [r for r in map(readout, apart) if _inside(r, shape)]
    if calibration:
        found["calibration"] = calibration_on_grid(calibration, shape, found["kspace"].shape[-1])
    affine = _affine(lines[0].mdh.SliceData, protocol, shape, found["kspace"].shape[-1], base)
    return found if affine is None else found | {"affine": affine}


def _inside(readout: Readout, shape: tuple[int, int, int]) -> bool:
    ends = (readout.plane, readout.row, readout.column + readout.data.shape[1] - 1)
    starts = (readout.plane, readout.row, readout.column)
    return all(a >= 0 and b < n for a, b, n in zip(starts, ends, shape, strict=True))


def _affine(
    place: Any, protocol: dict[str, Any], shape: tuple[int, int, int], columns: int, base: int
) -> np.ndarray | None:
    """Return the affine of the images, None where the file does not say where they lie.

    The quaternion (w, x, y, z) of a readout is a rotation whose columns are the directions of
    phase, readout and slice in the patient.
    """
    quaternion = np.array(list(place.Quaternion))
    slices = protocol.get("sSliceArray", {}).get("asSlice") or [{}]
    read, phase, thick = (
        float(slices[0].get(name) or 0.0) for name in ("dReadoutFOV", "dPhaseFOV", "dThickness")
    )
    if np.abs(np.linalg.norm(quaternion) - 1) > NOT_UNIT or min(read, phase, thick) <= 0:
        return None
    more = 1 + _real(protocol, "sKSpace", "dPhaseOversamplingForDialog")
    steps = (phase * more / shape[1], read / base, thick / shape[0])
    directions = Rotation.from_quat(np.roll(quaternion, -1)).as_matrix().T
    position = [place.SlicePos.Sag, place.SlicePos.Cor, place.SlicePos.Tra]
    return scanner_affine((shape[1], columns, shape[0]), steps, directions, np.array(position))


def _columns(line: Any) -> tuple[int, int]:
    """Return the first and the last valid sample, counted from the centre of k-space."""
    centre, cut = int(line.mdh.CenterCol), line.mdh.CutOff
    return int(cut.Pre) - centre, int(line.mdh.SamplesInScan) - int(cut.Post) - 1 - centre


def _side(said: int, first: int, last: int) -> int:
    """Return the protocol's number of samples, or the even one that holds first … last around 0."""
    if -(said // 2) <= first and last < said - said // 2:
        return said
    return 2 * max(-first, last + 1)


def _number(protocol: dict[str, Any], *names: str, default: int = 0) -> int:
    return int(_real(protocol, *names, default=default))


def _real(protocol: dict[str, Any], *names: str, default: float = 0.0) -> float:
    value: Any = protocol
    for name in names:
        value = value.get(name, {}) if isinstance(value, dict) else {}
    return float(value) if isinstance(value, (int, float)) else default


def _twixtools() -> Any:
    try:
        import twixtools
    except ImportError:
        raise ImportError("Siemens raw data (.dat) need twixtools: pip install twixtools") from None
    return twixtools
