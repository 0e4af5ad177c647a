"""JSON Schema checks."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorers.schema import Unusable, _plainly_valid, violations

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.5, 1.0, "a", "b"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "enum": st.lists(st.sampled_from(["a", 1]), min_size=1),
            "description": st.just("text"),
            "minimum": st.integers(0, 1),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "properties": st.dictionaries(st.sampled_from("ab"), inner),
            "required": st.lists(st.sampled_from("ab"), unique=True),
            "additionalProperties": st.booleans(),
            "items": inner,
        },
    ),
    max_leaves=4,
)


@given(SCHEMAS, VALUES)
def test_the_short_way_agrees_with_the_validator(schema, value):
    """What the short way accepts the validator accepts: the answer is always the latter's."""
    valid = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert not _plainly_valid(schema, value) or valid
    assert (violations(schema, value) == []) == (valid or schema == {})


@pytest.mark.parametrize(
    "schema", [{"$ref": "http://127.0.0.1:9/schema.json"}, {"type": "str"}, {"pattern": "("}]
)
def test_a_schema_that_cannot_be_used(schema):
    """A reference that leads outside, an unknown type, a broken pattern are said so."""
    with pytest.raises(Unusable):
        violations(schema, "text")
