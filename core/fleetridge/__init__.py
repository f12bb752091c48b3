"""
The words that both sides share: roofline maths, published peaks, workloads, the wire report, text tables.

Pure: imports the standard library and pydantic, never the agent, the server, torch, HTTP or SQL.
"""

__version__ = "0.1.0"
