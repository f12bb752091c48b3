"""
Forms and addresses of pages: parameters of a request, the visitor, and the proof that a page of ours sent a form.

A form holds a hash of a cookie that no other site can read. Whoever makes a browser send a form from elsewhere cannot
know it.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qsl

from fastapi import Request, Response
from pydantic import BaseModel, ValidationError

from fleetridge_server.auth.permissions import Caller
from fleetridge_server.auth.tokens import new_secret
from fleetridge_server.http.authentication import COOKIE, cookie_of
from fleetridge_server.problems import ProblemError, field_errors, invalid_request

_QueryT = TypeVar("_QueryT", bound=BaseModel)


def written(query: BaseModel) -> dict[str, str | int]:
    """Parameters that were sent, as they are written in an address."""
    sent = query.model_dump(mode="json", exclude_none=True)
    return {name: sent[name] for name in sent if name in query.model_fields_set}


def kept(query: BaseModel, *chosen: str) -> tuple[tuple[str, str], ...]:
    """What a form of filters sends along, so that nothing of an address is lost: all but what is chosen in it."""
    return tuple((name, str(value)) for name, value in written(query).items() if name not in (*chosen, "after"))


def query_of(request: Request, kind: type[_QueryT], **defaults: object) -> _QueryT:
    """
    Parameters of a request, with the defaults of this page; a field of a form that was left empty counts as not sent.

    Raises:
        ProblemError: 422, a parameter is not as described.
    """
    sent = {name: value for name, value in request.query_params.items() if value != ""}
    try:
        return kind.model_validate({**defaults, **sent})
    except ValidationError as error:
        raise invalid_request(field_errors(error.errors(), "query")) from error


FIELD = "form_token"

# For visitors without a session: where no token is asked for, and while somebody signs in.
_FORM_COOKIE = "fleetridge_form"

_FORM = "application/x-www-form-urlencoded"
_MOST_FIELDS = 50


@dataclass(frozen=True, slots=True)
class Visitor:
    """
    Who looks at a page.

    Attributes:
        signed_in: whether a session says who it is.
        name: of who it is, where that is known.
        may_operate: whether forms that change something are shown.
        form_token: what a form has to send.
        new_cookie: for a browser that has none yet; empty where it has one.
        is_secure: whether cookies may go over https alone.
    """

    signed_in: bool = False
    name: str = ""
    may_operate: bool = False
    form_token: str = ""
    new_cookie: str = ""
    is_secure: bool = False


def visitor_of(request: Request) -> Visitor:
    """Who looks at a page, as authentication found out."""
    caller: Caller | None = getattr(request.state, "caller", None)
    session = cookie_of(request.scope, COOKIE) if caller is not None and caller.token_id is not None else None
    known = session or cookie_of(request.scope, _FORM_COOKIE)
    secret = known or new_secret()
    return Visitor(
        signed_in=session is not None,
        name="" if caller is None or caller.name is None else caller.name,
        may_operate=caller is not None and "operate" in caller.scopes,
        form_token=_token_of(secret),
        new_cookie="" if known else secret,
        is_secure=is_secure(request),
    )


def is_secure(request: Request) -> bool:
    """Whether people reach this server by https, directly or through a proxy."""
    return request.url.scheme == "https" or bool(getattr(request.app.state, "is_https", False))


def keep_form_cookie(response: Response, visitor: Visitor) -> None:
    """Give a browser the cookie that its forms are checked against."""
    if visitor.new_cookie:
        response.set_cookie(
            _FORM_COOKIE, visitor.new_cookie, httponly=True, samesite="strict", secure=visitor.is_secure, path="/"
        )


async def form_of(request: Request) -> dict[str, str]:
    """
    Fields of a form that a page of ours sent; those that were left empty are left out.

    Raises:
        ProblemError: 403, another site made the browser send it, or its page is too old; 415, it is no form.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise ProblemError(415, "not_a_form", "This is no form", f"send a form of a page, as {_FORM}")
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise ProblemError(422, "not_a_form", "This is no form", "its fields cannot be read; send it again") from error
    fields = {name: value.strip() for name, value in pairs if value.strip()}
    secrets = (cookie_of(request.scope, COOKIE), cookie_of(request.scope, _FORM_COOKIE))
    shown = fields.pop(FIELD, "").encode()
    if not any(secret is not None and hmac.compare_digest(_token_of(secret).encode(), shown) for secret in secrets):
        detail = "this form is too old, or another site sent it; go back, load the page anew, and send it once more"
        raise ProblemError(403, "foreign_form", "Not from this page", detail)
    return fields


def local(path: str | None) -> str:
    """An address within this site, to go to after a form; the start page where it leads elsewhere."""
    is_ours = path is not None and path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours and path is not None else "/"


def _token_of(secret: str) -> str:
    return hashlib.sha256(f"form {secret}".encode()).hexdigest()
