package explain

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// linesMax is the most bytes of events that are read from a file.
const linesMax = 256 << 20

// entitiesShown is how many entities a fault names.
const entitiesShown = 5

// ReadEvents adds the events of NDJSON, at most 256 MiB: one on each line that is not blank, in the order of the log. A line is
//
//	{"event","at","id"?,"data"?}                                    an event of this question
//	{"event","entity_id","data"?,"id"?,"occurred_at"?}              what `seb event -f` sends and `seb consume` prints
//	{"partition","offset","timestamp","key","value": "the event"}   what `seb consume --format json` prints
//
// An event counts as happening at its "at", else at the append time of its record ("timestamp"), else at its "occurred_at". A
// record without a value erases what came before of its entity. entity chooses the events of one entity; "" is for lines that
// are all of one. Errors: *Fault, those of r.
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

// line adds what a line says; it is the line of a number, from 0, that is not blank.
func (q *Question) line(text []byte, n int) error {
	var rec struct {
		Offset      *int64          `json:"offset"`
		Timestamp   *int64          `json:"timestamp"`
		Key         *string         `json:"key"`
		Value       *string         `json:"value"`
		ValueBase64 *string         `json:"value_base64"`
		Event       json.RawMessage `json:"event"`
	}
	if json.Unmarshal(text, &rec) != nil || rec.Offset == nil || rec.Event != nil { // a faulty line is named by parseEvent
		e, err := parseEvent(text, n, nil)
		if err == nil {
			q.Events = append(q.Events, e)
		}
		return err
	}
	switch {
	case rec.ValueBase64 != nil:
		return of(n, fault("value_base64", "the record is not an event: it is not text"))
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

// only keeps the events of an entity, and those that name none; "" stands for the only one there is.
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
		return fault("entity_id", "the events are of %s, and an expression is about one: choose it", entities(all))
	case entity != "" && !seen[entity] && len(all) > 0:
		return fault("entity_id", "no event is of %.100q; they are of %s", entity, entities(all))
	case entity != "":
		q.Events = slices.DeleteFunc(q.Events, func(e Event) bool { return e.Entity != "" && e.Entity != entity })
	}
	return nil
}

// entities names some.
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
