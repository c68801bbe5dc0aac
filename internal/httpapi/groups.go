package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/problem"
)

// offsetBytes is the approximate memory of a committed offset in an answer, decoded and encoded,
// without its metadata.
const offsetBytes = 640

// getGroups answers with one group, if it is named, or with all.
func (a *API) getGroups(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	_, one := q.Text(httpconn.ParamGroup)
	name, latest, members := "", q.Latest(), q.Bool(httpconn.ParamMembers)
	if one {
		name = q.Group()
	}
	if q.Fault != nil {
		return q.Fault
	}
	if one {
		size, describe, err := a.describing(by, name, members)
		if err != nil {
			return err
		}
		return a.writeGroup(w, size, func() (*api.Group, error) {
			g, err := describe(r.Context(), latest)
			return g, inGroup(err, name)
		})
	}
	if err := a.fresh(r); err != nil {
		return err
	}
	names, err := a.groupNames(members)
	if err != nil {
		return err
	}
	a.readHeaders(w)
	l := a.newList(w, "groups")
	for _, name := range names {
		if !by.Allow(access.Describe, access.Group, name) {
			continue
		}
		size, describe, err := a.describing(by, name, members)
		if err == nil {
			err = l.add(r.Context(), size, func() (any, error) {
				g, err := describe(r.Context(), false)
				if errors.Is(err, broker.ErrUnknownGroup) {
					return nil, nil
				}
				return g, err
			})
		}
		if err != nil {
			return l.end(err)
		}
	}
	return l.end(nil)
}

// writeGroup answers with a group, and reserves size bytes while it is described.
func (a *API) writeGroup(w http.ResponseWriter, size int64, describe func() (*api.Group, error)) error {
	memory, err := a.fetch.Reserve(size)
	if err != nil {
		return err
	}
	defer memory.Release()
	g, err := describe()
	if err != nil {
		return err
	}
	return a.writeState(w, http.StatusOK, g)
}

// groupMemory returns the memory of an answer about a group, decoded and encoded, with escaped
// metadata.
func groupMemory(ref *broker.GroupRef) int64 {
	return int64(1+ref.Offsets)*offsetBytes + 8*int64(ref.Text)
}

func groupOf(info *broker.GroupInfo) api.Group {
	g := api.Group{Name: info.Name, Offsets: make([]api.GroupOffset, 0, len(info.Offsets))}
	for _, o := range info.Offsets {
		if o.Offset < 0 {
			continue // assignments of a Kafka client
		}
		lag := max(0, o.Next-max(o.Offset, o.Start))
		g.Lag += lag
		g.Offsets = append(g.Offsets, api.GroupOffset{
			Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Metadata: o.Metadata, Committed: o.Committed.UTC(),
			Start: o.Start, Next: o.Next, Lag: lag,
		})
	}
	return g
}

// deleteGroup deletes all offsets of a group.
func (a *API) deleteGroup(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name := q.Group()
	if q.Fault != nil {
		return q.Fault
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	ctx, err := by.changing(ctx, access.Delete, access.Group, name)
	if err != nil {
		return err
	}
	if err := a.o.Groups.DeleteGroup(ctx, name); err != nil {
		return inGroup(err, name)
	}
	return a.changed(w)
}

// inGroup adds the group to an error.
func inGroup(err error, name string) error {
	if !errors.Is(err, broker.ErrUnknownGroup) {
		return err
	}
	p := problem.New(api.UnknownGroup, "no group %s has committed offsets", problem.Quote(name))
	if len(name) <= broker.GroupNameMax {
		p.Group = name
	}
	return p
}
