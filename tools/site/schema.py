"""The reference of a TOML document from its JSON Schema: a section for each table, with its keys."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]

#: Units by the end of a key's name, longest first.
UNITS = {
    "_mbps": "Mb/s",
    "_kbps": "kb/s",
    "_bytes": "bytes",
    "_packets": "packets",
    "_segments": "segments",
    "_slots": "slots",
    "_ppm": "10⁻⁶",
    "_mps": "m/s",
    "_dbm": "dBm",
    "_ghz": "GHz",
    "_db": "dB",
    "_kb": "kB",
    "_ms": "ms",
    "_us": "µs",
    "_s": "s",
    "_m": "m",
}
HEAD = "| key | type and values | default | unit | meaning |\n|---|---|---|---|---|\n"
#: A type in the singular, alone or as the text of a link.
PLURAL = re.compile(r"^(\[?(?:list|table|string|number|integer))(?=\b)")
#: The largest integers of TOML and of 32 bits are no limits that a reader needs.
NO_LIMITS = (2**32 - 1, 2**63 - 1, 2**64 - 1)


@dataclass
class Reference:
    """A page that is being written."""

    name: str
    definitions: dict[str, Schema]
    #: Definitions with their headings, in the order of their first use.
    waiting: list[tuple[str, str, Schema]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def link(self, definition: str, path: str) -> str:
        """A link to the section of a definition, which is written later under the path of its first use."""
        if definition not in self.known:
            self.known.add(definition)
            self.waiting.append((definition, path, self.definitions[definition]))
        return f"#{self.name}-{definition.lower()}"

    def type_of(self, schema: Schema, path: str) -> str:
        """The type of a value with its range."""
        if reference := schema.get("$ref"):
            definition = str(reference).removeprefix("#/$defs/")
            target = self.link(definition, path)
            constants = constants_of(self.definitions[definition])
            if 0 < len(constants) <= 6:
                return f"[{' or '.join(map(code, constants))}]({target})"
            return f"[{self.kind(self.definitions[definition])}]({target})"
        if "const" in schema:
            return code(schema["const"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return " or ".join(self.type_of(choice, path) for choice in schema[union])
        match schema["type"]:
            case "array":
                return "list of " + PLURAL.sub(r"\1s", self.type_of(schema["items"], path))
            case "object" if "properties" in schema:
                self.definitions[path] = schema
                return f"[table]({self.link(path, path)})"
            case "object":
                return "table"
            case kind:
                return f"{kind}{range_of(schema)}"

    def kind(self, schema: Schema) -> str:
        """What a definition is, in a word or a few."""
        kinds: list[str] = []
        for choice in schema.get("oneOf") or schema.get("anyOf") or [schema]:
            if reference := choice.get("$ref"):
                kinds.append(self.kind(self.definitions[str(reference).removeprefix("#/$defs/")]))
            elif "const" in choice:
                kinds.append("name")
            else:
                kinds.append({"object": "table", "array": "list"}.get(choice["type"], choice["type"]))
        return " or ".join(dict.fromkeys(kinds))

    def row(self, key: str, schema: Schema, path: str, *, required: bool) -> str:
        """The row of a key."""
        if "const" in schema:
            default = "required"
        elif required:
            default = "**required**"
        elif "default" in schema:
            default = default_of(schema["default"])
        else:
            default = "none"
        meaning = cell(schema.get("description", ""))
        if schema.get("x-off") is not None:
            meaning += f" Off: `{schema['x-off']:g}`."
        kind = self.type_of(schema, f"{path}.{key}".lstrip("."))
        return f"| `{key}` | {cell(kind)} | {default} | {unit_of(key)} | {meaning} |\n"

    def table(self, schema: Schema, path: str) -> str:
        """The keys of a table."""
        needed = schema.get("required", [])
        rows = [self.row(key, value, path, required=key in needed) for key, value in schema["properties"].items()]
        return f":::{{container}} keys\n{HEAD}{''.join(rows)}:::\n"

    def section(self, definition: str, path: str, schema: Schema) -> str:
        """The section of a definition: a table, kinds of a table, or a value."""
        text = f"({self.name}-{definition.lower()})=\n## {heading(path)}\n{schema.get('description', '')}\n\n"
        if "properties" in schema:
            return text + self.table(schema, path)
        choices = schema.get("oneOf") or schema.get("anyOf") or [schema]
        for choice in choices:
            tags = [(key, value["const"]) for key, value in choice.get("properties", {}).items() if "const" in value]
            if tags:
                key, value = tags[0]
                text += f"### {heading(path)} with {key} = {code(value)}\n{choice.get('description', '')}\n\n"
                text += self.table(choice, path) + "\n"
            else:
                kind = self.type_of(choice, path)
                text += f"- {kind}: {choice.get('description', '')}\n".replace(": \n", "\n")
        return text


def constants_of(schema: Schema) -> list[str]:
    """The values of a definition that is a choice of strings."""
    choices = schema.get("oneOf", [])
    return [choice["const"] for choice in choices] if all("const" in choice for choice in choices) else []


def range_of(schema: Schema) -> str:
    """The range of a number, or the length of a text."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if high in NO_LIMITS:
        high = None
    above = "over" if "exclusiveMinimum" in schema else "from"
    parts = []
    if low is not None:
        parts.append(f"{above} {low:,g}" if isinstance(low, float) else f"{above} {low:,}")
    if high is not None:
        below = "under" if "exclusiveMaximum" in schema else "to"
        parts.append(f"{below} {high:,.15g}" if isinstance(high, float) else f"{below} {high:,}")
    if "maxLength" in schema:
        parts.append(f"of at most {schema['maxLength']} bytes")
    return f" {' '.join(parts)}" if parts else ""


def default_of(value: object) -> str:
    """A default as TOML."""
    if isinstance(value, dict):
        return "its defaults" if value else "empty"
    if isinstance(value, float):
        return f"`{value:.6g}`"
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def unit_of(key: str) -> str:
    """The unit in a key's name."""
    return next((unit for end, unit in UNITS.items() if key.endswith(end)), "")


def code(value: object) -> str:
    """A constant as in TOML."""
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def heading(path: str) -> str:
    """The place of a table in a document."""
    return f"`{path}`"


def cell(text: str) -> str:
    """A text in a cell of a table."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def page(name: str, title: str, introduction: str, schema: Schema) -> str:
    """The page of a document's keys."""
    reference = Reference(name, schema["$defs"])
    sections = [reference.table(schema, "")]
    while reference.waiting:
        sections.append(reference.section(*reference.waiting.pop(0)))
    unused = schema["$defs"].keys() - reference.known
    if unused:
        raise ValueError(f"{name}: no key leads to {', '.join(sorted(unused))}")
    return f"# {title}\n{introduction}\n\n" + "\n".join(sections)
