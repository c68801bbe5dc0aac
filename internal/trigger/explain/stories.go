package explain

import (
	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/driplang/story"
)

// Stories is the answer of POST /drip/stories.
func Stories(e driplang.Expr) (*api.Stories, error) {
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
