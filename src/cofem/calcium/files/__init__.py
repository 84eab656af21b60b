"""Traces out of the files that microscopes' pipelines leave, and results back into NWB."""

from cofem.calcium.files.reading import Traces, read_traces
from cofem.calcium.files.suite2p import Suite2pFolder, read_suite2p

__all__ = ["Suite2pFolder", "Traces", "read_suite2p", "read_traces"]
