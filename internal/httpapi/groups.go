package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/httpin"
)

// offsetBytes is above what an offset of a group takes in an answer, its metadata aside.
const offsetBytes = 1 << 10

// getGroups answers with one group, if it is named, or with all.
func (a *API) getGroups(w http.ResponseWriter, r *http.Request) error {
	q := httpin.ParseParams(r.URL.RawQuery)
	_, one := q.Text(httpin.ParamGroup)
	name, latest := "", q.Latest()
	if one {
		name = q.Group()
	}
	if q.Fault != nil {
		return q.Fault
	}
	if one {
		info, err := a.b.Group(r.Context(), name, latest)
		if err != nil {
			return inGroup(err, name)
		}
		return a.writeGroups(w, []broker.GroupInfo{info}, func(list []api.Group) any { return &list[0] })
	}
	return a.writeGroups(w, a.b.Groups(r.Context()), func(list []api.Group) any { return &api.Groups{Groups: list} })
}

// writeGroups answers with what form makes of groups. Memory for it is reserved: there may be many offsets.
func (a *API) writeGroups(w http.ResponseWriter, infos []broker.GroupInfo, form func([]api.Group) any) error {
	size := int64(0)
	for i := range infos {
		for j := range infos[i].Offsets {
			size += offsetBytes + int64(len(infos[i].Offsets[j].Metadata))
		}
	}
	memory, err := a.fetch.Reserve(size)
	if err != nil {
		return err
	}
	defer memory.Release()
	list := make([]api.Group, len(infos))
	for i := range infos {
		list[i] = groupOf(&infos[i])
	}
	a.readHeaders(w)
	return a.writeJSON(w, http.StatusOK, form(list))
}

func groupOf(info *broker.GroupInfo) api.Group {
	g := api.Group{Group: info.Name, Offsets: make([]api.GroupOffset, len(info.Offsets))}
	for i, o := range info.Offsets {
		lag := max(0, o.Next-max(o.Offset, o.Start))
		g.Lag += lag
		g.Offsets[i] = api.GroupOffset{
			Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Metadata: o.Metadata, CommittedAt: o.Committed.UTC(),
			StartOffset: o.Start, NextOffset: o.Next, Lag: lag,
		}
	}
	return g
}

// deleteGroup forgets all offsets of a group.
func (a *API) deleteGroup(w http.ResponseWriter, r *http.Request) error {
	q := httpin.ParseParams(r.URL.RawQuery)
	name := q.Group()
	if q.Fault != nil {
		return q.Fault
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	if err := a.o.Groups.DeleteGroup(ctx, name); err != nil {
		return inGroup(err, name)
	}
	a.pace.WriteStep(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// inGroup adds the group to an error that is about it.
func inGroup(err error, name string) error {
	if !errors.Is(err, broker.ErrUnknownGroup) {
		return err
	}
	p := api.NewProblem(api.UnknownGroup, "no group %s has committed offsets", api.Quote(name))
	if len(name) <= broker.GroupNameMax {
		p.Group = name
	}
	return p
}
