package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/protocols/problem"
)

// offsetsBodyMax bounds the body of PUT /offsets. decodedTimes bounds the decoded size as a
// multiple of the body.
const (
	offsetsBodyMax = 1 << 20
	decodedTimes   = 8
)

// getOffsets answers with the committed offsets of a group, all or those of one topic or partition.
func (a *API) getOffsets(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name, partition, latest := q.Group(), q.Partition(), q.Latest()
	topic := ""
	if _, given := q.Text(httpconn.ParamTopic); given {
		topic = q.Topic()
	} else if partition >= 0 {
		q.Fail(httpconn.ParamPartition, "requires %s", httpconn.ParamTopic)
	}
	if q.Fault != nil {
		return q.Fault
	}
	if !latest && a.b.Follows() && a.b.GroupRef(name).Offsets == 0 {
		if err := a.fresh(r); err != nil { // a follower may not have seen the group yet
			return err
		}
	}
	ref := a.b.GroupRef(name)
	return a.writeGroup(w, groupMemory(&ref), func() (*api.Group, error) {
		info, err := a.b.Group(r.Context(), name, latest)
		if errors.Is(err, state.ErrUnknownGroup) {
			info.Name, err = name, nil
		}
		if err != nil {
			return nil, err
		}
		info.Offsets = slices.DeleteFunc(by.visible(info.Offsets), func(o broker.GroupOffset) bool {
			return topic != "" && o.Topic != topic || partition >= 0 && o.Partition != partition
		})
		g := groupOf(&info)
		return &g, nil
	})
}

// deleteOffset deletes the committed offset of a group in one partition.
func (a *API) deleteOffset(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name, topic, partition := q.Group(), q.Topic(), q.NamedPartition()
	if q.Fault != nil {
		return q.Fault
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	ctx, err := by.changing(ctx, access.Delete, access.Group, name)
	if err != nil {
		return err
	}
	if err := a.o.Groups.DeleteOffset(ctx, name, topic, partition); err != nil {
		return inGroup(err, name)
	}
	return a.changed(w)
}

// putOffsets commits offsets of a group: one, of the partition in the query, or those in a list.
func (a *API) putOffsets(w http.ResponseWriter, r *http.Request, by *caller) error {
	q := httpconn.ParseParams(r.URL.RawQuery)
	name := q.Group()
	if q.Fault != nil {
		return q.Fault
	}
	if a.b.ReadOnly() {
		return state.ErrReadOnly
	}
	var body struct {
		api.OffsetCommit
		Offsets []api.OffsetCommit `json:"offsets"`
	}
	memory, err := a.decode(w, r, offsetsBodyMax, &body)
	if err != nil {
		return err
	}
	defer memory.Release()
	list := body.Offsets
	if list == nil {
		list = []api.OffsetCommit{body.OffsetCommit}
		onePartition(q, &list[0])
	} else {
		noPartition(q, &body.OffsetCommit)
	}
	if q.Fault != nil {
		return q.Fault
	}
	commits, err := commitsOf(list, body.Offsets != nil)
	if err != nil {
		return err
	}
	for i := range commits {
		if err := by.may(access.Read, access.Topic, commits[i].Topic); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.o.AckTimeout)
	defer cancel()
	if ctx, err = by.changing(ctx, access.Read, access.Group, name); err != nil {
		return err
	}
	return a.answerCommits(w, name, commits, a.o.Groups.CommitOffsets(ctx, name, commits))
}

// onePartition takes the partition of a single offset from the query.
func onePartition(q *httpconn.Params, c *api.OffsetCommit) {
	if c.Topic != "" {
		q.Fail("topic", "allowed in a list only; for a single offset use %s=", httpconn.ParamTopic)
	}
	if c.Partition != nil {
		q.Fail("partition", "allowed in a list only; for a single offset use %s=", httpconn.ParamPartition)
	}
	partition := int32(0)
	c.Topic, partition = q.Topic(), q.NamedPartition()
	c.Partition = &partition
}

// noPartition checks that, with a list, neither the query nor the rest of the body names a
// partition.
func noPartition(q *httpconn.Params, c *api.OffsetCommit) {
	for _, name := range []string{httpconn.ParamTopic, httpconn.ParamPartition} {
		if _, given := q.Text(name); given {
			q.Fail(name, "not together with offsets: each entry names its own")
		}
	}
	if c.Offset != nil || c.ExpectedOffset != nil || c.NoMembers || c.Metadata != "" || c.Topic != "" || c.Partition != nil {
		q.Fail("offsets", "give a list or a single offset, not both")
	}
}

// commitsOf checks entries whose faults the broker reports differently.
func commitsOf(list []api.OffsetCommit, listed bool) ([]broker.OffsetCommit, error) {
	if len(list) == 0 {
		return nil, problem.BadField("offsets", "the list is empty")
	}
	commits := make([]broker.OffsetCommit, len(list))
	for i := range list {
		c := &list[i]
		var fault *api.Problem
		switch {
		case c.Topic == "":
			fault = problem.BadField("topic", "required")
		case state.CheckTopicName(c.Topic) != nil:
			fault = problem.BadField("topic", "%v", state.CheckTopicName(c.Topic))
		case c.Partition == nil:
			fault = problem.BadField("partition", "required")
		case *c.Partition < 0:
			fault = problem.BadField("partition", "want 0 or more, given %d", *c.Partition)
		case c.Offset == nil:
			fault = problem.BadField("offset", "required")
		case *c.Offset < 0:
			fault = problem.BadField("offset", "want 0 or more, given %d", *c.Offset)
		case c.ExpectedOffset != nil && *c.ExpectedOffset < -1:
			fault = problem.BadField("expected_offset", "want an offset, or -1 for none, given %d", *c.ExpectedOffset)
		case len(c.Metadata) > broker.MetadataMax:
			fault = problem.BadField("metadata", "at most %d bytes, given %d", broker.MetadataMax, len(c.Metadata))
		}
		if fault != nil && listed {
			fault = problem.AtRecord(fault, int64(i))
		}
		if fault != nil {
			return nil, fault
		}
		commits[i] = broker.OffsetCommit{
			Topic: c.Topic, Partition: *c.Partition, Offset: *c.Offset, Metadata: c.Metadata, Expected: c.ExpectedOffset, NoMembers: c.NoMembers,
		}
	}
	return commits, nil
}

// answerCommits reports the result of each entry. As for records, "rejected" applies to the whole
// request. If entries ended differently, the outcome of the request is unknown, and its entries
// tell more (rule R4).
func (a *API) answerCommits(w http.ResponseWriter, group string, commits []broker.OffsetCommit, errs []error) error {
	results := make([]api.OffsetResult, len(commits))
	var first error
	failed, maybe := 0, false
	for i := range commits {
		results[i] = api.OffsetResult{Topic: commits[i].Topic, Partition: commits[i].Partition, Offset: commits[i].Offset}
		if errs[i] == nil {
			maybe = true
			continue
		}
		fault := problemOf(errs[i])
		results[i].Code, results[i].Detail, results[i].Committed = fault.Code, fault.Detail, fault.Committed
		maybe = maybe || unknownOutcome(errs[i])
		if failed++; first == nil {
			first = errs[i]
		}
	}
	switch {
	case failed == 0:
		return a.writeState(w, http.StatusOK, &api.OffsetResults{Group: group, Offsets: results})
	case len(commits) == 1:
		p := *problemOf(first)
		if p.Code == api.Internal {
			return first // logged unchanged
		}
		p.Group, p.Topic, p.Partition = group, commits[0].Topic, &commits[0].Partition
		return &p
	}
	p := *problem.New(api.OutcomeUnknown, "the offsets have different outcomes, see offsets")
	if !maybe {
		p = *problemOf(first)
	}
	p.Group, p.Offsets = group, results
	return &p
}

// decode reads a JSON body of at most limit bytes into a value. The caller releases the memory that
// the value takes.
func (a *API) decode(w http.ResponseWriter, r *http.Request, limit int64, into any) (*budget.Reservation, error) {
	memory, err := a.reserveBody(r, limit)
	if err != nil {
		return nil, err
	}
	if err := httpconn.JSON(w, r, limit, into); err != nil {
		memory.Release()
		return nil, err
	}
	return memory, nil
}

// reserveBody reserves memory for a JSON body of at most limit bytes, as it is and decoded.
func (a *API) reserveBody(r *http.Request, limit int64) (*budget.Reservation, error) {
	n, err := httpconn.Bound(r.ContentLength, limit)
	if err != nil {
		return nil, err
	}
	return a.produce.Reserve(decodedTimes * n)
}
