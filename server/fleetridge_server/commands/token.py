"""The command `fleetridge-server token`: who may call the server, and whose reports count."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from fleetridge.quantities import MISSING
from fleetridge.strict_json import printable_problem
from fleetridge.text_table import Column, text_table
from fleetridge_server.auth.permissions import SCOPES, Caller, Scope
from fleetridge_server.commands.arguments import cluster, moment

if TYPE_CHECKING:
    from fleetridge_server.commands.arguments import Commands
    from fleetridge_server.db.access_tables import StoredToken
    from fleetridge_server.db.database import Database
    from fleetridge_server.settings import Settings

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1)}
_DURATION = re.compile(r"([1-9][0-9]{0,4})([hd])")

# Ids are 64-bit rows on both databases.
_LARGEST_ID = 2**63 - 1

_LONGEST_NAME = 100

# Names, places and times side by side; who pipes the list into a program wants whole cells, too.
_LIST_WIDTH = 160

_HEADS = tuple(
    Column(name, align="left")
    for name in ("id", "name", "scopes", "may write about", "state", "created", "ends", "last used")
)


class TokenUseError(ValueError):
    """The options of a token do not go together; the message says how they do."""


def add_token(commands: Commands, database: argparse.ArgumentParser) -> None:
    """Add the command to those of `fleetridge-server`."""
    parser = commands.add_parser(
        "token",
        help="say who may call the server, and whose reports count",
        description="From the first token on, every call needs one; only /livez and /readyz stay open.",
    )
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    _add_create(actions, database)
    listing = actions.add_parser("list", parents=[database], help="show all tokens, never their text")
    listing.set_defaults(command=_list)
    for name, does, help_text in (
        ("revoke", _revoke, "end a token for good, within 5 s on every server"),
        ("quarantine", _quarantine, "take all reports of a token out of everything that is said"),
        ("release", _release, "let the reports of a token count again"),
    ):
        action = actions.add_parser(name, parents=[database], help=help_text)
        action.add_argument("id", type=_id, metavar="ID", help="number in the list")
        if name == "quarantine":
            action.add_argument(
                "--since", type=moment, metavar="TIME", help="only reports that arrived from then on, in ISO 8601"
            )
        action.set_defaults(command=does)


def _add_create(actions: Commands, database: argparse.ArgumentParser) -> None:
    creating = actions.add_parser(
        "create",
        parents=[database],
        help="make a token and print it, once",
        description="Prints the token to standard output, and nothing else; it is shown this once and not stored.",
    )
    creating.add_argument("name", type=_name, metavar="NAME", help="what it is for; people read it in the list")
    creating.add_argument(
        "--scope",
        action="append",
        required=True,
        choices=SCOPES,
        help="ingest: post reports; read: see the fleet; operate: read, and make marks; admin: all. May be repeated.",
    )
    creating.add_argument("--cluster", type=cluster, help="it may write about this cluster alone (default: any)")
    creating.add_argument("--node", type=_name, help="it may write about this node of the cluster alone (default: any)")
    creating.add_argument(
        "--expires", type=_duration, metavar="TIME", help="ends after this time, such as 12h or 90d (default: never)"
    )
    creating.set_defaults(command=_create)


def _create(options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.auth.tokens import NewToken, new_token, sha256_of, store_token

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


def _list(_options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.auth.tokens import tokens

    with _opened(settings) as database, database.reading() as session:
        rows = [_row(token, datetime.now(timezone.utc)) for token in tokens(session)]
    print(text_table(_HEADS, rows, width=_LIST_WIDTH) if rows else "no tokens; nobody needs one")
    return 0


def _revoke(options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.auth.tokens import revoke_token

    with _opened(settings) as database, database.writing() as session:
        name = revoke_token(session, options.id, datetime.now(timezone.utc)).name
    print(f"token {options.id} {name!r} is revoked; every server refuses it within 5 s")
    return 0


def _quarantine(options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.intake.quarantine import quarantine_token

    with _opened(settings) as database:
        with database.writing() as session:
            name = quarantine_token(session, options.id, options.since, datetime.now(timezone.utc)).name
        moved = _moved(database, options.id)
    print(f"token {options.id} {name!r} is in quarantine: {moved} reports moved, devices are judged anew")
    print("it may still post, and what it posts counts for nothing; `token revoke` ends it", file=sys.stderr)
    return 0


def _release(options: argparse.Namespace, settings: Settings) -> int:
    from fleetridge_server.intake.quarantine import release_token

    with _opened(settings) as database:
        with database.writing() as session:
            name = release_token(session, options.id).name
        moved = _moved(database, options.id)
    print(f"token {options.id} {name!r} is trusted again: {moved} reports moved, devices are judged anew")
    return 0


def _moved(database: Database, token_id: int) -> int:
    """Move all that is misplaced, some gpus at a time; how many reports that were."""
    from fleetridge_server.intake.quarantine import move_some

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
    from fleetridge_server.db.database import open_database
    from fleetridge_server.db.schema import check_schema

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


def _id(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= _LARGEST_ID:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of a token; `fleetridge-server token list` shows them")
    return int(text)


def _name(text: str) -> str:
    problem = printable_problem(text)
    if problem is not None or not text.strip() or len(text) > _LONGEST_NAME:
        raise argparse.ArgumentTypeError(f"a name has 1 to {_LONGEST_NAME} printable characters")
    return text


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write hours or days, such as 12h or 90d")
    return int(found[1]) * _UNITS[found[2]]
