"""Alerts and the dashboard, against what the server and the agent's spool really tell, and against the runbook."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from fleetridge_agent.deliver.spool import MAX_REPORTS
from support.app_client import app_client
from support.databases import SqliteDatabases
from support.deployment import DEPLOY, compose, documents
from support.distributions import CHECKOUT
from support.evaluated import DAY, NOW, SLOW, SOUND, evaluate, runs
from support.fleet import post
from support.programs import run_program

PROMETHEUS = DEPLOY / "prometheus"
RULES = PROMETHEUS / "rules" / "fleetridge.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "fleetridge.json"

# Prometheus itself adds these to what it scrapes.
OF_PROMETHEUS = {"instance", "job"}

_METRIC = re.compile(r"\bfleetridge_\w+|\bup\b")
_MATCHERS = re.compile(r"(fleetridge_\w+|up)\{([^}]*)\}")
_GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_PLACEHOLDER = re.compile(r"\$labels\.(\w+)")


@pytest.fixture(scope="module")
def server_metrics(sqlite_databases: SqliteDatabases) -> Iterator[str]:
    """What a server tells of a fleet with a slow gpu, whose driver changed and cost 5 %."""
    url = sqlite_databases.create(migrated=True)
    with app_client(url) as client:
        post(client, runs("n01", [SOUND] * 8, days=4, until=NOW - 5 * DAY))
        evaluate(url, at=NOW - 5 * DAY)
        post(client, runs("n01", [0.95 * SOUND] * 7 + [SLOW], days=4, environment__driver="590.10"))
        evaluate(url)
        yield client.get("/metrics").text
    sqlite_databases.drop(url)


@pytest.fixture(scope="module")
def spool_metrics(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the script for node_exporter tells of two reports in the spool and a dead letter with its reason."""
    state, output = tmp_path_factory.mktemp("state"), tmp_path_factory.mktemp("textfile")
    for name in (
        "spool/1.json",
        "spool/2.json",
        "spool/.3.json.tmp",
        "dead-letter/4.json",
        "dead-letter/4.json.reason.txt",
    ):
        (state / name).parent.mkdir(exist_ok=True)
        (state / name).write_text("{}", encoding="utf-8")
    subprocess.run([PROMETHEUS / "fleetridge-textfile.sh", state, output], check=True)
    assert [path.name for path in output.iterdir()] == ["fleetridge.prom"]
    return (output / "fleetridge.prom").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def exported(server_metrics: str, spool_metrics: str) -> dict[str, set[str]]:
    """Labels of every metric that there is."""
    labels: dict[str, set[str]] = defaultdict(set)
    labels["up"] = set()
    for family in text_string_to_metric_families(server_metrics + spool_metrics):
        for sample in family.samples:
            labels[sample.name] |= set(sample.labels)
    return labels


def rules() -> list[Any]:
    [document] = documents(RULES)
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard() -> Any:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))


def targets() -> list[tuple[str, str]]:
    """Query and legend of everything that a panel draws."""
    panels = dashboard()["panels"]
    return [(target["expr"], target["legendFormat"]) for panel in panels for target in panel["targets"]]


def queries() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (query for query, _ in targets())


def variables() -> list[tuple[str, str]]:
    """Metric and label that the dashboard's choices are filled from."""
    found = [each["definition"] for each in dashboard()["templating"]["list"] if each["type"] == "query"]
    return [(match[1], match[2]) for text in found if (match := re.fullmatch(r"label_values\((\w+), (\w+)\)", text))]


def test_every_metric_in_a_rule_or_a_panel_exists(exported: dict[str, set[str]]) -> None:
    asked = {name for query in queries() for name in _METRIC.findall(query)}
    assert {name for name, _ in variables()} <= asked
    assert len(asked) > 10
    assert asked <= set(exported)


def test_every_label_in_a_rule_or_a_panel_is_one_of_its_metric(exported: dict[str, set[str]]) -> None:
    for query in queries():
        known = {label for name in _METRIC.findall(query) for label in exported[name]} | OF_PROMETHEUS
        grouped = {label.strip() for labels in _GROUPED.findall(query) for label in labels.split(",")}
        assert grouped <= known, query
        for name, matchers in _MATCHERS.findall(query):
            matched = set(re.findall(r"(\w+)(?:=~|!=|!~|=)", matchers))
            assert matched <= exported[name] | OF_PROMETHEUS, query
    for name, label in variables():
        assert label in exported[name]


def test_every_label_in_a_summary_or_a_legend_is_left_by_its_query() -> None:
    """A label that the query sums away would be shown as nothing."""
    texts = [(rule["expr"], rule["annotations"]["summary"], _PLACEHOLDER) for rule in rules()]
    texts += [(query, legend, re.compile(r"\{\{(\w+)\}\}")) for query, legend in targets()]
    for query, text, placeholder in texts:
        shown = set(placeholder.findall(text)) - OF_PROMETHEUS
        first = _GROUPED.search(query)
        kept = set() if first is None else {label.strip() for label in first[1].split(",")}
        assert shown <= kept, query


def test_every_metric_of_the_server_is_on_the_dashboard_or_in_a_rule(server_metrics: str, spool_metrics: str) -> None:
    """Of a histogram one of its series is enough."""
    asked = {name for query in queries() for name in _METRIC.findall(query)}
    families = text_string_to_metric_families(server_metrics + spool_metrics)
    unasked = [own.name for own in families if asked.isdisjoint(sample.name for sample in own.samples)]
    assert unasked == []


def test_the_spool_s_metrics_count_reports_and_nothing_else(spool_metrics: str) -> None:
    assert "fleetridge_agent_spool_reports 2\n" in spool_metrics
    assert "fleetridge_agent_dead_letters 1\n" in spool_metrics


def test_every_alert_leads_to_its_own_place_in_the_runbook() -> None:
    page = (CHECKOUT / "docs" / "operations.md").read_text(encoding="utf-8")
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", page, flags=re.MULTILINE)}
    for rule in rules():
        page_url, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page_url.endswith("/docs/operations.md")
        assert anchor == rule["alert"].lower()
        assert anchor in headings
    alerts = {rule["alert"] for rule in rules()}
    assert set(re.findall(r"^#+ (Fleetridge\w+)$", page, flags=re.MULTILINE)) == alerts


def test_every_alert_has_a_test_in_which_it_fires_and_is_over_again_and_a_severity() -> None:
    [document] = documents(PROMETHEUS / "tests" / "fleetridge_test.yml")
    fired, over = set(), set()
    for test in document["tests"]:
        burning = set()
        for check in test["alert_rule_test"]:  # in the order of their times
            if check["exp_alerts"]:
                burning.add(check["alertname"])
            elif check["alertname"] in burning:
                over.add(check["alertname"])
        fired |= burning
    assert fired == over == {rule["alert"] for rule in rules()}
    assert {rule["labels"]["severity"] for rule in rules()} == {"critical", "warning"}


def test_a_full_spool_is_told_although_it_grows_no_more() -> None:
    [rule] = [rule for rule in rules() if rule["alert"] == "FleetridgeSpoolGrowing"]
    assert f"fleetridge_agent_spool_reports >= {MAX_REPORTS}" in rule["expr"]


def test_the_sample_for_alertmanager_speaks_of_alerts_that_there_are() -> None:
    text = (PROMETHEUS / "alertmanager.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"Fleetridge\w+", text))
    assert named
    assert named <= {rule["alert"] for rule in rules()}


def test_the_dashboard_can_be_brought_in_anywhere() -> None:
    content = dashboard()
    assert content["id"] is None
    assert all(panel["datasource"]["uid"] == "$datasource" for panel in content["panels"])
    assert len({panel["id"] for panel in content["panels"]}) == len(content["panels"])


def test_prometheus_and_grafana_find_each_other_in_the_compose_file() -> None:
    services = compose()["services"]
    [source] = documents(DEPLOY / "grafana/provisioning/datasources/prometheus.yml")[0]["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in services
    [provider] = documents(DEPLOY / "grafana/provisioning/dashboards/fleetridge.yml")[0]["providers"]
    assert f"./deploy/grafana/dashboards:{provider['options']['path']}:ro" in services["grafana"]["volumes"]
    [job] = documents(PROMETHEUS / "prometheus.yml")[0]["scrape_configs"]
    [static] = job["static_configs"]
    assert static["targets"] == ["server:8000"]
    assert 'job="fleetridge"' in RULES.read_text(encoding="utf-8")
    assert job["job_name"] == "fleetridge"


def test_prometheus_has_its_token_once_the_lines_are_no_comment_any_more() -> None:
    """As the page about operations has it done."""
    text = (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
    text, changed = re.subn(r"^( *)# (authorization:|  credentials_file: .*)$", r"\1\2", text, flags=re.MULTILINE)
    assert changed == 2
    [job] = yaml.safe_load(text)["scrape_configs"]
    token = job["authorization"]["credentials_file"]
    folder = f"./deploy/prometheus:{Path(token).parent}:ro"
    assert folder in compose()["services"]["prometheus"]["volumes"]
    assert f"> deploy/prometheus/{Path(token).name}\n" in (CHECKOUT / "docs" / "operations.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.programs
def test_promtool_takes_the_rules_and_their_tests_pass() -> None:
    run_program("promtool", "check", "rules", RULES)
    run_program("promtool", "test", "rules", PROMETHEUS / "tests" / "fleetridge_test.yml")


@pytest.mark.programs
def test_promtool_takes_every_query_of_the_dashboard(tmp_path: Path) -> None:
    """Each as a rule that records it; what the dashboard fills in stands for everything."""
    rules = [
        {"record": f"panel:query:{number}", "expr": re.sub(r"\$\w+", ".*", query)}
        for number, (query, _) in enumerate(targets())
    ]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    assert f"{len(rules)} rules found" in run_program("promtool", "check", "rules", path).stdout


@pytest.mark.programs
def test_promtool_takes_what_the_server_and_the_spool_tell(server_metrics: str, spool_metrics: str) -> None:
    for text in (server_metrics, spool_metrics):
        done = run_program("promtool", "check", "metrics", stdin=text)
        assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.programs
def test_prometheus_and_alertmanager_take_their_settings() -> None:
    run_program("promtool", "check", "config", "--syntax-only", PROMETHEUS / "prometheus.yml")
    run_program("amtool", "check-config", PROMETHEUS / "alertmanager.yml")
