package httpapi

import (
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/story"
	"github.com/sebbroker/seb/internal/triggers/rules/explain"
)

// EvaluationOf returns an answer as POST /evaluate has it.
func EvaluationOf(a *explain.Answer) api.Evaluation {
	out := api.Evaluation{Value: a.Value, Pending: a.Pending, Why: a.Why, Witness: append([]int{}, a.Witness...)}
	if a.Next != nil {
		out.Next = new(time.UnixMilli(*a.Next).UTC())
	}
	return out
}

// stepOf returns a moment of a history as in answers.
func stepOf(m *explain.Moment) api.EvaluationStep {
	s := api.EvaluationStep{At: time.UnixMilli(m.At).UTC(), Value: m.Value.String(), Skipped: m.Skip.String(), Text: m.Words()}
	if m.Event >= 0 {
		s.Event = &m.Event
	}
	if m.Skip == explain.Counted {
		s.Effect, s.Expr = string(m.Kind), m.Part.Expr
	}
	return s
}

// StoriesOf returns the stories of an expression as POST /drip/stories has them.
func StoriesOf(e driplang.Expr) (*api.Stories, error) {
	a, err := story.Of(e)
	if err != nil {
		return nil, err
	}
	out := &api.Stories{Stories: []api.Story{}, NoneFires: string(a.NoneFires), Note: a.Note, Truncated: a.Truncated}
	for _, s := range a.Stories {
		to := api.Story{Outcome: string(s.Outcome), EndMS: s.End, Text: s.Text, Difference: s.Difference}
		if s.Outcome == story.Fires {
			to.FiresMS = &s.End
		}
		if s.DiffersFrom >= 0 {
			to.DiffersFrom = &s.DiffersFrom
		}
		for _, e := range s.Events {
			to.Events = append(to.Events, api.StoryEvent{Event: e.Name, Data: e.Data, AfterMS: e.After, After: e.Words})
		}
		out.Stories = append(out.Stories, to)
	}
	return out, nil
}
