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

// OffsetCommit is an offset to be committed: that of the next record to read.
type OffsetCommit struct {
	Topic     string
	Partition int32
	Offset    int64
	Metadata  string // the group's own, at most 4096 bytes
	// Expected, if not nil, refuses the commit unless that is what the group has committed there (ErrOffsetMismatch); -1
	// is nothing.
	Expected *int64
}

// CommitOffsets stores offsets of a consumer group and returns once they are durable. A group is there from its first
// offset on. Each is stored or refused by itself; if they did not end alike the error is ErrOutcomeUnknown and its
// Offsets tell them apart. Commits without a condition are repeated as reads are.
func (c *Client) CommitOffsets(ctx context.Context, group string, commits ...OffsetCommit) error {
	if len(commits) == 0 {
		return nil
	}
	harmless := true
	body := api.OffsetCommits{Offsets: make([]api.OffsetCommit, len(commits))}
	for i := range commits {
		o := &commits[i]
		harmless = harmless && o.Expected == nil
		body.Offsets[i] = api.OffsetCommit{
			Topic: o.Topic, Partition: &o.Partition, Offset: &o.Offset, ExpectedOffset: o.Expected, Metadata: o.Metadata,
		}
	}
	raw, err := json.Marshal(&body)
	if err != nil {
		return rejected(err)
	}
	r := &request{
		method: http.MethodPut, path: "/offsets", query: url.Values{"group": {group}}, body: raw, write: true, harmless: harmless,
		header: map[string]string{"Content-Type": api.JSON},
	}
	return c.ask(ctx, r, func(resp *http.Response) error {
		var out api.OffsetResults
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			return err
		}
		if len(out.Offsets) != len(commits) {
			return fmt.Errorf("%w: it acknowledges %d of %d offsets", errNotBroker, len(out.Offsets), len(commits))
		}
		return nil
	})
}

// Offsets returns what a group has committed in a topic, or everywhere if that is "": perhaps nothing.
func (c *Client) Offsets(ctx context.Context, group, topic string) ([]GroupOffset, error) {
	q := url.Values{"group": {group}}
	if topic != "" {
		q.Set("topic-name", topic)
	}
	var g Group
	err := c.call(ctx, &request{method: http.MethodGet, path: "/offsets", query: q}, &g)
	return g.Offsets, err
}

// Group describes a consumer group. ErrUnknownGroup if it has committed nothing.
func (c *Client) Group(ctx context.Context, name string) (Group, error) {
	var g Group
	err := c.call(ctx, &request{method: http.MethodGet, path: "/groups", query: url.Values{"group": {name}}}, &g)
	return g, err
}

// Groups describes all consumer groups, by name.
func (c *Client) Groups(ctx context.Context) ([]Group, error) {
	var all struct{ Groups []Group }
	err := c.call(ctx, &request{method: http.MethodGet, path: "/groups"}, &all)
	return all.Groups, err
}

// DeleteGroup forgets all that a group has committed. ErrUnknownGroup if that is nothing.
func (c *Client) DeleteGroup(ctx context.Context, name string) error {
	return c.call(ctx, &request{method: http.MethodDelete, path: "/groups", query: url.Values{"group": {name}}, write: true}, nil)
}

// DeleteOffset forgets what a group has committed in one partition.
func (c *Client) DeleteOffset(ctx context.Context, group, topic string, partition int32) error {
	q := url.Values{"group": {group}, "topic-name": {topic}, "partition": {strconv.Itoa(int(partition))}}
	return c.call(ctx, &request{method: http.MethodDelete, path: "/offsets", query: q, write: true}, nil)
}

// Trim deletes the records of a partition below an offset, for good, and returns what the partition is then. One at or
// below its start changes nothing; one beyond its end is ErrBeyondEnd.
func (c *Client) Trim(ctx context.Context, topic string, partition int32, offset int64) (Partition, error) {
	q := url.Values{"topic-name": {topic}, "partition": {strconv.Itoa(int(partition))}, "offset": {strconv.FormatInt(offset, 10)}}
	var p Partition
	err := c.call(ctx, &request{method: http.MethodPost, path: "/topic/trim", query: q, write: true, harmless: true}, &p)
	return p, err
}
