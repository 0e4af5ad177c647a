"""OTLP export requests as bytes: taken apart and put together without building messages.

Trace and log requests have one shape: a request holds groups (resource) in field 1, a group holds
scopes in field 2, and a scope holds items (spans or log records) in field 2. What is not one of
these is a message's head, and is carried along unread, unknown fields too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf.message import DecodeError, Message

Buffer = bytes | memoryview

GROUPS, SCOPES, ITEMS = 0x0A, 0x12, 0x12
"""Tags (field number << 3 | 2) of the children on each level."""

MAX_PARTS = 100_000
"""Groups, scopes and items of one request: a few bytes each would become much memory."""

Extent = tuple[int, int, int]
"""Of a child: where its field begins, where its payload begins, and where both end."""


class Scope(NamedTuple):
    head: bytes
    items: list[Extent]


class Group(NamedTuple):
    head: bytes
    scopes: list[Scope]


def take_apart(body: bytes) -> list[Group]:
    """The groups of a request.

    Raises DecodeError when the request, a group or a scope is no sequence of fields, or when there
    are more than `MAX_PARTS` of them.
    """
    groups: list[Group] = []
    _, group_extents = split(body, 0, len(body), GROUPS, MAX_PARTS)
    left = MAX_PARTS - len(group_extents)
    for _, start, end in group_extents:
        group_head, scope_extents = split(body, start, end, SCOPES, left)
        left -= len(scope_extents)
        scopes: list[Scope] = []
        for _, start, end in scope_extents:
            scope = Scope(*split(body, start, end, ITEMS, left))
            left -= len(scope.items)
            scopes.append(scope)
        groups.append(Group(group_head, scopes))
    return groups


def split(body: bytes, start: int, end: int, tag: int, limit: int) -> tuple[bytes, list[Extent]]:
    """The message in `body[start:end]`: its head, and its children: the fields with `tag`.

    Raises DecodeError when the bytes are no sequence of fields or hold over `limit` children.
    """
    head: list[bytes] = []
    children: list[Extent] = []
    position = start
    try:
        while position < end:
            begin = position
            found = body[position]
            if found < 0x80:
                position += 1
            else:
                found, position = _varint(body, position)
            if found == tag:
                length = body[position]
                if length < 0x80:
                    position += 1
                else:
                    length, position = _varint(body, position)
                payload, position = position, position + length
                children.append((begin, payload, position))
            else:
                position = _skip(body, position, found)
                head.append(body[begin:position])
            if len(children) > limit or len(head) > MAX_PARTS:
                raise DecodeError(f"more than {MAX_PARTS} parts in one request")
    except IndexError:
        position = end + 1
    if position != end:
        raise DecodeError("a field ends beyond its message")
    return b"".join(head), children


def field(tag: int, payload: Sequence[Buffer]) -> list[Buffer]:
    """A length-delimited field around `payload`, in pieces: joined once, when all is there."""
    length = sum(map(len, payload))
    prefix = bytearray((tag,))
    while length > 0x7F:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    prefix.append(length)
    return [bytes(prefix), *payload]


def salvage(body: bytes, groups: Sequence[Group], request: type[Message]) -> tuple[bytes, int]:
    """The readable part of a `request` that does not parse, and how many items were left out.

    An item is left out when it, or the resource or scope that it stands under, does not parse.
    """
    bad = 0
    good: list[Buffer] = []
    for group in groups:
        group_good = _parses(request, field(GROUPS, [group.head]))
        scopes: list[Buffer] = []
        for scope in group.scopes:
            if not group_good or not _parses(request, _nested(scope.head)):
                bad += len(scope.items)
                continue
            # Each is parsed at its own depth, since protobuf limits how deep messages nest.
            items = [body[begin:end] for begin, _, end in scope.items]
            items_good = [item for item in items if _parses(request, _nested(item))]
            bad += len(items) - len(items_good)
            scopes += field(SCOPES, [scope.head, *items_good])
        if group_good:
            good += field(GROUPS, [group.head, *scopes])
    return b"".join(good), bad


def _nested(in_scope: bytes) -> list[Buffer]:
    return field(GROUPS, field(SCOPES, [in_scope]))


def _parses(request: type[Message], body: Sequence[Buffer]) -> bool:
    try:
        request.FromString(b"".join(body))
    except DecodeError:
        return False
    return True


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise DecodeError("a number is too long")


def _skip(body: bytes, position: int, tag: int) -> int:
    """Where the field that has `tag`, and its value at `position`, ends."""
    depth = 0
    while True:
        if tag < 8:
            raise DecodeError("a field without a number")
        match tag & 7:
            case 0:
                _, position = _varint(body, position)
            case 1:
                position += 8
            case 2:
                length, position = _varint(body, position)
                position += length
            case 3:
                depth += 1
            case 4 if depth:
                depth -= 1
            case 5:
                position += 4
            case _:
                raise DecodeError("an unknown kind of field")
        if not depth:
            return position
        tag, position = _varint(body, position)
