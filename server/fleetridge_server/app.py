"""The application: routes, middleware and tasks, put together from the settings."""

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress

import anyio
from fastapi import APIRouter, Depends, FastAPI

import fleetridge
from fleetridge_server.api import alerts as alert_routes
from fleetridge_server.api import comparisons, devices, gpus, reports, service, workloads
from fleetridge_server.api import fleet as fleet_routes
from fleetridge_server.api import nodes as node_routes
from fleetridge_server.api.service import install_description, operation_id
from fleetridge_server.auth.token_cache import KnownTokens, TokenUsage, writing_token_usage
from fleetridge_server.background import Task, in_background
from fleetridge_server.db.database import HEALTH_THREADS, READ_THREADS, WRITE_THREADS, Database, open_database
from fleetridge_server.db.schema import check_schema
from fleetridge_server.db.troubles import DATABASE_TROUBLES
from fleetridge_server.evaluation.evaluator import Evaluator
from fleetridge_server.evaluation.process import EvaluationProcess
from fleetridge_server.evaluation.schedule import Evaluate, Schedule, evaluation_task
from fleetridge_server.http.answers import AnswerHeaders, HeadAsGet, RequestWatch, install_handlers
from fleetridge_server.http.authentication import (
    FAILURES,
    Authentication,
    AuthSettings,
    is_loopback,
    require_scope,
)
from fleetridge_server.http.rate_limits import Buckets, CallRate
from fleetridge_server.intake.body import WaitingBodies
from fleetridge_server.intake.queue import ThisProcess, Worker, WorkerProcess, working
from fleetridge_server.notify.webhook import Target, notification_task, target_of
from fleetridge_server.ops.retention import Daily, daily_task
from fleetridge_server.settings import Settings
from fleetridge_server.telemetry.metrics import OwnMetrics
from fleetridge_server.web import alerts, api_docs, compare, device, fleet, gpu, nodes, rendering, sign_in
from fleetridge_server.web.sign_in import ProblemPages

PAGE_ROUTERS: tuple[APIRouter, ...] = (
    rendering.router,
    fleet.router,
    compare.router,  # before the device, whose address takes everything that follows
    device.router,
    gpu.router,
    nodes.router,
    alerts.router,
    api_docs.router,
    sign_in.router,
)


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
            _fill_state(app, settings, database)
            with (
                _evaluating(settings, database) as evaluate,
                in_background(_tasks(settings, database, own_metrics, target, evaluate)),
            ):
                async with (
                    writing_token_usage(app.state.uses),
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


def _fill_state(app: FastAPI, settings: Settings, database: Database) -> None:
    """What requests work with, for as long as the database is open."""
    app.state.database = database
    app.state.health = anyio.CapacityLimiter(HEALTH_THREADS)
    app.state.writers = anyio.CapacityLimiter(WRITE_THREADS)
    app.state.known_tokens = KnownTokens(database, time.monotonic)
    app.state.uses = TokenUsage(database, app.state.writers)
    app.state.waiting_bodies = WaitingBodies()
    app.state.sign_ins = Buckets(FAILURES, time.monotonic)
    app.state.is_https = settings.url_for_people.startswith("https:")
    app.state.metrics_of_every_gpu = settings.metrics_of_every_gpu


def _add_layers(app: FastAPI, settings: Settings) -> None:
    # The last is the first to be called.
    app.add_middleware(Authentication, rules=_auth_settings(settings))
    app.add_middleware(ProblemPages)
    app.add_middleware(RequestWatch, metrics=app.state.own_metrics)
    app.add_middleware(HeadAsGet)
    app.add_middleware(AnswerHeaders)
    install_handlers(app)


def _add_routes(app: FastAPI) -> None:
    for routes in (service, reports, fleet_routes, devices, comparisons, workloads, gpus, node_routes, alert_routes):
        app.include_router(routes.router)
    for router in PAGE_ROUTERS:
        app.include_router(router)


def _auth_settings(settings: Settings) -> AuthSettings:
    return AuthSettings(
        is_loopback=is_loopback(settings.host),
        trust_network=settings.trust_network,
        calls=CallRate(settings.calls_per_s, settings.calls_at_once),
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
    settings: Settings, database: Database, own_metrics: OwnMetrics, target: Target | None, evaluate: Evaluate | None
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
