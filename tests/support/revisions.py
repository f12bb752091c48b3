"""Revisions beside the only one that there is: one after it, and databases of before it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from sqlalchemy import text

from fleetridge_server.db import schema
from fleetridge_server.db.database import create_database_engine

if TYPE_CHECKING:
    from pathlib import Path

FIRST, NEXT = "0001", "0002"

_CHANGE_A_PARENT = '''"""Change of a table that others refer to, which SQLite can only do by making it anew."""
import sqlalchemy as sa
from alembic import op

revision = "{next}"
down_revision = "{first}"


def upgrade():
    op.create_table("remarks", sa.Column("text", sa.Text()))
    with op.batch_alter_table("reports") as reports:
        reports.add_column(sa.Column("remark", sa.Text()))
        reports.alter_column("agent_version", existing_type=sa.Text(), nullable=True)
    {more}


def downgrade():
    with op.batch_alter_table("reports") as reports:
        reports.alter_column("agent_version", existing_type=sa.Text(), nullable=False)
        reports.drop_column("remark")
    op.drop_table("remarks")
'''


def copied_migrations(folder: Path) -> Path:
    """A copy of the migrations within a folder."""
    copied = folder / "migrations"
    shutil.copytree(schema.migrations_folder(), copied, ignore=shutil.ignore_patterns("__pycache__"))
    return copied


def with_next_revision(folder: Path, more: str = "pass") -> Path:
    """A copy of the migrations with one more, which changes the table of reports; `more` is done at its end."""
    copied = copied_migrations(folder)
    change = _CHANGE_A_PARENT.format(next=NEXT, first=FIRST, more=more)
    (copied / "versions" / f"{NEXT}_remarks.py").write_text(change, encoding="utf-8")
    return copied


def make_unreleased(database_url: str, revision: str) -> None:
    """Give an empty database the tables and the revision that one had before the first release."""
    schema.migrate(database_url)
    engine = create_database_engine(database_url)
    with engine.execution_options(fleetridge_writes=True).begin() as connection:
        connection.execute(text("ALTER TABLE schema_revision RENAME TO alembic_version"))
        connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
    engine.dispose()
