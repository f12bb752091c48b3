"""The command line of this process, said again to another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fleetridge_agent.config.settings import Setting, Source


def typed_again(source: Source, settings: Iterable[Setting[object]]) -> tuple[str, ...]:
    """Words that give another process the same options; what variables gave it has from them as well."""
    return tuple(word for setting in settings for word in _typed(source, setting))


def _typed(source: Source, setting: Setting[object]) -> Iterator[str]:
    typed = getattr(source.options, setting.name.replace("-", "_"), None)
    if typed is None:
        return
    if setting.is_switch:
        yield setting.option
    elif setting.repeats:
        yield from (f"{setting.option}={value}" for value in typed)
    elif setting.many:
        yield from (setting.option, *typed)
    else:
        yield f"{setting.option}={typed}"
