"""Every page in a real browser: found by clicking, read by anybody, without an error and without another host."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

import pytest

from support.browser_tabs import SCREENSHOTS, Site, Tab, tab_of
from support.patience import patient_client, patient_get

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.programs

SIMULATED = "cluster=simulated"
FLEET = f"/?{SIMULATED}"
DEVICE = f"/ui/devices/h200?{SIMULATED}"

# Axe's own words for what keeps people out; the others are advice.
GRAVE = ("serious", "critical")


def asked(site: Site, path: str) -> Any:
    """Answer of the API."""
    answer = patient_get(f"{site.url}{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def worst(site: Site) -> dict[str, Any]:
    """The gpu whose power limit is too low."""
    gpus = asked(site, f"/devices/h200/ridge?{SIMULATED}&verdict=outlier")["gpus"]
    found: dict[str, Any] = next(gpu for gpu in gpus if gpu["verdict"]["reasons"][0]["code"] == "power_limit_lower")
    return found


def pages(site: Site) -> dict[str, str]:
    """A page of each kind, by a name for its picture."""
    gpu = worst(site)
    node = gpu["node"]
    absent = asked(site, f"/devices/h200/ridge?{SIMULATED}&verdict=missing,contended")["gpus"]
    return {
        "empty-fleet": "/",
        "fleet": FLEET,
        "device": DEVICE,
        "device-outliers": f"{DEVICE}&verdict=outlier&dtype=bfloat16",
        "gpu": f"/ui/gpus/{gpu['gpu_id']}?{SIMULATED}",
        "gpu-unmeasured": f"/ui/gpus/{absent[0]['gpu_id']}?{SIMULATED}",
        "nodes": f"/ui/nodes?{SIMULATED}",
        "nodes-outliers": f"/ui/nodes?{SIMULATED}&verdict=outlier",
        "node": f"/ui/nodes/{node}?{SIMULATED}",
        "alerts": f"/ui/alerts?{SIMULATED}",
        "api": "/docs",
        "compare": f"/ui/devices/h200/compare?{SIMULATED}",
        "cluster-unknown": "/?cluster=nowhere",
        "not-found": "/ui/gpus/GPU-none",
    }


def test_a_stranger_clicks_from_the_fleet_to_the_faulty_gpu_and_reads_the_reason(tab: Tab) -> None:
    gpu = worst(tab.site)
    tab.open(FLEET)
    assert "need a look" in tab.page.inner_text("h1")

    row = tab.page.locator("section:has(h2#worst) tr", has_text=gpu["gpu_id"])
    assert "outlier" in row.inner_text()
    row.get_by_role("link").first.click()

    assert tab.path == f"/ui/gpus/{gpu['gpu_id']}?{SIMULATED}"
    assert "outlier" in tab.page.inner_text("h1")
    first = tab.page.locator(".reasons > li").first.inner_text()
    assert gpu["verdict"]["reasons"][0]["text"].lower() in first.lower()
    assert "nvidia-smi -q -d POWER" in tab.page.locator("p.next").first.inner_text()


def test_the_map_and_the_charts_lead_to_the_same_gpu(tab: Tab) -> None:
    gpu = worst(tab.site)
    for start, chart in ((FLEET, "#map"), (DEVICE, "#strips")):
        tab.open(start)
        href = f"/ui/gpus/{gpu['gpu_id']}?{SIMULATED}"

        tab.page.locator(f"section:has({chart}) .fr-wide a[href='{href}']").first.click()

        assert tab.path == href


def test_the_worst_node_is_found_by_its_verdict_and_taken_to_a_scheduler(tab: Tab) -> None:
    gpu = worst(tab.site)
    tab.open(FLEET)
    tab.page.get_by_role("navigation", name="Site").get_by_role("link", name="Nodes").click()
    tab.page.get_by_role("combobox", name="verdict").select_option("outlier")
    tab.page.wait_for_url("**verdict=outlier*")

    hosts = tab.page.locator("pre").inner_text().strip()
    assert patient_get(f"{tab.site.url}/nodes?{SIMULATED}&verdict=outlier&format=hostlist").text.strip() == hosts
    tab.page.get_by_role("link", name=gpu["node"], exact=True).click()
    assert tab.page.inner_text("h1") == gpu["node"]


def test_going_back_shows_the_list_as_it_was_chosen(tab: Tab) -> None:
    """All that was chosen stands in the address."""
    tab.open(f"{DEVICE}&verdict=outlier&dtype=bfloat16")
    tab.page.locator("section:has(h2#worst) tbody a").first.click()
    tab.page.go_back()

    assert tab.path == f"{DEVICE}&verdict=outlier&dtype=bfloat16"
    assert tab.page.get_by_role("combobox", name="verdict").input_value() == "outlier"
    tab.page.reload()
    assert tab.page.get_by_role("combobox", name="dtype").input_value() == "bfloat16"


def test_the_comparison_shows_with_focus_what_it_shows_with_the_mouse(tab: Tab) -> None:
    tab.open(f"/ui/devices/h200/compare?{SIMULATED}")

    mark = tab.page.locator(".fr-wide .fr-mark").first
    mark.focus()

    assert mark.locator(".fr-tip").evaluate("own => getComputedStyle(own).display") == "inline"
    assert "gpus with themselves" in (mark.locator("title").text_content() or "")


def test_a_filter_takes_effect_when_it_is_chosen(tab: Tab) -> None:
    tab.open(DEVICE)

    tab.page.get_by_role("combobox", name="verdict").select_option("outlier")
    tab.page.wait_for_url("**verdict=outlier*")

    counts = asked(tab.site, f"/devices/h200/ridge?{SIMULATED}")["verdicts"]
    states = tab.page.locator("section:has(#gpus) tbody .state").all_inner_texts()
    assert len(states) == counts["outlier"]
    assert all("outlier" in state for state in states)
    tab.page.get_by_role("link", name="Show all").click()
    assert "verdict" not in tab.path


def test_everything_works_without_a_script(browser: Browser, site: Site) -> None:
    with tab_of(browser, site, java_script_enabled=False) as tab:
        tab.open(DEVICE)
        tab.page.get_by_role("combobox", name="verdict").select_option("ok")
        tab.page.get_by_role("button", name="Filter").click()
        assert "verdict=ok" in tab.path
        tab.page.get_by_text("What the words mean").click()
        assert tab.page.get_by_text("slower than its peers beyond the limit").is_visible()


def test_no_link_leads_nowhere(site: Site) -> None:
    """From the fleet over two clicks, every kind of page and every file that they link."""
    seen: dict[str, int] = {}
    with patient_client(site.url) as client:
        following = [FLEET, "/"]
        for _ in range(3):
            found: set[str] = set()
            for path in following:
                answer = client.get(path)
                seen[path] = answer.status_code
                if "html" in answer.headers["content-type"]:
                    found |= links(answer.text)
            fresh = sorted(found - seen.keys())
            following = [*one_of_each_kind(fresh)]
    assert {path: status for path, status in seen.items() if status != 200} == {}
    assert len(seen) > 30


def links(page: str) -> set[str]:
    """Addresses of a page, without those within it."""
    found = (html.unescape(own) for own in re.findall(r'(?:href|src)="(/[^"]*)"', page))
    return {own.partition("#")[0] for own in found}


def one_of_each_kind(paths: list[str]) -> list[str]:
    """Of addresses that differ in the gpu, node or report alone a few."""
    kinds: dict[str, list[str]] = {}
    for path in paths:
        bare, _, query = path.partition("?")
        shape = "/".join("*" if len(part) > 12 else part for part in bare.split("/"))
        kinds.setdefault(f"{shape}?{query[:40]}", []).append(path)
    return [path for own in kinds.values() for path in own[:3]]


def test_nobody_is_kept_out(browser: Browser, site: Site) -> None:
    """Axe finds nothing grave, light and dark, and a page is as wide as a phone where it has to be."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415 # no part of `make test`

    for scheme in ("light", "dark"):
        for name, path in pages(site).items():
            with tab_of(browser, site, color_scheme=scheme) as tab:
                tab.open(path)
                tab.page.evaluate("for (const own of document.querySelectorAll('details')) own.open = true")
                found = Axe().run(tab.page).response["violations"]
                tab.faults = [fault for fault in tab.faults if "404" not in fault]  # of the page that is not there
            told = [
                (own["id"], own["help"], [node["target"] for node in own["nodes"]][:3])
                for own in found
                if own["impact"] in GRAVE
            ]
            assert told == [], f"{name}, {scheme}"


@pytest.mark.parametrize("width", [360, 768, 1400, 2560])
def test_a_page_fits_any_window(browser: Browser, site: Site, width: int) -> None:
    """Nothing sticks out sideways; pictures of all are kept."""
    for name, path in pages(site).items():
        with tab_of(browser, site, color_scheme="dark" if width == 768 else "light") as tab:
            tab.page.set_viewport_size({"width": width, "height": 900})
            tab.open(path)
            assert tab.page.evaluate("document.documentElement.scrollWidth") <= width, name
            assert tab.keep(f"{name}-{width}").stat().st_size > 0
            tab.faults = [fault for fault in tab.faults if "404" not in fault]
    assert SCREENSHOTS.is_dir()


def test_the_keyboard_reaches_what_the_mouse_reaches(tab: Tab) -> None:
    tab.open(DEVICE)

    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.page.keyboard.press("Enter")
    assert tab.path.endswith("#main")
    mark = tab.page.locator("section:has(#strips) .fr-wide .fr-mark[tabindex='0']").first
    mark.focus()

    assert mark.locator(".fr-tip").evaluate("own => getComputedStyle(own).display") == "inline"
    name = mark.locator("title").text_content()
    assert name is not None
    assert "outlier" in name


def test_a_printed_page_has_no_controls(tab: Tab) -> None:
    tab.open(DEVICE)
    tab.page.emulate_media(media="print")

    assert tab.page.locator("form.filters").is_hidden()
    assert tab.page.locator("nav[aria-label='Site']").is_hidden()
    assert tab.page.locator("h1").is_visible()


def test_a_person_signs_in_decides_about_a_gpu_and_signs_out(browser: Browser, guarded_site: Site) -> None:
    with tab_of(browser, guarded_site) as tab:
        tab.open(FLEET)
        assert tab.page.inner_text("h1") == "Sign in"
        tab.keep("sign-in-1400")
        tab.page.get_by_label("Token").fill(guarded_site.token)
        tab.page.get_by_role("button", name="Sign in").click()
        assert tab.path == FLEET

        tab.page.locator("section:has(h2#worst) tbody tr", has_text="outlier").first.get_by_role("link").first.click()
        page = tab.path
        tab.page.get_by_text("Decide about this gpu").click()
        tab.page.get_by_role("combobox", name="Decision").select_option("false_positive")
        assert tab.page.get_by_label("By", exact=True).count() == 0  # the token's name says who it is
        tab.page.get_by_label("Reason").fill("a test of the dashboard")
        tab.page.get_by_role("button", name="Mark", exact=True).click()
        assert tab.path == page
        assert "False positive" in tab.page.inner_text("section:has(#decisions)")

        tab.page.on("dialog", lambda dialog: dialog.accept())
        tab.page.get_by_role("button", name="End this mark").click()
        assert "a test of the dashboard" not in tab.page.inner_text("section:has(#decisions)")
        tab.page.get_by_role("button", name="Sign out").click()
        assert tab.page.inner_text("h1") == "Sign in"
        tab.faults = [fault for fault in tab.faults if "401" not in fault]  # the browser tells each page that asks
