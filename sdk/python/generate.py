"""Writes what is derived: types from the description of the API, and the synchronous client from the other.

    python3 generate.py            writes src/sebbroker/_types.py and src/sebbroker/_sync
    python3 generate.py --check    fails if they are stale
"""

from __future__ import annotations

import gzip
import json
import keyword
import pathlib
import re
import sys
import textwrap
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGE = HERE / "src" / "sebbroker"

# Types that the client names; those that they mention follow.
TYPES = """
Event EventStored Produced Stored StoredRecord Topic GroupOffset OffsetEntry OffsetResults PartitionResult
DryRun Explanation Firing Firings Trigger TriggerSpec TriggerStored
Message MessageResult MessageResults Queue QueueMessage QueueMessages QueueSpec Redriven Schedule ScheduleSpec
Settlement Stats
""".split()

PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


class Types:
    def __init__(self, schemas: dict[str, Any]) -> None:
        self.schemas, self.wanted = schemas, list(TYPES)
        self.done: set[str] = set()

    def annotation(self, s: dict[str, Any]) -> str:
        text = self.plain(s)
        return f"{text} | None" if s.get("nullable") and text != "Any" else text

    def plain(self, s: dict[str, Any]) -> str:
        if "$ref" in s:
            name = str(s["$ref"]).rpartition("/")[2]
            if "properties" not in self.schemas[name]:
                return "Code" if name == "Code" else self.annotation(self.schemas[name])
            self.wanted.append(name)
            return name
        for kind in ("allOf", "oneOf", "anyOf"):
            if kind in s:
                return " | ".join(dict.fromkeys(self.annotation(x) for x in s[kind]))
        if "enum" in s:
            return f"Literal[{', '.join(json.dumps(v) for v in s['enum'])}]"
        if s.get("type") == "array":
            return f"list[{self.annotation(s['items'])}]"
        if s.get("type") == "object":
            value = s.get("additionalProperties", True)
            return f"dict[str, {self.annotation(value) if isinstance(value, dict) else 'Any'}]"
        return PLAIN.get(str(s.get("type")), "Any")

    def write(self) -> str:
        text = ""
        while self.wanted:
            name = self.wanted.pop(0)
            if name in self.done:
                continue
            self.done.add(name)
            schema = self.schemas[name]
            text += self.definition(name, schema)
        return text

    def definition(self, name: str, schema: dict[str, Any]) -> str:
        """Returns the class of a schema. Required members are those of a base class, because Python 3.10 has no
        NotRequired; members that are words of Python, such as from, are those of another one."""
        required = [m for m in schema["properties"] if m in schema.get("required", ())]
        optional = [m for m in schema["properties"] if m not in required]
        doc, text, bases = comment(schema.get("description", ""), "# "), "", []
        reserved = {m: self.annotation(schema["properties"][m]) for m in required if keyword.iskeyword(m)}
        if reserved:
            bases = [f"_{name}Reserved"]
            text += f"\n\n{bases[0]} = TypedDict({json.dumps(bases[0])}, {json.dumps(reserved)})\n"
        for members, own, total in ((required, f"_{name}" if optional else name, ""), (optional, name, ", total=False")):
            if members:
                head = f"class {own}({', '.join(bases or ['TypedDict'])}{total}):\n"
                text += "\n\n" + (doc if own == name else "") + head + self.members(schema, members)
                bases = [own]
        return text

    def members(self, schema: dict[str, Any], names: list[str]) -> str:
        text = ""
        for name in names:
            s = schema["properties"][name]
            if not keyword.iskeyword(name):
                text += comment(s.get("description", ""), "    # ") + f"    {name}: {self.annotation(s)}\n"
        return text


def comment(text: str, prefix: str) -> str:
    return "".join(line + "\n" for line in textwrap.wrap(" ".join(text.split()), 116, initial_indent=prefix, subsequent_indent=prefix))


def types() -> str:
    spec = json.loads(gzip.decompress((ROOT / "internal/protocols/httpapi/openapi.json.gz").read_bytes()))
    codes = re.findall(r'^\t\w+ +Code = "(\w+)"', (ROOT / "api/codes.go").read_text(), re.M)
    listed = ["", *sorted(codes)]
    body = Types(spec["components"]["schemas"]).write()
    head = '"""Types of the API, as TypedDicts. Written by generate.py."""\n\nfrom __future__ import annotations\n\n'
    head += "from typing import Any, Literal, TypedDict\n\n"
    head += "# Stable names of errors. A newer broker may have others.\nCode = Literal[\n"
    return head + "".join(f'    "{code}",\n' for code in listed) + "]\n" + body


NAMES = {
    "aclose": "close", "aread": "read", "aiter_bytes": "iter_bytes", "_async": "_sync", "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__", "__aexit__": "__exit__", "__aiter__": "__iter__", "__anext__": "__next__",
    "IsolatedAsyncioTestCase": "TestCase", "asyncSetUp": "setUp", "asyncTearDown": "tearDown",
}


def to_sync(text: str) -> str:
    """Returns the synchronous form of a module: without async and await, and with the names of that form."""
    text = re.sub(r"\b(async|await) ", "", text)
    text = re.sub(r"\bAsync(?=[A-Z])", "", text)
    return re.sub(r"\b\w+\b", lambda m: NAMES.get(m[0], m[0]), text)


def run_sync(file: str, namespace: dict[str, Any]) -> None:
    """Runs the synchronous form of a module: tests and the conformance command are written once, too."""
    source = to_sync(pathlib.Path(file).read_text()).replace("SYNC = False", "SYNC = True")
    exec(compile(source, file + " --sync", "exec"), namespace)


def outputs() -> dict[pathlib.Path, str]:
    files = {PACKAGE / "_types.py": types()}
    for source in sorted((PACKAGE / "_async").glob("*.py")):
        if source.name not in ("platform.py", "__init__.py"):
            head = f"# Written by generate.py from _async/{source.name}.\n"
            files[PACKAGE / "_sync" / source.name] = head + to_sync(source.read_text())
    return files


def main() -> None:
    stale = [p for p, text in outputs().items() if not p.exists() or p.read_text() != text]
    if "--check" in sys.argv and stale:
        sys.exit("stale: " + " ".join(str(p.relative_to(HERE)) for p in stale) + ": run python3 generate.py")
    for p in stale:
        p.write_text(outputs()[p])


if __name__ == "__main__":
    main()
