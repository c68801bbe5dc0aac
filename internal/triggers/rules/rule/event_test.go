package rule

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestOccurredAtLosesNoEvent(t *testing.T) {
	for value, want := range map[string]string{
		`"2026-03-01T12:00:00.5+01:00"`: "2026-03-01T11:00:00.5Z", `"2016-12-31t23:59:60z"`: "2017-01-01T00:00:00Z",
		`"0001-01-01T00:00:00Z"`: "0001-01-01T00:00:00Z",
		`"yesterday"`:            "", `"2026-03-01T12:00:00,5Z"`: "", `null`: "", `17`: "", `{"seconds":5}`: "", `""`: "",
	} {
		e, err := ParseEvent([]byte("u"), []byte(`{"event":"a","entity_id":"u","occurred_at":`+value+`}`))
		must.NoErrorf(t, err, "occurred_at %s", value)
		got := ""
		if !e.OccurredAt.IsZero() {
			got = e.OccurredAt.UTC().Format(time.RFC3339Nano)
		}
		check.Equalf(t, got, want, "occurred_at %s", value)
	}
	text := must.Get(json.Marshal(&Event{Name: "a", EntityID: "u"}))(t)
	check.Equalf(t, string(text), `{"event":"a","entity_id":"u"}`, "an event without a time")
}
