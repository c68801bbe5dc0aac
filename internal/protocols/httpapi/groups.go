package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/group"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
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
				if errors.Is(err, state.ErrUnknownGroup) {
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
	memory, err := a.small(size)
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
	if !errors.Is(err, state.ErrUnknownGroup) {
		return err
	}
	p := problem.New(api.UnknownGroup, "no group %s has committed offsets", problem.Quote(name))
	if len(name) <= broker.GroupNameMax {
		p.Group = name
	}
	return p
}

// memberBytes is the approximate memory of a member in an answer, decoded and encoded, without its
// texts and partitions. assignedBytes is that of an assigned partition.
const (
	memberBytes   = 1024
	assignedBytes = 64
)

// Members describes the members of consumer groups. Package group/coordinator implements it.
type Members interface {
	// Describe describes a group. Its state is group.Dead if it has neither members nor offsets.
	Describe(name string) (group.View, group.Code)
	// List describes all groups with members or committed offsets, by name and without members.
	List() ([]group.View, group.Code)
}

// groupNames lists the groups with committed offsets, and with members those that have only
// members, too.
func (a *API) groupNames(members bool) (names []string, err error) {
	if !members || a.o.Members == nil {
		for _, ref := range a.b.GroupRefs() {
			names = append(names, ref.Name)
		}
		return names, nil
	}
	views, code := a.o.Members.List()
	for i := range views {
		names = append(names, views[i].Name)
	}
	return names, a.membersKnown(code)
}

// describing returns a function that describes a group for a client, and the memory of its answer.
func (a *API) describing(by *caller, name string, members bool) (size int64, describe func(ctx context.Context, latest bool) (*api.Group, error), err error) {
	ref := a.b.GroupRef(name)
	var view group.View
	if members {
		if view, err = a.viewGroup(name); err != nil {
			return 0, nil, err
		}
	}
	return groupMemory(&ref) + membersMemory(&view), func(ctx context.Context, latest bool) (*api.Group, error) {
		info, err := a.b.Group(ctx, name, latest)
		if errors.Is(err, state.ErrUnknownGroup) && (len(view.Members) > 0 || view.Consumers != nil) {
			info, err = broker.GroupInfo{Name: name}, nil
		}
		if err != nil {
			return nil, err
		}
		info.Offsets = by.visible(info.Offsets)
		g := groupOf(&info)
		if members {
			by.describeMembers(&g, &view)
		}
		return &g, nil
	}, nil
}

// viewGroup describes the members of a group. Without a Kafka listener groups have none.
func (a *API) viewGroup(name string) (group.View, error) {
	if a.o.Members == nil {
		v := group.View{Name: name, State: group.Dead}
		if a.b.GroupRef(name).Offsets > 0 {
			v.State = group.Empty
		}
		return v, a.membersKnown(group.OK)
	}
	v, code := a.o.Members.Describe(name)
	return v, a.membersKnown(code)
}

// membersKnown returns why the broker does not know the members of groups, or nil.
func (a *API) membersKnown(code group.Code) error {
	if a.b.ReadOnly() {
		return problem.New(api.ReadOnly, "only the leader knows the members of groups")
	}
	if code == group.OK {
		return nil
	}
	if err := a.ready(); err != nil {
		return err
	}
	return problem.New(api.StoreUnavailable, "the coordinator of groups is not available")
}

// membersMemory returns the memory of an answer about the members of a group, with escaped texts.
func membersMemory(v *group.View) (n int64) {
	for i := range v.Members {
		m := &v.Members[i]
		n += memberBytes + 8*int64(len(m.Member)+len(m.Instance)+len(m.Client)+len(m.Host)) + assignedBytes/4*int64(len(m.Assignment))
	}
	if v.Consumers == nil {
		return n
	}
	for i := range v.Consumers.Members {
		m := &v.Consumers.Members[i]
		n += memberBytes + 8*int64(len(m.Member)+len(m.Instance)+len(m.Client)+len(m.Host))
		for _, t := range namedPartitions(v.Consumers, m.Assigned) {
			n += assignedBytes*int64(1+len(t.Partitions)) + 8*int64(len(t.Topic))
		}
	}
	return n
}

// describeMembers adds the state and the members that a client may see to g. Assignments name only
// topics that the client may describe.
func (by *caller) describeMembers(g *api.Group, v *group.View) {
	g.State, g.Members = v.State.String(), []api.GroupMember{}
	for i := range v.Members {
		m := &v.Members[i]
		described := api.GroupMember{ID: m.Member, Instance: m.Instance, ClientID: m.Client, Host: m.Host}
		var list []group.TopicPartitions
		if v.ProtocolType == "consumer" && len(m.Assignment) > 0 {
			list, _ = group.DecodeAssignment(m.Assignment)
		}
		described.Assigned = by.assigned(list)
		g.Members = append(g.Members, described)
	}
	if v.Consumers == nil {
		return
	}
	for i := range v.Consumers.Members {
		m := &v.Consumers.Members[i]
		described := api.GroupMember{ID: m.Member, Instance: m.Instance, ClientID: m.Client, Host: m.Host}
		described.Assigned = by.assigned(namedPartitions(v.Consumers, m.Assigned))
		g.Members = append(g.Members, described)
	}
}

// namedPartitions returns the partitions of topics that exist.
func namedPartitions(v *group.ConsumersView, list []group.Partition) (out []group.TopicPartitions) {
	for _, p := range list {
		name, ok := v.Names[p.Topic]
		if !ok {
			continue
		}
		if last := len(out) - 1; last < 0 || out[last].Topic != name {
			out = append(out, group.TopicPartitions{Topic: name})
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, p.Number)
	}
	return out
}

// assigned returns the partitions of topics that the client may describe.
func (by *caller) assigned(list []group.TopicPartitions) []api.TopicPartitions {
	out := []api.TopicPartitions{}
	for _, t := range list {
		if by.Allow(access.Describe, access.Topic, t.Topic) {
			slices.Sort(t.Partitions)
			out = append(out, api.TopicPartitions{Topic: t.Topic, Partitions: t.Partitions})
		}
	}
	return out
}
