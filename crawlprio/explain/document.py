"""Explanations as documents: of the head of the frontier, and of one URL."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from crawlprio.errors import StoreError
from crawlprio.explain.past import Past, Policy
from crawlprio.explain.refused import why_unknown
from crawlprio.explain.sites import site_of
from crawlprio.frontier.records import WAITING
from crawlprio.frontier.replaying import FIRST
from crawlprio.orderings.explaining import Part
from crawlprio.pages import NO_PAGE, Visit
from crawlprio.receipt.rules import SETTING_OF
from crawlprio.store import Store
from crawlprio.store.outcomes import failure_of, is_refusal
from crawlprio.web.urls import canonical, normalise_url

N_HEAD = 20
"""Pages of the head of the frontier."""

N_LINKING = 10
"""Pages named that link to a page; the others are counted."""


def explain_head(path: str | Path, policy: Policy, most: int = N_HEAD) -> dict[str, Any]:
    """Return the pages that a crawl fetches next, if no site has to wait, each with its key.

    Raises
    ------
    CrawlprioError
        If the store cannot be read, has no crawl, or its ordering cannot be made.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        _check_crawl(store)
        past = Past(store, policy)
        past.replay(until_fetched=False)
        queue, n_waiting = past.queue, len(past.queue)
        head = list(islice(past.head(), most))
        urls = past.urls([*head, *past.found_by[head].tolist()])
        return {
            **_crawl(store, past),
            "waiting": n_waiting,
            "head": [
                {
                    "url": urls[page],
                    "key": float(queue.page_records["key"][page]),
                    **_tier(past, page),
                    "linked_by": int(past.n_linking[page]),
                    "found_by": urls.get(int(past.found_by[page])),
                    "refused": past.refused.get(page),
                }
                for page in head
            ],
        }


def explain_url(path: str | Path, policy: Policy, url: str) -> dict[str, Any]:
    """Return what became of a URL in a crawl, and why; `state` says what.

    It is `waiting`, `in-flight`, `fetched`, `failed`, `refused`, `dropped` or `unknown`.

    Raises
    ------
    CrawlprioError
        As `explain_head`.
    """
    with Store.open(path, readonly=True) as store, store.snapshot():
        _check_crawl(store)
        normal = normalise_url(url)
        page = store.find_page(dict.fromkeys((url, normal or url, canonical(normal or url))))
        if page == NO_PAGE:
            return {"url": url, "state": "unknown", **why_unknown(store, policy, normal or url)}
        visits = store.visits_of(page)
        fetches = [
            (seq, visit) for seq, visit in visits if not is_refusal(visit.status, visit.error)
        ]
        if fetches:
            return _of_fetched(store, policy, page, fetches)
        return _of_waiting(store, policy, page, visits)


def _of_fetched(
    store: Store, policy: Policy, page: int, fetches: list[tuple[int, Visit]]
) -> dict[str, Any]:
    """Return what is known of a page that was fetched: when, why then, and what it brought."""
    first, visit = fetches[0]
    names = [name for begin, name in store.orderings() if begin <= first]
    past = Past(store, policy, page, names[-1] if names else "")
    past.replay(until_fetched=True)
    n_known = int(past.queue.ordering.n_pages)
    failure = failure_of(fetches[-1][1])
    return {
        **_page(store, past, page),
        "state": "failed" if failure else "fetched",
        **({"because": failure} if failure else {}),
        "visits": [_visit(seq, each) for seq, each in fetches],
        "brought": {
            "links": len(visit.targets),
            "new_pages": int((visit.targets >= n_known).sum()),
        },
        "then": {
            "ordering": names[-1] if names else None,
            **(_key(past, page) if past.queue.state(page) == WAITING else {}),
        },
    }


def _of_waiting(
    store: Store, policy: Policy, page: int, refusals: list[tuple[int, Visit]]
) -> dict[str, Any]:
    """Return what is known of a page that was not fetched."""
    past = Past(store, policy, page)
    past.replay(until_fetched=False)
    found = _page(store, past, page)
    if past.queue.state(page) != WAITING:
        setting = "CRAWLPRIO_MAX_WAITING"
        return {**found, "state": "dropped", "rule": "no room", "setting": setting}
    found["state"] = "in-flight" if _tier(past, page)["in_flight"] else "waiting"
    if refusals:
        rule = refusals[-1][1].error.partition(" (")[0]
        found |= {
            "state": "refused",
            "rule": rule,
            "setting": SETTING_OF.get(rule.partition(":")[0]),
            "visits": [_visit(seq, visit) for seq, visit in refusals],
        }
    key = _key(past, page)
    site = site_of(past, page, key["place"]["n_before_on_site"], time.time())
    return found | key | {"site": site}


def _check_crawl(store: Store) -> None:
    if not store.n_pages:
        raise StoreError(f"{store.path} has no crawl: no page is known; start one first.")


def _crawl(store: Store, past: Past) -> dict[str, Any]:
    names = [name for _, name in store.orderings()]
    return {"ordering": names[-1] if names else None, "after_visits": past.n_visits}


def _page(store: Store, past: Past, page: int) -> dict[str, Any]:
    """Return who a page is, and which pages link to it that were visited before it, or at all."""
    ((url, _),) = store.read_urls([page])
    linking = list(dict.fromkeys(past.linking))
    urls = past.urls(linking[:N_LINKING])
    found_by = int(past.found_by[page])
    return {
        "url": url,
        **_crawl(store, past),
        "is_seed": page in past.seeds,
        "found_by": past.urls([found_by]).get(found_by),
        "linked_by": len(linking),
        "linking": [urls[source] for source in linking[:N_LINKING]],
    }


def _tier(past: Past, page: int) -> dict[str, Any]:
    """Return the request priority of a page, and whether it is hot, in flight or put off."""
    tier = past.queue.usual_tier(page)
    is_first = tier // 2 == FIRST
    return {
        "priority": 0 if is_first else tier // 2,
        "hot": bool(tier % 2),
        "in_flight": is_first,
        "put_off": past.queue.is_put_off(page),
    }


def _key(past: Past, page: int) -> dict[str, Any]:
    """Return the key of a page, how it came about, and its place."""
    key = float(past.queue.page_records["key"][page])
    part = past.ordering.explain(page) if page < past.ordering.n_pages else Part("its key", key)
    if part.amount != key or not part.adds_up():
        part = Part("its key", key)
    tier = _tier(past, page)
    place = past.place(page)
    return {
        "key": key,
        "explanation": _json(part, past.urls(_pages_of(part))),
        **tier,
        "place": place._asdict(),
    }


def _json(part: Part, urls: Mapping[int, str]) -> dict[str, Any]:
    """Return a part for JSON."""
    found: dict[str, Any] = {"what": part.what, "amount": part.amount}
    if part.page != NO_PAGE:
        found["page"] = urls[part.page]
    if part.parts:
        found |= {"factor": part.factor, "parts": [_json(inner, urls) for inner in part.parts]}
    return found


def _pages_of(part: Part) -> list[int]:
    return [part.page, *(page for inner in part.parts for page in _pages_of(inner))]


def _visit(seq: int, visit: Visit) -> dict[str, Any]:
    moment = datetime.fromtimestamp(visit.fetched_at, UTC) if 0 < visit.fetched_at < 4e9 else None
    return {
        "visit": seq,
        "status": visit.status,
        "error": visit.error,
        "title": visit.title,
        "fetched_at": moment and moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": visit.elapsed,
        "bytes": visit.n_bytes,
    }
