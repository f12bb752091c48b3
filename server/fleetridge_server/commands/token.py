"""The command `fleetridge-server token`: who may call the server, and whose reports count."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone

from fleetridge.quantities import MISSING
from fleetridge.text_table import Column, text_table
from fleetridge_server.auth.permissions import Caller, Scope
from fleetridge_server.auth.tokens import NewToken, new_token, revoke_token, sha256_of, store_token, tokens
from fleetridge_server.db.access_tables import StoredToken
from fleetridge_server.db.database import Database, open_database
from fleetridge_server.db.schema import check_schema
from fleetridge_server.intake.quarantine import move_some, quarantine_token, release_token
from fleetridge_server.settings import Settings

# Names, places and times side by side; who pipes the list into a program wants whole cells, too.
_LIST_WIDTH = 160

_HEADS = tuple(
    Column(name, align="left")
    for name in ("id", "name", "scopes", "may write about", "state", "created", "ends", "last used")
)


class TokenUseError(ValueError):
    """The options of a token do not go together; the message says how they do."""


def create(options: argparse.Namespace, settings: Settings) -> int:
    """Make a token and print it, once; exit code. Raises TokenUseError: its options do not go together."""
    scopes: frozenset[Scope] = frozenset(options.scope)
    if options.node is not None and options.cluster is None:
        raise TokenUseError("--node: two clusters may have nodes of one name; give --cluster as well")
    if options.cluster is not None and scopes == {"read"}:
        raise TokenUseError(
            "--cluster binds what a token may write; whoever may read sees the whole fleet, since a gpu is compared "
            "with its peers wherever they are. Leave --cluster out"
        )
    now, text = datetime.now(timezone.utc), new_token()
    new = NewToken(
        name=options.name,
        sha256=sha256_of(text),
        scopes=scopes,
        cluster=options.cluster,
        node=options.node,
        expires_at=None if options.expires is None else now + options.expires,
    )
    with _opened(settings) as database, database.writing() as session:
        token = store_token(session, new, now)
        sentence = f"token {token.id} {token.name!r}: {token.scopes}, may write about {_place(token)}, {_end(token)}"
    print(sentence, file=sys.stderr)
    print(text)
    return 0


def list_tokens(_options: argparse.Namespace, settings: Settings) -> int:
    """Show all tokens, never their text; exit code."""
    with _opened(settings) as database, database.reading() as session:
        rows = [_row(token, datetime.now(timezone.utc)) for token in tokens(session)]
    print(text_table(_HEADS, rows, width=_LIST_WIDTH) if rows else "no tokens; nobody needs one")
    return 0


def revoke(options: argparse.Namespace, settings: Settings) -> int:
    """End a token for good; exit code."""
    with _opened(settings) as database, database.writing() as session:
        name = revoke_token(session, options.id, datetime.now(timezone.utc)).name
    print(f"token {options.id} {name!r} is revoked; every server refuses it within 5 s")
    return 0


def quarantine(options: argparse.Namespace, settings: Settings) -> int:
    """Take all reports of a token out of everything that is said; exit code."""
    with _opened(settings) as database:
        with database.writing() as session:
            name = quarantine_token(session, options.id, options.since, datetime.now(timezone.utc)).name
        moved = _moved(database, options.id)
    print(f"token {options.id} {name!r} is in quarantine: {moved} reports moved, devices are judged anew")
    print("it may still post, and what it posts counts for nothing; `token revoke` ends it", file=sys.stderr)
    return 0


def release(options: argparse.Namespace, settings: Settings) -> int:
    """Let the reports of a token count again; exit code."""
    with _opened(settings) as database:
        with database.writing() as session:
            name = release_token(session, options.id).name
        moved = _moved(database, options.id)
    print(f"token {options.id} {name!r} is trusted again: {moved} reports moved, devices are judged anew")
    return 0


def _moved(database: Database, token_id: int) -> int:
    """Move all that is misplaced, some gpus at a time; how many reports that were."""
    total, after_gpu = 0, 0
    while True:
        with database.writing() as session:
            step = move_some(session, token_id, after_gpu=after_gpu, at=datetime.now(timezone.utc))
        total += step.reports
        after_gpu = after_gpu if step.last_gpu is None else step.last_gpu
        if step.is_last:
            return total


@contextmanager
def _opened(settings: Settings) -> Iterator[Database]:
    with closing(open_database(settings.database_url)) as database:
        check_schema(database.engine)
        yield database


def _row(token: StoredToken, now: datetime) -> tuple[str, ...]:
    times = (token.created_at, token.expires_at, token.last_used_at)
    created, ends, used = (MISSING if time is None else f"{time:%Y-%m-%d %H:%M}" for time in times)
    return str(token.id), token.name, token.scopes, _place(token), _state(token, now), created, ends, used


def _state(token: StoredToken, now: datetime) -> str:
    if token.revoked_at is not None:
        state = "revoked"
    elif token.expires_at is not None and token.expires_at <= now:
        state = "expired"
    else:
        state = "holds"
    return state if token.quarantined_at is None else f"{state}, quarantined"


def _place(token: StoredToken) -> str:
    if token.scopes == "read":
        return "nothing"
    return Caller(token.id, frozenset(), token.cluster, token.node).place


def _end(token: StoredToken) -> str:
    return "for good" if token.expires_at is None else f"until {token.expires_at:%Y-%m-%d %H:%M} UTC"
