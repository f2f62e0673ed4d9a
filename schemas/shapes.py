"""The part of Avro that the contract uses, as values: what a schema file becomes before anything is made of it.

Records of string, bytes, int, long, fixed, enum, array and flat record. A union, a map, a logical type or a
recursive schema cannot be said here and is refused while the package is loaded.
"""

from typing import Any, Final, NamedTuple

ENUM_SYMBOLS_MAX: Final = 64
"""As many as have an index of one byte."""
PRIMITIVES: Final = frozenset({"string", "bytes", "int", "long"})


class UnsupportedSchemaError(ValueError):
    """A schema outside the part of Avro that is known here."""


class Shape(NamedTuple):
    """A type; what does not belong to its kind is empty."""

    kind: str
    name: str = ""
    size: int = 0
    symbols: tuple[str, ...] = ()
    items: tuple["Shape", ...] = ()
    """The item's shape, for an array."""
    fields: tuple["Field", ...] = ()

    def reads(self, written: "Shape") -> bool:
        """Say whether values of `written` are values of this: the same, a wider number, an enum with more symbols."""
        if self.kind == "long" and written.kind == "int":
            return True
        if self.kind == "enum" and written.kind == "enum":
            return set(written.symbols) <= set(self.symbols)
        if self.kind == "array" and written.kind == "array":
            return self.items[0].reads(written.items[0])
        return self == written


class Field(NamedTuple):
    """A record's field."""

    name: str
    shape: Shape
    default: tuple[Any, ...] = ()
    """The default as a decoded value, alone in a tuple; empty where there is none."""


def shape_of(schema: Any) -> Shape:  # noqa: ANN401 - JSON as fastavro parsed it
    """Return the shape of a parsed schema; raise UnsupportedSchemaError where it has none."""
    return _shape(schema, {})


def _shape(schema: Any, named: dict[str, Shape]) -> Shape:  # noqa: ANN401 - JSON
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return Shape(schema)
        if schema in named:
            return named[schema]
    if not isinstance(schema, dict) or "logicalType" in schema:
        raise UnsupportedSchemaError(f"{schema!r} is not in the part of Avro that is used here")
    if schema["type"] == "array":
        return Shape("array", items=(_shape(schema["items"], named),))
    if schema["type"] in ("fixed", "enum", "record"):
        shape = _named_shape(schema, named)
        named[shape.name] = shape  # only once it is whole: in a recursive record it is an unknown name
        return shape
    return _shape(schema["type"], named)


def _named_shape(schema: dict[str, Any], named: dict[str, Shape]) -> Shape:
    kind, name = schema["type"], schema["name"]
    if kind == "fixed":
        return Shape(kind, name, size=schema["size"])
    if kind == "record":
        return Shape(kind, name, fields=tuple(_field(field, named) for field in schema["fields"]))
    if len(schema["symbols"]) > ENUM_SYMBOLS_MAX:
        raise UnsupportedSchemaError(f"{name} has more than {ENUM_SYMBOLS_MAX} symbols")
    return Shape(kind, name, symbols=tuple(schema["symbols"]))


def _field(field: dict[str, Any], named: dict[str, Shape]) -> Field:
    shape = _shape(field["type"], named)
    if "default" not in field:
        return Field(field["name"], shape)
    value = field["default"]  # JSON has neither bytes nor tuples
    if shape.kind in ("bytes", "fixed"):
        value = value.encode("latin-1")
    if shape.kind == "array" and value:
        raise UnsupportedSchemaError(f"{field['name']}: only an empty array is a default here")
    return Field(field["name"], shape, (() if shape.kind == "array" else value,))
