"""Test doubles and factories that several test folders share."""
