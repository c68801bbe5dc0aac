package encoding

import (
	"bytes"
	"testing"

	"github.com/sebbroker/seb/test/sebtest"
)

// FuzzAtomic checks that a line of an atomic request means the same as a line of records with a topic, or of
// events, and that lines cause no large allocation.
func FuzzAtomic(f *testing.F) {
	for _, s := range lineSeeds {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"event":"e","entity_id":"\u00e9", "data":{"x":[1, 2]}}`))
	f.Add([]byte(`{"\u0065vent":"e","entity_id":"1"}`))
	f.Add([]byte(`{"queue":"q","value":"x","delay":"1s"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.ContainsAny(b, "\n\r") || bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
			return
		}
		sebtest.Allocates(t, 8*sebtest.DecoderBound(b), b, func() {
			for s := NewAtomic(bytes.Clone(b), testNow, []string{"delay"}); ; {
				if rec, p := s.Next(); rec == nil || p != nil {
					return
				}
			}
		})
		// the member topic before the others
		head, rest, _ := bytes.Cut(b, []byte("{"))
		named := bytes.Join([][]byte{head, []byte(`{"topic":"t",`), rest}, nil)
		if want, fault := all(t, NewNDJSON(bytes.Clone(b), testNow)); fault == nil && len(want) == 1 {
			s := NewAtomic(named, testNow, nil)
			got, fault := all(t, s)
			if fault != nil || len(got) != 1 || !sameRecord(got[0], want[0]) || s.Kind != RecordLine || s.Target() != "t" || s.Partition() != "" {
				t.Fatalf("%q with a topic: %v (%v), want %v", b, got, fault, want)
			}
		} else if got, fault := all(t, NewAtomic(named, testNow, nil)); fault == nil && len(got) == 1 && !bytes.Contains(b, []byte("partition")) {
			t.Fatalf("%q with a topic: %v, as a record %v", b, got, want)
		}
		want, wantFault := all(t, NewEventBody(bytes.Clone(b), testNow, true))
		s := NewAtomic(bytes.Clone(b), testNow, nil)
		got, fault := all(t, s)
		if wantFault == nil && len(want) == 1 && (fault != nil || s.Kind != EventLine || !sameRecord(got[0], want[0])) || wantFault != nil && fault == nil && s.Kind == EventLine {
			t.Fatalf("%q: %v (%v), as an event %v (%v)", b, got, fault, want, wantFault)
		}
	})
}
