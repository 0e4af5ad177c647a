"""Importers: saved traces, in files of OpenTelemetry or of other tools, to turns.

    files    a file to its documents: packed or not, JSON, JSON lines, protobuf, parquet
    exports  documents of other tools to OTLP
    traces   documents to whole traces, and those to turns

A file is read by the same code as what comes in at the door: the dialects do the work.
"""

from collector.importers.files import Problem
from collector.importers.traces import Importer

__all__ = ["Importer", "Problem"]
