"""
The dashboard: pages for people, rendered here, that work without a script and fetch nothing from another host.

Each page is a pure function from answers of the API to what a template shows, and a thin route that asks for them.
"""
