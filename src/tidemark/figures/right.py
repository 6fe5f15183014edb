"""The rights of a user: a role, and the sites that it is for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["viewer", "analyst", "editor", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True)
class Right:
    """A viewer sees figures, and nothing that shows a person; an analyst these, too; an editor also changes definitions
    and notes; an admin everything. `sites` None: all of them."""

    role: Role
    sites: frozenset[str] | None = None

    @classmethod
    def of(cls, role: Role, sites: Iterable[str] = ()) -> Right:
        """No sites stand for all."""
        return cls(role, frozenset(sites) or None)

    def at_least(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def has_site(self, site: str | None) -> bool:
        """Whether figures of a site (None: of all sites together) may be seen."""
        return self.sites is None or site in self.sites

    def covers(self, other: Right) -> bool:
        """Whether all sites of another right are among its own."""
        return self.sites is None or (other.sites is not None and other.sites <= self.sites)

    @property
    def about(self) -> str:
        """The right in words."""
        return f"{self.role} of {'all sites' if self.sites is None else ', '.join(sorted(self.sites))}"

    @property
    def label(self) -> str:
        """A text that is the same for those only who may see the same, as part of a cache's key."""
        return f"{self.role} of {'all sites' if self.sites is None else sorted(self.sites)}"


EVERYTHING = Right("admin")
