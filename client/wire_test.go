package client_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
)

// TestTypesAreThoseOfTheWire: answers are decoded straight into the client's types, so their members must be those that
// the broker writes.
func TestTypesAreThoseOfTheWire(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	partition := api.Partition{Partition: 1, StartOffset: 2, NextOffset: 3, LatestCommitAt: at, Records: 5, Bytes: 4}
	for _, c := range []struct {
		wire, ours any
		left       []string // members that the client has no use for
	}{
		{&partition, &client.Partition{}, nil},
		{
			&api.Topic{Name: "t", ID: "i", Partitions: []api.Partition{partition}, Settings: map[string]string{"a": "b"}, NextOffset: 3, LatestCommitAt: at},
			&client.Topic{},
			[]string{"next_offset", "latest_commit_at"},
		},
		{
			&api.Group{Group: "g", Lag: 5, Offsets: []api.GroupOffset{{
				Topic: "t", Partition: 1, Offset: 2, Metadata: "m", CommittedAt: at, StartOffset: 3, NextOffset: 4, Lag: 6,
			}}},
			&client.Group{},
			nil,
		},
	} {
		raw, err := json.Marshal(c.wire)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, c.ours); err != nil {
			t.Fatal(err)
		}
		back, err := json.Marshal(c.ours)
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]any
		if json.Unmarshal(raw, &want) != nil || json.Unmarshal(back, &got) != nil {
			t.Fatalf("%s, %s", raw, back)
		}
		maps.DeleteFunc(want, func(name string, _ any) bool { return slices.Contains(c.left, name) })
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%T: got %v, want %v", c.ours, got, want)
		}
	}
}
