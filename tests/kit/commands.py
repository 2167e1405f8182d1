"""Runs commands in this process, as `crawlprio` and as `scrapy`, without a new Python for each."""

import pytest
from scrapy import cmdline
from scrapy.settings import Settings

from crawlprio.commands.cli import main


def run_command(*words):
    """Run a command of `crawlprio`; return its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def refusal(capsys, *words):
    """Return the line with which a command of `crawlprio` refuses, with status 2 and no output."""
    capsys.readouterr()
    status = run_command(*words)
    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1), err
    return err


def run_scrapy_command(command, *words):
    """Run a command, named by the first word, by Scrapy's command line; return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cmdline, "_get_commands_dict", lambda *_: {str(words[0]): command()})
        with pytest.raises(SystemExit) as ended:
            cmdline.execute(["scrapy", *map(str, words)], settings=Settings())
    assert isinstance(ended.value.code, int)
    return ended.value.code
