"""Prints sentences of the project, drawn by a seed, for a person to read aloud.

    python tests/sample_sentences.py [--seed 1] [--docstrings 60] [--docs 30] [--errors 30]

Each line names where the sentence stands. A sentence is odd if nobody would say it, or if it cannot
be understood without the code.
"""

import argparse
import ast
import random
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATED = ("settings.md", "options.md", "commands.md", "results.md")


def docstrings():
    """Yield the first paragraph of each docstring, also of constants, with its place."""
    for path, tree in trees():
        for node in ast.walk(tree):
            is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if is_text and isinstance(node.value.value, str):
                text = node.value.value.strip().partition("\n\n")[0]
                yield f"{path}:{node.lineno}", " ".join(text.split())


def errors():
    """Yield the text of each error that is raised with one, with its place."""
    for path, tree in trees():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
                continue
            if node.exc.args and "Error" in ast.unparse(node.exc.func):
                text = said(node.exc.args[0])
                if text.count(" ") > 2:
                    yield f"{path}:{node.lineno}", text


def said(node):
    """Return a string expression as it would be shown, with names in place of values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(said, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"<{ast.unparse(node.value)}>"
    return ""


def sentences():
    """Yield each sentence of the pages that are written by hand, with its place."""
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]):
        if path.name in GENERATED:
            continue
        text = re.sub(r"```.*?```|^\s*[|#<].*?$", "", path.read_text("utf-8"), flags=re.M | re.S)
        for paragraph in text.split("\n\n"):
            for sentence in re.split(r"(?<=[.:?!])\s+(?=[A-Z*`])", " ".join(paragraph.split())):
                if sentence.count(" ") > 3:
                    yield path.relative_to(ROOT), sentence


def trees():
    for path in sorted((ROOT / "crawlprio").rglob("*.py")):
        yield path.relative_to(ROOT), ast.parse(path.read_text("utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    kinds = {"docstrings": (docstrings, 60), "docs": (sentences, 30), "errors": (errors, 30)}
    for name, (_, n) in kinds.items():
        parser.add_argument(f"--{name}", type=int, default=n)
    options = vars(parser.parse_args())
    draw = random.Random(options["seed"])
    for name, (of, _) in kinds.items():
        everything = list(of())
        print(f"\n{name}: {options[name]} of {len(everything):,}\n")
        for number, (place, text) in enumerate(draw.sample(everything, options[name]), 1):
            print(f"{number:3} {place}\n    {text}")


if __name__ == "__main__":
    main()
