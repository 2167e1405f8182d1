"""A download handler that sends every page to a loopback server, by crawlprio's own client."""

from crawlprio.live import private_networks
from crawlprio.live.http_handler import HttpHandler


class OwnLoopback(HttpHandler):
    """`LoopbackHandler` with the connections and the parser of `HttpHandler`."""

    async def _ask(self, plain, answer):
        host, _, port = self.crawler.settings["CRAWLPRIO_LOOPBACK"].partition(":")
        lines = plain.sent.split(b"\r\n")
        name = next(line[6:] for line in lines if line.lower().startswith(b"host: "))
        lines[0] = lines[0].replace(b" /", b" http://" + name + b"/", 1)
        private_networks._asker.set(None)  # as for a proxy, nothing is checked
        to_server = plain._replace(is_tls=False, host=host, port=int(port))
        return await super()._ask(to_server._replace(sent=b"\r\n".join(lines)), answer)
