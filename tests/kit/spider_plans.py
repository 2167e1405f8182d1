"""Plans of random spiders: what requests ask for, servers answer and callbacks do.
Under Scrapy alone, the outcome of each request depends only on the plan, not on the order in which
responses arrive. So any two crawls of a plan must have the same results.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any

HOSTS = ("one.test", "two.test", "three.test")
RETRY_TIMES = 2

Reply = int | str
"""A status, or `drop`, `never` (no response), `self` (redirect to itself), `moved` (to a page)."""


@dataclass(frozen=True)
class Node:
    """One request of a plan, known by its tag whatever its URL.

    Parameters
    ----------
    path
        a path of its own, or with `dont_filter` one that it may share with others.
    jar
        the cookie jar of the request; `logs_in` says that the server sets its session.
    replies
        what the server does at the first, second, ... request for the tag; the last for all more.
    middleware
        what a downloader middleware does with the request: "ignore", "answer" or "replace" it.
    style
        of the callback: "generator", "async generator", "coroutine" or "list".
    blocks, awaits
        seconds for which the callback holds the event loop, and sleeps without holding it.
    opens, waits_for
        names of events that the callback sets when it is done, and waits for.
    retries, polls
        how often the callback asks for the page again, by `get_retry_request` and with
        `dont_filter`; what follows is done at the last answer.
    n_items, children
        what the callback yields, and after that `inline` with `engine.download_async`.
    pushed
        children that it does not yield but hands to `engine.crawl`.
    raises_after
        of how many outputs the callback fails; `recovery` is what a spider middleware yields then.
    on_failure
        requests that the errback yields; None: there is no errback.
    """

    tag: int
    host: str
    path: str
    method: str = "GET"
    body: str = ""
    dont_filter: bool = False
    priority: int = 0
    jar: int | None = None
    logs_in: bool = False
    replies: tuple[Reply, ...] = (200,)
    middleware: str = ""
    style: str = "generator"
    blocks: float = 0.0
    awaits: float = 0.0
    opens: str = ""
    waits_for: str = ""
    retries: int = 0
    polls: int = 0
    n_items: int = 1
    children: tuple[int, ...] = ()
    pushed: tuple[int, ...] = ()
    inline: int | None = None
    raises_after: int | None = None
    recovery: int | None = None
    on_failure: tuple[int, ...] | None = ()


@dataclass(frozen=True)
class Plan:
    """A spider: its nodes by tag, the tags that `start()` yields and that it asks for when idle.

    Parameters
    ----------
    stops_after
        with a job directory: the run after which so many callbacks is stopped, run by run; the
        run after the last is left to end. Empty: it is never stopped.
    """

    seed: int
    nodes: dict[int, Node]
    starts: tuple[int, ...]
    when_idle: tuple[int, ...]
    settings: dict[str, Any]
    resumes: bool = False
    stops_after: tuple[int, ...] = ()

    def as_json(self):
        return {**asdict(self), "nodes": [asdict(node) for node in self.nodes.values()]}

    @classmethod
    def from_json(cls, plan):
        nodes = [
            Node(**{key: _frozen(value) for key, value in node.items()}) for node in plan["nodes"]
        ]
        rest = {key: _frozen(value) for key, value in plan.items() if key != "nodes"}
        return cls(nodes={node.tag: node for node in nodes}, **rest)


def _frozen(value):
    return tuple(value) if isinstance(value, list) else value


def draw_plan(seed, *, n_nodes=None, resumes=None):
    """Return the plan of a seed, by default with 8 to 40 nodes."""
    choose = random.Random(seed)
    if resumes is None:
        resumes = choose.random() < 0.4
    stops = ()
    n_nodes = n_nodes or choose.randint(8, 40)
    if resumes and choose.random() < 0.8:
        stops = tuple(choose.randint(1, n_nodes // 2 + 1) for _ in range(choose.randint(1, 3)))
    draft = _Draft(choose, n_nodes, stops=bool(stops))
    return Plan(
        seed=seed,
        nodes=draft.nodes,
        starts=tuple(draft.starts),
        when_idle=tuple(draft.when_idle),
        settings=_settings(choose),
        resumes=resumes,
        stops_after=stops,
    )


def _settings(choose):
    return {
        "CONCURRENT_REQUESTS": choose.choice((1, 2, 16)),
        "CONCURRENT_REQUESTS_PER_DOMAIN": choose.choice((1, 8, 8)),
        "CONCURRENT_ITEMS": choose.choice((1, 100)),
        "DOWNLOAD_DELAY": choose.choice((0, 0, 0, 0, 0.01)),
        "RETRY_ENABLED": True,
        "RETRY_TIMES": RETRY_TIMES,
        "ORDERING": choose.choice(
            ("opic", "opic", "breadth-first", "depth-first", "random", "backlink-count")
        ),
        # How long a site is left alone after a 503 is not under test here.
        "CRAWLPRIO_MAX_BACK_OFF": 0.02,
    }


@dataclass
class _Draft:
    """Draws the nodes of a plan, parents before children."""

    choose: random.Random
    n_nodes: int
    stops: bool
    nodes: dict[int, Node] = field(default_factory=dict)
    starts: list[int] = field(default_factory=list)
    when_idle: list[int] = field(default_factory=list)
    _n_events: int = 0

    def __post_init__(self):
        choose = self.choose
        for _ in range(choose.randint(1, 6)):
            self.starts.append(self._request())
        for _ in range(choose.choice((0, 0, 0, 1, 3))):
            self.when_idle.append(self._request(dont_filter=False))
        waiting = [*self.starts, *self.when_idle]
        choose.shuffle(waiting)
        while waiting:
            waiting += self._grow(waiting.pop(0))
        self._double_some_links()

    def _request(self, *, parent=None, dont_filter=None):
        """Draw what a request asks for and how its server answers; return its tag."""
        choose = self.choose
        tag = len(self.nodes) + 1
        if dont_filter is None:
            dont_filter = choose.random() < 0.5
        method = "POST" if choose.random() < 0.15 else "GET"
        is_shared = dont_filter and choose.random() < 0.6
        jar = None if parent is None else parent.jar
        logs_in = jar is None and choose.random() < 0.15
        self.nodes[tag] = Node(
            tag=tag,
            host=choose.choice(HOSTS),
            path=f"/shared/{choose.randint(0, 2)}" if is_shared else f"/page/{tag}",
            method=method,
            body=f"tag={tag}" if method == "POST" and not is_shared else "",
            dont_filter=dont_filter,
            priority=choose.choice((0, 0, 0, 0, -2, 1, 3)),
            jar=tag if logs_in else jar,
            logs_in=logs_in,
            replies=self._replies(),
            middleware=choose.choice(("",) * 20 + ("ignore", "answer", "replace")),
        )
        return tag

    def _replies(self):
        drawn = self.choose.random()
        if drawn < 0.62:
            return (200,)
        if drawn < 0.65:
            return ("never",)
        return self.choose.choice(
            (
                (503, 200),
                (503, 503, 200),
                (503, 503, 503),
                ("drop", 200),
                ("drop", "drop", "drop"),
                ("drop", 503, 200),
                (404,),
                (500, "self", 200),
                ("self", 200),
                ("self", "self", 200),
                ("self", 503, 200),
                ("moved", 200),
                ("moved", 503, 200),
                ("moved", "self", 200),
            )
        )

    def _grow(self, tag):
        """Draw what the callback of a request does; return the tags of the requests it makes."""
        choose, node = self.choose, self.nodes[tag]
        room = self.n_nodes - len(self.nodes)
        n_children = min(choose.choice((0, 0, 1, 2, 3, 5, 8)), room)
        if tag in self.starts and tag == self.starts[-1]:
            n_children = max(n_children, min(room, 5))
        children = [self._request(parent=node) for _ in range(n_children)]
        pushed = [child for child in children if choose.random() < 0.1]
        styles = ("async generator", "coroutine")
        if not node.waits_for:
            styles += ("generator", "generator", "list")
        style = choose.choice(styles)
        is_async = style in ("async generator", "coroutine")
        inline = None
        if is_async and choose.random() < 0.1:
            inline = self._request(dont_filter=True)
            # Callbacks that run concurrently would make it together, each before it has a session.
            self._change(
                inline,
                jar=None,
                logs_in=False,
                replies=choose.choice(((200,), (503, 200), (404,), ("moved", 200))),
            )
        changes = {
            "style": style,
            "blocks": choose.choice((0, 0, 0, 0, 0, 0.001, 0.02, 0.06)),
            "awaits": choose.choice((0, 0, 0, 0.02, 0.15)) if is_async else 0,
            "retries": choose.choice((0, 0, 0, 0, 1, 3)),
            "polls": choose.choice((0, 0, 0, 0, 1, 3)),
            "n_items": choose.choice((0, 1, 1, 2)),
            "children": tuple(child for child in children if child not in pushed),
            "pushed": tuple(pushed),
            "inline": inline,
        }
        if choose.random() < 0.1 and not node.opens:
            changes["raises_after"] = choose.randint(0, changes["n_items"] + len(children))
            if choose.random() < 0.3 and len(self.nodes) < self.n_nodes:
                changes["recovery"] = self._request(dont_filter=False)
        if choose.random() < 0.3:
            changes["on_failure"] = None
        elif choose.random() < 0.2 and len(self.nodes) < self.n_nodes:
            changes["on_failure"] = (self._request(parent=node),)
        self._change(tag, **changes)
        self._let_one_wait_for_another(changes["children"])
        made = [*children, *(changes.get("on_failure") or ())]
        if changes.get("recovery") is not None:
            made.append(changes["recovery"])
        return made

    def _let_one_wait_for_another(self, children):
        """Make the callback of one child wait for that of another, which is certain to be called.

        A crawl that is stopped would wait forever, because the other is no longer fetched.
        """
        if self.stops or len(children) < 2 or self.choose.random() > 0.3:
            return
        # The callback that yields both may fail after the first one.
        first, last = sorted(self.choose.sample(children, 2))
        self._n_events += 1
        event = f"event {self._n_events}"
        self._change(first, opens=event, replies=(200,), middleware="")
        self._change(last, waits_for=event)

    def _double_some_links(self):
        """Make duplicates: a second callback yields some of the same pages."""
        for node in list(self.nodes.values()):
            links = [
                tag
                for tag, other in self.nodes.items()
                # Its session, if any, exists only after its own parent was seen.
                if not other.dont_filter and not other.waits_for and other.jar in (None, tag)
            ]
            if links and self.choose.random() < 0.15:
                more = self.choose.choice(links)
                self._change(node.tag, children=(*self.nodes[node.tag].children, more))

    def _change(self, tag, **changes):
        self.nodes[tag] = Node(**{**asdict(self.nodes[tag]), **changes})
