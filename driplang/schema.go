package driplang

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (2020-12) of the JSON form. ParseJSON can refuse documents that it
// accepts, such as a WITHIN without a starting point. The caller owns the slice.
func Schema() []byte { return slices.Clone(schema) }
