"""The /metrics endpoint in Prometheus format: numbers of this process and of remote replicas.

Readable with the token from the settings; without a token only from this machine, with no proxy
in between.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from engine.run import run_counters
from engine.settings import SETTINGS
from playground.server import deployment
from playground.shell.guard import ERROR_COUNT
from playground.shell.listeners import LISTENERS
from playground.storage.journal import JOURNAL

_LOOPBACK_HOSTS = ("127.0.0.1", "::1")
_PROXY_HEADERS = ("forwarded", "via", "x-real-ip", "true-client-ip", "cf-connecting-ip")
"""Headers that proxies add, in addition to ``x-forwarded-*``.

Behind a local proxy every client has a loopback address.
"""
_BEARER_PREFIX = "bearer "


@dataclass(frozen=True)
class Metric:
    """Declaration of one metric.

    Attributes:
        name: Without the prefix; for a counter without ``_total``.
        kind: ``counter``, ``gauge`` or ``histogram``.
        means: Help text, one sentence.
        labels: Label names. Visitors cannot choose the values, so their number is bounded.
    """

    name: str
    kind: str
    means: str
    labels: tuple[str, ...] = ()


_RUNS_STARTED = Metric("runs_begun", "counter", "Runs that were asked for.", ("strategy",))
_RUNS_ENDED = Metric(
    "runs",
    "counter",
    "Runs that have ended: finished, cancelled (or left by who asked), or failed.",
    ("strategy", "outcome"),
)
_RUN_FAILURES = Metric(
    "run_failures", "counter", "Runs that failed, by the kind of their error.", ("code",)
)
_TOKENS = Metric("tokens", "counter", "Tokens of the outputs of runs that ended.", ("strategy",))
_DECODING_SECONDS = Metric(
    "decoding_seconds",
    "counter",
    "Seconds from where decoding began to its last decision.",
    ("strategy",),
)
_RUNS_WAITING = Metric(
    "runs_waiting", "gauge", "Runs that wait for their turn or for their models."
)
_RUNS_DECODING = Metric("runs_going", "gauge", "Runs that decode.")
_QUEUE_S = Metric("run_wait_seconds", "histogram", "Seconds that a run waited for its turn.")
_LOAD_S = Metric("run_load_seconds", "histogram", "Seconds that a run waited for its models.")
_FIRST_S = Metric(
    "run_first_token_seconds",
    "histogram",
    "Seconds from where decoding began to the first decision.",
)
_QUEUE_PLACES = Metric(
    "line_places",
    "gauge",
    "Places in the line of everything that computes, runs and the rest.",
    ("state",),
)
_MODELS = Metric("models_loaded", "gauge", "Models in memory.")
_MODEL_BYTES = Metric("models_bytes", "gauge", "Memory that the weights of those models take.")
_MEMORY = Metric("memory_bytes", "gauge", "Memory of the whole process.")

ENGINE_METRICS = (
    _RUNS_STARTED,
    _RUNS_ENDED,
    _RUN_FAILURES,
    _TOKENS,
    _DECODING_SECONDS,
    _RUNS_WAITING,
    _RUNS_DECODING,
    _QUEUE_S,
    _LOAD_S,
    _FIRST_S,
    _QUEUE_PLACES,
    _MODELS,
    _MODEL_BYTES,
)
"""Metrics of this process's own engine."""
REPLICA_METRICS = (*ENGINE_METRICS, _MEMORY)
"""Metrics of every remote replica.

The process collector already reports this process's own memory.
"""
_STREAMS = Metric("open_streams", "gauge", "Streams of answers that pages and programs hold open.")
_LISTENING = Metric("listening_sessions", "gauge", "Pages and programs that hold one open.")
_ROOMS = Metric("rooms_open", "gauge", "Rooms in which classes bet on lessons.")
_PEOPLE = Metric("room_people", "gauge", "People in those rooms.")
_BACKLOG = Metric(
    "journal_backlog_bytes", "gauge", "Messages of runs that wait to be written to the journal."
)
_ERRORS = Metric(
    "handler_errors", "counter", "Requests of the page that ended in an error of the program's own."
)
_BUILD = Metric("build_info", "gauge", "Always 1: which version runs.", ("version", "commit"))
WEB_METRICS = (_STREAMS, _LISTENING, _ROOMS, _PEOPLE, _BACKLOG, _ERRORS, _BUILD)
PREFIX, REPLICA_PREFIX = "playground_", "playground_replica_"


class MetricsCollector:
    """A prometheus_client collector that gathers all numbers on request.

    Args:
        count_rooms: returns the numbers of open classrooms and of people in them.
        reports: Reports of remote replicas.
    """

    def __init__(
        self,
        count_rooms: Callable[[], tuple[int, int]],
        reports: run_counters.ReplicaReports = run_counters.REPLICA_REPORTS,
    ) -> None:
        self.count_rooms, self.reports = count_rooms, reports

    def collect(self) -> Iterator[Any]:
        """Yield one metric family for every metric."""
        yield from _metric_families(PREFIX, ENGINE_METRICS, (), {(): run_counters.snapshot()})
        counts = {(name,): numbers for name, numbers in self.reports.recent().items()}
        yield from _metric_families(REPLICA_PREFIX, REPLICA_METRICS, ("replica",), counts)
        streams, sessions = LISTENERS.count_open()
        open_rooms, people = self.count_rooms()
        own = (
            (_STREAMS, streams),
            (_LISTENING, sessions),
            (_ROOMS, open_rooms),
            (_PEOPLE, people),
            (_BACKLOG, JOURNAL.backlog_bytes),
            (_ERRORS, ERROR_COUNT.count),
        )
        for metric, value in own:
            yield _make_family(PREFIX, metric, (), [((), value)])
        build = (deployment.app_version(), deployment.commit_hash())
        yield _make_family(PREFIX, _BUILD, (), [(build, 1)])


def _metric_families(
    prefix: str,
    metrics: Iterable[Metric],
    labels: tuple[str, ...],
    counts: Mapping[tuple[str, ...], Mapping[str, Any]],
) -> Iterator[Any]:
    """Yield the metric families of one or more engines.

    Args:
        prefix: Prefix of the metric names.
        metrics: Metrics to include.
        labels: Label names that distinguish the engines.
        counts: Label values -> the engine's numbers, see ``counted.snapshot``.
    """
    values = {whose: _metric_values(numbers) for whose, numbers in counts.items()}
    for metric in metrics:
        samples = [
            ((*whose, *own), value)
            for whose, found in values.items()
            for own, value in found[metric.name]
            if value is not None
        ]
        yield _make_family(prefix, metric, labels, samples)


def _metric_values(counts: Mapping[str, Any]) -> dict[str, list[tuple[tuple[str, ...], Any]]]:
    """Map each metric name to its samples (label values, value), from an engine's numbers."""
    ended = counts["ended"].items()
    return {
        _RUNS_STARTED.name: _by_name(counts["begun"]),
        _RUNS_ENDED.name: [
            ((name, outcome), n) for name, ends in ended for outcome, n in ends.items()
        ],
        _RUN_FAILURES.name: _by_name(counts["failures"]),
        _TOKENS.name: _by_name(counts["tokens"]),
        _DECODING_SECONDS.name: _by_name(counts["decoding_s"]),
        _RUNS_WAITING.name: [((), counts["waiting"])],
        _RUNS_DECODING.name: [((), counts["going"])],
        _QUEUE_S.name: [((), counts["queue_s"])],
        _LOAD_S.name: [((), counts["load_s"])],
        _FIRST_S.name: [((), counts["first_token_s"])],
        _QUEUE_PLACES.name: _by_name(counts["line"]),
        _MODELS.name: [((), counts["models"])],
        _MODEL_BYTES.name: [((), counts["model_bytes"])],
        _MEMORY.name: [((), counts["memory_bytes"])],
    }


def _by_name(values: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Any]]:
    return [((name,), value) for name, value in values.items()]


def _make_family(
    prefix: str,
    metric: Metric,
    labels: tuple[str, ...],
    samples: Iterable[tuple[tuple[str, ...], Any]],
) -> Any:
    # Imported on the first request, so that the server starts without it.
    from prometheus_client import core

    kinds: dict[str, Any] = {
        "counter": core.CounterMetricFamily,
        "gauge": core.GaugeMetricFamily,
        "histogram": core.HistogramMetricFamily,
    }
    family = kinds[metric.kind](
        prefix + metric.name, metric.means, labels=(*labels, *metric.labels)
    )
    for own, value in samples:
        if metric.kind == "histogram":
            family.add_metric(own, _cumulative_buckets(value), sum_value=value["total"])
        else:
            family.add_metric(own, value)
    return family


def _cumulative_buckets(value: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return cumulative bucket counts (upper bound, count), as Prometheus expects."""
    found, so_far = [], 0
    for bound, count in zip([*value["bounds"], "+Inf"], value["counts"], strict=True):
        so_far += count
        found.append((str(bound), so_far))
    return found


def render_metrics(collector: Any, accept: str) -> tuple[bytes, str]:
    """Return the metrics page, including the standard process metrics, and its media type.

    Args:
        collector: Collector of the playground's own metrics.
        accept: The Accept header, which may ask for OpenMetrics.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    ProcessCollector(registry=registry)
    encode, media = choose_encoder(accept)
    return encode(registry), media


def collect_reports(reports: run_counters.ReplicaReports) -> None:
    """Add the numbers of remote replicas to ``reports``; nothing for a local engine."""
    if SETTINGS.engine != "local":
        from engine.serving import cluster

        for report in cluster.collect_reports():
            reports.add(f"{report['node']}:{report['pid']}", report["counted"])


def can_read_metrics(request: Request, token: str, public: bool) -> bool:
    """Return whether a request may read the metrics.

    Args:
        request: The request.
        token: Token of the settings, "" for none. With a token nothing else counts, since a proxy
            that adds no header makes every client look local.
        public: Whether this is a public deployment, where nobody may read them without a token.
    """
    if token:
        authorization = request.headers.get("authorization", "")
        given = (
            authorization[len(_BEARER_PREFIX) :]
            if authorization.lower().startswith(_BEARER_PREFIX)
            else ""
        )
        # Constant time, so that the token cannot be guessed from response times.
        return hmac.compare_digest(given.encode(), token.encode())
    passed_on = any(
        name.startswith("x-forwarded") or name in _PROXY_HEADERS for name in request.headers
    )
    host = request.client.host if request.client else ""
    return not public and not passed_on and host in _LOOPBACK_HOSTS


def routes(count_rooms: Callable[[], tuple[int, int]]) -> list[Route]:
    """Return the /metrics route.

    Args:
        count_rooms: returns the numbers of open classrooms and of people in them.
    """
    numbers = MetricsCollector(count_rooms)

    def all_told(accept: str) -> tuple[bytes, str]:
        collect_reports(run_counters.REPLICA_REPORTS)
        return render_metrics(numbers, accept)

    async def send_metrics(request: Request) -> Response:
        if not can_read_metrics(request, SETTINGS.metrics_token, SETTINGS.public):
            return PlainTextResponse("Not found", 404)
        accept = request.headers.get("accept", "")
        body, media = await run_in_threadpool(all_told, accept)
        return Response(body, media_type=media, headers={"Cache-Control": "no-store"})

    return [Route("/metrics", send_metrics)]
