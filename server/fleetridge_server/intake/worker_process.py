"""
The process of a worker: takes in what it is given until whoever started it says no more, or is gone.

It is given calls and gives answers over its standard input, a socket. Signals that end a server are kept from it by
whoever started it, which ends it when its own work is done.
"""

import gc
from multiprocessing.connection import Connection

from fleetridge_server.background import be_child
from fleetridge_server.db.database import Database
from fleetridge_server.intake.queue import ThisProcess, answers_of

# Objects after which the collector of cyclic garbage looks at the young ones. A report is some thousand objects without
# a cycle; after every 700, as usual, looking takes a tenth of the time, and after more than this it is not felt.
_COLLECTED_AFTER = 10_000


def main() -> None:
    """Take in reports."""
    gc.set_threshold(_COLLECTED_AFTER)
    be_child(_work)


def _work(connection: Connection, database: Database) -> None:
    worker = ThisProcess(database)
    while True:
        connection.send(answers_of(worker, connection.recv()))


if __name__ == "__main__":
    main()
