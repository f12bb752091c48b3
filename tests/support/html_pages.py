"""Pages as their readers meet them: text, links, tables and forms of an HTML answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from support.app_client import AppClient

VOID = frozenset({"meta", "link", "input", "br", "hr", "img"})
ADDRESSES = frozenset({"href", "src", "action", "formaction", "srcset", "data", "poster", "xlink:href"})


@dataclass
class Page:
    """An answer that is a page."""

    status: int
    headers: Any
    html: str
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All that is written on it, with single spaces."""
        return " ".join(" ".join(self.words).split())

    @property
    def addresses(self) -> list[str]:
        """Everything that it links, loads or sends to."""
        return [value for _, attributes in self.elements for name, value in attributes.items() if name in ADDRESSES]

    def row(self, start: str) -> list[str]:
        """The only row of a table whose first cell begins so."""
        [found] = [row for row in self.rows if row and row[0].startswith(start)]
        return found

    def fields(self) -> dict[str, str]:
        """Values of hidden fields, by name."""
        return {
            own["name"]: own.get("value", "")
            for name, own in self.elements
            if name == "input" and own.get("type") == "hidden"
        }


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__(convert_charrefs=True)
        self._page = page
        self.open: list[str] = []
        self._cell: list[str] | None = None
        self._link: tuple[str, list[str]] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        self._page.elements.append((tag, own))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self._page.rows.append([])
        if tag in ("td", "th"):
            self._cell = []
        if tag == "a" and "href" in own:
            self._link = own["href"], []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._page.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()
        if tag in ("td", "th") and self._cell is not None:
            self._page.rows[-1].append(" ".join(" ".join(self._cell).split()))
            self._cell = None
        if tag == "a" and self._link is not None:
            href, words = self._link
            self._page.links.setdefault(" ".join(" ".join(words).split()), href)
            self._link = None

    def handle_data(self, data: str) -> None:
        self._page.words.append(data)
        if self._cell is not None:
            self._cell.append(data)
        if self._link is not None:
            self._link[1].append(data)


def page_of(client: AppClient, url: str, status: int = 200, **arguments: Any) -> Page:
    """A page, well-formed to the last element."""
    answer = client.get(url, **arguments)
    assert answer.status_code == status, answer.text
    return parsed(answer)


def parsed(answer: Any) -> Page:
    """An answer as a page."""
    assert answer.headers["content-type"] == "text/html; charset=utf-8", answer.text
    page = Page(answer.status_code, answer.headers, answer.text)
    reader = _Reader(page)
    reader.feed(answer.text)
    reader.close()
    assert reader.open == []
    return page
