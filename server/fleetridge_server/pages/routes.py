"""Routes of all pages, those of parts of a page before the page itself, whose address takes everything that follows."""

from __future__ import annotations

from fastapi import APIRouter

from fleetridge_server.pages import alerts, compare, device, files, fleet, gpu, marking, node, sign_in

ROUTERS: tuple[APIRouter, ...] = (
    files.router,
    fleet.router,
    compare.router,  # before the device, whose address takes everything that follows
    device.router,
    gpu.router,
    node.router,
    alerts.router,
    marking.router,
    sign_in.router,
)
