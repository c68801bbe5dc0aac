package riemann

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/riemanntest"
)

// transcoded walks and transcodes a message, and returns its records.
func transcoded(t testing.TB, b []byte) (m message, recs []record.Record, err error) {
	t.Helper()
	if m, err = walk(b); err != nil || m.events == 0 {
		return m, nil, err
	}
	buf := make([]byte, 0, m.room())
	data, sum := transcode(b, buf, 77)
	must.Equalf(t, &data[0], &buf[:1][0], "%d bytes of batches do not fit into the room of %d", len(data), m.room())
	checked, err := record.Check(data, record.Limits{BatchBytes: 1 << 30, DecompressedBytes: 1 << 30})
	if err != nil || checked != sum || sum.Records != m.events {
		t.Fatalf("batches: %v; %+v, want %+v of %d events", err, checked, sum, m.events)
	}
	var r record.Reader
	r.Reset(data, 0)
	for r.Next() {
		rec := *r.Record()
		rec.Key, rec.Value = bytes.Clone(rec.Key), bytes.Clone(rec.Value)
		recs = append(recs, rec)
	}
	return m, recs, r.Err()
}

// compare compares the records of a message with a full decoding of it.
func compare(t *testing.T, b []byte) {
	t.Helper()
	want, query, decodes := riemanntest.Decode(b)
	m, recs, err := transcoded(t, b)
	if err != nil {
		for _, limit := range []string{"more than", "deeper than"} {
			if decodes == nil && strings.Contains(err.Error(), limit) {
				return
			}
		}
	}
	must.Equalf(t, err == nil, decodes == nil, "%x: %v, a full decoding: %v", b, err, decodes)
	if err != nil {
		return
	}
	if (query != nil) != m.hasQuery || query != nil && *query != string(m.query) {
		t.Fatalf("%x: query %q, want %v", b, m.query, query)
	}
	if len(want) != len(recs) {
		t.Fatalf("%x: %d records, want %d", b, len(recs), len(want))
	}
	for i := range recs {
		d := json.NewDecoder(bytes.NewReader(recs[i].Value))
		d.UseNumber()
		var got map[string]any
		if err := d.Decode(&got); err != nil {
			t.Fatalf("%x: event %d: %v: %s", b, i, err, recs[i].Value)
		}
		if keys := keysOf(t, recs[i].Value); len(keys) != len(slices.Compact(slices.Sorted(slices.Values(keys)))) {
			t.Fatalf("%x: event %d has a member twice: %q", b, i, keys)
		}
		if !reflect.DeepEqual(got, want[i]) || recs[i].Timestamp != 77 {
			t.Fatalf("%x: event %d: %v at %d, want %v at 77", b, i, got, recs[i].Timestamp, want[i])
		}
		if _, err := rule.ParseEvent(recs[i].Key, recs[i].Value); err != nil {
			t.Fatalf("%x: event %d is none for triggers: %v: %s", b, i, err, recs[i].Value)
		}
	}
}

// keysOf returns the names of the members of the data of an event, as often as they occur.
func keysOf(t *testing.T, value []byte) (keys []string) {
	t.Helper()
	var e struct{ Data json.RawMessage }
	must.NoError(t, json.Unmarshal(value, &e))
	d := json.NewDecoder(bytes.NewReader(e.Data))
	_, _ = d.Token()
	for d.More() {
		key, err := d.Token()
		var v json.RawMessage
		must.NoError(t, errors.Join(err, d.Decode(&v)))
		keys = append(keys, key.(string))
	}
	return keys
}
