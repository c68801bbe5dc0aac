package rule

import (
	"bytes"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/must"
)

func FuzzParseDefinition(f *testing.F) {
	e := must.Get(driplang.Parse("A THEN (NOT B WITHIN 7 days)"))(f)
	d := Definition{ID: "t", Version: 1, Expr: e, From: []int64{1, 2}, At: 5, Deliver: []byte(`{"x":1}`)}.WithDefaults()
	value := must.Get(d.Encode())(f)
	f.Add([]byte("t"), value)
	f.Add([]byte("t"), []byte(`{"id":"t","version":1,"expr":{"event":"A"},"fire":"reset","on_retract":"notify"}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		d, err := ParseDefinition(key, value)
		if err != nil {
			return
		}
		text, err := d.Encode()
		must.NoErrorf(t, err, "%+v", d)
		again, err := ParseDefinition(key, text)
		if err != nil || !again.SameResults(&d) {
			t.Fatalf("%s decodes as %+v: %v", text, again, err)
		}
		if other, _ := again.Encode(); !bytes.Equal(text, other) {
			t.Fatalf("%s\n%s", text, other)
		}
		if d.Expr.Normal() == nil {
			t.Fatalf("no expression: %s", text)
		}
	})
}

func FuzzRow(f *testing.F) {
	for _, w := range []Row{{}, {State: []byte{1, 2}, Last: -5, Flags: True | Fired}, {Retractable: [16]byte{1}, Flags: Completed}} {
		f.Add(w.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var w, again Row
		if err := w.Decode(data, 7); err != nil {
			return
		}
		if err := again.Decode(w.Append(nil), 7); err != nil || !bytes.Equal(again.Append(nil), w.Append(nil)) || again.Due != 7 {
			t.Fatalf("%+v decodes as %+v, %v", w, again, err)
		}
	})
}
