package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/sebbroker/seb/internal/trigger/rule"
)

// Condition reports whether a change may follow the stored trigger; nil: there is no trigger. No
// other change comes between.
type Condition func(stored *Head) bool

// ConditionError: the stored trigger does not meet the Condition of a change, which changed nothing.
type ConditionError struct {
	ID     string
	Stored *Head // nil: there is no trigger
}

func (e *ConditionError) Error() string {
	if e.Stored == nil {
		return fmt.Sprintf("there is no trigger %q", e.ID)
	}
	return fmt.Sprintf("trigger %q: version %d is stored now, with the tag %s", e.ID, e.Stored.Version, e.Stored.Tag())
}

// met returns a *ConditionError if the stored trigger does not meet a condition, unless it already is
// as d: then an earlier attempt of the change has succeeded, and met returns the trigger. The caller
// holds e.change.
func (e *Engine) met(ctx context.Context, d *rule.Definition, is Condition) (done *Head, err error) {
	if is == nil {
		return nil, nil
	}
	if !e.opt.Log.Leads() {
		return nil, ErrNotLeader
	}
	if err := e.caughtUp(ctx); err != nil {
		return nil, err
	}
	h, err := e.Head(d.ID)
	if err != nil && !errors.Is(err, ErrUnknownTrigger) {
		return nil, err
	}
	if is(h) {
		return nil, nil
	}
	if h != nil {
		stored, err := e.Trigger(ctx, d.ID)
		if err != nil {
			return nil, err
		}
		if t, ok := e.opt.Log.Topic(d.Topic); ok && t.ID == h.Events && e.same(&stored.Definition, d) {
			return h, nil
		}
	}
	return nil, &ConditionError{d.ID, h}
}

// same reports whether a stored definition is the one that a client gives.
func (e *Engine) same(stored, given *rule.Definition) bool {
	d := *given
	d.TopicID = stored.TopicID
	if !d.SameResults(stored) || d.Text != stored.Text || d.Status != stored.Status {
		return false
	}
	deliver, err := e.Opened(stored)
	return err == nil && sameJSON(deliver, d.Deliver)
}

func sameJSON(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var values [2]any
	for i, text := range [][]byte{a, b} {
		in := json.NewDecoder(bytes.NewReader(text))
		in.UseNumber()
		if in.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
