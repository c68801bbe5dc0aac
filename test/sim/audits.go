package sim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// auditTopic is the topic of audit records.
const auditTopic = "audit"

// audits gives changes an audit record in a third of the runs without losses: changes of settings,
// principals and rules, trims, and the appends of a third of the producers. Sometimes the topic of
// the records is deleted, and no change is accepted until there is another one.
func (w *simulation) audits() {
	if w.audit = w.cfg.Slow == 0 && w.cfg.LoseAt == 0 && w.auditRand.IntN(3) == 0; !w.audit {
		return
	}
	for _, p := range w.clients {
		p.audited = w.auditRand.IntN(3) == 0
	}
	w.after(w.upTo(w.auditRand, 10*time.Second), w.deleteAudits)
}

// created are the topics that a leader creates.
func (w *simulation) created() []*topic {
	all := w.topics
	if w.audit {
		all = append([]*topic{{name: auditTopic, parts: 1}}, all...)
	}
	if w.cfg.Atomics > 0 {
		all = append(slices.Clone(all), &topic{name: queueTopic, queue: true})
	}
	return all
}

func (w *simulation) deleteAudits() {
	if w.calm {
		return
	}
	w.after(w.around(w.auditRand, 10*time.Second), w.deleteAudits)
	r := w.nodes[w.auditRand.IntN(w.cfg.Nodes)].run
	if r == nil || r.paused || r.core.Role() != core.RoleLeader {
		return
	}
	o := &op{w: w, key: partKey{topic: auditTopic}, id: 1 << 55, rec: &state.Record{Kind: state.TopicDelete}}
	o.done = func(o *op) {
		if o.run.core.Role() == core.RoleLeader {
			o.run.createTopics()
		}
	}
	r.deliver(func() { r.submit(o) })
}

// auditFor adds the audit record of a change to a proposal, and returns its number there.
func (r *run) auditFor(p *core.Proposal, appends *[]*op, change string) int32 {
	w := r.n.w
	w.auditOps++
	data, sum, err := record.Append(nil, []record.Record{{Value: fmt.Appendf(nil, "audit %d %s", w.auditOps, change)}}, record.EncodeOptions{})
	if err != nil {
		w.fail("encode an audit record: %v", err)
		return 0
	}
	w.check.sent.Note(data)
	a := core.Append{Audits: true, Span: 1, Records: 1, Bytes: uint32(len(data)), Expected: -1, MinTime: sum.MinTimestamp, MaxTime: sum.MaxTimestamp}
	if s := r.core.State(); s != nil {
		if t := s.TopicByName(auditTopic); t != nil {
			a.Topic = t.ID
		}
	}
	p.Appends = append(p.Appends, a)
	*appends = append(*appends, &op{w: w, run: r, data: data, outcome: acked}) // no client waits for it
	return int32(len(p.Appends))
}

// auditedKind reports whether the change of a state record has an audit record.
func (w *simulation) auditedKind(k state.RecordKind) bool {
	return w.audit && (k == state.AccessChange || k == state.TopicChange || k == state.TopicTrim)
}

// changeOf names the change of a state record in audit records.
func changeOf(r *state.Record) string {
	h := fnv.New64a()
	h.Write(state.EncodeRecords(nil, []state.Record{*r}))
	return fmt.Sprintf("%v %x", r.Kind, h.Sum64())
}

// pairs checks I18 for a slot: it has each change with its audit record, or neither.
type pairs map[string]int

// changed adds the state records of a slot.
func (p pairs) changed(w *simulation, recs []state.Record) {
	for i := range recs {
		if w.auditedKind(recs[i].Kind) {
			p[changeOf(&recs[i])]++
		}
	}
}

// appended adds a record of a slot.
func (p pairs) appended(c *checker, k partKey, v string) {
	if k.topic == auditTopic {
		change := strings.SplitN(v, " ", 3)
		p[change[2]]--
		c.w.stats.Audited++
	} else if c.value(v).audited {
		p["append "+v]++
	}
}

func (c *checker) paired(slot uint64) {
	for change, n := range c.pairs {
		if n != 0 {
			c.w.fail("I18: slot %d: changes less audit records of %q are %d", slot, change, n)
		}
	}
	clear(c.pairs)
}
