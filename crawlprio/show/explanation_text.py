"""Explanations in words, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crawlprio.measure.receipt_document import duration

MOST_PARTS = 12
"""Parts shown of each sum; JSON has all."""


def lines_of_head(head: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that show the head of the frontier."""
    yield (
        f"{head['waiting']:,} pages wait after {head['after_visits']:,} visits. By "
        f"{head['ordering']}, the next are, if no site has to wait:"
    )
    for number, page in enumerate(head["head"], 1):
        yield f"{number:>3}  {page['key']:<12.6g} {page['url']}"
        yield f"     {reasons(page)}"
    if head["forbidden"]:
        yield f"Pages before them that robots.txt forbids, left out: {head['forbidden']:,}"


def lines_of_url(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that explain a URL."""
    if found["state"] == "unknown":
        yield from _of_unknown(found)
        return
    yield f"{found['url']} {_became(found)}"
    for visit in found.get("visits", ()):
        yield f"  {_visit(visit)}"
    if "brought" in found:
        brought = found["brought"]
        yield f"  Links in it: {brought['links']:,}, to new pages: {brought['new_pages']:,}."
    yield from _found(found)
    then = found.get("then", found)
    if "key" in then:
        yield from _of_key(then, then["ordering"], was="then" in found)
    if "site" in found:
        yield from _of_site(found["site"], found["place"])
        if "rule" not in found:
            yield _turn(found)


def _became(found: Mapping[str, Any]) -> str:
    """Return what became of a page, to follow its URL."""
    if found["state"] == "refused":
        return f"was refused: {_rule(found)}. It waits for a run that may fetch it."
    if found["state"] == "dropped":
        return f"was dropped: {_rule(found)}. Another link brings it back."
    if found["state"] == "failed":
        again = "" if "then" in found else " The next run asks for it again."
        return f"could not be fetched: {found['because']}.{again}"
    if "rule" in found:
        return f"waits, but would be refused: {_rule(found)}."
    return {
        "waiting": "waits.",
        "in-flight": "is being fetched, or was when the crawl was killed.",
        "fetched": "was fetched.",
    }[found["state"]]


def _visit(visit: Mapping[str, Any]) -> str:
    when = f" at {visit['fetched_at']}" if visit["fetched_at"] else ""
    got = visit["error"] or f"status {visit['status']}"
    took = f", {visit['bytes']:,} bytes in {visit['seconds']:.2f} s"
    is_empty = visit["error"] and not visit["bytes"] and visit["seconds"] < 0.005
    return f"Visit {visit['visit']:,}{when}: {got}{'' if is_empty else took}."


def _found(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a page was found and which pages link to it."""
    if found["is_seed"]:
        yield "  It is a seed."
    elif found["found_by"]:
        yield f"  It was found on {found['found_by']}."
    n, urls = found["linked_by"], found["linking"]
    linked = "linked to it before it was fetched" if "then" in found else "link to it"
    yield f"  Fetched pages that {linked}: {n:,}"
    yield from (f"    {url}" for url in urls)
    if n > len(urls):
        yield f"    and {n - len(urls):,} more"


def _of_key(then: Mapping[str, Any], ordering: str, *, was: bool) -> Iterator[str]:
    place = then["place"]
    hot = ", in the hot queue" if then["hot"] else ""
    priority = f", at priority {then['priority']}" if then["priority"] else ""
    put_off = ", put off as a likely repeat" if then["put_off"] else ""
    came, had = ("was", "had") if was else ("is", "has")
    yield (
        f"  It {came} number {place['n_before'] + 1:,} of {place['n_waiting']:,} waiting pages"
        f"{hot}{priority}{put_off}. By {ordering}, it {had} the key:"
    )
    yield from _of_part(then["explanation"], "    ")
    if was and place["n_before"]:
        yield "  Pages before it were being fetched, or their sites were busy or in their delay."


def _of_part(part: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield a part and what it is made of; of many parts the largest."""
    factor = f" ({part['factor']:.6g} x the sum)" if part.get("factor", 1.0) != 1.0 else ""
    page = f": {part['page']}" if "page" in part else ""
    yield f"{indent}{part['amount']:<12.6g} {part['what']}{factor}{page}"
    parts = part.get("parts", ())
    largest = sorted(parts, key=lambda inner: -abs(inner["amount"]))[:MOST_PARTS]
    for inner in largest:
        yield from _of_part(inner, indent + "  ")
    if len(parts) > len(largest):
        rest = sum(inner["amount"] for inner in parts) - sum(each["amount"] for each in largest)
        yield f"{indent}  {rest:<12.6g} {len(parts) - len(largest):,} smaller parts"


def _of_site(site: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[str]:
    n_before, n_waiting = place["n_before_on_site"], place["n_waiting_on_site"]
    asks = f", of which robots.txt asks for {site['crawl_delay']:g}" if site["crawl_delay"] else ""
    yield (
        f"  On {site['host']}, {site['fetched']:,} pages were fetched and {n_waiting:,} wait, "
        f"{n_before:,} before it; {site['delay_seconds']:g} s between fetches{asks}."
    )
    if site["refusals"]:
        yield (
            f"  The site asked for a pause {site['refusals']:,} times in a row; "
            f"{duration(site['paused_seconds'])} of it are left."
        )


def _turn(found: Mapping[str, Any]) -> str:
    """Return when the turn of a waiting page could come."""
    soonest = found["site"]["not_before_seconds"]
    when = f"in {duration(soonest)}" if soonest >= 1.0 else "at once"
    return (
        f"  Its turn could come {when}, if the crawl goes on and nothing better is found"
        f"{_if_allowed(found)}."
    )


def _of_unknown(found: Mapping[str, Any]) -> Iterator[str]:
    url, linking, rules = found["url"], found["linking"], found["rules"]
    if not linking:
        yield f"{url} is not known: no fetched page has a recorded link to it."
    else:
        n = found["linked_by"]
        yield f"{url} is not known. Fetched pages with a link to it that was not followed: {n:,}"
        for link in linking:
            yield f"  {link['url']}" + (f" ({link['anchor'][:80]})" if link["anchor"] else "")
        if n > len(linking):
            yield f"  and {n - len(linking):,} more"
    would = "was" if linking else "would be"
    named = [_rule(rule) for rule in rules]
    if len(named) == 1:
        yield f"It {would} refused: {named[0]}."
    elif named:
        yield f"It {would} refused by one of these rules: {'; '.join(named)}."
    elif not found["scope_is_known"]:
        yield "The store does not say which links its spider follows."
    elif linking:
        yield f"No rule of this crawl refuses it now{_if_allowed(found)}."
    else:
        yield f"No rule of this crawl refuses it: a link would be enough{_if_allowed(found)}."


def _if_allowed(found: Mapping[str, Any]) -> str:
    """Return the condition on what a store does not say, or nothing."""
    return "" if found["robots_are_known"] else ", if its robots.txt allows it"


def reasons(page: Mapping[str, Any]) -> str:
    """Return why a page is at the head, in a few words."""
    found = []
    if page["in_flight"]:
        found.append("being fetched, or was when the crawl was killed")
    if page["priority"]:
        found.append(f"priority {page['priority']}")
    if page["put_off"]:
        found.append("put off as a likely repeat")
    if page["hot"]:
        found.append("in the hot queue")
    if page["refused"]:
        found.append(f"so far {page['refused']}")
    found.append(f"fetched pages that link to it: {page['linked_by']:,}")
    found.append(f"found on {page['found_by']}" if page["found_by"] else "a seed, or asked for")
    return "; ".join(found)


def _rule(found: Mapping[str, Any]) -> str:
    """Return a rule, with the setting that it comes from."""
    return f"{found['rule']} ({found['setting']})" if found["setting"] else str(found["rule"])
