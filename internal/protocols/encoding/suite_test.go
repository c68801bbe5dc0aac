package encoding

import (
	"errors"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/jsonsuite"
)

// faultOf reads all records of a source.
func faultOf(s Source) error {
	for n := 0; ; n++ {
		rec, p := s.Next()
		switch {
		case p != nil:
			return p
		case rec == nil && n != 1:
			return errors.New("not one record")
		case rec == nil:
			return nil
		}
	}
}

// TestJSONTestSuite: events keep any JSON in their data, and records any string in their value. Lines
// end at a newline, so texts with one are left out of NDJSON.
func TestJSONTestSuite(t *testing.T) {
	all := jsonsuite.All(t)
	var lines, texts []jsonsuite.Case
	for _, c := range all {
		if !strings.ContainsAny(c.Text, "\n") {
			lines = append(lines, c)
		}
		if inside, ok := strings.CutPrefix(c.Text, "["); ok && strings.Contains(c.Name, "_string_") && strings.HasSuffix(inside, "]") {
			texts = append(texts, jsonsuite.Case{Name: c.Name, Text: strings.TrimSuffix(inside, "]")})
		}
	}
	const (
		half   = "data is stored as it is, and this is UTF-8"
		number = "a number is stored as its digits"
	)
	events := map[string]string{
		"i_string_1st_surrogate_but_2nd_missing": half, "i_string_1st_valid_surrogate_2nd_invalid": half, "i_string_incomplete_surrogate_and_escape_valid": half,
		"i_string_incomplete_surrogate_pair": half, "i_string_incomplete_surrogates_escape_valid": half, "i_string_invalid_lonely_surrogate": half,
		"i_string_invalid_surrogate": half, "i_string_inverted_surrogates_U+1D11E": half, "i_string_lone_second_surrogate": half, "i_object_key_lone_2nd_surrogate": half,
		"i_number_double_huge_neg_exp": number, "i_number_huge_exp": number, "i_number_neg_int_huge_exp": number, "i_number_pos_double_huge_exp": number,
		"i_number_real_neg_overflow": number, "i_number_real_pos_overflow": number, "i_number_real_underflow": number, "i_number_too_big_neg_int": number,
		"i_number_too_big_pos_int": number, "i_number_very_big_negative_int": number,
	}
	event := func(lines bool) func(string) error {
		return func(text string) error {
			return faultOf(NewEventBody([]byte(`{"event":"e","entity_id":"1","data":{"x":`+text+`}}`), testNow, lines))
		}
	}
	t.Run("event", func(t *testing.T) { jsonsuite.Check(t, all, event(false), events) })
	t.Run("events on lines", func(t *testing.T) { jsonsuite.Check(t, lines, event(true), events) })
	t.Run("record", func(t *testing.T) {
		jsonsuite.Check(t, texts, func(text string) error { return faultOf(NewJSON([]byte(`{"value":`+text+`}`), testNow)) }, nil)
	})
	t.Run("records on lines", func(t *testing.T) {
		jsonsuite.Check(t, texts, func(text string) error { return faultOf(NewNDJSON([]byte(`{"value":`+text+`}`), testNow)) }, nil)
	})
	t.Run("records of atomic requests", func(t *testing.T) {
		jsonsuite.Check(t, texts, func(text string) error {
			return faultOf(NewAtomic([]byte(`{"topic":"t","value":`+text+`}`), testNow, nil))
		}, nil)
	})
	t.Run("events of atomic requests", func(t *testing.T) {
		jsonsuite.Check(t, lines, func(text string) error {
			return faultOf(NewAtomic([]byte(`{"event":"e","entity_id":"1","data":{"x":`+text+`}}`), testNow, nil))
		}, events)
	})
	t.Run("record as an answer", func(t *testing.T) {
		jsonsuite.Check(t, texts, func(text string) error {
			_, p := ParseRecord([]byte(`{"offset":1,"value":` + text + `}`))
			if p != nil {
				return p
			}
			return nil
		}, nil)
	})
}
