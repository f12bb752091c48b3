"""
Receives reports, stores them in SQLite or PostgreSQL and compares gpus of one device across the fleet.

Imports core, FastAPI, SQLAlchemy and Alembic; never the agent and never torch.
"""
