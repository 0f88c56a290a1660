"""What GET /metrics costs: a scrape from time to time, beside a list of sandboxes in the same run."""

import re
import time

import requests
from harness import KEY, Server
from rows import both, mid, repeat


def timed(session, url, headers=None):
    began = time.perf_counter()
    answer = session.get(url, headers=headers, timeout=60)
    took = time.perf_counter() - began
    assert answer.status_code == 200, answer.text
    return took


def metrics(b):
    server = Server(b.engine, POOL=0, METRICS_LISTEN="127.0.0.1:0")
    try:
        server.start()
        url = re.search(r"metrics at (\S+)", server.tail(1 << 16))[1]
        session, n = requests.Session(), b.n(100, 20)
        limit = repeat(n, 0.05, lambda: timed(session, server.url + "/v1/sandboxes", {"X-API-Key": KEY}))
        ours = repeat(n, 0.05, lambda: timed(session, url))
        b.row("GET /metrics", f"{both(limit)} (a list)", both(ours), "<= 5 ms", mid(ours) <= 0.005, list=mid(limit), metrics=mid(ours))
    finally:
        server.end()
        server.remove()


ROWS = {"metrics": metrics}
