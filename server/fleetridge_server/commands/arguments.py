"""
The commands of `fleetridge-server` with their options.

Each names the function that carries it out, which is imported once its command is given: options are told at once.
"""

import argparse
from argparse import ArgumentParser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, get_args

import fleetridge
from fleetridge.report.origin import DEFAULT_CLUSTER
from fleetridge_server.auth.permissions import SCOPES
from fleetridge_server.commands.argument_types import (
    cluster,
    duration,
    end_of_history,
    fault,
    moment,
    noise,
    past_moment,
    product,
    short_name,
    simulated_cluster,
    token_id,
    whole_number,
)
from fleetridge_server.csv_import.inventory import COLUMNS as INVENTORY_COLUMNS
from fleetridge_server.csv_import.lines import COLUMNS
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.simulate.faults import FAULTS
from fleetridge_server.simulate.plan import PRODUCTS
from fleetridge_server.telemetry.logs import LogFormat

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[ArgumentParser]  # noqa: SLF001 # argparse has no other name for it

# A month is what a verdict looks back on; a drift needs about half of it for its baseline.
_DAYS = 28
_MOST_DAYS = 366
_MOST_GPUS = 1_000_000


def parser() -> ArgumentParser:
    """Parser of all commands; `command` is the function that carries one out, as `pkgutil.resolve_name` takes it."""
    parser = ArgumentParser(prog="fleetridge-server", description="Keeps and compares rooflines of GPUs.")
    parser.add_argument("--version", action="version", version=f"fleetridge-server {fleetridge.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    database = ArgumentParser(add_help=False)
    database.add_argument(
        "--database-url", metavar="URL", help="sqlite:///FILE or postgresql://… (default: DATABASE_URL)"
    )
    _add_serve(commands, database)
    _add_migrate(commands, database)
    _add_import(commands, database)
    _add_evaluate(commands, database)
    _add_inventory(commands, database)
    _add_token(commands, database)
    _add_simulate(commands)
    _add_maintenance(commands, database)
    return parser


def _add_serve(commands: "Commands", database: ArgumentParser) -> None:
    serving = commands.add_parser("serve", parents=[database], help="answer agents and people over HTTP")
    serving.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    serving.add_argument("--port", type=int, help="port to listen on, 0 for any that is free (default: 8000)")
    serving.add_argument("--migrate", action="store_true", help="bring the database up to date first")
    serving.add_argument(
        "--trust-network",
        action="store_true",
        default=None,
        help="listen beyond this machine without any token, although everyone there may read and write",
    )
    serving.add_argument(
        "--log-format",
        choices=get_args(LogFormat),
        help="logs for people (text) or for programs (json, one object a line); auto is json in a pod without a "
        "terminal (default: auto)",
    )
    serving.set_defaults(command="fleetridge_server.serve:serve_command")


def _add_migrate(commands: "Commands", database: ArgumentParser) -> None:
    migrating = commands.add_parser("migrate", parents=[database], help="bring the database up to date")
    migrating.add_argument(
        "--to",
        metavar="REVISION",
        help="bring it to this schema instead of the newest; what an older one has no place for is lost",
    )
    migrating.set_defaults(command="fleetridge_server.commands.maintenance:migrate")


def _add_import(commands: "Commands", database: ArgumentParser) -> None:
    importing = commands.add_parser(
        "import",
        parents=[database],
        help="take measurements from a CSV file",
        description=(
            f"Takes measurements from a CSV file in UTF-8 with a header, one on each line. Columns, in any order: "
            f"{', '.join(COLUMNS)}. Other columns are kept as text, cut after 255 characters. Times are ISO 8601."
        ),
    )
    importing.add_argument("file", type=Path, metavar="FILE")
    importing.add_argument(
        "--cluster", type=cluster, default=DEFAULT_CLUSTER, help="cluster of the gpus (default: %(default)s)"
    )
    importing.set_defaults(command="fleetridge_server.commands.csv_files:import_reports")


def _add_evaluate(commands: "Commands", database: ArgumentParser) -> None:
    evaluating = commands.add_parser(
        "evaluate",
        parents=[database],
        help="say of gpus how they do, now or as of a time of the past",
        description=(
            "Judges the gpus of all devices, or of one, and stores what is said of them. A server does so by itself "
            "soon after reports arrive. With --as-of the evaluation is stored beside those that the server makes: "
            "answers as of that time rest on it, and no alert is opened or resolved."
        ),
    )
    evaluating.add_argument("--device", metavar="NAME", help="only this device, by any of its names (default: all)")
    evaluating.add_argument(
        "--as-of", type=past_moment, metavar="TIME", help="judge as of this time, in ISO 8601 (default: now)"
    )
    evaluating.set_defaults(command="fleetridge_server.commands.evaluate:evaluate")


def _add_inventory(commands: "Commands", database: ArgumentParser) -> None:
    parser = commands.add_parser(
        "inventory",
        parents=[database],
        help="say which nodes and gpus there should be",
        description=(
            "Reads expected nodes and gpus from a CSV file in UTF-8 with a header, so that those which never report "
            f"are missed. Columns, in any order: {', '.join(INVENTORY_COLUMNS)}; only node is needed. A line is about "
            "one gpu, or about a node and how many gpus it has. The file replaces all that was expected of its "
            "clusters; with a bad line nothing changes."
        ),
    )
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE")
    parser.add_argument(
        "--cluster", type=cluster, help=f"cluster of lines that name none (default: {DEFAULT_CLUSTER}); shown alone"
    )
    parser.add_argument("--show", action="store_true", help="print what is expected")
    parser.set_defaults(command="fleetridge_server.commands.csv_files:inventory", usage=parser.error)


def _add_token(commands: "Commands", database: ArgumentParser) -> None:
    parser = commands.add_parser(
        "token",
        help="say who may call the server, and whose reports count",
        description="From the first token on, every call needs one; only /livez and /readyz stay open.",
    )
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    _add_create(actions, database)
    listing = actions.add_parser("list", parents=[database], help="show all tokens, never their text")
    listing.set_defaults(command="fleetridge_server.commands.token:list_tokens")
    for name, help_text in (
        ("revoke", "end a token for good, within 5 s on every server"),
        ("quarantine", "take all reports of a token out of everything that is said"),
        ("release", "let the reports of a token count again"),
    ):
        action = actions.add_parser(name, parents=[database], help=help_text)
        action.add_argument("id", type=token_id, metavar="ID", help="number in the list")
        if name == "quarantine":
            action.add_argument(
                "--since", type=moment, metavar="TIME", help="only reports that arrived from then on, in ISO 8601"
            )
        action.set_defaults(command=f"fleetridge_server.commands.token:{name}")


def _add_create(actions: "Commands", database: ArgumentParser) -> None:
    creating = actions.add_parser(
        "create",
        parents=[database],
        help="make a token and print it, once",
        description="Prints the token to standard output, and nothing else; it is shown this once and not stored.",
    )
    creating.add_argument("name", type=short_name, metavar="NAME", help="what it is for; people read it in the list")
    creating.add_argument(
        "--scope",
        action="append",
        required=True,
        choices=SCOPES,
        help="ingest: post reports; read: see the fleet; operate: read, and make marks; admin: all. May be repeated.",
    )
    creating.add_argument("--cluster", type=cluster, help="it may write about this cluster alone (default: any)")
    creating.add_argument(
        "--node", type=short_name, help="it may write about this node of the cluster alone (default: any)"
    )
    creating.add_argument(
        "--expires", type=duration, metavar="TIME", help="ends after this time, such as 12h or 90d (default: never)"
    )
    creating.set_defaults(command="fleetridge_server.commands.token:create")


def _add_simulate(commands: "Commands") -> None:
    parser = commands.add_parser(
        "simulate",
        help="post a made-up fleet with known faults to a running server",
        description=(
            f"Makes the reports of a fleet that does not exist and posts them to a running server, always in the "
            f"cluster `{SIMULATED}`, which never mixes with real ones. The same options give the same reports, so that "
            "posting twice changes nothing."
        ),
        epilog="Faults: " + "; ".join(f"{name} ({kind.what})" for name, kind in FAULTS.items()) + ".",
    )
    parser.add_argument("--server", default="http://127.0.0.1:8000", metavar="URL", help="default: %(default)s")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="holds the token that the server asks for")
    parser.add_argument(
        "--gpus", type=partial(whole_number, most=_MOST_GPUS), default=64, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--days",
        type=partial(whole_number, most=_MOST_DAYS),
        default=_DAYS,
        metavar="D",
        help="one report of each a day (%(default)s)",
    )
    parser.add_argument("--device", type=product, default="H200", metavar="NAME", help=f"one of {', '.join(PRODUCTS)}")
    parser.add_argument(
        "--fault",
        type=fault,
        action="append",
        default=[],
        metavar="NAME[:COUNT[:LOSS]]",
        help="a fault, on how many gpus (or nodes), and the part of the rate that it costs; may be repeated",
    )
    parser.add_argument("--seed", type=int, default=1, help="another one makes another fleet (default: %(default)s)")
    parser.add_argument(
        "--noise", type=noise, default=0.005, help="between runs of one gpu, as a part of its rate (%(default)s)"
    )
    parser.add_argument(
        "--until",
        type=end_of_history,
        metavar="TIME",
        help="end of the history (default: the start of this day in UTC)",
    )
    parser.add_argument("--truth", type=Path, metavar="FILE", help="write what is wrong with which gpu, as CSV")
    parser.add_argument("--cluster", type=simulated_cluster, default=SIMULATED, help=f"only `{SIMULATED}` is possible")
    parser.set_defaults(command="fleetridge_server.commands.simulate:simulate")


def _add_maintenance(commands: "Commands", database: ArgumentParser) -> None:
    retention = commands.add_parser(
        "retention",
        parents=[database],
        help="drop the documents of old reports, and keep what they say",
        description=(
            "Drops documents that are older than they are to be kept, now and once a day, beside servers that run. "
            "Reports, roofs and verdicts stay. On PostgreSQL documents go by whole months of arrival."
        ),
    )
    retention.add_argument(
        "--documents-days",
        type=int,
        metavar="N",
        help="days for which documents are kept (default: FLEETRIDGE_SERVER_DOCUMENTS_DAYS)",
    )
    retention.add_argument("--once", action="store_true", help="end after one round, as cron wants it")
    retention.set_defaults(command="fleetridge_server.commands.maintenance:retention", usage=retention.error)

    backup = commands.add_parser(
        "backup",
        parents=[database],
        help="write a SQLite database, as it is now, to a file",
        description=(
            "Writes one state of a SQLite database to a file, while servers go on, and checks it. To restore, start a "
            "server on a copy of that file. For PostgreSQL use pg_dump."
        ),
    )
    backup.add_argument("file", type=Path, metavar="FILE", help="nothing may be there yet")
    backup.set_defaults(command="fleetridge_server.commands.maintenance:backup")

    copying = commands.add_parser(
        "copy",
        parents=[database],
        help="copy everything into another database",
        description=(
            "Copies everything into an empty database, from SQLite to PostgreSQL or back, and compares the counts. "
            "Stop the servers first. Interrupted, the same command goes on."
        ),
    )
    copying.add_argument("--to", required=True, metavar="URL", help="sqlite:///FILE or postgresql://…, without data")
    copying.set_defaults(command="fleetridge_server.commands.maintenance:copy")
