package rule

import (
	"bytes"
	"testing"

	"github.com/sebbroker/seb/record"
)

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte("ann"), []byte(`{"event":"A","entity_id":"ann","data":{"x":1},"id":"1","occurred_at":"2026-03-01T00:00:00Z"}`))
	f.Add([]byte("ann"), []byte(`{"event":"A"}`))
	f.Add([]byte(nil), []byte(`null`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := ParseEvent(key, value)
		if err != nil {
			return
		}
		if e.Name == "" || len(e.Name) > NameBytesMax || e.EntityID != string(key) || len(key) > EntityBytesMax || len(e.ID) > EventIDMax {
			t.Fatalf("%+v of key %q", e, key)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	r := Record{Kind: FiredRecord, Trigger: "t", Version: 1, Entity: "e", Topic: "events", Witness: []int64{1, 2}, At: 5, Cause: EventCause(0, 2), State: Pending}
	r.ID = MakeID(r.Trigger, r.Version, r.Entity, r.Cause).String()
	f.Add(r.Encode())
	for _, r := range []Record{
		{Kind: Tick},
		{Kind: Done, ID: r.ID, State: Dead},
		{Kind: Attempt, ID: r.ID, NextTry: 1, Outcome: []byte(`{}`)},
		{Kind: Retract, ID: r.ID, At: 1, Cause: DeadlineCause(1, 0)},
		{Kind: Resend, ID: r.ID},
	} {
		f.Add(r.Encode())
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, id, err := ParseRecord(value)
		if err != nil {
			return
		}
		again, id2, err := ParseRecord(r.Encode())
		if err != nil || id2 != id || !bytes.Equal(again.Encode(), r.Encode()) {
			t.Fatalf("%+v decodes as %+v, %v", r, again, err)
		}
		if r.Kind == FiredRecord && (r.Trigger == "" || r.Entity == "" || MakeID(r.Trigger, r.Version, r.Entity, r.Cause) != id) {
			t.Fatalf("%+v", r)
		}
	})
}

func TestCauses(t *testing.T) {
	cut, mark := Cut{Topic: "t", From: []int64{10, 20}, At: 100}, Mark{Offset: 15, At: 100}
	for _, c := range []struct {
		cause          string
		happened       int64
		behind, before bool
	}{
		{EventCause(0, 9), 101, false, true},
		{EventCause(0, 10), 101, true, true},
		{EventCause(0, 10), 100, false, true},
		{EventCause(1, 19), 101, false, false},
		{EventCause(1, 15), 101, false, false},
		{EventCause(1, 25), 99, false, true},
		{EventCause(2, 0), 101, true, true},
		{RecreatedEventCause(0, 9, record.ID{1}), 101, true, true},
		{RecreatedEventCause(0, 10, record.ID{1}), 100, false, true},
		{DeadlineCause(99, 0), 99, false, true},
		{DeadlineCause(100, 0), 100, false, false},
		{DeadlineCause(101, 0), 101, true, false},
		{StartCause(100, 1, 16), 100, false, false},
		{StartCause(100, 1, 15), 100, false, true},
		{StartCause(101, 1, 3), 101, true, true},
	} {
		if cut.After(c.cause, "t", c.happened) != c.behind || Before(c.cause, c.happened, mark) != c.before {
			t.Errorf("%s at %d: after %v, before %v", c.cause, c.happened, cut.After(c.cause, "t", c.happened), Before(c.cause, c.happened, mark))
		}
	}
	if MakeID("a", 1, "bc", "d") == MakeID("ab", 1, "c", "d") {
		t.Error("two firings with one ID")
	}
}
