package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// changeOf describes a change. details are names and values in turn.
func changeOf(action string, t access.ResourceType, name string, details ...string) *audit.Change {
	c := &audit.Change{Action: action, Resource: audit.Resource{Type: t.String(), Name: name}, Details: map[string]string{}}
	for i := 0; i < len(details); i += 2 {
		c.Details[details[i]] = details[i+1]
	}
	return c
}

// topicChange describes a topic's creation or change, with the settings that differ; "" is a removed
// one.
func topicChange(action, name string, partitions int, old, now map[string]string) *audit.Change {
	c := changeOf(action, access.Topic, name)
	for k := range old { //tidy:unordered fills a map
		if _, ok := now[k]; !ok {
			c.Details[k] = ""
		}
	}
	for k, v := range now { //tidy:unordered fills a map
		if was, ok := old[k]; !ok || was != v {
			c.Details[k] = v
		}
	}
	if partitions > 0 {
		c.Details["partitions"] = strconv.Itoa(partitions)
	}
	return c
}

// accessChange describes a change of principals and rules. It names no secret.
func accessChange(t *access.Table, c *access.Change) *audit.Change {
	out := &audit.Change{Action: "access.change", Resource: audit.Resource{Type: "acl"}, Details: map[string]string{}}
	for i := range c.Put {
		out.Action, out.Resource = principalAction(t, &c.Put[i]), audit.Resource{Type: "principal", Name: c.Put[i].ID}
		if at := c.Put[i].Expires; at != 0 {
			out.Details["expires"] = time.UnixMicro(at).UTC().Format(time.RFC3339)
		}
	}
	if c.PutSigning != "" {
		out.Action, out.Resource = "secrets.signing-key", audit.Resource{Type: "cluster"}
	}
	for _, id := range c.Delete {
		out.Action, out.Resource = "token.revoke", audit.Resource{Type: "principal", Name: id}
	}
	if len(c.Put)+len(c.Delete)+len(c.PutSigning) == 0 {
		if rules := slices.Concat(c.PutRules, c.DeleteRules); len(rules) > 0 {
			out.Action, out.Resource.Name = ruleAction(c), rules[0].Principal
		} else {
			describeQuotas(out, c)
		}
	}
	addRules(out, "rules", c.PutRules)
	addRules(out, "removed-rules", c.DeleteRules)
	return out
}

// principalAction is the action by which a principal becomes p.
func principalAction(t *access.Table, p *access.Principal) string {
	tokens := func(p *access.Principal) (ids []uint64) {
		for i := range p.Secrets {
			if p.Secrets[i].IsToken() {
				ids = append(ids, p.Secrets[i].ID)
			}
		}
		return ids
	}
	now := tokens(p)
	old := t.Principal(p.ID)
	switch {
	case old == nil && len(now) > 0:
		return "token.create"
	case old == nil:
		return "password.set"
	case !slices.Equal(tokens(old), now):
		return "token.rotate"
	case len(old.Secrets) > len(p.Secrets):
		return "password.delete"
	}
	return "password.set"
}

func ruleAction(c *access.Change) string {
	switch {
	case len(c.PutRules) == 0:
		return "acl.remove"
	case len(c.DeleteRules) > 0:
		return "acl.change"
	case slices.ContainsFunc(c.PutRules, func(r access.Rule) bool { return !r.Deny }):
		return "acl.allow"
	}
	return "acl.deny"
}

func describeQuotas(out *audit.Change, c *access.Change) {
	for _, id := range c.DeleteQuotas {
		out.Action, out.Resource = "quota.remove", audit.Resource{Type: "quota", Name: id}
	}
	for _, q := range c.PutQuotas {
		out.Action, out.Resource = "quota.set", audit.Resource{Type: "quota", Name: q.Principal}
		for name, limit := range map[string]uint64{"produce-bytes": q.ProduceBytes, "fetch-bytes": q.FetchBytes, "requests": q.Requests} {
			if limit != 0 {
				out.Details[name] = strconv.FormatUint(limit, 10)
			}
		}
	}
}

// rulesMax bounds the rules that a record lists.
const rulesMax = 50

func addRules(c *audit.Change, name string, rules []access.Rule) {
	if len(rules) == 0 {
		return
	}
	var list []string
	for _, r := range rules[:min(len(rules), rulesMax)] {
		list = append(list, r.String())
	}
	if n := len(rules) - len(list); n > 0 {
		list = append(list, fmt.Sprintf("and %d more", n))
	}
	c.Details[name] = strings.Join(list, "; ")
}

// AuditTopic returns the topic of audit records, or "" if changes have none.
func (b *Broker) AuditTopic() string { return b.opt.AuditTopic }

// Audits reports whether changes have audit records.
func (b *Broker) Audits() bool { return b.opt.AuditTopic != "" }

// auditRecord returns the audit record of a change by the client of ctx; nil without an audit topic.
// It creates the topic if it is missing.
func (b *Broker) auditRecord(ctx context.Context, c *audit.Change) (*log.Append, error) {
	if b.opt.AuditTopic == "" || c == nil {
		return nil, nil
	}
	origin := cmp.Or(ClientOf(ctx).Origin, b.opt.Origin)
	return b.auditBatch(ctx, &audit.Event{Origin: origin, Change: *c, Outcome: audit.Done})
}

func (b *Broker) auditBatch(ctx context.Context, e *audit.Event) (*log.Append, error) {
	id, err := b.auditTopic(ctx)
	if err != nil {
		return nil, err
	}
	data, sum, err := audit.Batch(&e.Origin, &e.Change, e.Outcome, e.Count, b.opt.Now())
	if err != nil {
		return nil, err
	}
	return &log.Append{Data: data, Head: core.Append{
		Topic: id, Span: uint32(sum.Span), Records: uint32(sum.Records), Bytes: uint32(len(data)),
		MinTime: sum.MinTimestamp, MaxTime: sum.MaxTimestamp, Expected: -1,
	}}, nil
}

// auditTopic returns the ID of the audit topic, which it creates if it is missing. The creation is
// Seb's own and has no audit record.
func (b *Broker) auditTopic(ctx context.Context) (record.ID, error) {
	if r, ok := b.TopicNamed(b.opt.AuditTopic); ok {
		return r.ID, nil
	}
	settings, err := checkSettings(audit.Settings)
	if err != nil {
		return record.ID{}, err
	}
	op := core.Op{Own: true, Record: state.Record{
		Kind: state.TopicCreate, Topic: record.NewID(), Name: b.opt.AuditTopic, Partitions: 1, Settings: settings,
	}}
	err = b.log.ProposeAll([]core.Op{op}).Wait(ctx)[0].Err()
	if errors.Is(err, state.ErrTopicExists) { // another change has created it
		err = nil
	}
	if err != nil {
		return record.ID{}, fmt.Errorf("create the audit topic: %w", err)
	}
	r, _ := b.TopicNamed(b.opt.AuditTopic)
	return r.ID, nil
}

// AppendChange appends records that are a change by the client of ctx, with an audit record about
// it, and waits for the result. It ignores Release and Memory, and writes to Options.Internal.
func (b *Broker) AppendChange(ctx context.Context, a Append, c *audit.Change) Result {
	err := b.refuses(ctx)
	if err == nil && a.Topic == b.opt.AuditTopic {
		err = b.checkInternal(a.Topic)
	}
	if err != nil {
		return Result{Err: err}
	}
	head, err := b.admit(&a)
	if err != nil {
		return Result{Err: err}
	}
	record, err := b.auditRecord(ctx, c)
	if err != nil {
		return Result{Err: err}
	}
	t := b.log.Submit([]log.Append{{Head: head, Data: a.Data, Audit: record}})
	return result(&t.Wait(ctx)[0])
}

// Audit stores an audit record of what the client of ctx did, and waits for that. Without an audit topic
// it does nothing. Use it for what changes no state.
func (b *Broker) Audit(ctx context.Context, c *audit.Change) error {
	if !b.Audits() {
		return nil
	}
	if err := b.refuses(ctx); err != nil {
		return err
	}
	a, err := b.auditRecord(ctx, c)
	if err != nil {
		return err
	}
	return b.log.Submit([]log.Append{*a}).Wait(ctx)[0].Err()
}

// Denied samples a request that a client had no right to, for the audit topic. It does not wait.
func (b *Broker) Denied(o audit.Origin, op access.Operation, t access.ResourceType, name string) {
	c := audit.Change{Action: t.String() + "." + op.String(), Resource: audit.Resource{Type: t.String(), Name: name}}
	b.denials.Add(o.Principal, audit.Event{Origin: o, Change: c, Outcome: audit.Denied})
}

// FailedLogin samples a failed login from a network, for the audit topic. It does not wait.
func (b *Broker) FailedLogin(protocol, from, network string) {
	o := audit.Origin{From: from, Protocol: protocol}
	c := audit.Change{Action: "login", Resource: audit.Resource{Type: "network", Name: network}}
	b.logins.Add(network, audit.Event{Origin: o, Change: c, Outcome: audit.FailedLogin})
}

// startSamplers starts the samplers and the goroutine that stores what they select.
func (b *Broker) startSamplers(ctx context.Context) {
	more := wake.New()
	b.denials, b.logins = audit.NewSampler(time.Now, more), audit.NewSampler(time.Now, more)
	b.running.Go(func() {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for {
			timer.Stop()
			next := b.storeEvents(ctx, b.denials)
			if at := b.storeEvents(ctx, b.logins); next.IsZero() || !at.IsZero() && at.Before(next) {
				next = at
			}
			if !next.IsZero() {
				timer.Reset(time.Until(next))
			}
			select {
			case <-more:
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// storeEvents stores what a sampler selects, and returns when it has more.
func (b *Broker) storeEvents(ctx context.Context, s *audit.Sampler) (next time.Time) {
	events, dropped, next := s.Take()
	appends := make([]log.Append, 0, len(events))
	var counts []int // of the appends
	for i := range events {
		n := max(1, events[i].Count)
		a, err := b.auditBatch(ctx, &events[i])
		if err != nil {
			dropped += n
			continue
		}
		appends, counts = append(appends, log.Append{Head: a.Head, Data: a.Data}), append(counts, n)
	}
	for i, r := range b.log.SubmitDeferred(appends).Wait(ctx) {
		if r.Err() != nil {
			dropped += counts[i]
		}
	}
	b.met.auditDropped.Add(dropped)
	return next
}

// Client is the client of a change of the state. The zero value is Seb itself.
type Client struct {
	// Check is the authority of the client. If the state of the slot no longer allows a change, it
	// is refused with ErrUnauthorized. A nil Check is the authority of the root key. Appends have a
	// Check of their own.
	Check *access.Check
	// Origin describes the client in audit records.
	Origin audit.Origin
}

type clientKey struct{}

// WithClient returns a context whose changes of the state are those of a client.
func WithClient(ctx context.Context, c Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// ClientOf returns the Client of WithClient, or the zero value.
func ClientOf(ctx context.Context) Client {
	c, _ := ctx.Value(clientKey{}).(Client)
	return c
}

// Access returns the committed principals and rules. The table does not change; it is never nil.
func (b *Broker) Access() *access.Table { return b.log.Access() }

// ChangeAccess changes principals and rules and waits until that is committed. plan returns the
// change to a table, or why there is none; it is called again if another change came first. An
// empty change is not stored. From the return on, every request is judged by the new rules.
// Errors: those of plan, ErrLevel, ErrOverBudget, and those of an append.
func (b *Broker) ChangeAccess(ctx context.Context, plan func(*access.Table) (access.Change, error)) error {
	for {
		if err := b.refuses(ctx); err != nil {
			return err
		}
		now := b.Access()
		c, err := plan(now)
		if err != nil || c.IsEmpty() {
			return err
		}
		c.Base = now.Version
		r := state.Record{Kind: state.AccessChange, Access: &c}
		if err := b.propose(ctx, r, accessChange(now, &c)); !errors.Is(err, state.ErrAccessConflict) {
			return err
		}
	}
}

// RecordUse stores when secrets were last used, together with the next commit object. It does not
// wait for others and makes no object of its own until Options.Batch.DeferWait. Errors: those of an
// append.
func (b *Broker) RecordUse(ctx context.Context, uses []access.Use) error {
	if err := b.refuses(ctx); err != nil {
		return err
	}
	op := core.Op{Own: true, Record: state.Record{Kind: state.AccessChange, Access: &access.Change{Used: uses}}}
	return b.log.ProposeDeferred([]core.Op{op}).Wait(ctx)[0].Err()
}

// accessChanges calls functions after each change of principals and rules.
type accessChanges struct {
	mu    sync.Mutex // guards calls
	calls []*func()
}

// OnAccessChange calls f after each committed change of principals and rules, before the change is
// answered, until stop is called. f must be quick and must not call the broker.
func (b *Broker) OnAccessChange(f func()) (stop func()) {
	b.access.mu.Lock()
	defer b.access.mu.Unlock()
	b.access.calls = append(b.access.calls, &f)
	return func() {
		b.access.mu.Lock()
		defer b.access.mu.Unlock()
		b.access.calls = slices.DeleteFunc(b.access.calls, func(c *func()) bool { return c == &f })
	}
}

// accessChanged is called by the log while its state is locked.
func (b *Broker) accessChanged() {
	b.access.mu.Lock()
	defer b.access.mu.Unlock()
	for _, f := range b.access.calls {
		(*f)()
	}
}
