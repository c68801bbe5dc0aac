package input_test

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/test/jsonsuite"
)

// TestJSONTestSuite: the decoder of everything that manages a broker.
func TestJSONTestSuite(t *testing.T) {
	const repeated = "a member is given twice"
	jsonsuite.Check(t, jsonsuite.All(t), func(text string) error {
		var v any
		return input.JSON([]byte(text), &v, input.NullIsAbsent)
	}, map[string]string{
		"y_object_duplicated_key": repeated, "y_object_duplicated_key_and_value": repeated,
		"i_structure_UTF-8_BOM_empty_object": "a byte order mark is ignored",
		// Syntax only: a member that is a whole number refuses what it cannot hold.
		"i_number_double_huge_neg_exp": "accepted", "i_number_real_underflow": "accepted", "i_number_too_big_neg_int": "accepted",
		"i_number_too_big_pos_int": "accepted", "i_number_very_big_negative_int": "accepted",
	})
}
