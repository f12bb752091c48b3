"""Routes of all pages, those of parts of a page before the page itself, whose address takes everything that follows."""

from __future__ import annotations

from fastapi import APIRouter

from fleetridge_server.pages import alerts, api_docs, compare, device, files, fleet, gpu, marking, node, nodes, sign_in

ROUTERS: tuple[APIRouter, ...] = (
    files.router,
    fleet.router,
    compare.router,  # before the device, whose address takes everything that follows
    device.router,
    gpu.router,
    nodes.router,
    node.router,
    alerts.router,
    api_docs.router,
    marking.router,
    sign_in.router,
)
