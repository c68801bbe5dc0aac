package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sebbroker/seb/api"
)

// OffsetCommit is an offset to commit: that of the next record to read.
type OffsetCommit struct {
	Topic     string
	Partition int32
	Offset    int64
	Metadata  string // defined by the group, at most 4096 bytes
	// Expected, if not nil, is a condition: the broker refuses the commit unless the group's
	// committed offset equals it (ErrOffsetMismatch). -1 means that the group has committed none.
	Expected *int64
	// NoMembers is a condition: the broker refuses the commit while the group has members
	// (ErrGroupActive). Without it, it does so only if Expected is nil.
	NoMembers bool
}

// CommitOffsets stores offsets of a consumer group and returns once they are durable. The first
// commit creates the group. Each offset is stored or refused separately. If the outcomes differ the
// error is ErrOutcomeUnknown, and its Offsets have the outcome of each. Commits without a condition
// are retried like reads.
func (c *Client) CommitOffsets(ctx context.Context, group string, commits ...OffsetCommit) error {
	if len(commits) == 0 {
		return nil
	}
	idempotent := true
	body := api.OffsetCommits{Offsets: make([]api.OffsetCommit, len(commits))}
	for i := range commits {
		o := &commits[i]
		idempotent = idempotent && o.Expected == nil
		body.Offsets[i] = api.OffsetCommit{
			Topic: o.Topic, Partition: &o.Partition, Offset: &o.Offset, ExpectedOffset: o.Expected, NoMembers: o.NoMembers, Metadata: o.Metadata,
		}
	}
	raw, err := json.Marshal(&body)
	if err != nil {
		return rejected(err)
	}
	r := &request{
		method: http.MethodPut, path: "/offsets", query: url.Values{"group": {group}}, body: raw, write: true, idempotent: idempotent,
		header: map[string]string{"Content-Type": api.JSON},
	}
	return c.ask(ctx, r, func(resp *http.Response) error {
		var out api.OffsetResults
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			return err
		}
		if len(out.Offsets) != len(commits) {
			return fmt.Errorf("%w: %d of %d offsets acknowledged", errNotBroker, len(out.Offsets), len(commits))
		}
		return nil
	})
}

// Offsets returns the group's committed offsets in a topic, or in all topics if topic is "". The
// list may be empty.
func (c *Client) Offsets(ctx context.Context, group, topic string) ([]GroupOffset, error) {
	q := url.Values{"group": {group}}
	if topic != "" {
		q.Set("topic-name", topic)
	}
	g, err := get[Group](ctx, c, "/offsets", q)
	return g.Offsets, err
}

// Group describes a consumer group. Error: ErrUnknownGroup if it has no committed offsets.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	return get[Group](ctx, c, "/groups", url.Values{"group": {name}})
}

// GroupWithMembers is like Group with the group's state and members. Only the leader knows members
// (ErrReadOnly). Error: ErrUnknownGroup if the group has neither committed offsets nor members.
func (c *Client) GroupWithMembers(ctx context.Context, name string) (Group, error) {
	return get[Group](ctx, c, "/groups", url.Values{"group": {name}, "members": {"true"}})
}

// GroupsWithMembers is like Groups with the state and members of each group, including groups
// without committed offsets. Only the leader knows members (ErrReadOnly).
func (c *Client) GroupsWithMembers(ctx context.Context) ([]Group, error) {
	return listed(ctx, c, "/groups", url.Values{"members": {"true"}}, groupsOf)
}

// Groups describes all consumer groups, sorted by name.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	return listed(ctx, c, "/groups", nil, groupsOf)
}

func groupsOf(p *api.Groups) ([]Group, *string) { return p.Groups, p.Next }

// DeleteGroup deletes all committed offsets of a group. Error: ErrUnknownGroup if it has none.
func (c *Client) DeleteGroup(ctx context.Context, name string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: "/groups", query: url.Values{"group": {name}}, write: true}, nil)
}

// DeleteOffset deletes the group's committed offset in one partition.
func (c *Client) DeleteOffset(ctx context.Context, group, topic string, partition int32) error {
	q := url.Values{"group": {group}, "topic-name": {topic}, "partition": {strconv.Itoa(int(partition))}}
	return c.call(ctx, &request{method: http.MethodDelete, path: "/offsets", query: q, write: true}, nil)
}

// Transactions describes all transactional IDs of Kafka clients, sorted by ID.
func (c *Client) Transactions(ctx context.Context) ([]Transaction, error) {
	return listed(ctx, c, "/transactions", nil, func(p *api.Transactions) ([]Transaction, *string) { return p.Transactions, p.Next })
}

// Transaction describes a transactional ID. Error: ErrUnknownTransaction.
func (c *Client) Transaction(ctx context.Context, id string) (Transaction, error) {
	return get[Transaction](ctx, c, "/transactions", url.Values{"transactional-id": {id}})
}

// AbortTransaction aborts the open transaction of a transactional ID, fences its producer, and returns the ID after
// that. Errors: ErrUnknownTransaction; ErrTransactionState if no transaction is open.
func (c *Client) AbortTransaction(ctx context.Context, id string) (Transaction, error) {
	return post[Transaction](ctx, c, "/transactions/abort", url.Values{"transactional-id": {id}}, false)
}

// Trim permanently deletes the records of a partition below an offset, and returns the partition
// after that. An offset at or below the start changes nothing. Error: ErrBeyondEnd for an offset
// beyond the end.
func (c *Client) Trim(ctx context.Context, topic string, partition int32, offset int64) (Partition, error) {
	q := url.Values{"topic-name": {topic}, "partition": {strconv.Itoa(int(partition))}, "offset": {strconv.FormatInt(offset, 10)}}
	return post[Partition](ctx, c, "/topic/trim", q, true)
}
