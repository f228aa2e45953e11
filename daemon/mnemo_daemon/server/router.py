"""Routes, requests and replies: what stands between HTTP and the services, without either. SPEC 13, 16.

A route names the types of its body, its query string and its answer; the server decodes into them, the OpenAPI
document is made from them. Here everything that comes in is parsed once, strictly, and refused by name.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl, unquote

import msgspec

from mnemo_client.protocol import validation
from mnemo_client.protocol.operations import Operation
from mnemo_client.protocol.primitives import Namespace, NoFields
from mnemo_client.protocol.validation import printable
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.server.admission.access_table import Grant
from mnemo_daemon.server.sockets import Peer

PARAMETERS_MAX = 520  # in a query string: 500 ids, and what goes with them
AGENT_CHARS_MAX = 128  # as agent_id, SPEC 2.1

EVENT_STREAM = "text/event-stream"

EntryPoint = Literal["cli", "api", "mcp", "hook", "page"]
ENTRY_POINTS: tuple[EntryPoint, ...] = get_args(EntryPoint)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, decoded.

    `ask` is the body and `query` the query string, each of its route's own type; `path` holds the parts of the path
    that the route names in braces. `namespace` is the one asked for, by body, query or X-Namespace, None where none
    was; `agent` the program on whose behalf the client speaks, `grant` the rights of the connection. `body` is there
    for a route that streams, `headers` for one that `forwards`.
    """

    ask: Any
    query: Any
    path: Mapping[str, str]
    namespace: str | None = None
    entry_point: EntryPoint = "api"
    agent: str | None = None
    peer: Peer
    grant: Grant
    body: AsyncIterator[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Reply(NamedTuple):
    """The reply of a handler: a value of its route's type, bytes ready to be sent, or an async iterator of bytes.
    `headers` replace those that the answer would have; only a route that `forwards` sets any."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] | None = None


STORE = "store"  # in an answer's `degraded`: it comes from the journal alone, or nothing can be written


def name_store(reply: Reply) -> None:
    """Add the store to the parts that an answer did without, where it names such parts. SPEC 3.4"""
    degraded = getattr(reply.value, "degraded", None)
    if isinstance(degraded, list) and STORE not in degraded:
        degraded.append(STORE)


Handler = Callable[[Request], Awaitable[Reply]]


class Route(NamedTuple):
    """An operation and its handler.

    `alias`: another path than that of the operation. A route that `forwards` gets the bytes of the body as `ask`, and
    the headers: another protocol decodes them. `entry_point`: that of all its requests, whatever their headers say.
    Whoever makes the table checks `before_open`, `for_person` and `for_owner` of the operation.
    """

    operation: Operation[..., Any]
    handler: Handler
    alias: str = ""
    forwards: bool = False
    entry_point: EntryPoint | None = None

    @property
    def method(self) -> str:
        return self.operation.method

    @property
    def path(self) -> str:
        return self.alias or self.operation.path


class RouteTable:
    """The route of each request. Paths of fixed text go before those with parts in braces."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._fixed: dict[str, dict[str, Route]] = {}
        self._patterns: dict[int, dict[tuple[str, ...], dict[str, Route]]] = {}
        for route in self.routes:
            parts = tuple(route.path.split("/"))
            if "{" in route.path:
                methods = self._patterns.setdefault(len(parts), {}).setdefault(parts, {})
            else:
                methods = self._fixed.setdefault(route.path, {})
            if route.method in methods:
                raise ValueError(f"two routes for {route.method} {route.path}")
            methods[route.method] = route

    def find(self, method: str, raw_path: str, grant: Grant) -> tuple[Route, dict[str, str]]:
        """The route and the parts of its path, unquoted. Raises a Refusal with 403, 404 or 405. This is where rights
        are enforced: no request gets to a handler but by this table."""
        methods, parts = self._methods(raw_path)
        if methods is None:
            raise Refusal(
                404, "no_route", f"there is no {printable(raw_path)}; GET /v1/openapi.json lists what there is"
            )
        if route := methods.get(method):
            if not grant.allows(needed := route.operation.needed_right):
                raise Refusal(
                    403, "forbidden",
                    f"this needs the right `{needed}`, and {grant.name} has `{grant.right}`; "
                    f"the owner of this daemon can grant it by `{grant.key}` in config.toml",
                )  # fmt: skip
            return route, parts
        allowed = ", ".join(sorted(methods))
        message = f"{printable(raw_path)} takes {allowed}, not {printable(method)}"
        raise Refusal(405, "method_not_allowed", message, allow=allowed)

    def _methods(self, raw_path: str) -> tuple[dict[str, Route] | None, dict[str, str]]:
        if methods := self._fixed.get(raw_path):
            return methods, {}
        segments = raw_path.split("/")
        for pattern, methods in self._patterns.get(len(segments), {}).items():
            if all(part == found or (part[:1] == "{" and found) for part, found in zip(pattern, segments, strict=True)):
                named = zip(pattern, segments, strict=True)
                return methods, {part[1:-1]: _unquoted(found) for part, found in named if part[:1] == "{"}
        return None, {}


def decode_body(body: bytes, route: Route) -> Any:
    """The body in the route's own type; an absent one counts as an empty object. Raises a Refusal with 400."""
    return decode(body or b"{}", route.operation.body or NoFields, read_only=route.operation.read_only)


def decode(data: bytes | msgspec.Raw, kind: type[T], *, read_only: frozenset[str] = frozenset(), at: str = "") -> T:
    """JSON as a value of `kind`. Raises a Refusal that names the field, below `at` (`memories[3]`) where given."""
    try:
        decoder = _decoders.get(kind) or _decoders.setdefault(kind, msgspec.json.Decoder(kind))
        value: T = decoder.decode(data)
        return value
    except msgspec.ValidationError as wrong:
        raise _refused_value(validation.explain(wrong, kind, _without_type(data)), read_only, at) from None
    except msgspec.DecodeError as malformed:
        lone = _LONE_SURROGATE.search(data)
        message = f"a lone surrogate (byte {lone.start()})" if lone else str(malformed)
        raise Refusal(400, "bad_json", f"the body is not JSON: {message}", field=at or None) from None
    except UnicodeDecodeError as wrong:
        raise Refusal(400, "bad_json", f"the body is not UTF-8: {wrong.reason}", field=at or None) from None
    except RecursionError:
        raise Refusal(400, "bad_json", "the body is nested too deeply", field=at or None) from None


# \ud800 to \udbff not followed by \udc00 to \udfff, or such a follower alone. msgspec stops at them, too, but says
# that the input ended early where it did not. An escaped backslash before the u is no escape.
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)(?:\\\\)*(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)

_decoders: dict[Any, "msgspec.json.Decoder[Any]"] = {}  # making one costs more than decoding a request


def _without_type(data: bytes | msgspec.Raw) -> Any:
    """The value whatever its type; UNSET where it is no JSON, or has a number that no float holds."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return msgspec.UNSET


def _refused_value(wrong: validation.InvalidValue, read_only: frozenset[str], at: str) -> Refusal:
    """The violation as a refusal; its field below `at`."""
    if wrong.code == "unknown_field" and wrong.field in read_only:
        name = printable(at + "." + wrong.field if at else wrong.field)
        return Refusal(400, "read_only", f"`{wrong.field}` cannot be set by this request", field=name)
    if not at:
        return Refusal(400, wrong.code, wrong.message, field=wrong.field or None)
    field = at + ("" if not wrong.field or wrong.field.startswith("[") else ".") + wrong.field
    message = wrong.message
    if wrong.code != "unknown_field":
        message = message.replace(f"`{wrong.field}`", f"`{field}`", 1)
    return Refusal(400, wrong.code, message, field=printable(field))


def decode_query(raw: str, route: Route) -> Any:
    """The query string in the route's own type. A field of a list type may be given several times. Raises a Refusal.
    Numbers are digits, flags are true, false, 1 or 0; a name without a value is an empty text."""
    kind = route.operation.query or NoFields
    lists = _list_fields(kind)
    values: dict[str, Any] = {}
    for name, text in _pairs(raw):
        if name not in kind.__struct_encode_fields__:
            known = ", ".join(kind.__struct_encode_fields__) or "none"
            message = f"there is no parameter `{printable(name)}` here (known: {known})"
            raise Refusal(400, "unknown_parameter", message, field=printable(name))
        if name in lists:
            values.setdefault(name, []).append(text)
        elif name in values:
            raise bad_value(f"`{name}` is given twice", name)
        else:
            values[name] = text
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as wrong:
        raise _refused_value(validation.explain(wrong, kind, values), frozenset(), "") from None


def _pairs(raw: str) -> list[tuple[str, str]]:
    if not raw:
        return []
    try:
        return parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
    except UnicodeDecodeError:
        raise bad_value("the query string is not UTF-8") from None
    except ValueError:
        raise bad_value(f"the query string has more than {PARAMETERS_MAX} parameters") from None


@cache
def _list_fields(kind: type[msgspec.Struct]) -> frozenset[str]:
    types = get_type_hints(kind)  # without their Annotated[...] wrapping
    return frozenset(
        field.encode_name for field in msgspec.structs.fields(kind) if get_origin(types[field.name]) is list
    )


def namespace_of(header: str | None, ask: Any, query: Any) -> str | None:
    """The namespace that the request names, in whichever place. Raises a Refusal where two places differ. SPEC 2.4"""
    if header is not None:
        try:
            header = msgspec.convert(_clean_header(header, "X-Namespace"), Namespace)
        except msgspec.ValidationError as wrong:
            raise bad_value(validation.explain(wrong, Namespace, header).message, "X-Namespace") from None
    named: str | None = header
    for place, value in (("query string", query), ("body", ask)):
        other = getattr(value, "namespace", None)
        if not isinstance(other, str):
            continue
        if named is not None and other != named:
            raise bad_value(
                f"the {place} says namespace `{printable(other)}`, elsewhere it is `{printable(named)}`", "namespace"
            )
        named = other
    return named


def entry_point_of(header: str | None) -> EntryPoint:
    """The entry point that X-Mnemo-Door names. Raises a Refusal for an unknown one."""
    if header is None:
        return "api"
    for entry_point in ENTRY_POINTS:
        if header == entry_point:
            return entry_point
    raise bad_value(f"`{printable(header)}` is no entry point; use one of {', '.join(ENTRY_POINTS)}", "X-Mnemo-Door")


def agent_of(header: str | None) -> str | None:
    """The program that X-Mnemo-Agent names. Raises a Refusal for a bad one."""
    if header is None:
        return None
    agent = _clean_header(header, "X-Mnemo-Agent")
    if not 1 <= len(agent) <= AGENT_CHARS_MAX:
        raise bad_value(f"an agent's name has 1 to {AGENT_CHARS_MAX} characters", "X-Mnemo-Agent")
    return agent


def _clean_header(text: str, name: str) -> str:
    """Header bytes that are no UTF-8 arrive as lone surrogates."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise bad_value(f"{name} is not UTF-8", name)
    return text


def _unquoted(segment: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        raise bad_value("the path is not UTF-8") from None
