// Package audit makes audit records: who changed what, and which requests were denied. A record of a
// change is stored in the slot of the change (package log). Denials and failed logins are sampled.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/sebbroker/seb/record"
)

// Settings are those of a new topic of audit records: the append time is the time of the change, and
// records stay for 90 days.
var Settings = map[string]string{"timestamp-type": "append", "retention-time": "90d"}

// Library is the protocol of requests of the program that embeds the broker.
const Library = "library"

// Origin is the client of a request. The zero value is Seb itself.
type Origin struct {
	Principal string // ID; access.RootID for the root key
	Secret    uint64 // of the principal; 0 for the root key
	From      string // address
	Protocol  string // http, kafka or Library
	Request   string // the client's name of the request
}

// Change is what a record is about. Details must have no secrets and no values of records.
type Change struct {
	Action   string // such as topic.create
	Resource Resource
	Details  map[string]string
}

// Resource is what a change is about.
type Resource struct {
	Type string `json:"type"` // a type of rules, or principal, acl, quota, network
	Name string `json:"name"`
}

// value is the value of a record: api.AuditRecord describes it to readers.
type value struct {
	Actor    actor             `json:"actor"`
	From     string            `json:"from,omitempty"`
	Protocol string            `json:"protocol,omitempty"`
	Request  string            `json:"request,omitempty"`
	Action   string            `json:"action"`
	Resource Resource          `json:"resource"`
	Outcome  string            `json:"outcome"`
	Count    int               `json:"count,omitempty"`
	Details  map[string]string `json:"details,omitempty"`
}

type actor struct {
	Principal string `json:"principal,omitempty"`
	Secret    string `json:"secret,omitempty"`
}

// Outcomes of requests.
const (
	Done        = "done"
	Denied      = "denied"
	FailedLogin = "failed-login"
)

type changeKey struct{}

// WithChange returns a context for an append that is a change. The log stores an audit record with
// it.
func WithChange(ctx context.Context, c *Change) context.Context {
	return context.WithValue(ctx, changeKey{}, c)
}

// ChangeOf returns the Change of WithChange, or nil.
func ChangeOf(ctx context.Context) *Change {
	c, _ := ctx.Value(changeKey{}).(*Change)
	return c
}

const (
	// fieldMax bounds the texts that come from clients, detailMax each detail.
	fieldMax  = 256
	detailMax = 16 << 10
)

// Batch encodes a record. count is the number of requests that it stands for; 0 means one.
func Batch(o *Origin, c *Change, outcome string, count int, now time.Time) ([]byte, record.Summary, error) {
	r := value{
		Actor: actor{Principal: o.Principal}, From: o.From, Protocol: o.Protocol, Request: cut(o.Request, fieldMax),
		Action: c.Action, Resource: Resource{Type: c.Resource.Type, Name: cut(c.Resource.Name, fieldMax)},
		Outcome: outcome, Count: count, Details: map[string]string{},
	}
	if o.Secret != 0 {
		r.Actor.Secret = strconv.FormatUint(o.Secret, 16)
	}
	for k, v := range c.Details { //tidy:unordered copies a map
		r.Details[k] = cut(v, detailMax)
	}
	text, err := json.Marshal(&r)
	if err != nil {
		return nil, record.Summary{}, fmt.Errorf("encode an audit record: %w", err)
	}
	key := r.Resource.Type + "/" + r.Resource.Name
	return record.Append(nil, []record.Record{{Key: []byte(key), Value: text, Timestamp: now.UnixMilli()}}, record.EncodeOptions{})
}

// cut shortens a text to at most n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}
