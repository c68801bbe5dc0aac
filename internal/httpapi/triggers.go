package httpapi

import (
	"net/http"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/forms"
	"github.com/sebbroker/seb/internal/httpdrip"
)

// answering makes a route of what finds out an answer.
func answering[T any](class budget.Kind, find func(t *httpdrip.Triggers, r *http.Request, m *forms.Memory) (*T, error)) func(*API, http.ResponseWriter, *http.Request) error {
	return func(a *API, w http.ResponseWriter, r *http.Request) error {
		m := a.memory(class)
		defer m.Release()
		out, err := find(a.triggers, r, m)
		if err != nil {
			return err
		}
		a.readHeaders(w)
		return a.writeJSON(w, http.StatusOK, out)
	}
}

// doing makes a route of what has no answer but that it is done.
func doing(do func(t *httpdrip.Triggers, r *http.Request) error) func(*API, http.ResponseWriter, *http.Request) error {
	return func(a *API, w http.ResponseWriter, r *http.Request) error {
		if err := do(a.triggers, r); err != nil {
			return err
		}
		a.pace.WriteStep(w)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

func (a *API) memory(class budget.Kind) *forms.Memory {
	return &forms.Memory{Class: a.b.Budget().Class(class), Buffers: a.buffers}
}

// getTriggers sends the list as it is made. One that fails behind its first part is cut off.
func (a *API) getTriggers(w http.ResponseWriter, r *http.Request) error {
	m := a.memory(budget.Fetch)
	defer m.Release()
	begun := false
	err := a.triggers.List(r.Context(), m, func(part []byte, last bool) error {
		if !begun {
			a.readHeaders(w)
			w.Header().Set("Content-Type", api.JSON)
			if begun = true; last {
				a.write(w, http.StatusOK, part)
				return nil
			}
			w.Header().Set("X-Content-Type-Options", "nosniff")
		}
		if a.pace.Send(w, part) != nil {
			return http.ErrAbortHandler // the client has gone
		}
		return nil
	})
	if err != nil && begun {
		return http.ErrAbortHandler
	}
	return err
}

func (a *API) putTrigger(w http.ResponseWriter, r *http.Request) error {
	m := a.memory(budget.Produce)
	defer m.Release()
	out, made, err := a.triggers.Put(w, r, m)
	if err != nil {
		return err
	}
	a.readHeaders(w)
	status := http.StatusOK
	if made {
		status = http.StatusCreated
	}
	return a.writeJSON(w, status, out)
}

func (a *API) postDryRun(w http.ResponseWriter, r *http.Request) error {
	m := a.memory(budget.Produce)
	defer m.Release()
	out, err := a.triggers.DryRun(w, r, m)
	if err != nil {
		return err
	}
	a.readHeaders(w)
	return a.writeJSON(w, http.StatusOK, out)
}

func pauseTrigger(t *httpdrip.Triggers, r *http.Request, m *forms.Memory) (*api.Trigger, error) {
	return t.Pause(r, m, true)
}

func resumeTrigger(t *httpdrip.Triggers, r *http.Request, m *forms.Memory) (*api.Trigger, error) {
	return t.Pause(r, m, false)
}
