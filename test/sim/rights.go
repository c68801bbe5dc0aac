package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// principals starts changes of principals, rules and quotas in a third of the runs. Half of the appends of
// producers without idempotence are then sent by a principal.
func (w *simulation) principals() {
	if w.rights = w.cfg.Slow == 0 && w.rightsRand.IntN(3) == 0; w.rights {
		w.after(w.upTo(w.rightsRand, time.Second), w.changeRights)
	}
}

func (w *simulation) anyPrincipal() string { return fmt.Sprintf("u%d", w.rightsRand.IntN(3)) }

// internal reports whether only rules with its exact name match a topic.
func (w *simulation) internal(topic string) bool { return topic == w.topics[0].name }

// changeRights changes a principal, one of its rules or its quota.
func (w *simulation) changeRights() {
	if w.late() {
		return
	}
	w.after(w.around(w.rightsRand, 100*time.Millisecond), w.changeRights)
	r := w.nodes[w.rightsRand.IntN(w.cfg.Nodes)].run
	if r == nil || r.paused || r.core.State() == nil {
		return
	}
	table, id := &r.core.State().Access, w.anyPrincipal()
	c := &access.Change{Base: table.Version}
	w.secrets++
	switch p := table.Principal(id); {
	case p == nil, w.rightsRand.IntN(4) == 0:
		c.Put = []access.Principal{{ID: id, Secrets: []access.Secret{{ID: w.secrets, Hash: [32]byte{1}}}}}
	case w.rightsRand.IntN(4) == 0:
		c.Delete, c.DeleteRules = []string{id}, table.RulesOf(id)
	case w.rightsRand.IntN(6) == 0:
		if _, known := table.Quota(id); known {
			c.DeleteQuotas = []string{id}
		} else {
			c.PutQuotas = []access.Quota{{Principal: id, Requests: w.secrets}}
		}
	default:
		if rule := w.rule(id); table.Has(rule) {
			c.DeleteRules = []access.Rule{rule}
		} else {
			c.PutRules = []access.Rule{rule}
		}
	}
	o := &op{w: w, id: 1<<60 | w.secrets, rec: &state.Record{Kind: state.AccessChange, Access: c}}
	o.done = func(o *op) {
		if o.outcome == acked {
			w.stats.Rights++
		}
	}
	r.deliver(func() { r.submit(o) })
	w.after(w.cfg.ClientTimeout, func() {
		if o.outcome == waiting {
			o.answer(unknown, 0)
		}
	})
}

// rule draws a rule about appends: to one topic, to a prefix of all names, or to every topic.
func (w *simulation) rule(id string) access.Rule {
	r := access.Rule{Principal: id, Resource: access.Topic, Operation: access.Write, Host: access.Any, Deny: w.rightsRand.IntN(4) == 0}
	switch w.rightsRand.IntN(4) {
	case 0:
		r.Name = access.Any
	case 1:
		r.Name, r.Prefix = "t", true
	default:
		r.Name = w.topics[w.rightsRand.IntN(len(w.topics))].name
	}
	return r
}

// authorize lets a principal send some ops. ok is false if its broker refuses it at once.
func (p *producer) authorize(o *op) (ok bool) {
	w := p.w
	return !w.rights || p.idempotent || w.rightsRand.IntN(2) == 0 || p.at.authority(o)
}

// authority lets a principal send an op. ok is false if the broker refuses it at once.
func (r *run) authority(o *op) (ok bool) {
	w := r.n.w
	s := r.core.State()
	if s == nil {
		return false
	}
	id := w.anyPrincipal()
	user := s.Access.Principal(id)
	if user == nil {
		return false
	}
	o.check = &access.Check{
		Principal: id, Secret: user.Secrets[0].ID, Version: s.Access.Version,
		Request: access.Request{Operation: access.Write, Resource: access.Topic, Name: o.key.topic, Internal: w.internal(o.key.topic)},
	}
	if !s.Access.Compile(id).Allow(o.check.Request, "") {
		return false
	}
	for _, v := range o.values {
		w.check.value(v).check = o.check
	}
	return true
}

// authorized checks I17 for a value of a slot whose state records have been applied: its principal
// has the right to the append there.
func (c *checker) authorized(v string, slot uint64) {
	k := c.value(v).check
	if k == nil {
		return
	}
	c.w.stats.Checked++
	p := c.fold.Access.Principal(k.Principal)
	allow, deny := false, p == nil || p.Secret(k.Secret) == nil
	for _, r := range c.fold.Access.RulesOf(k.Principal) {
		any := r.Name == access.Any || r.Prefix && strings.HasPrefix(k.Request.Name, r.Name)
		if !r.Prefix && r.Name == k.Request.Name || any && !k.Request.Internal {
			allow, deny = allow || !r.Deny, deny || r.Deny
		}
	}
	if deny || !allow {
		c.w.fail("I17: slot %d has %q of %s, which may not append to %s", slot, v, k.Principal, k.Request.Name)
	}
}
