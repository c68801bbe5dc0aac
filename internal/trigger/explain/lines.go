package explain

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// linesMax bounds the bytes of events in a file.
const linesMax = 256 << 20

// entitiesShown bounds the entities in an error.
const entitiesShown = 5

// ReadEvents adds the events of NDJSON, at most 256 MiB: one on each line that is not blank, in the
// order of the log. A line is
//
//	{"event","at","id"?,"data"?}                         an event of this question
//	{"event","entity_id","data"?,"id"?,"occurred_at"?}   as for `seb event -f`, from `seb consume`
//	{"partition","offset","timestamp","key","value"}     from `seb consume --format json`
//
// The time of an event is its "at", else the append time of its record ("timestamp"), else its
// "occurred_at". A record without a value erases the earlier events of its entity. entity selects
// the events of one entity; with "" all lines must be of one entity. Errors: *Fault, those of r.
func (q *Question) ReadEvents(r io.Reader, entity string) error {
	lines := &io.LimitedReader{R: r, N: linesMax + 1}
	text, err := io.ReadAll(lines)
	if err != nil {
		return err
	}
	if lines.N == 0 {
		return fault("", "more than %d bytes of events", linesMax)
	}
	n := 0
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := q.line(line, n); err != nil {
			return err
		}
		n++
	}
	return q.only(entity)
}

// line adds the event of a line; n is the number of the line among those that are not blank, from
// 0.
func (q *Question) line(text []byte, n int) error {
	var rec struct {
		Offset      *int64          `json:"offset"`
		Timestamp   *int64          `json:"timestamp"`
		Key         *string         `json:"key"`
		Value       *string         `json:"value"`
		ValueBase64 *string         `json:"value_base64"`
		Event       json.RawMessage `json:"event"`
	}
	// parseEvent reports an invalid line.
	if json.Unmarshal(text, &rec) != nil || rec.Offset == nil || rec.Event != nil {
		e, err := parseEvent(text, n, nil)
		if err == nil {
			q.Events = append(q.Events, e)
		}
		return err
	}
	switch {
	case rec.ValueBase64 != nil:
		return of(n, fault("value_base64", "binary value: not an event"))
	case rec.Value == nil && rec.Key != nil:
		q.Events = slices.DeleteFunc(q.Events, func(e Event) bool { return e.Entity == *rec.Key })
		return nil
	case rec.Value == nil:
		return of(n, fault("value", "missing"))
	}
	e, err := parseEvent([]byte(*rec.Value), n, rec.Timestamp)
	if err == nil {
		q.Events = append(q.Events, e)
	}
	return err
}

// only keeps the events of an entity, and those without one; "" is for a single entity.
func (q *Question) only(entity string) error {
	var all []string
	seen := map[string]bool{}
	for i := range q.Events {
		if e := q.Events[i].Entity; e != "" && !seen[e] {
			seen[e] = true
			all = append(all, e)
		}
	}
	switch {
	case entity == "" && len(all) > 1:
		return fault("entity_id", "the events are of %s: choose one", entities(all))
	case entity != "" && !seen[entity] && len(all) > 0:
		return fault("entity_id", "no event of %.100q; the events are of %s", entity, entities(all))
	case entity != "":
		q.Events = slices.DeleteFunc(q.Events, func(e Event) bool { return e.Entity != "" && e.Entity != entity })
	}
	return nil
}

// entities lists some of the entities.
func entities(all []string) string {
	var list []string
	for _, e := range all[:min(len(all), entitiesShown)] {
		if len(e) > 40 {
			e = strings.ToValidUTF8(e[:40], "") + "..."
		}
		list = append(list, e)
	}
	return plural(len(all), "entity", "entities") + " (" + and(list, len(all)-len(list)) + ")"
}
