package httpapi

import (
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/budget"
)

// answering makes a route of a function that returns an answer.
func answering[T any](class budget.Kind, find func(t *Triggers, r *http.Request, m *budget.Arena) (*T, error)) func(*API, http.ResponseWriter, *http.Request) error {
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

// doing makes a route of a function without an answer.
func doing(do func(t *Triggers, r *http.Request) error) func(*API, http.ResponseWriter, *http.Request) error {
	return func(a *API, w http.ResponseWriter, r *http.Request) error {
		if err := do(a.triggers, r); err != nil {
			return err
		}
		a.pace.ExtendWrite(w)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

func (a *API) memory(class budget.Kind) *budget.Arena {
	return &budget.Arena{Class: a.b.Budget().Class(class), Buffers: a.buffers}
}

func (a *API) getTriggers(w http.ResponseWriter, r *http.Request) error {
	a.readHeaders(w)
	l := a.newList(w, "triggers")
	return l.end(a.triggers.List(r.Context(), func(size int64, show func() (any, error)) error { return l.add(r.Context(), size, show) }))
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

func pauseTrigger(t *Triggers, r *http.Request, m *budget.Arena) (*api.Trigger, error) {
	return t.Pause(r, m, true)
}

func resumeTrigger(t *Triggers, r *http.Request, m *budget.Arena) (*api.Trigger, error) {
	return t.Pause(r, m, false)
}
