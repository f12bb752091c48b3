"""The web application: what is opened when it starts, and which routes it has."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress

import anyio
from fastapi import Depends, FastAPI

import fleetridge
from fleetridge_server.access.answer_headers import AnswerHeaders
from fleetridge_server.access.guard import FAILURES, DoorRules, Guard
from fleetridge_server.access.known_tokens import KnownTokens
from fleetridge_server.access.open_server import is_loopback
from fleetridge_server.access.permission import require_scope
from fleetridge_server.access.rates import Buckets, Rate
from fleetridge_server.access.request_watch import RequestWatch
from fleetridge_server.access.uses import Uses, writing_uses
from fleetridge_server.api import (
    alerts,
    comparisons,
    description,
    devices,
    fleet,
    gpus,
    health,
    marks,
    metrics,
    nodes,
    reports,
    workloads,
)
from fleetridge_server.api.description import install_description, operation_id
from fleetridge_server.api.head import HeadAsGet
from fleetridge_server.background import Task, in_background
from fleetridge_server.evaluating.evaluation_process import EvaluationProcess
from fleetridge_server.evaluating.evaluator import Evaluator
from fleetridge_server.evaluating.schedule import Evaluate, Schedule, evaluation_task
from fleetridge_server.ingest.body import WaitingBodies
from fleetridge_server.keeping.daily import Daily, daily_task
from fleetridge_server.notifying.notifier import notification_task
from fleetridge_server.notifying.target import Target, target_of
from fleetridge_server.own_metrics import OwnMetrics
from fleetridge_server.pages.problem_pages import ProblemPages
from fleetridge_server.pages.routes import ROUTERS as PAGES
from fleetridge_server.problems import install_handlers
from fleetridge_server.receiving.queue import working
from fleetridge_server.receiving.workers import ThisProcess, Worker, WorkerProcess
from fleetridge_server.settings import Settings
from fleetridge_server.store.database import HEALTH_THREADS, READ_THREADS, WRITE_THREADS, Database, open_database
from fleetridge_server.store.schema import check_schema
from fleetridge_server.store.trouble import DATABASE_TROUBLES

_DESCRIPTION = "Keeps the rooflines of a fleet's GPUs and says which one is slower than its peers."


def create_app(settings: Settings) -> FastAPI:
    """
    Make the application.

    Raises:
        WebhookError: the webhook's settings cannot be used.

    Raises, when it starts:
        DatabaseUrlError: the database's address cannot be used.
        SchemaError: the database does not have this server's schema.
    """
    target = target_of(settings)
    own_metrics = OwnMetrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Open the database, and keep what works in the background going until the server ends."""
        database = open_database(settings.database_url)
        try:
            await anyio.to_thread.run_sync(check_schema, database.engine)
            await anyio.to_thread.run_sync(_analyze, database)
            anyio.to_thread.current_default_thread_limiter().total_tokens = READ_THREADS
            own_metrics.watch_pool(database.engine.pool)
            _keep_at_hand(app, settings, database)
            with (
                _evaluating(settings, database) as evaluate,
                in_background(_tasks(settings, database, own_metrics, target, evaluate)),
            ):
                async with (
                    writing_uses(app.state.uses),
                    working(_workers(settings, database)) as app.state.report_queue,
                ):
                    yield
            await anyio.to_thread.run_sync(_analyze, database)
        finally:
            database.close()

    app = FastAPI(
        title="fleetridge",
        description=_DESCRIPTION,
        version=fleetridge.__version__,
        lifespan=lifespan,
        dependencies=[Depends(require_scope)],
        openapi_url=None,  # a route of ours, so that it asks for a token as all others do
        docs_url=None,  # FastAPI's pages load scripts from another host, which a closed cluster cannot reach
        redoc_url=None,
        redirect_slashes=False,  # a slash at the end can be part of a name
        generate_unique_id_function=operation_id,
        separate_input_output_schemas=False,  # a report is the same on its way in and out
    )
    app.state.is_ending = False
    app.state.own_metrics = own_metrics
    _add_layers(app, settings)
    _add_routes(app)
    install_description(app)
    return app


def _keep_at_hand(app: FastAPI, settings: Settings, database: Database) -> None:
    """What requests work with, for as long as the database is open."""
    app.state.database = database
    app.state.health = anyio.CapacityLimiter(HEALTH_THREADS)
    app.state.writers = anyio.CapacityLimiter(WRITE_THREADS)
    app.state.known_tokens = KnownTokens(database, time.monotonic)
    app.state.uses = Uses(database, app.state.writers)
    app.state.waiting_bodies = WaitingBodies()
    app.state.sign_ins = Buckets(FAILURES, time.monotonic)
    app.state.is_https = settings.url_for_people.startswith("https:")
    app.state.metrics_of_every_gpu = settings.metrics_of_every_gpu


def _add_layers(app: FastAPI, settings: Settings) -> None:
    # The last is the first to be called.
    app.add_middleware(Guard, rules=_door_rules(settings))
    app.add_middleware(ProblemPages)
    app.add_middleware(RequestWatch, metrics=app.state.own_metrics)
    app.add_middleware(HeadAsGet)
    app.add_middleware(AnswerHeaders)
    install_handlers(app)


def _add_routes(app: FastAPI) -> None:
    for room in (
        description,
        health,
        metrics,
        reports,
        fleet,
        devices,
        comparisons,
        workloads,
        gpus,
        nodes,
        alerts,
        marks,
    ):
        app.include_router(room.router)
    for router in PAGES:
        app.include_router(router)


def _door_rules(settings: Settings) -> DoorRules:
    return DoorRules(
        is_loopback=is_loopback(settings.host),
        trust_network=settings.trust_network,
        calls=Rate(settings.calls_per_s, settings.calls_at_once),
    )


def _workers(settings: Settings, database: Database) -> Sequence[Worker]:
    processes = [WorkerProcess(settings.database_url, database.data_file) for _ in range(settings.intake_processes)]
    return processes or [ThisProcess(database)]


@contextmanager
def _evaluating(settings: Settings, database: Database) -> Iterator[Evaluate | None]:
    """Who evaluates beside this process; None where it does so itself."""
    if not settings.evaluation_process:
        yield None
        return
    with closing(EvaluationProcess(settings.database_url, database, settings.measured_every)) as process:
        yield process.evaluate


def _tasks(
    settings: Settings,
    database: Database,
    own_metrics: OwnMetrics,
    target: Target | None,
    evaluate: Evaluate | None,
) -> Iterator[Task]:
    if settings.evaluate:
        evaluator = Evaluator(database, settings.measured_every)
        yield evaluation_task(Schedule(evaluator, settings.evaluate_every, own_metrics.note_evaluation, evaluate))
    if target is not None:
        yield notification_task(database, target, public_url=settings.url_for_people)
    yield daily_task(Daily(settings.database_url, settings.documents_days))


def _analyze(database: Database) -> None:
    """Help SQLite plan its queries, which nobody else does; a file that takes no writes is left as it is."""
    if database.data_file is not None:
        with suppress(*DATABASE_TROUBLES):
            database.analyze()
