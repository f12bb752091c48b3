"""
The wire report: what one sweep of one gpu sends, used alike by the agent that makes it and the server that takes it.

`model.Report` is the whole; the other modules hold its parts. Every model keeps fields that it does not know, so that a
newer agent loses nothing on its way through an older reader.
"""

from fleetridge.report.envelope import MAX_REPORTS, Envelope
from fleetridge.report.environment import Environment, Evidence, PhaseEvidence
from fleetridge.report.model import SCHEMA_VERSION, Outcome, Report, Sweep
from fleetridge.report.origin import LOST, Agent, Gpu, Method, Node, RosterGpu, Run, RunKind
from fleetridge.report.points import GemmPoint, Point, StreamPoint
from fleetridge.report.roofs import Level, Regime, Roof, RoofKey

__all__ = [
    "LOST",
    "MAX_REPORTS",
    "SCHEMA_VERSION",
    "Agent",
    "Envelope",
    "Environment",
    "Evidence",
    "GemmPoint",
    "Gpu",
    "Level",
    "Method",
    "Node",
    "Outcome",
    "PhaseEvidence",
    "Point",
    "Regime",
    "Report",
    "Roof",
    "RoofKey",
    "RosterGpu",
    "Run",
    "RunKind",
    "StreamPoint",
    "Sweep",
]
