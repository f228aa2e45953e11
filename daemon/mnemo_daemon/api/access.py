"""The rights of a request: its trust, and the namespaces and memories that it reaches. SPEC 2.1, 2.4, 5.1"""

from mnemo_core.ingest.trust import OWNER
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.server.router import Request
from mnemo_store.records import DEFAULT_NAMESPACE, Trust

EVERY_NAMESPACE = "*"  # recall and search in all of them, read only. SPEC 2.4


def trust_of(request: Request, agent_id: str | None = None) -> Trust:
    """The trust of what comes in with a request. SPEC 2.1

    The connection decides: the socket is its owner's alone, and so is the word of whoever may connect to it. Headers
    and `agent_id` only lower that; nothing in a request raises it.
    """
    return "agent" if request.entry_point in ("mcp", "hook") or request.agent or agent_id else OWNER


def caller_of(request: Request, agent_id: str | None = None) -> Caller:
    """The caller of a request that reads or writes memories; `agent_id` is the one that a write names as its own."""
    name = f"{request.entry_point}:{request.agent}" if request.agent else request.entry_point
    trust = trust_of(request, agent_id)
    return Caller(name, trust == OWNER, trust)


def refuse_agents(request: Request) -> None:
    """Raise a Refusal unless a person asks: for what gives up history, erases, repairs or copies everything."""
    if trust_of(request) != OWNER:
        raise Refusal(422, "refused", "only a person may ask for this: use the command line")


def hidden_tags(request: Request, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The tags whose memories the request does not see: `sensitive`, unless a person asks or it is asked for by tag.
    SPEC 5.1"""
    return () if trust_of(request) == OWNER or SENSITIVE_TAG in asked else (SENSITIVE_TAG,)


def namespace_of(request: Request) -> str:
    """The namespace that the request names, else `default`. SPEC 2.4"""
    return request.namespace or DEFAULT_NAMESPACE


def visible_namespaces(namespace: str) -> tuple[str, ...]:
    """The namespaces that reading in one sees: it and `default`; none named filters nothing. SPEC 2.4"""
    if namespace == EVERY_NAMESPACE:
        return ()
    return tuple(dict.fromkeys((namespace, DEFAULT_NAMESPACE)))


def listed_namespaces(request: Request) -> tuple[str, ...]:
    """The namespaces of lists, the trash and the diff: the one named, `default` where none is, all for `*`."""
    namespace = namespace_of(request)
    return () if namespace == EVERY_NAMESPACE else (namespace,)


def writable_namespace(request: Request, named: str | None = None) -> str:
    """The one namespace to write to; `named` by a part of the body. Raises a Refusal for `*`. SPEC 2.4"""
    namespace = request.namespace or named or DEFAULT_NAMESPACE
    if namespace == EVERY_NAMESPACE:
        raise bad_value("`*` is for reading: name one namespace to write to", "namespace")
    return namespace
