"""From what a page shows to an answer: templates, and the headers that keep a page to itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import fleetridge
from fleetridge.quantities import binary_size, percent, quantity, signed_percent, significant
from fleetridge.terminal_text import visible
from fleetridge_server.answer.schemas import FleetRidge, GpuRidge
from fleetridge_server.compare.roof_words import roof_words, variant
from fleetridge_server.drawing.style import chart_css, standalone_svg, style_source
from fleetridge_server.pages.forms import Visitor, keep_form_cookie
from fleetridge_server.pages.links import Links
from fleetridge_server.pages.words import MEANINGS, Moment, StateShown, capital, loss_words, state_word
from fleetridge_server.verdict.reading_words import reading_words
from fleetridge_server.verdict.state import ACCUSING, STATES

HTML = "text/html"
SVG = "image/svg+xml"

# Everything is a file of this server; nothing runs, loads or is framed that is not.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)

_HEADERS = {"Content-Security-Policy": PAGE_POLICY, "Vary": "Cookie"}


@dataclass(frozen=True, slots=True)
class Frame:
    """
    What stands around every page.

    Attributes:
        title: of the page.
        links: within its population and time.
        as_of: time that it shows.
        api: address of the same facts for programs.
        visitor: who looks.
        here: which part of the site it is, `fleet`, `nodes` or `alerts`.
    """

    title: str
    links: Links
    as_of: datetime
    api: str
    visitor: Visitor
    here: str = ""


def html(template: str, frame: Frame, shown: Any, *, status: int = 200) -> Response:  # noqa: ANN401 # what a template takes
    """A page."""
    text = _templates().get_template(template).render(frame=frame, page=shown)
    response = Response(text, status, headers=_HEADERS, media_type=f"{HTML}; charset=utf-8")
    keep_form_cookie(response, frame.visitor)
    return response


def picture(svg: str) -> Response:
    """A chart as a file of its own."""
    policy = f"default-src 'none'; style-src {style_source()}; frame-ancestors 'none'"
    return Response(
        standalone_svg(svg), headers={"Content-Security-Policy": policy}, media_type=f"{SVG}; charset=utf-8"
    )


def attachment(content: bytes, media_type: str, name: str) -> Response:
    """A file to keep."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=media_type)


@cache
def static_files() -> dict[str, tuple[bytes, str]]:
    """Files that pages link, by name: content and media type."""
    own = resources.files("fleetridge_server.pages").joinpath("static")
    return {
        "pages.css": (own.joinpath("pages.css").read_bytes(), "text/css; charset=utf-8"),
        "chart.css": (chart_css().encode(), "text/css; charset=utf-8"),
        "pages.js": (own.joinpath("pages.js").read_bytes(), "text/javascript; charset=utf-8"),
        "icon.svg": (own.joinpath("icon.svg").read_bytes(), SVG),
    }


@cache
def static_address(name: str) -> str:
    """Address of a file, which changes with its content, so that a browser may keep it for ever."""
    content, _ = static_files()[name]
    return f"/ui/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("fleetridge_server.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,  # a server that runs while it is upgraded keeps the templates that its code knows
    )
    environment.filters |= {
        "significant": significant,
        "quantity": quantity,
        "percent": percent,
        "signed_percent": signed_percent,
        "binary_size": binary_size,
        "visible": visible,
        "loss": loss_words,
        "word": state_word,
        "roof": roof_words,
        "ridge": _ridge_words,
        "reading": reading_words,
        "sentence": capital,
        "commands": _commands,
        "drawn": Markup,  # charts alone, which `drawing` escapes
    }
    environment.globals |= {
        "static": static_address,
        "version": fleetridge.__version__,
        "moment": Moment,
        "state": StateShown,
        "accusing": ACCUSING,
        "states": [(StateShown(state), MEANINGS[state]) for state in STATES],
    }
    return environment


def _ridge_words(ridge: FleetRidge | GpuRidge) -> str:
    return variant(ridge.dtype, ridge.regime, ridge.out_dtype, fast_accumulation=ridge.fast_accumulation)


def _commands(sentence: str) -> Markup:
    """A sentence in which commands stand between backticks."""
    parts = sentence.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else Markup.escape(part) for place, part in enumerate(parts)
    )
