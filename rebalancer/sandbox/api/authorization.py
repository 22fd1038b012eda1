"""Who may do what: bearer tokens, users and their rules, with the refusals of the real server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalancer.sandbox.objects.status import StatusError, unauthorized

EVERYTHING = frozenset({"*"})


@dataclass(frozen=True)
class Rule:
    """Verbs allowed on resources (``pods``, ``pods/eviction``, ``*``) of namespaces; ``*`` is all of them."""

    verbs: frozenset[str]
    resources: frozenset[str]
    namespaces: frozenset[str] = EVERYTHING

    def allows(self, verb: str, resource: str, namespace: str) -> bool:
        """Whether this rule covers a request; ``namespace`` is empty for a cluster-wide one."""
        return (
            not self.verbs.isdisjoint({verb, "*"})
            and not self.resources.isdisjoint({resource, "*"})
            and not self.namespaces.isdisjoint({namespace, "*"})
        )


@dataclass(frozen=True)
class User:
    """A name and what it may do."""

    name: str
    rules: tuple[Rule, ...] = field(default=())

    def may(self, verb: str, resource: str, namespace: str = "") -> bool:
        """Whether any rule allows the request."""
        return any(rule.allows(verb, resource, namespace) for rule in self.rules)


ADMINISTRATOR = User("sandbox-admin", (Rule(EVERYTHING, EVERYTHING),))


def allow(verbs: str, resources: str, namespaces: str = "*") -> Rule:
    """A rule from space-separated words: ``allow("get list", "pods nodes")``."""
    return Rule(frozenset(verbs.split()), frozenset(resources.split()), frozenset(namespaces.split()))


def who(users: Mapping[str, User], authorization: str | None) -> User:
    """The user of an Authorization header; without any users configured everyone is the administrator."""
    if not users:
        return ADMINISTRATOR
    scheme, _, token = (authorization or "").partition(" ")
    user = users.get(token.strip()) if scheme.lower() == "bearer" else None
    if user is None:
        raise unauthorized()
    return user


def forbidden(user: User, verb: str, resource: str, *, group: str, namespace: str, name: str) -> StatusError:
    """403 in the words of the real server; ``resource`` includes the subresource."""
    plural = resource.partition("/")[0]
    qualified = f"{plural}.{group}" if group else plural
    title = f'{qualified} "{name}"' if name else qualified
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    message = (
        f'{title} is forbidden: User "{user.name}" cannot {verb} resource "{resource}" '
        f'in API group "{group}" {scope}'
    )
    details = {key: value for key, value in (("name", name), ("group", group), ("kind", plural)) if value}
    return StatusError(403, "Forbidden", message, details=details)
