"""The answers as text: tables for terminals, at most 80 columns wide, and CSV for spreadsheets."""
