"""Calls of the command line."""

from pathlib import Path

from typer.testing import CliRunner

from cofem.cli import app

PNG = b"\x89PNG"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def written():
    return sorted(path.name for path in Path().iterdir())
