"""Where each setting in force comes from (option, variable, default), to be shown and checked: no secret is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fleetridge_agent.config import options, resolved
from fleetridge_agent.config.setting_types import Setting, Source
from fleetridge_agent.config.variables import unknown_variables
from fleetridge_agent.deliver.server_address import Server
from fleetridge_agent.doctor.probe import SettingInForce, SettingsSeen
from fleetridge_agent.errors import UsageError
from fleetridge_agent.readings.host import node_name

DEFAULT = "default"
NOT_SET = "not set"

# User and password of an address; whatever stands before the @.
_CREDENTIALS = re.compile(r"(?<=://)[^/?#\s]*@")
_MASK = "***@"

# What httpx reads of the environment; httpx knows each in lower case too, and that wins.
_FOREIGN = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


def settings_in_force(
    source: Source, settings: Sequence[Setting[object]], found_out: Mapping[str, str]
) -> tuple[SettingInForce, ...]:
    """
    Settings as a command that takes them would find them; a value that cannot be read is shown as it is.

    Args:
        source: options and variables.
        settings: to show.
        found_out: by name, what stands for those that are not given and have no fixed default.
    """
    return tuple(_in_force(source, setting, found_out) for setting in settings)


def settings_seen(source: Source, state_dir: Path) -> SettingsSeen:
    """What the settings of a node come to, for a doctor: nothing that is wrong with them is raised."""
    server, server_fault = _server(source)
    shown = [setting for setting in options.every_setting() if setting not in options.SHOWING]
    return SettingsSeen(
        measures_gpus=options.DEVICE.given(source) != "cpu",
        server=server,
        server_fault=server_fault,
        token_file=_token_file(source),
        faults=tuple(fault for setting in options.every_setting() if (fault := _fault(setting, source)) is not None),
        misspelt=tuple(map(str, unknown_variables(source.environ))),
        in_force=settings_in_force(source, shown, {"state-dir": str(state_dir), "node": node_name(source.environ)}),
        foreign=foreign_variables(source.environ),
    )


def foreign_variables(environ: Mapping[str, str]) -> tuple[SettingInForce, ...]:
    """Variables of other programs' making that decide how the server is reached; only those that are set."""
    return tuple(_foreign(environ))


def masked(text: str) -> str:
    """Text in which no address holds a user or password."""
    return _CREDENTIALS.sub(_MASK, text)


def _in_force(source: Source, setting: Setting[object], found_out: Mapping[str, str]) -> SettingInForce:
    name, text = setting.origin(source)
    if text is not None:
        return SettingInForce(setting.name, masked(text), name)
    default = found_out.get(setting.name, setting.default)
    return SettingInForce(setting.name, default, NOT_SET if default is None else DEFAULT)


def _foreign(environ: Mapping[str, str]) -> Iterator[SettingInForce]:
    for name in _FOREIGN:
        for spelling in (name.lower(), name):
            if environ.get(spelling):
                yield SettingInForce(spelling, masked(_with_scheme(environ[spelling], name)), spelling)
                break


def _with_scheme(value: str, name: str) -> str:
    """A proxy is also taken without a scheme, "user:password@host:3128"; its password is no less one."""
    return f"http://{value}" if name.endswith("_PROXY") and name != "NO_PROXY" and "://" not in value else value


def _server(source: Source) -> tuple[Server | None, str | None]:
    """The server that is named, and what is wrong with it."""
    if options.SERVER.given(source) is None:
        return None, None
    try:
        return resolved.server_of(source), None
    except UsageError as error:
        return None, str(error)


def _token_file(source: Source) -> Path | None:
    try:
        return options.TOKEN_FILE.value(source)
    except UsageError:
        return None


def _fault(setting: Setting[object], source: Source) -> str | None:
    try:
        setting.value(source)
    except UsageError as error:
        return str(error)
    return None
