"""Style sheets, the script and the icon that pages link: files of this server alone."""

from __future__ import annotations

from fastapi import APIRouter, Response

from fleetridge_server.pages.rendering import static_files
from fleetridge_server.problems import ProblemError

router = APIRouter(include_in_schema=False)

# The address of a file changes with its content.
_FOR_EVER = "public, max-age=31536000, immutable"


@router.get("/ui/static/{name}")
def get_file(name: str) -> Response:
    """One file."""
    if name not in static_files():
        raise ProblemError(404, "not_found", "There is nothing at this address", "no page links such a file")
    content, media_type = static_files()[name]
    headers = {"Cache-Control": _FOR_EVER, "Content-Security-Policy": "default-src 'none'"}
    return Response(content, headers=headers, media_type=media_type)
