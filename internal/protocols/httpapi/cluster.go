package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/problem"
	"github.com/sebbroker/seb/record"
)

// VariableRun is the path variable with the name of a run.
const VariableRun = "run"

// getCluster answers with the brokers of the bucket. It makes no request to the store.
func (a *API) getCluster(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	return a.writeJSON(w, http.StatusOK, a.clusterNow())
}

// clusterNow describes the brokers of the bucket.
func (a *API) clusterNow() *api.Cluster {
	out := &api.Cluster{Members: []api.ClusterMember{}, Wrong: []string{}}
	if a.o.Cluster == nil {
		out.Members = append(out.Members, api.ClusterMember{Self: true, State: api.MemberUp, Role: roleOf(a.b.Leads(), a.b.ReadOnly()), Version: a.o.Version, Epoch: a.b.Epoch()})
		return out
	}
	members := a.o.Cluster.Members()
	var end *cluster.Beat // of the leader
	for i := range members {
		if m := &members[i]; m.Leads && m.HasBeat && m.Beat.Loaded {
			end = &m.Beat
		}
	}
	for i := range members {
		out.Members = append(out.Members, memberOf(&members[i], end))
	}
	out.Wrong = append(out.Wrong, a.o.Cluster.Wrong()...)
	return out
}

func roleOf(leads, readOnly bool) string {
	switch {
	case leads:
		return api.MemberLeader
	case readOnly:
		return api.MemberFollower
	}
	return api.MemberStandby
}

// memberOf describes a run. end is the newest beat of the leader, or nil.
func memberOf(m *cluster.Member, end *cluster.Beat) api.ClusterMember {
	out := api.ClusterMember{
		Run: runText(m.Run), Name: m.Name, Self: m.Self, State: api.MemberSilent, Role: roleOf(m.Leads, m.ReadOnly),
		URL: m.URL, Kafka: m.Kafka, KafkaID: m.KafkaID, Version: m.Version, Why: m.Why,
	}
	switch {
	case m.Gone:
		out.State = api.MemberGone
	case m.Up || m.Self:
		out.State = api.MemberUp
	default:
		out.SilentSeconds, out.Apart = m.Silence.Seconds(), m.Apart
	}
	if !m.HasBeat {
		return out
	}
	if out.Epoch = m.Beat.Epoch; !m.Beat.Loaded {
		return out
	}
	if !m.Beat.Leads {
		out.Epoch = m.Beat.Pos.Epoch // that it follows
	}
	out.Position = textOf(m.Beat.Pos)
	if end != nil && !m.Beat.Committed.IsZero() { // zero: no slot is applied yet
		lag := 0.0
		if m.Beat.Pos.Less(end.Pos) && m.Beat.Committed.Before(end.Committed) {
			lag = end.Committed.Sub(m.Beat.Committed).Seconds()
		}
		out.LagSeconds = &lag
	}
	return out
}

// runText names a run in the API, and runOf reads such a name.
func runText(r cluster.Run) string { return r.Node.String() + "-" + r.ID.String() }

func runOf(text string) (r cluster.Run, err error) {
	node, id, _ := strings.Cut(text, "-")
	if r.Node, err = record.ParseID(node); err == nil {
		r.ID, err = record.ParseID(id)
	}
	if err != nil {
		return r, problem.BadField(VariableRun, "want the name of a run as in GET /cluster, given %s", problem.Quote(text))
	}
	return r, nil
}

// postHandOver makes a standby lead instead of this broker.
func (a *API) postHandOver(w http.ResponseWriter, r *http.Request, _ *caller) error {
	if a.o.Control == nil {
		return cluster.ErrNoStandby
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	err := a.o.Control.HandOver(ctx)
	if errors.Is(err, state.ErrNotLeader) {
		// It is not forwarded: the new leader is to stay.
		return problem.New(api.NoStandby, "this broker leads no more")
	}
	if err != nil {
		return err
	}
	return a.writeJSON(w, http.StatusOK, a.clusterNow())
}

// deleteRun forgets a broker that will not return.
func (a *API) deleteRun(w http.ResponseWriter, r *http.Request, _ *caller) error {
	run, err := runOf(r.PathValue(VariableRun))
	if err != nil {
		return err
	}
	if a.o.Control == nil {
		return cluster.ErrUnknownRun
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	if err := a.o.Control.Forget(ctx, run); err != nil {
		return err
	}
	return a.noContent(w)
}
