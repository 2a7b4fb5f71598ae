#!/usr/bin/env python3
"""Measure the structure of a checkout: its size, its rooms, the arrows between them, and one sentence's way through it.

    python tools/house.py [CHECKOUT] [--against OTHER] [--follow [--python PYTHON]]

prints a Markdown table, and below it lists of what to mend in CHECKOUT. With --against, the figures of OTHER stand
beside those of CHECKOUT, with the ratio of the second to the first.

What is counted:

- Sizes. Tracked files (`git ls-files`) of harness, baselines and distill. A function, also a method or an inner one, is
  as long as from `def` to its last line. Docstrings are those of modules, classes and functions, with their quotes.
- Parameters. All but `self` and `cls`; `*` and `**` are one each. More than 8 are allowed in Typer commands (by
  decorator or entry point), factories (entry points of encoders, what is given as `factory=`, and what `wraps`
  imitates), public API (what harness, harness.mining and harness.testing export) and loops that Numba compiles.
- Rooms. Every folder and every module directly in `harness`, and every other folder at the top, with all that lies
  below it. All tracked Python files but tests belong to a room: so `benchmarks` and `tools` are rooms, too.
- Arrows. An arrow is a pair of rooms of which the first imports the second, wherever the import stands (also in a
  function, or under TYPE_CHECKING). `from a import b` imports the module a.b if there is one, else a.
- Circles. The largest groups of modules, or of rooms, of which each reaches all others.
- Arrows up. Those that must go so that no circle of rooms remains: in turn the one that leaves the fewest rooms in
  circles, and of several the one of the fewest names. Without them a room stands one floor above the highest room that
  it imports; the ground is floor 1.
- One sentence followed. `run`, `compare` and `check` on one subset of the bundled sample, each in a process and with a
  cache of its own, the rows of two encoders stored before `compare`. Functions of the three packages that ran, bodies
  of classes included, lambdas, comprehensions and bodies of modules not; the files that hold them; and pairs of two
  that stand in different files, of which the first calls the second, itself or through a library.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGES = ("harness", "baselines", "distill")
PUBLIC = ("harness", "harness.mining", "harness.testing")
MAX_LINES = 400
MAX_PARAMETERS = 8

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
Reference = tuple[str, str]  # a module and a name in it
Arrow = tuple[str, str]
Graph = dict[str, set[str]]
Figures = dict[str, float]


@dataclass
class Module:
    """A Python file."""

    path: str
    text: str
    modules: set[str] = field(repr=False)  # all of the checkout

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def name(self) -> str:
        return dotted(self.path)

    @property
    def room(self) -> str:
        """Where it stands: a folder ends with a slash."""
        parts = self.path.split("/")
        depth = 2 if parts[0] == "harness" else 1
        return "/".join(parts[:depth]) + "/" * (len(parts) > depth)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def imports(self) -> list[tuple[str, Reference]]:
        """Imported names, with what each stands for; of a module itself the second part is empty."""
        pairs: list[tuple[str, Reference]] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                pairs += [(alias.asname or alias.name, (alias.name, "")) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                package = self.path.split("/")[: -node.level] if node.level else []
                base = ".".join([*package, *filter(None, [node.module])])
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    reference = (inner, "") if inner in self.modules else (base, alias.name)
                    pairs.append((alias.asname or alias.name, reference))
        return pairs

    @cached_property
    def imported(self) -> dict[str, Reference]:
        return dict(self.imports)

    def references(self, expression: ast.expr) -> Iterator[Reference]:
        """The definitions that an expression names, itself or by a variable that is another name of theirs."""
        names = {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
        assigned = [node for node in ast.walk(self.tree) if isinstance(node, ast.Assign)]
        values = [node.value for node in assigned if names & set(map(ast.unparse, node.targets))]
        aliases = [value for value in values if isinstance(value, (ast.Attribute, ast.IfExp))]
        for node in (node for each in [expression, *aliases] for node in ast.walk(each)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield self.imported.get(node.value.id, ("", ""))[0], node.attr
            elif isinstance(node, ast.Name):
                yield self.imported.get(node.id, (self.name, node.id))

    def factories(self) -> Iterator[Reference]:
        """What is given as `factory=`, or imitated by `wraps`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                values = [keyword.value for keyword in node.keywords if keyword.arg == "factory"]
                for value in values + (node.args if ast.unparse(node.func).endswith("wraps") else []):
                    yield from self.references(value)

    def exports(self) -> Iterator[Reference]:
        """The names in `__all__`; without it, all functions and classes whose names begin with no underscore."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names = ast.literal_eval(node.value)
                yield from (self.imported.get(name, (self.name, name)) for name in names)
                return
        names = [node.name for node in self.tree.body if isinstance(node, (*FUNCTION, ast.ClassDef))]
        yield from ((self.name, name) for name in names if not name.startswith("_"))

    @cached_property
    def compilers(self) -> set[str]:
        """The module's own names of Numba's decorators."""
        assigned = [node for node in self.tree.body if isinstance(node, ast.Assign)]
        return {ast.unparse(node.targets[0]) for node in assigned if "jit(" in ast.unparse(node.value)}


@dataclass
class Function:
    """A definition in a module."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef
    owner: str  # the class of a method

    @property
    def lines(self) -> int:
        return (self.node.end_lineno or 0) - self.node.lineno + 1

    @property
    def parameters(self) -> int:
        given = self.node.args
        names = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        return len([name for name in names if name not in ("self", "cls")]) + bool(given.vararg) + bool(given.kwarg)

    @property
    def is_decorated(self) -> bool:
        """As a Typer command, or as a compiled loop."""
        decorators = [ast.unparse(decorator) for decorator in self.node.decorator_list]
        is_compiled = any(name in self.module.compilers or "jit" in name.partition("(")[0] for name in decorators)
        return is_compiled or any(re.match(r"\w+\.(command|callback)\b", name) for name in decorators)

    def __str__(self) -> str:
        name = f"{self.owner}.{self.node.name}" if self.owner else self.node.name
        return f"{self.module.path}:{self.node.lineno} {name} ({self.parameters})"


class Checkout:
    """The tracked Python files of a folder, but for its tests."""

    def __init__(self, root: Path):
        self.root = root
        listed = subprocess.check_output(["git", "-C", str(root), "ls-files", "*/*.py"], text=True).splitlines()
        paths = [path for path in listed if not path.startswith("tests/") and (root / path).is_file()]
        names = {dotted(path) for path in paths}
        self.modules = {dotted(path): Module(path, (root / path).read_text("utf-8"), names) for path in paths}
        self.sources = [module for module in self.modules.values() if module.path.split("/")[0] in PACKAGES]
        self.imports: Graph = {
            name: {other for _, (other, _) in module.imports} & names - {name} for name, module in self.modules.items()
        }

    @cached_property
    def arrows(self) -> Counter[Arrow]:
        """With the number of names that each stands for."""
        arrows: Counter[Arrow] = Counter()
        for module in self.modules.values():
            rooms = [self.modules[name].room for _, (name, _) in module.imports if name in self.modules]
            arrows.update((module.room, room) for room in rooms if room != module.room)
        return arrows

    @property
    def rooms(self) -> Graph:
        """Each with the rooms that it imports."""
        rooms: Graph = {module.room: set() for module in self.modules.values()}
        for room, other in self.arrows:
            rooms[room].add(other)
        return rooms

    @cached_property
    def arrows_up(self) -> list[Arrow]:
        """The arrows that close circles of rooms."""
        rooms, up = self.rooms, []
        while groups := circles(rooms):
            arrows = [(room, other) for group in groups for room in group for other in rooms[room] & group]
            worst = min(arrows, key=lambda arrow: (in_circles_without(rooms, arrow), self.arrows[arrow], arrow))
            rooms[worst[0]].remove(worst[1])
            up.append(worst)
        return up

    @property
    def floors(self) -> int:
        """The number of the highest one."""
        rooms = self.rooms
        for room, other in self.arrows_up:
            rooms[room].remove(other)
        height: dict[str, int] = {}
        while ready := [room for room in rooms if room not in height and rooms[room] <= height.keys()]:
            height |= {room: 1 + max((height[other] for other in rooms[room]), default=0) for room in ready}
        return max(height.values(), default=0)

    @cached_property
    def functions(self) -> list[Function]:
        return [
            Function(module, node, owner.name if isinstance(owner, ast.ClassDef) else "")
            for module in self.sources
            for owner in ast.walk(module.tree)
            for node in ast.iter_child_nodes(owner)
            if isinstance(node, FUNCTION)
        ]

    def many_parameters(self) -> tuple[list[Function], list[Function]]:
        """The functions that may have more than 8 parameters and do, and all others that do."""
        allowed: set[Reference] = set()
        if (file := self.root / "pyproject.toml").is_file():
            groups = tomllib.loads(file.read_text("utf-8")).get("project", {}).get("entry-points", {})
            points = {**groups.get("harness.commands", {}), **groups.get("harness.encoders", {})}.values()
            allowed |= {(module, name) for module, _, name in (point.partition(":") for point in points)}
        for module in self.sources:
            allowed.update(module.factories())
        for name in self.modules.keys() & set(PUBLIC):
            allowed.update(self.modules[name].exports())
        lists: tuple[list[Function], list[Function]] = ([], [])
        for function in self.functions:
            if function.parameters > MAX_PARAMETERS:
                definition = (function.module.name, function.owner or function.node.name)
                lists[not (function.is_decorated or definition in allowed)].append(function)
        return lists

    @cached_property
    def lists(self) -> dict[str, list[str]]:
        """What is to be mended, but for the allowed functions."""
        allowed, others = self.many_parameters()
        long = sorted((module for module in self.sources if module.lines > MAX_LINES), key=lambda module: -module.lines)
        return {
            f"modules over {MAX_LINES} lines": [f"{module.path} ({module.lines})" for module in long],
            f"functions of more than {MAX_PARAMETERS} parameters, allowed": list(map(str, allowed)),
            f"functions of more than {MAX_PARAMETERS} parameters, others": list(map(str, others)),
            "arrows up": [f"{room} -> {other}" for room, other in self.arrows_up],
            "circles of rooms": [", ".join(sorted(circle)) for circle in circles(self.rooms)],
            "circles of modules": [", ".join(sorted(circle)) for circle in circles(self.imports)],
        }

    def figures(self) -> Figures:
        """The rows of the table."""
        nodes = [node for module in self.sources for node in ast.walk(module.tree)]
        lines = sum(module.lines for module in self.sources)
        lengths = sorted(function.lines for function in self.functions) or [0]
        return {
            "Python files": len(self.sources),
            "lines": lines,
            "docstring lines, %": round(100 * sum(map(docstring_lines, nodes)) / max(1, lines), 1),
            "classes": sum(isinstance(node, ast.ClassDef) for node in nodes),
            "functions": len(self.functions),
            "length of a function, median": median_low(lengths),
            "length of a function, 90th percentile": lengths[9 * len(lengths) // 10],
            "`dict[str, Any]`": sum(module.text.count("dict[str, Any]") for module in self.sources),
            "rooms": len(self.rooms),
            "floors": self.floors,
            "arrows between rooms": len(self.arrows),
            "arrows of harness, baselines and distill alone": sum(is_inside(*arrow) for arrow in self.arrows),
            **{name: len(items) for name, items in self.lists.items()},
        }


def dotted(path: str) -> str:
    """The name of the module in a file."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def is_inside(*rooms: str) -> bool:
    """Whether all rooms belong to the three packages."""
    return all(room.split("/")[0] in PACKAGES for room in rooms)


def docstring_lines(node: ast.AST) -> int:
    """Of a node of the syntax tree; 0 for one that cannot have any."""
    if not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTION)) or ast.get_docstring(node) is None:
        return 0
    return (node.body[0].end_lineno or 0) - node.body[0].lineno + 1


def circles(graph: Graph) -> list[set[str]]:
    """The groups of more than one node that all reach each other."""
    reached: Graph = {}
    for node in graph:
        reached[node], ahead = set(), [node]
        while ahead:
            new = graph[ahead.pop()] - reached[node]
            reached[node] |= new
            ahead += new
    groups = {frozenset(other for other in reached[node] if node in reached[other]) for node in graph}
    return [set(group) for group in sorted(groups, key=sorted) if len(group) > 1]


def in_circles_without(graph: Graph, arrow: Arrow) -> int:
    """How many rooms stand in circles if an arrow goes."""
    return sum(map(len, circles({**graph, arrow[0]: graph[arrow[0]] - {arrow[1]}})))


def follow(root: Path, python: str) -> Figures:
    """The files, the functions and the calls between files of the three commands, each traced while it runs."""
    with tempfile.TemporaryDirectory() as folder:

        def run(cache: str, *arguments: str) -> dict[str, int]:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("HARNESS_")}
            environment |= {"PYTHONPATH": str(root), "HARNESS_CACHE": str(Path(folder, cache))}
            command = [python, __file__, "--trace", str(root), "trace.json", *arguments, "--task", "sts17"]
            command += ["--subset", "en-de@sample"]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"leaderboard {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
            counts: dict[str, int] = json.loads(Path(folder, "trace.json").read_text("utf-8"))
            return counts

        board = ("--results", "board")
        traces = {"run": run("run", "run", "--suite", "sample", "--encoder", "chargrams", *board)}
        run("run", "run", "--suite", "sample", "--encoder", "student", *board)
        traces["compare"] = run("compare", "compare", "chargrams", "student", *board)
        traces["check"] = run("check", "check", "--against", "board", "--encoder", "chargrams")
    return {f"`{name}`: {what}": n for name, figures in traces.items() for what, n in figures.items()}


def trace(root: Path, out: Path, arguments: list[str]) -> None:
    """Run the command line, and write what of the project it enters to a JSON file."""
    inside = tuple(f"{root / package}{os.sep}" for package in PACKAGES)
    functions: set[tuple[str, int, str]] = set()
    calls: set[tuple[tuple[str, int, str], ...]] = set()

    def definition(frame: FrameType) -> tuple[str, int, str]:
        return frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_code.co_name

    def watch(frame: FrameType, event: str, _: Any) -> None:
        called = definition(frame)
        if event != "call" or called[2].startswith("<") or not called[0].startswith(inside):
            return
        functions.add(called)
        caller = frame.f_back
        while caller and not caller.f_code.co_filename.startswith(inside):
            caller = caller.f_back
        if caller and caller.f_code.co_filename != called[0]:
            calls.add((definition(caller), called))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        from harness.cli import main

        main(arguments)
    finally:
        sys.setprofile(None)
        files = {file for file, _, _ in functions}
        counts = {"files entered": len(files), "functions entered": len(functions), "calls between files": len(calls)}
        out.write_text(json.dumps(counts), "utf-8")


def table(columns: dict[str, Figures]) -> str:
    """As Markdown; with the ratio of the second column to the first, if there are two."""
    first, *others = columns.values()
    rows = [["", *columns, *["ratio"] * len(others)], ["---", *["---:"] * (len(columns) + len(others))]]
    for name, number in first.items():
        ratios = [f"{other[name] / number:.2f}" if number else "" for other in others]
        rows.append([name, *(f"{figures[name]:,}" for figures in columns.values()), *ratios])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(), help="default: the current folder")
    parser.add_argument("--against", type=Path, metavar="OTHER", help="another checkout, for the first column")
    parser.add_argument("--follow", action="store_true", help="run three commands, and count what they enter")
    parser.add_argument("--python", default=sys.executable, help="for --follow: one that has the project's packages")
    given = parser.parse_args()
    checkouts = [Checkout(folder.resolve()) for folder in (given.against, given.checkout) if folder]
    columns = {}
    for checkout in checkouts:
        followed = follow(checkout.root, given.python) if given.follow else {}
        columns[str(checkout.root)] = {**checkout.figures(), **followed}
    print(table(columns))
    for title, items in checkouts[-1].lists.items():
        print(f"\n{title[0].upper()}{title[1:]}: {len(items) or 'none'}", *(f"- {item}" for item in items), sep="\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--trace"]:
        trace(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
    else:
        main()
