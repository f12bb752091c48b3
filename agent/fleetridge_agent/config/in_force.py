"""Which settings are in force and where each comes from, to be shown: no secret is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fleetridge_agent.config.settings import Setting, Source

DEFAULT = "default"
NOT_SET = "not set"

# User and password of an address; whatever stands before the @.
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")
_MASK = "***@"

# What httpx reads of the environment; httpx knows each in lower case too, and that wins.
_FOREIGN = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class InForce:
    """
    One setting.

    Attributes:
        value: as text, without credentials; None where there is none.
        origin: the option or variable that gave it, or `default`, or `not set`.
    """

    name: str
    value: str | None
    origin: str


def settings_in_force(
    source: Source, settings: Sequence[Setting[object]], found_out: Mapping[str, str]
) -> tuple[InForce, ...]:
    """
    Settings as a command that takes them would find them; a value that cannot be read is shown as it is.

    Args:
        source: options and variables.
        settings: to show.
        found_out: by name, what stands for those that are not given and have no fixed default.
    """
    return tuple(_in_force(source, setting, found_out) for setting in settings)


def foreign_variables(environ: Mapping[str, str]) -> tuple[InForce, ...]:
    """Variables of other programs' making that decide how the server is reached; only those that are set."""
    return tuple(_foreign(environ))


def masked(text: str) -> str:
    """Text in which no address holds a user or password."""
    return _CREDENTIALS.sub(_MASK, text)


def _in_force(source: Source, setting: Setting[object], found_out: Mapping[str, str]) -> InForce:
    name, text = setting.origin(source)
    if text is not None:
        return InForce(setting.name, masked(text), name)
    default = found_out.get(setting.name, setting.default)
    return InForce(setting.name, default, NOT_SET if default is None else DEFAULT)


def _foreign(environ: Mapping[str, str]) -> Iterator[InForce]:
    for name in _FOREIGN:
        for spelling in (name.lower(), name):
            if environ.get(spelling):
                yield InForce(spelling, masked(_with_scheme(environ[spelling], name)), spelling)
                break


def _with_scheme(value: str, name: str) -> str:
    """A proxy is also taken without a scheme, "user:password@host:3128"; its password is no less one."""
    return f"http://{value}" if name.endswith("_PROXY") and name != "NO_PROXY" and "://" not in value else value
