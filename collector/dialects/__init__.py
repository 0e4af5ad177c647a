"""Dialects: from the spans and log records of a trace to its turns.

    trace        spans and records, each once, to the steps of each trace
    span_reader  one span to its step: the facts, then the families whose keys it has
    families/    readers of key families; what a value means is read by its shape:
                 messages and parts, exchange, speech, documents, stuffed prompts, tools, media;
                 torn completes JSON that was cut
    tree         steps beneath their roots, and the model calls that count
    segment      where one turn ends and the next begins
    precedence   where query, response and documents stand
    compose      the turn

Every span is read by its own keys, never by what its neighbours use. The order of spans and records
does not matter, nor does one that comes twice.
"""

from collector.dialects.explanation import Explanation, explain
from collector.dialects.facts import INVALID_FIELDS
from collector.dialects.span_reader import LAYOUTS
from collector.dialects.turns import Reading, read

__all__ = ["INVALID_FIELDS", "LAYOUTS", "Explanation", "Reading", "explain", "read"]
