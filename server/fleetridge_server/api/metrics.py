"""Metrics for Prometheus: what the newest evaluations say of real gpus, and what the server says of itself."""

from __future__ import annotations

from datetime import datetime, timezone

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from fleetridge_server.answer.metric_families import VerdictCollector
from fleetridge_server.api.dependencies import OpenDatabase
from fleetridge_server.own_metrics import OwnMetrics
from fleetridge_server.problems import Problem
from fleetridge_server.store.metrics import MOST_GPUS, read_metrics

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "In Prometheus' text format."},
        503: {"model": Problem, "description": "The database does not answer just now; scrape again later."},
    },
)
def get_metrics(request: Request, database: OpenDatabase) -> Response:
    """
    Counts of gpus by verdict for each device; rates, deviation and age of the gpus that are not ok; the server's own.

    Made-up gpus never show. At most 5,000 gpus have series of their own; how many are left out is a metric, too.
    """
    every_gpu: bool = request.app.state.metrics_of_every_gpu
    with database.reading() as session:
        read = read_metrics(session, every_gpu=every_gpu, most=MOST_GPUS)
    registry = CollectorRegistry()
    registry.register(VerdictCollector(read, datetime.now(timezone.utc)))
    own: OwnMetrics = request.app.state.own_metrics
    told = generate_latest(registry) + generate_latest(own.registry)
    return Response(told, media_type=CONTENT_TYPE_LATEST)
