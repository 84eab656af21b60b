"""A posterior as HTML: a glance for the notebook, and a page to keep.

Everything is inside the one file, pictures too: it opens without a network.
"""

from __future__ import annotations

import base64
import html
import io
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from cofem import backend

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; color: #111; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #ddd;
         vertical-align: top; }
th { white-space: nowrap; }
td { font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.numbers th, .numbers td { text-align: right; }
img { max-width: 100%; height: auto; }
.warning { border-left: .3rem solid #D55E00; padding: .3rem .8rem; background: #fdf3ec; }
"""


def glance(post: Any) -> str:
    """Return a small fragment: a picture and the facts, for ``Posterior._repr_html_``.

    Examples
    --------
    >>> import numpy as np, cofem
    >>> post = cofem.posterior(np.eye(2), np.ones(2), precision=np.ones(2), noise_precision=1.0)
    >>> "<table>" in glance(post)
    True
    """
    from cofem import plot

    picture = _picture(lambda ax: plot.posterior(post, ax=ax), "posterior", height=2.6)
    return f"<div>{picture}{_table(_facts(post))}</div>"


def report(post: Any, source: str = "") -> str:
    """Return one self-contained page: figures, settings, convergence, versions.

    Parameters
    ----------
    post : Posterior
    source : str
        Where it came from, for the heading.

    Examples
    --------
    >>> import numpy as np, cofem
    >>> post = cofem.posterior(np.eye(2), np.ones(2), precision=np.ones(2), noise_precision=1.0)
    >>> page = report(post, "p.npz")
    >>> page.startswith("<!doctype html>"), "http" in page
    (True, False)
    """
    from cofem import plot

    pictures = [
        _picture(lambda ax: plot.posterior(post, ax=ax), "estimate with error bars"),
        _picture(lambda ax: plot.support(post, ax=ax), "how sure, against the mean"),
    ]
    # Known hyperparameters are not learned in iterations: there would be nothing to see.
    if np.isfinite(np.asarray(post.history["change"], dtype=float)).any():
        pictures.append(_pictures(lambda axes: plot.history(post, axes=axes), "iterations"))
    title = f"Posterior {source}".strip()
    warning = ""
    if not post.converged:
        warning = f'<p class="warning">Not converged: {html.escape(post.message)}</p>'
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        warning,
        _table(_facts(post)),
        "<h2>Estimate</h2>",
        *pictures[:2],
        *(
            ["<h2>How it was reached</h2>", pictures[2], _history(post.history)]
            if len(pictures) > 2
            else []
        ),
        "<h2>Settings</h2>",
        _table(_settings(post)),
        f"<h2>Options of the method {html.escape(str(post.method))}</h2>",
        _table(_options(post)),
        "<h2>Versions</h2>",
        _table(_versions()),
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


# -- the facts ---------------------------------------------------------------------------


def _facts(post: Any) -> dict[str, str]:
    shape = " × ".join(f"{n:,}" for n in post.gaussian_mean.shape)
    betas = np.atleast_1d(post.noise_precision)
    noise = ", ".join(f"{b:.4g} (σ = {b**-0.5:.3g})" for b in betas[:8].tolist())
    noise += ", …" if len(betas) > 8 else ""
    products = post.history["products"][-1] if post.history["products"] else 0
    steps = sum(post.history["cg_steps"])
    inside = int(np.sum(backend.to_numpy(post.support())))
    return {
        "unknowns": shape,
        "support (95 %)": f"{inside:,}",
        "method": str(post.method),
        "prior": str(post.prior),
        "iterations": f"{len(post.history['iteration']):,}",
        "state": ("converged: " if post.converged else "not converged: ") + post.message,
        "noise precision": noise,
        "log evidence": _evidence(post),
        "CG steps": f"{int(steps):,}",
        "products with Φ": f"{int(products):,}",
        "seconds": f"{post.history['seconds'][-1]:.3g}" if post.history["seconds"] else "—",
    }


def _evidence(post: Any) -> str:
    if post.log_evidence != post.log_evidence:
        return "not known to this method"
    error = post.log_evidence_error
    if not error > 0:  # exact
        return f"{post.log_evidence:.8g}"
    digits = max(0, 1 - math.floor(math.log10(error)))  # two significant digits of the error
    return f"{post.log_evidence:,.{digits}f} ± {error:.{digits}f}"


def _settings(post: Any) -> dict[str, str]:
    """Return the arguments of the fit, and what "auto" became."""
    # Files of an older version hold only these two of the arguments.
    old = {"nonnegative": bool(post.nonnegative), "intercept": post.intercept is not None}
    shown = {str(name): _setting(value) for name, value in (post.settings or old).items()}
    for name in ("method", "prior"):
        ran = str(getattr(post, name))
        if shown.setdefault(name, ran) != ran:
            shown[name] += f"; {ran} ran"
    if "noise_precision" in post.settings and not _noise_was_given(post.settings):
        shown["noise_precision"] = "learned"
    return shown


def _noise_was_given(settings: Mapping[str, Any]) -> bool:
    return any(settings.get(name) is not None for name in ("noise_precision", "noise_std"))


def _setting(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _options(post: Any) -> dict[str, str]:
    options = post.options
    given = asdict(options) if is_dataclass(options) and not isinstance(options, type) else options
    found = given if isinstance(given, Mapping) else {"options": given}
    return {str(name): _short(value) for name, value in found.items()} or {"options": "none"}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:197] + "…"


def _versions() -> dict[str, str]:
    names = ("cofem", "numpy", "scipy", "numba", "matplotlib", "torch")
    found = {"written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")}
    found["Python"] = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            if name == "cofem":
                found[name] = "a checkout, not installed"
    return found


# -- the markup --------------------------------------------------------------------------


def _table(rows: Mapping[str, str]) -> str:
    lines = (
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table>{''.join(lines)}</table>"


def _history(history: Mapping[str, list[float]], most: int = 20) -> str:
    """Return the last iterations as a table."""
    names = list(history)
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    rows = list(zip(*history.values(), strict=True))
    told = "" if len(rows) <= most else f"<p>The last {most} of {len(rows)} iterations.</p>"
    lines = (
        f"<tr>{''.join(f'<td>{_number(value)}</td>' for value in row)}</tr>" for row in rows[-most:]
    )
    return f"{told}<table class='numbers'><tr>{head}</tr>{''.join(lines)}</table>"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "—"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _picture(draw: Callable[[Any], Any], label: str, height: float = 4.2) -> str:
    return _pictures(lambda axes: draw(axes[0]), label, rows=1, height=height)


def _pictures(draw: Callable[[Any], Any], label: str, rows: int = 2, height: float = 5.0) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height), layout="constrained")
    draw(np.ravel(figure.subplots(rows, squeeze=False)))
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return f'<img alt="{html.escape(label)}" src="data:image/png;base64,{data}">'
