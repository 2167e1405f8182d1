"""Link graphs in GraphML, read and written as a stream."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from crawlprio.errors import GraphError
from crawlprio.graph.linkgraph import LinkGraph, first_seen, gathered_rows, named_graph
from crawlprio.safe_files import open_file

if TYPE_CHECKING:
    from crawlprio.store.graph_files import Links

ATTRIBUTES = ("url", "site", "name")
"""Node attributes to read."""

NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")

NUMBER_TYPES = ("int", "long", "float", "double")


def read_graphml(path: Path, most_bytes: int | None = None) -> LinkGraph:
    """Read a directed GraphML graph, as `crawlprio links export`, NetworkX and igraph write it.

    Pages are numbered in the order in which the file first mentions their nodes. The node
    attributes `url` and `site` are read. Without `url`, the attribute `name` or else the node id is
    used, unless they are numbers (`7`, `n7`); without `site`, the host of the URL. Everything else
    is ignored. GraphError, with the line number, if the file is truncated or not XML, undirected or
    nested, has hyperedges or edges to undeclared nodes, or declares entities, with which a small
    file could fill memory.

    About 400,000 links per second. Memory: 8 bytes per link, and the attributes as Python strings.
    """
    reading = _Reading(path)
    try:
        with path.open("rb") as file:
            reading.parser.ParseFile(file)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise GraphError(
            f"{path}:{error.lineno}: not a complete XML file ({reason}); write it again."
        ) from None
    except (LookupError, ValueError) as error:
        raise GraphError(f"{path}:1: the encoding is unknown ({error}); use UTF-8.") from None
    except OSError as error:
        raise GraphError(f"{path} cannot be read: {error.strerror or error}.") from error
    return reading.graph()


def write_graphml(links: Links, path: Path) -> None:
    """Write a directed graph whose nodes are page ids, with URL and site, and anchors on edges."""
    pages = links.pages
    with open_file(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
            '<key id="url" for="node" attr.name="url" attr.type="string"/>\n'
            '<key id="site" for="node" attr.name="site" attr.type="string"/>\n'
            '<key id="anchor" for="edge" attr.name="anchor" attr.type="string"/>\n'
            '<graph edgedefault="directed">\n'
        )
        for page, site in enumerate(pages.sites.tolist()):
            url, host = _xml(pages.url(page)), _xml(pages.host(site))
            file.write(
                f'<node id="{page}"><data key="url">{url}</data>'
                f'<data key="site">{host}</data></node>\n'
            )
        for page, targets, anchors in links.rows():
            for target, anchor in zip(targets, anchors or [""] * len(targets), strict=True):
                text = f'<data key="anchor">{_xml(anchor)}</data>' if anchor else ""
                file.write(f'<edge source="{page}" target="{target}">{text}</edge>\n')
        file.write("</graph>\n</graphml>\n")


def _xml(text: str) -> str:
    """Return text for an XML element, without the characters that XML 1.0 cannot hold."""
    return escape(NOT_IN_XML.sub("\ufffd", text), {"\r": "&#13;"})


class _Reading:
    """The parser of one file, with what it has read so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.EntityDeclHandler = self.entity
        self.pages = first_seen()
        self.sources, self.targets = array("i"), array("i")
        self.undeclared: dict[int, int] = {}
        """Line of the first edge to each page that no node element has declared yet."""
        self.keys: dict[str, tuple[str, bool]] = {}
        """For each key id, the attribute it defines, and whether its values are numbers."""
        self.facts: dict[str, dict[int, Any]] = {name: {} for name in ATTRIBUTES}
        self.page = -1
        self.key = ""
        self.text: list[str] = []
        self.n_graphs = 0
        self.is_graphml = False

    def fault(self, sentence: str) -> GraphError:
        return GraphError(f"{self.path}:{self.parser.CurrentLineNumber}: {sentence}")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if name == "edge":
            self.edge(attributes)
        elif name == "node":
            self.node(attributes)
        elif name == "data":
            if self.page >= 0 and attributes.get("key") in self.keys:
                self.key = attributes["key"]
                self.text.clear()
                self.parser.CharacterDataHandler = self.text.append
        elif name == "key":
            title = attributes.get("attr.name", "")
            if attributes.get("for", "all") in ("node", "all") and title in ATTRIBUTES:
                is_number = attributes.get("attr.type") in NUMBER_TYPES
                self.keys[attributes.get("id", "")] = (title, is_number)
        elif name == "graph":
            self.n_graphs += 1
            if self.n_graphs > 1:
                raise self.fault("there is a second graph; give a file with only one.")
            if attributes.get("edgedefault", "directed") != "directed":
                raise self.fault("the graph is undirected; links have a direction.")
        elif name == "hyperedge":
            raise self.fault("there is a hyperedge; a link has two ends.")
        elif name == "graphml":
            self.is_graphml = True
        elif not self.is_graphml:
            raise self.fault(f"the file begins with <{name[:80]}>; expected <graphml>.")

    def end(self, name: str) -> None:
        if self.key:
            self.parser.CharacterDataHandler = None
            title, is_number = self.keys[self.key]
            text = "".join(self.text)
            self.facts[title][self.page] = self.number(title, text) if is_number else text
            self.key = ""
        elif self.page >= 0 and name.rpartition(":")[2] == "node":
            self.page = -1

    def entity(self, *declaration: object) -> None:
        raise self.fault("an entity is declared, which is not supported; expand it in the file.")

    def node(self, attributes: dict[str, str]) -> None:
        if "id" not in attributes:
            raise self.fault("a node has no id.")
        n_known = len(self.pages)
        self.page = self.pages[attributes["id"]]
        if self.page < n_known and self.undeclared.pop(self.page, None) is None:
            raise self.fault(f"node {attributes['id'][:80]!r} is declared a second time.")

    def edge(self, attributes: dict[str, str]) -> None:
        if "source" not in attributes or "target" not in attributes:
            raise self.fault("an edge has no source or no target.")
        if attributes.get("directed", "true") not in ("true", "1"):
            raise self.fault("an edge is undirected; links have a direction.")
        for name, ends in (("source", self.sources), ("target", self.targets)):
            n_known = len(self.pages)
            page = self.pages[attributes[name]]
            if page == n_known:
                self.undeclared[page] = self.parser.CurrentLineNumber
            ends.append(page)

    def number(self, title: str, text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise self.fault(f"{title} is {text[:80]!r}; its key declares a number.") from None

    def graph(self) -> LinkGraph:
        if self.n_graphs == 0:
            raise GraphError(f"{self.path} has no graph; expected <graph> in <graphml>.")
        names = list(self.pages)
        if self.undeclared:
            page, line = next(iter(self.undeclared.items()))
            raise GraphError(
                f"{self.path}:{line}: an edge refers to node {names[page][:80]!r}, "
                "which the file does not declare."
            )
        rows = gathered_rows(np.asarray(self.sources), np.asarray(self.targets), len(names))
        facts = {t: [f.get(p) for p in range(len(names))] for t, f in self.facts.items()}
        if all(isinstance(name, str) for name in facts["name"]):
            names = facts["name"]
        return named_graph(str(self.path), *rows, names, facts["url"], facts["site"])
