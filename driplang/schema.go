package driplang

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema is a JSON Schema (2020-12) of the JSON form. What it accepts may still be refused for its meaning, such as a
// WITHIN that measures from nothing. The caller owns the slice.
func Schema() []byte { return slices.Clone(schema) }
