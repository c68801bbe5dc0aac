package httpapi

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
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
	name, latest, list := "", q.Latest(), groupList{a: a, by: by, members: q.Bool(httpconn.ParamMembers), page: parsePage(q)}
	if one {
		name = q.Group()
	} else {
		list.parse(q)
	}
	if q.Fault != nil {
		return q.Fault
	}
	if one {
		size, describe, err := list.describing(name)
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
	return list.write(w, r)
}

// groupList is a list of groups.
type groupList struct {
	a       *API
	by      *caller
	members bool
	page    listPage
	topic   string // only groups with an offset in it; "": all
	byLag   bool   // the most lag first, then by name
	after   groupLag
}

// groupLag is a group in the order by lag. As the parameter after it is the lag, a colon and the name.
type groupLag struct {
	lag  int64
	name string
}

func (g groupLag) String() string { return strconv.FormatInt(g.lag, 10) + ":" + g.name }

func (g groupLag) compare(o groupLag) int {
	return cmp.Or(cmp.Compare(o.lag, g.lag), cmp.Compare(g.name, o.name))
}

// orderLag is the order of groups by lag.
const orderLag = "lag"

func (l *groupList) parse(q *httpconn.Params) {
	if _, given := q.Text(httpconn.ParamTopic); given {
		l.topic = q.Topic()
	}
	switch order, given := q.Text(httpconn.ParamOrder); {
	case given && order != orderLag:
		q.Fail(httpconn.ParamOrder, "want %s, or none for the order by name, given %s", orderLag, problem.Quote(order))
	case given:
		l.byLag, l.after.lag = true, math.MaxInt64
	}
	if l.byLag && l.page.after != "" {
		lag, name, _ := strings.Cut(l.page.after, ":")
		n, err := strconv.ParseInt(lag, 10, 64)
		if err != nil {
			q.Fail(httpconn.ParamAfter, "want the value of next, like 17:name, given %s", problem.Quote(l.page.after))
		}
		l.after, l.page.after = groupLag{n, name}, ""
	}
}

// lagBytes is the memory of a group while a list is sorted or selected.
const lagBytes = 64

func (l *groupList) write(w http.ResponseWriter, r *http.Request) error {
	names, err := l.a.groupNames(l.members)
	if err != nil {
		return err
	}
	memory, err := l.a.small(int64(len(names)) * lagBytes)
	if err != nil {
		return err
	}
	defer memory.Release()
	groups, err := l.selected(r.Context(), names)
	if err != nil {
		return err
	}
	l.a.readHeaders(w)
	list := l.a.newList(w, "groups", l.page.most)
	for _, g := range groups {
		size, describe, err := l.describing(g.name)
		if err == nil {
			after := g.name
			if l.byLag {
				after = g.String()
			}
			err = list.add(r.Context(), after, size, func() (any, error) {
				g, err := describe(r.Context(), false)
				if errors.Is(err, state.ErrUnknownGroup) {
					return nil, nil
				}
				return g, err
			})
		}
		if err != nil {
			return list.end(err)
		}
	}
	return list.end(nil)
}

// selected returns the groups of the list, in its order.
func (l *groupList) selected(ctx context.Context, names []string) ([]groupLag, error) {
	groups := make([]groupLag, 0, len(names))
	for _, name := range names {
		if !l.page.has(name) || !l.by.Allow(access.Describe, access.Group, name) {
			continue
		}
		g := groupLag{name: name}
		if l.byLag || l.topic != "" {
			info, err := l.a.b.Group(ctx, name, false)
			if err != nil && !errors.Is(err, state.ErrUnknownGroup) {
				return nil, err
			}
			info.Offsets = slices.DeleteFunc(l.by.visible(info.Offsets), func(o broker.GroupOffset) bool { return l.topic != "" && o.Topic != l.topic })
			out := groupOf(&info)
			if g.lag = out.Lag; l.topic != "" && len(out.Offsets) == 0 || l.byLag && g.compare(l.after) <= 0 {
				continue
			}
		}
		groups = append(groups, g)
	}
	if l.byLag {
		sorting.Sort(groups, groupLag.compare)
	}
	return groups, nil
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
func (l *groupList) describing(name string) (size int64, describe func(ctx context.Context, latest bool) (*api.Group, error), err error) {
	ref := l.a.b.GroupRef(name)
	var view group.View
	if l.members {
		if view, err = l.a.viewGroup(name); err != nil {
			return 0, nil, err
		}
	}
	return groupMemory(&ref) + membersMemory(&view), func(ctx context.Context, latest bool) (*api.Group, error) {
		info, err := l.a.b.Group(ctx, name, latest)
		if errors.Is(err, state.ErrUnknownGroup) && (len(view.Members) > 0 || view.Consumers != nil) {
			info, err = broker.GroupInfo{Name: name}, nil
		}
		if err != nil {
			return nil, err
		}
		info.Offsets = l.by.visible(info.Offsets)
		g := groupOf(&info)
		if l.members {
			l.by.describeMembers(&g, &view)
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
