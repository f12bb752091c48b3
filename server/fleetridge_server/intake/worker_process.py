"""
The process of a worker: takes in what it is given until whoever started it says no more, or is gone.

It is given calls and gives answers over its standard input, a socket. Signals that end a server are kept from it by
whoever started it, which ends it when its own work is done.
"""

import gc
import os
import sys
from contextlib import closing, suppress
from multiprocessing.connection import Connection

from fleetridge_server.background import stand_back
from fleetridge_server.db.database import open_database
from fleetridge_server.intake.queue import Start, ThisProcess, answers_of
from fleetridge_server.telemetry.logs import logs_to

# Objects after which the collector of cyclic garbage looks at the young ones. A report is some thousand objects without
# a cycle; after every 700, as usual, looking takes a tenth of the time, and after more than this it is not felt.
_COLLECTED_AFTER = 10_000


def main() -> None:
    """Take in reports."""
    stand_back()
    gc.freeze()  # nobody has to look again at the modules
    gc.set_threshold(_COLLECTED_AFTER)
    with Connection(sys.stdin.fileno()) as connection, suppress(EOFError, ConnectionError):
        start: Start = connection.recv()
        with logs_to(sys.stderr, log_format="json" if start.is_logged_as_json else "text", environ=os.environ):
            _work(connection, start)


def _work(connection: Connection, start: Start) -> None:
    with closing(open_database(start.database_url, data_file=start.data_file)) as database:
        worker = ThisProcess(database)
        while True:
            connection.send(answers_of(worker, connection.recv()))


if __name__ == "__main__":
    main()
