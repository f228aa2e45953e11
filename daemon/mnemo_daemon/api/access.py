"""The rights of a request: its trust, and the namespaces and memories that it reaches. SPEC 2.1, 2.4, 5.1"""

from mnemo_core.ingest.trust import OWNER, lowest_trust
from mnemo_core.text.secrets import SENSITIVE_TAG
from mnemo_daemon.errors import Refusal, bad_value
from mnemo_daemon.memories.memory_service import Caller
from mnemo_daemon.server.router import Request
from mnemo_store.records import DEFAULT_NAMESPACE, Trust

EVERY_NAMESPACE = "*"  # recall and search in all of them, read only. SPEC 2.4


def trust_of(request: Request, agent_id: str | None = None) -> Trust:
    """The trust of what comes in with a request. SPEC 2.1

    The connection decides: a person's on the owner's socket, at most what the access table says on any other. Headers
    and `agent_id` only lower that; nothing in a request raises it.
    """
    return lowest_trust(request.grant.trust, "agent" if _is_of_agent(request) or agent_id else OWNER)


def _is_of_agent(request: Request) -> bool:
    """Return whether the request itself says that no person asks."""
    return request.entry_point in ("mcp", "hook") or request.agent is not None


def is_person(request: Request) -> bool:
    """Return whether a person asks, and not an agent, a hook or a peer of less trust."""
    return trust_of(request) == OWNER


def counts_use(request: Request) -> bool:
    """Return whether what the request reads counts as used and as handed out (SPEC 5.5a). A peer that may only read
    changes neither what is remembered nor what counts as an echo of it."""
    return request.grant.right != "read"


def caller_of(request: Request, agent_id: str | None = None) -> Caller:
    """The caller of a request that reads or writes memories; `agent_id` is the one that a write names as its own."""
    name = ":".join(filter(None, (request.entry_point, request.grant.name, request.agent)))
    trust = trust_of(request, agent_id)
    return Caller(name, trust == OWNER, trust)


def refuse_agents(request: Request, *, for_owner: bool = False) -> None:
    """Raise a Refusal unless a person asks: for what gives up history, erases, repairs or copies everything.

    A peer that the access table lets administer counts as one, except `for_owner`: for what erases, for what shows
    sensitive memories, and for what has the daemon read files of its owner.
    """
    if trust_of(request) == OWNER:
        return
    if _is_of_agent(request) or request.grant.is_owner or request.grant.right != "admin":
        raise Refusal(422, "refused", "only a person may ask for this: use the command line")
    if for_owner:
        raise Refusal(422, "refused", "only the owner of this daemon may ask for this")


def hidden_tags(request: Request, asked: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The tags whose memories the request does not see: `sensitive`, unless a person asks, or an agent of the owner
    asks for it by tag. SPEC 5.1"""
    if trust_of(request) == OWNER:
        return ()
    return () if SENSITIVE_TAG in asked and not request.grant.is_foreign else (SENSITIVE_TAG,)


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
