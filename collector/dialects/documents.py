"""Retrieved documents in values of any shape."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assay.records import Document
from collector.dialects.media import without_data
from collector.dialects.values import decoded, dumped, number, plain

_LISTS = (
    "documents",
    "docs",
    "results",
    "matches",
    "hits",
    "points",
    "chunks",
    "passages",
    "nodes",
    "source_nodes",
    "source_documents",
    "sources",
    "contexts",
    "context",
    "citations",
    "items",
    "records",
    "retrieved_documents",
    "inputs",
    "outputs",
    "output",
    "data",
    "result",
    "response",
)
_TEXTS = (
    "content",
    "page_content",
    "text",
    "body",
    "passage",
    "chunk",
    "snippet",
    "pageContent",
    "document",
)
_IDS = ("id", "doc_id", "document_id", "_id", "id_", "node_id", "chunk_id", "docId", "documentId")
_SOURCES = ("doc_uri", "source", "uri", "url", "file_name", "filename", "path")
_EXTRA_IDS = (*_IDS, *_SOURCES)
_WRAPPERS = ("document", "node", "kwargs", "payload", "entity")
_SCORES = ("score", "similarity", "similarity_score", "relevance_score", "distance", "_score")
_TITLES = ("title", "name", "heading")
_COLUMNS = {"ids": "id", "documents": "document", "metadatas": "metadata", "distances": "distance"}
_REPR = re.compile(r"<?[A-Z]\w*\(\w+=")
"""An object that was only printed: mostly cut short, so no document."""
_MAX_DEPTH = 5
_MAX_DOCUMENTS = 1000


def documents(value: Any) -> list[Document]:
    """The documents in `value`, in its order; empty when it holds none."""
    return [found for item in _items(decoded(value), 0) if (found := document(item))]


def looks_retrieved(value: Any) -> bool:
    """Whether a value of unknown purpose, e.g. a tool's result, is a list of documents.

    That is: every item has a text of its own and an id, a score, a title or metadata.
    """
    items = _items(decoded(value), 0)
    if not items:
        return False
    if type(items[0]) is str and items[0][:1] == "{":
        items = [decoded(item) for item in items]
    marks = {*_IDS, *_SCORES, "title", "metadata", "meta"}
    return all(
        type(item) is dict
        and (
            "page_content" in item
            or ("node" in item and looks_retrieved([item["node"]]))
            or ("lc" in item and "page_content" in (item.get("kwargs") or ()))
            or (any(type(item.get(key)) is str for key in _TEXTS) and not marks.isdisjoint(item))
        )
        and "role" not in item
        for item in items
    )


def _items(value: Any, depth: int) -> list[Any]:
    if type(value) is list:
        if len(value) == 1 and type(value[0]) is list and not _pair(value[0]):
            return _items(value[0], depth + 1)
        return value[:_MAX_DOCUMENTS]
    if type(value) is dict and depth < _MAX_DEPTH:
        if type(value.get("ids")) is list and type(value.get("documents")) is list:
            return _rows(value)
        for kind in (list, dict):
            for key in _LISTS:
                if key in value and type(inner := decoded(value[key])) is kind and inner:
                    return _items(inner, depth + 1)
    return []


def _rows(found: Mapping[str, Any]) -> list[Any]:
    """Chroma's answer to its first query, a list for each field, as one dict for each document."""
    columns = {}
    for name, field in _COLUMNS.items():
        column = found.get(name)
        if type(column) is list:
            columns[field] = column[0] if column and type(column[0]) is list else column
    ranks = range(min(len(columns["document"]), _MAX_DOCUMENTS))
    return [
        {field: column[rank] for field, column in columns.items() if rank < len(column)}
        for rank in ranks
    ]


def _pair(item: Any) -> bool:
    """LangChain's (document, score)."""
    return type(item) in (list, tuple) and len(item) == 2 and type(item[1]) in (int, float)


def document(item: Any) -> Document | None:
    """One document in any library's shape; None when it has neither id nor text."""
    item = decoded(item)
    if type(item) is str:
        return Document(content=without_data(item)) if item and not _REPR.match(item) else None
    if _pair(item):
        found = document(item[0])
        score = number(item[1])
        return msgspec.structs.replace(found, score=score) if found and score is not None else found
    if type(item) is not dict:
        return None
    score = _score(item)
    for key in _WRAPPERS:
        if key in item and type(inner := decoded(item[key])) is dict:
            item = {**item, **inner}
            score = _score(item) if score is None else score
    extra = item.get("metadata") or item.get("meta")
    extra = decoded(extra) if extra else None
    extra = extra if type(extra) is dict else {}
    text = _text(item, extra)
    named = _named(item, _IDS) or (_named(extra, _EXTRA_IDS) if extra else None)
    if named is None and text is None:
        return None
    relevance = item.get("relevance", extra.get("relevance"))
    return Document(
        id=named,
        title=_named(item, _TITLES) or (_named(extra, _TITLES) if extra else None),
        content=without_data(text) if text else "",
        score=_score(extra) if score is None and extra else score,
        relevance=number(relevance) if relevance is not None else None,
    )


def _text(item: Mapping[str, Any], extra: Mapping[str, Any]) -> str | None:
    for key in _TEXTS:
        if type(text := item.get(key)) is str:
            return text
    inner = item.get("content")
    if type(inner) is dict:
        inner = inner.get("text")
    elif type(inner) is list:
        texts = [
            part["text"] for part in inner if type(part) is dict and type(part.get("text")) is str
        ]
        inner = "\n".join(texts) if len(texts) == len(inner) else dumped(inner)
    if type(inner) is str:
        return inner
    text = extra.get("text")
    return text if type(text) is str else None


def _named(facts: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if key in facts and (found := plain(facts[key])):
            return found
    return None


def _score(facts: Mapping[str, Any]) -> float | None:
    for key in _SCORES:
        if key in facts and (score := number(facts[key])) is not None:
            return score
    return None


def joined(ranked: Sequence[Document], told: Sequence[Document]) -> list[Document]:
    """`ranked` with what it lacks filled from the same documents in `told`.

    Documents are the same when their ids are equal, else when both lists have the same length and
    the texts at a rank do not differ.
    """
    by_id = {doc.id: doc for doc in told if doc.id}
    pairwise = len(ranked) == len(told)
    out = []
    for rank, doc in enumerate(ranked):
        other = by_id.get(doc.id) if doc.id else None
        if other is None and pairwise:
            beside = told[rank]
            same_id = not doc.id or not beside.id or doc.id == beside.id
            same_text = not doc.content or not beside.content or doc.content == beside.content
            other = beside if same_id and same_text else None
        if other is not None:
            doc = Document(
                id=doc.id or other.id,
                title=doc.title or other.title,
                content=doc.content or other.content,
                score=other.score if doc.score is None else doc.score,
                relevance=other.relevance if doc.relevance is None else doc.relevance,
            )
        out.append(doc)
    return out
