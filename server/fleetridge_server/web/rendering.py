"""Templates, links and static files."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import fleetridge
from fleetridge.quantities import binary_size, percent, quantity, signed_percent, significant
from fleetridge.terminal_text import visible
from fleetridge_server.engine.cohort import SIMULATED
from fleetridge_server.engine.gpu_state import ACCUSING, STATES
from fleetridge_server.engine.wording import others_like_it, reading_words, roof_words
from fleetridge_server.problems import ProblemError
from fleetridge_server.text.words import ridge_words
from fleetridge_server.web.charts.svg import chart_css, standalone_svg, style_source
from fleetridge_server.web.forms import Visitor, keep_form_cookie
from fleetridge_server.web.words import MEANINGS, Moment, StateShown, capital, loss_words, state_word

_QueryValue = str | int | datetime | None


def address(path: str, /, **parameters: _QueryValue) -> str:
    """A path with a query; parameters without a value are left out."""
    given = {name: _written(value) for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path


@dataclass(frozen=True, slots=True)
class Links:
    """
    Addresses for real or simulated gpus, as of one time.

    Attributes:
        simulated: whether the page is about made-up gpus.
        as_of: time that was asked for; None for now.
    """

    simulated: bool = False
    as_of: datetime | None = None

    def fleet(self, **parameters: _QueryValue) -> str:
        """Address of the page of the whole fleet."""
        return self.of("/", **parameters)

    def device(self, slug: str, part: str = "", /, **parameters: _QueryValue) -> str:
        """A device, or a part of its page such as `compare` or `roofline.svg`."""
        return self.of(_below("/ui/devices", slug, part), **parameters)

    def gpu(self, gpu_id: str, part: str = "", /, **parameters: _QueryValue) -> str:
        """A gpu, or a part of its page such as `history.svg`."""
        return self.of(_below("/ui/gpus", gpu_id, part), **parameters)

    def node(self, cluster: str, name: str) -> str:
        """A node, which is always shown as it is now."""
        return address(_below("/ui/nodes", name), cluster=cluster)

    def nodes(self, **parameters: _QueryValue) -> str:
        """All nodes, which are always shown as they are now."""
        return address("/ui/nodes", **{"cluster": self.cluster, **parameters})

    def alerts(self, **parameters: _QueryValue) -> str:
        """The alerts, which are always shown as they are now."""
        return address("/ui/alerts", **{"cluster": self.cluster, **parameters})

    def api(self, *path: str, **parameters: _QueryValue) -> str:
        """A route of the API, by the parts of its path."""
        return self.of(_below("", *path), **parameters)

    @property
    def cluster(self) -> str | None:
        """Cluster that every address has to name."""
        return SIMULATED if self.simulated else None

    def of(self, path: str, /, **parameters: _QueryValue) -> str:
        """An address that keeps the kind of gpus and the time."""
        return address(path, **{"cluster": self.cluster, "as_of": self.as_of, **parameters})


def _below(*parts: str) -> str:
    head, *rest = parts
    return "/".join([head, *(quote(part, safe="") for part in rest if part)])


def _written(value: _QueryValue) -> str:
    # "Z" rather than "+00:00", whose plus sign half of all tools read as a space.
    return f"{value.isoformat().removesuffix('+00:00')}Z" if isinstance(value, datetime) else str(value)


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
        links: that keep its kind of gpus and time.
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
    own = resources.files("fleetridge_server.web").joinpath("static")
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
        loader=PackageLoader("fleetridge_server.web"),
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
        "others_like_it": others_like_it,
        "roof": roof_words,
        "ridge": ridge_words,
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


def _commands(sentence: str) -> Markup:
    """A sentence in which commands stand between backticks."""
    parts = sentence.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else Markup.escape(part) for place, part in enumerate(parts)
    )


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
