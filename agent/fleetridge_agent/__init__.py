"""
Runs on GPU nodes: measures every gpu and delivers the reports.

Imports core, torch, httpx, nvidia-ml-py and pydantic; never the server, FastAPI or SQLAlchemy.
"""
