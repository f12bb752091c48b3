"""Keeping the data: what is dropped in time, backups, and the move to another database."""
