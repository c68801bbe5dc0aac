package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/auth"
)

// denials are the codes of requests without a right, by the type of resource.
var denials = map[access.ResourceType]*kerr.Error{
	access.Topic: kerr.TopicAuthorizationFailed, access.Group: kerr.GroupAuthorizationFailed, access.Cluster: kerr.ClusterAuthorizationFailed,
	access.TransactionalID: kerr.TransactionalIDAuthorizationFailed,
}

// errDenied is the message of answers that have one.
var errDenied = errors.New("the client has no right to this operation")

// may reports whether the client may perform an operation.
func (c *call) may(o access.Operation, t access.ResourceType, name string) bool {
	return c.who.Allow(o, t, name)
}

// denied is the code of a request without a right to a resource, or none.
func (c *call) denied(o access.Operation, t access.ResourceType, name string) int16 {
	if c.may(o, t, name) {
		return none
	}
	return c.deny(o, t, name)
}

// deny reports a denial for the audit topic, and returns its code.
func (c *call) deny(o access.Operation, t access.ResourceType, name string) int16 {
	c.b.Denied(c.origin(), o, t, name)
	return denials[t].Code
}

// origin describes the client of a request in audit records, if there are any.
func (c *call) origin() (o audit.Origin) {
	if !c.b.Audits() {
		return o
	}
	o = c.who.Origin()
	o.Protocol, o.From, o.Request = "kafka", c.remote.String(), fmt.Sprintf("%s %d", c.client, c.id)
	return o
}

// clusterDenied is denied for the cluster.
func (c *call) clusterDenied(o access.Operation) int16 {
	return c.denied(o, access.Cluster, access.ClusterName)
}

// topicNamed finds a topic for an operation. Without the right the code is the same whether or not
// the topic exists.
func (c *call) topicNamed(name string, o access.Operation) (broker.TopicRef, int16) {
	if code := c.denied(o, access.Topic, name); code != none {
		return broker.TopicRef{}, code
	}
	if ref, ok := c.b.TopicNamed(name); ok {
		return ref, none
	}
	return broker.TopicRef{}, kerr.UnknownTopicOrPartition.Code
}

// topicOf finds a topic by its ID for an operation. A topic that the client may not describe is
// unknown.
func (c *call) topicOf(id [16]byte, o access.Operation) (broker.TopicRef, int16) {
	ref, ok := c.b.TopicOf(id)
	if ok && !c.may(o, access.Topic, ref.Name) && !c.may(access.Describe, access.Topic, ref.Name) {
		c.deny(o, access.Topic, ref.Name)
		ok = false
	}
	if !ok {
		return broker.TopicRef{}, kerr.UnknownTopicID.Code
	}
	if code := c.denied(o, access.Topic, ref.Name); code != none {
		return broker.TopicRef{}, code
	}
	return ref, none
}

// topicRefs lists the topics that the client may describe.
func (c *call) topicRefs() []broker.TopicRef {
	all := c.b.TopicRefs()
	if c.who.Root() {
		return all
	}
	var seen []broker.TopicRef
	for i := range all {
		if c.may(access.Describe, access.Topic, all[i].Name) {
			seen = append(seen, all[i])
		}
	}
	return seen
}

// as returns a context for a change of the state with the client's authority. A right that ends
// before the change has a slot refuses it.
func (c *call) as(ctx context.Context, o access.Operation, t access.ResourceType, name string) (context.Context, int16) {
	check, ok := c.who.Check(o, t, name)
	if !ok {
		return ctx, c.deny(o, t, name)
	}
	return broker.WithClient(ctx, broker.Client{Check: check, Origin: c.origin()}), none
}

// operations are the client's operations on a resource, as bits of Kafka's numbers.
func (c *call) operations(t access.ResourceType, name string) (bits int32) {
	for _, o := range c.who.Operations(t, name) {
		bits |= 1 << o
	}
	return bits
}

// clusterOperations are the client's operations on the cluster; none without Describe, as in Kafka.
func (c *call) clusterOperations() int32 {
	if !c.may(access.Describe, access.Cluster, access.ClusterName) {
		return 0
	}
	return c.operations(access.Cluster, access.ClusterName)
}

// topicFor returns the name of a topic that a request of a group names, by its ID if byID is set, and
// checks a right to it. A topic without an ID may be missing.
func (c *call) topicFor(name string, id [16]byte, byID bool, o access.Operation) (string, int16) {
	if byID {
		ref, code := c.topicOf(id, o)
		return ref.Name, code
	}
	return name, c.denied(o, access.Topic, name)
}

// errRule: a rule of Kafka that Seb does not have.
var errRule = errors.New("unsupported rule")

// accessFaults lists the errors of changing rules, passwords and quotas.
var accessFaults = faults{
	{errRule, kerr.InvalidRequest},
	{errQuota, kerr.InvalidRequest},
	{errEntity, kerr.UnsupportedVersion}, // as in Kafka
	{state.ErrUnauthorized, kerr.ClusterAuthorizationFailed},
	{state.ErrNotAudited, kerr.PolicyViolation},
	{state.ErrInvalid, kerr.InvalidRequest},
	{auth.ErrNoPassword, kerr.ResourceNotFound},
	{state.ErrLevel, kerr.UnsupportedVersion},
	{state.ErrFenced, kerr.NotController},
	{state.ErrNotLeader, kerr.NotController},
	{state.ErrReadOnly, kerr.NotController},
	{broker.ErrClosed, kerr.NotController},
	{state.ErrCorrupt, kerr.KafkaStorageError},
	{state.ErrNewer, kerr.KafkaStorageError},
	{state.ErrStateFull, kerr.PolicyViolation},
	{state.ErrOverBudget, kerr.ThrottlingQuotaExceeded},
}

// accessCode is the code of an error of changing rules, passwords and quotas.
func accessCode(err error) int16 {
	var invalid *state.InvalidError
	if errors.As(err, &invalid) && (invalid.Field == "iterations" || invalid.Field == "salt" || invalid.Field == "salted password" || invalid.Field == "user") {
		return kerr.UnacceptableCredential.Code
	}
	return accessFaults.find(err, kerr.RequestTimedOut.Code)
}
