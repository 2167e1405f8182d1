"""A pytest plugin that writes the outcome of each test as a line of JSON: `[node id, outcome]`."""

import json
from pathlib import Path


def pytest_addoption(parser):
    parser.addoption("--outcomes", help="file for one line of JSON a test")


class Outcomes:
    """Keeps the worst outcome of the phases of each test."""

    _WORSE = ("passed", "skipped", "failed")

    def __init__(self, file):
        self._file = file
        self._outcomes = {}

    def pytest_runtest_logreport(self, report):
        outcome = report.outcome if report.outcome in self._WORSE else "passed"
        known = self._outcomes.get(report.nodeid, "passed")
        self._outcomes[report.nodeid] = max(outcome, known, key=self._WORSE.index)

    def pytest_sessionfinish(self):
        lines = [json.dumps(entry) + "\n" for entry in sorted(self._outcomes.items())]
        self._file.write_text("".join(lines))


def pytest_configure(config):
    # With pytest-xdist the main process hears of all tests.
    if config.getoption("--outcomes") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(config.getoption("--outcomes"))))
