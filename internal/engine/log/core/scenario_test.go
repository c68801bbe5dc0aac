package core_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/forged"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestScenarios drives several cores on one bucket. The outputs of an input are the effects of all
// steps that it causes, in order; a repeated request keeps its number. Positions are written
// EPOCH/SLOT. test/README.md explains how to add a scenario.
//
//	start C window= snapshots= advertised= run= read-only=yes standby=yes journals=yes|refused cached=yes   another
//	                                  core, for the next inputs
//	lead C ... level=1 raise-after=   start, settle, create topic t if empty; shows the state
//	use C                             the core for the next inputs
//	stand, succeed, follow            the next core of this one
//	step-down, park, unpark           a leader yields, or continues
//	show PACE PROMISE                 a leader shows life
//	round                             answers the open requests, but none that these cause
//	freeze append|append@OFFSET|create|create-audit|delete|delete-audit|own-trim|raise|reset ...
//	                                  one proposal; audited:WORD gives it an audit record; raise-max=
//	fill N                            N committed appends; shows nothing
//	answer POSITION [OUTCOME]         its newest request; by default like a correct store
//	settle overwrite=yes              answers all requests; overwrite: accepts a SEAL twice
//	place POSITION own|seal|data hint= nonce= time=   an object at the name of the open request
//	object KEY, delete POSITION|snapshot:POSITION|PREFIX*
//	lose POSITION...                  deletes objects; cores that were started with cached=yes have copies
//	truncate POSITION...              cuts their last byte off
//	hide POSITION...                  omits them from lists
//	damage POSITION|snapshot:POSITION... times=
//	pass 1m, tick 1m                  time passes; tick sends an event at the end
//	readers yes|no, confirm TAG, state
//	reach POSITION, feed POSITION...  a follower learns how far the log reaches, or gets slots of it
func TestScenarios(t *testing.T) {
	sebtest.Scenarios(t, func(t *testing.T) func(c *sebtest.Command) []string {
		s := &scenario{
			t: t, cores: map[string]*bench{}, objects: map[string][]byte{}, cached: map[string][]byte{}, hidden: map[string]bool{}, damaged: map[string]int{},
			newest: map[string]core.Effect{}, numbers: map[operation]int{},
		}
		return s.perform
	})
}

// operation identifies a request of a core.
type operation struct {
	*bench
	core.OpID
}

type scenario struct {
	*bench
	*sebtest.Command
	t       *testing.T
	cores   map[string]*bench
	objects map[string][]byte
	cached  map[string][]byte
	hidden  map[string]bool
	damaged map[string]int // how often an object cannot be read, by position
	lines   []string
	silent  bool
	newest  map[string]core.Effect // requests by position
	numbers map[operation]int      // numbers of operations in outputs
}

func (s *scenario) perform(c *sebtest.Command) []string {
	s.Command, s.lines, s.silent = c, nil, false
	switch c.Verb {
	case "start", "lead":
		s.start(c)
	case "use":
		s.bench = s.cores[c.Args[0]]
	case "round":
		s.round()
	case "freeze":
		p := &core.Proposal{}
		for _, word := range c.Args {
			s.proposeOp(p, word)
		}
		for _, word := range c.Args {
			s.proposeAppend(p, word)
		}
		s.raiseMax = uint32(s.option("raise-max"))
		s.freeze(p.Ops, p.Appends...)
		s.raiseMax = 0
	case "fill":
		s.silent = true
		for range s.number(c.Args[0]) {
			s.freeze(nil, one(-1))
			s.settleAll(false)
		}
	case "answer":
		switch e, open := s.request(c.Args[0], true); {
		case e.Op == 0 || !open && len(c.Args) == 1:
			s.t.Fatalf("no request for %s", c.Args[0])
		case len(c.Args) == 1:
			s.honest(e)
		default:
			s.fail(e, s.outcome(c.Args[1]))
		}
	case "settle":
		_, overwrite := c.Option("overwrite")
		s.settleAll(overwrite)
	case "place":
		s.place(c)
	case "object":
		s.objects[c.Args[0]] = []byte("x")
	case "delete", "lose", "truncate", "hide", "damage":
		s.spoil(c)
	case "pass", "tick":
		s.pass(c.Args[0], c.Verb == "tick")
	case "readers":
		s.step(&core.Event{Kind: core.EvReaders, On: c.Args[0] == "yes"})
	case "confirm":
		s.step(&core.Event{Kind: core.EvConfirm, Tag: uint64(s.number(c.Args[0]))})
	case "reach", "feed":
		s.feed(c)
	case "state":
		s.describe()
	default:
		s.takeTurns(c)
	}
	return s.lines
}

// spoil damages the bucket.
func (s *scenario) spoil(c *sebtest.Command) {
	for key, body := range maps.Clone(s.objects) {
		at := position(key)
		switch hit := slices.Contains(c.Args, at); {
		case c.Verb == "delete":
			if hit || strings.HasSuffix(c.Args[0], "*") && strings.HasPrefix(at, strings.TrimSuffix(c.Args[0], "*")) {
				delete(s.objects, key)
			}
		case hit && c.Verb == "lose":
			s.cached[key] = body
			delete(s.objects, key)
		case hit && c.Verb == "hide":
			s.hidden[key] = true
		case hit && c.Verb == "truncate":
			s.objects[key] = body[:len(body)-1]
		}
	}
	times := cmp.Or(s.option("times"), 1000)
	for _, at := range c.Args {
		if c.Verb == "damage" {
			s.damaged[at] = times
		}
	}
}

// takeTurns performs what brokers do that take over from each other.
func (s *scenario) takeTurns(c *sebtest.Command) {
	switch c.Verb {
	case "stand", "succeed":
		s.becomes(s.core.Stand(c.Verb == "succeed"))
		return
	case "follow":
		s.becomes(s.core.Follow())
		return
	}
	kinds := map[string]core.EventKind{"step-down": core.EvStepDown, "park": core.EvPark, "unpark": core.EvUnpark, "show": core.EvShow}
	ev := &core.Event{Kind: kinds[c.Verb]}
	switch ev.Kind {
	case 0:
		s.t.Fatalf("unknown command %q", c.Verb)
	case core.EvShow:
		ev.Pace, ev.Promise = core.Duration(s.duration(c.Args[0])), uint32(s.duration(c.Args[1]).Milliseconds())
	}
	s.step(ev)
}

// keys matches the keys of slots and snapshots, which outputs show as positions.
var keys = regexp.MustCompile(`s0000/(wal|snap)/[0-9a-f]+[0-9a-f/-]+`)

func (s *scenario) say(format string, args ...any) {
	if !s.silent {
		s.lines = append(s.lines, keys.ReplaceAllStringFunc(fmt.Sprintf(format, args...), position))
	}
}

func (s *scenario) start(c *sebtest.Command) {
	cfg := core.Config{
		Window: s.option("window"), SnapshotSlots: s.option("snapshots"), RaiseAfter: core.Duration(s.option("raise-after")) * 1e9,
	}
	cfg.Advertised, _ = c.Option("advertised")
	_, cfg.ReadOnly = c.Option("read-only")
	_, cfg.Standby = c.Option("standby")
	if n := s.option("run"); n > 0 {
		cfg.Run = state.Run{Node: record.ID{byte(n)}, ID: record.ID{byte(n)}}
	}
	_, caches := c.Option("cached")
	journals, _ := c.Option("journals")
	cfg.Journals = journals != ""
	_, old := c.Option("level")
	first := len(s.objects) == 0
	if first && old {
		s.objects = oldBucket(s.t)
	}
	b := &bench{t: s.t, core: core.New(cfg), now: 1e9, objects: s.objects, nonces: uint32(100 * len(s.cores)), hidden: s.hidden, onEffect: s.effect, noOwn: journals == "refused", caches: caches}
	if s.bench != nil {
		b.now = s.now
	}
	s.bench, s.cores[c.Args[0]] = b, b
	s.silent = c.Verb == "lead"
	s.step(&core.Event{Kind: core.EvStart})
	if c.Verb == "start" {
		return
	}
	s.settleAll(false)
	if first {
		s.freeze([]core.Op{topicT})
		s.settleAll(false)
	}
	s.silent = false
	s.describe()
}

// pass lets time pass, and sends a tick at the end.
func (s *scenario) pass(duration string, tick bool) {
	if s.now += int64(s.duration(duration)); tick {
		s.step(&core.Event{Kind: core.EvTick})
	}
}

func (s *scenario) duration(text string) time.Duration {
	d := must.Get(time.ParseDuration(text))(s.t)
	return d
}

// feed tells a follower a position, or gives it slots as they are in the bucket.
func (s *scenario) feed(c *sebtest.Command) {
	for _, at := range c.Args {
		if c.Verb == "reach" {
			var p state.Position
			must.Get(fmt.Sscanf(at, "%d/%d", &p.Epoch, &p.Slot))(s.t)
			s.step(&core.Event{Kind: core.EvReach, Pos: p})
			continue
		}
		for key, body := range s.objects { // one has the position
			if position(key) == at {
				s.step(&core.Event{Kind: core.EvFeed, Slot: decode(s.t, body)})
			}
		}
	}
}

// becomes starts the next core of this one.
func (s *scenario) becomes(next *core.Core) {
	s.core = next
	s.step(&core.Event{Kind: core.EvStart})
}

// round answers the open requests. A nonce needs no request to the store.
func (s *scenario) round() {
	for range s.open {
		s.honest(s.next())
	}
	for len(s.open) > 0 && s.open[0].Kind == core.EffNonce {
		s.honest(s.next())
	}
}

// option returns a numeric option, 0 if it is not given.
func (s *scenario) option(name string) int {
	v, given := s.Option(name)
	if !given {
		return 0
	}
	return s.number(v)
}

func (s *scenario) number(v string) int {
	n := must.Get(strconv.Atoi(v))(s.t)
	return n
}

// auditID is the topic of audit records.
var auditID = record.ID{0xab}

// audit adds an audit record, and returns its number for the change.
func audit(p *core.Proposal) int32 {
	a := one(-1)
	a.Topic, a.Audits = auditID, true
	p.Appends = append(p.Appends, a)
	return int32(len(p.Appends))
}

func (s *scenario) proposeOp(p *core.Proposal, word string) {
	op := core.Op{Record: state.Record{Topic: topicID}}
	word, audited := strings.CutPrefix(word, "audited:")
	switch word {
	case "create":
		op.Record = state.Record{Kind: state.TopicCreate, Topic: record.ID{2}, Name: "u", Partitions: 1}
	case "create-audit":
		op.Record, op.Own = state.Record{Kind: state.TopicCreate, Topic: auditID, Name: "audit", Partitions: 1}, true
	case "delete":
		op.Record.Kind = state.TopicDelete
	case "delete-audit":
		op.Record = state.Record{Kind: state.TopicDelete, Topic: auditID}
	case "own-trim":
		op.Record.Kind, op.Record.Offset, op.Own = state.TopicTrim, 1, true
	case "raise":
		op.Record = state.RaiseTo(state.LevelMax)
	case "reset":
		op.Record = state.Record{Kind: state.TimeReset, Time: 1}
	default:
		return
	}
	if audited {
		op.Audit = audit(p)
	}
	p.Ops = append(p.Ops, op)
}

func (s *scenario) proposeAppend(p *core.Proposal, word string) {
	word, audited := strings.CutPrefix(word, "audited:")
	offset, ok := strings.CutPrefix(word, "append")
	if !ok {
		return
	}
	a := one(-1)
	if offset != "" {
		a.Expected = int64(s.number(strings.TrimPrefix(offset, "@")))
	}
	at := len(p.Appends)
	if p.Appends = append(p.Appends, a); audited {
		p.Appends[at].Audit = audit(p)
	}
}

func (s *scenario) outcome(name string) core.Outcome {
	at := slices.Index([]string{"", "ok", "exists", "not-found", "no-verdict", "refused", "corrupt", "conflict"}, name)
	if at < 1 {
		s.t.Fatalf("unknown outcome %q", name)
	}
	return core.Outcome(at)
}

// request finds the newest request for a position, and takes it if it is open.
func (s *scenario) request(at string, take bool) (e core.Effect, open bool) {
	i := slices.IndexFunc(s.open, func(e core.Effect) bool { return position(e.Key) == at })
	if i < 0 {
		return s.newest[at], false
	}
	e = s.open[i]
	if take {
		s.open = slices.Delete(s.open, i, i+1)
	}
	return e, true
}

// honest answers like a correct store that may have damaged objects and has no garbage.
func (s *scenario) honest(e core.Effect) {
	switch e.Kind {
	case core.EffCollect:
		s.step(&core.Event{Kind: core.EvCollected, Op: e.Op, Outcome: core.OutcomeOK})
		return
	case core.EffScrub:
		need := core.NewNeeded(e.View, e.Key)
		for key := range s.objects {
			need.See(key)
		}
		s.step(&core.Event{Kind: core.EvScrubbed, Op: e.Op, Outcome: core.OutcomeOK, Names: need.Missing(16)})
		return
	}
	if at := position(e.Key); s.damaged[at] > 0 && (e.Kind == core.EffGetSlot || e.Kind == core.EffGetSnapshot) {
		s.damaged[at]--
		s.fail(e, core.OutcomeCorrupt)
		return
	}
	if body := s.cached[e.Key]; e.Kind == core.EffGetSlot && s.caches && !e.Direct && body != nil {
		s.step(&core.Event{Kind: core.EvSlot, Op: e.Op, Outcome: core.OutcomeOK, Slot: decode(s.t, body)})
		return
	}
	s.answer(e)
}

func (s *scenario) settleAll(overwrite bool) {
	for range 10_000 {
		if len(s.open) == 0 {
			return
		}
		shown := s.shown()
		if e := s.next(); overwrite && e.Kind == core.EffPutSeal {
			s.fail(e, core.OutcomeOK)
		} else {
			s.honest(e)
		}
		if s.shown() < shown {
			s.say("shows %d records of t/0 after %d", s.shown(), shown)
		}
	}
	s.t.Fatal("requests remain open after all answers")
}

// shown is the end offset of t/0.
func (s *scenario) shown() int64 {
	if st := s.core.State(); st != nil && st.Topic(topicID) != nil {
		return st.Topic(topicID).Partitions.At(0).Next
	}
	return -1
}

// place stores an object under the name of an open PUT of a slot.
func (s *scenario) place(c *sebtest.Command) {
	e, _ := s.request(c.Args[0], false)
	h, hint := e.Frozen.Head, []byte(nil)
	if nonce := s.option("nonce"); nonce != 0 {
		h.Nonce = record.ID{byte(nonce)}
	}
	h.Time += int64(s.option("time"))
	if v, given := c.Option("hint"); given {
		hint = state.EncodeRecords(nil, []state.Record{{Kind: state.LeaderHint, Name: v}})
	}
	switch c.Args[1] {
	case "own":
		s.objects[e.Key] = s.body(e)
		return
	case "seal":
		h.Kind, h.NextEpoch, h.NextNonce = record.KindSeal, h.Epoch+1, record.ID{9}
	}
	s.objects[e.Key] = encoded(record.EncodeObject(&h, hint, nil, nil))
}

func (s *scenario) describe() {
	role := s.core.Role()
	st := s.core.State()
	if st == nil || role == core.RoleStopped {
		s.say("%v: %s", role, named(s.core.Err()))
		return
	}
	line := fmt.Sprintf("%v, at %d/%d", role, st.Pos.Epoch, st.Pos.Slot)
	if st.Level != state.LevelMax {
		line += fmt.Sprintf(", level %d", st.Level)
	}
	if s.core.Journaled() {
		line += ", journal"
	}
	if n := st.Sealer.Node[0]; n > 0 {
		line += fmt.Sprintf(", sealed by run %d", n)
	}
	if st.Promise > 0 {
		line += fmt.Sprintf(", next slot within %d ms", st.Promise)
	}
	if next := s.shown(); next >= 0 {
		line += fmt.Sprintf(", t/0 next %d", next)
	}
	if s.core.Parked() {
		line += ", parked"
	}
	if at, ok := s.core.RaiseAt(); ok {
		line += fmt.Sprintf(", raise in %v", time.Duration(at-s.now).Round(time.Second))
	}
	if role == core.RoleLeader && !s.core.Room() {
		line += ", no room"
	}
	s.say("%s", line)
}

// effect prints an effect.
func (s *scenario) effect(e core.Effect) {
	switch f := e.Frozen; {
	case e.Kind == core.EffCommit:
		s.say("commit %s: %s", position(f.Key), members(f.Proposal, nil))
	case e.Kind == core.EffUnknown:
		s.say("unknown %s: %s", position(f.Key), members(f.Proposal, nil))
	case e.Kind == core.EffReject:
		s.say("reject: %s", members(e.Proposal, e.Reject))
	case e.Kind == core.EffRole && e.Role == core.RoleFenced && e.Err != nil:
		s.say("role fenced in epoch %d: %s", e.Epoch, named(e.Err))
	case e.Kind == core.EffRole && e.Role == core.RoleFenced:
		s.say("role fenced by epoch %d, leader %q", e.Epoch, e.Leader)
	case e.Kind == core.EffRole && e.Role == core.RoleStopped:
		s.say("role stopped: %s", named(e.Err))
	case e.Kind == core.EffRole:
		s.say("role %v, epoch %d", e.Role, e.Epoch)
	case e.Kind == core.EffConfirmed:
		s.say("confirmed %d: %s", e.Tag, named(e.Reject))
	case e.Kind == core.EffAlarm:
		s.say("alarm: %s", named(e.Err))
	case e.Kind == core.EffApplied:
		s.say("applied")
	default:
		s.asked(e)
	}
}

// asked prints a request.
func (s *scenario) asked(e core.Effect) {
	line := [...]string{
		core.EffGetMeta: "get meta", core.EffPutMeta: "put meta", core.EffList: "list " + e.Prefix, core.EffGetSnapshot: "get",
		core.EffGetSlot: "get slot", core.EffNonce: "draw nonce", core.EffPutSeal: "put SEAL", core.EffPutData: "put DATA",
		core.EffCollect: "collect", core.EffPutSnapshot: "put", core.EffOwn: "own epoch " + epoch(e.Key),
		core.EffScrub: "scrub from",
	}[e.Kind]
	if p := position(e.Key); p != "" {
		line += " " + p
		if was := s.newest[p]; e.Attempt > 0 && was.Op == e.Op && (was.Key != e.Key || was.Frozen != e.Frozen) {
			line += ", with other bytes than before"
		}
		s.newest[p] = e
	} else if e.Kind == core.EffGetSlot {
		line += " " + e.Key
	}
	if e.Frozen != nil {
		records := must.Get(state.DecodeRecords(e.Frozen.State))(s.t)
		for i := range records {
			line += fmt.Sprintf(", %v", records[i].Kind)
			if r := &records[i]; r.Kind == state.FormatLevel && r.Level != state.LevelMax {
				line += fmt.Sprintf(" %d %q", r.Level, r.Name)
			} else if r.Kind == state.NextSlot {
				line += fmt.Sprintf(" within %d ms", r.Within)
			}
		}
		line += fmt.Sprintf(", batches %d", len(e.Frozen.Order))
	}
	if e.Attempt > 0 {
		line += fmt.Sprintf(", attempt %d after %v", e.Attempt, time.Duration(e.Delay))
	}
	if e.Kind == core.EffCollect || e.Kind == core.EffScrub {
		s.open = append(s.open, e)
	}
	id := operation{s.bench, e.Op}
	if s.numbers[id] == 0 && !s.silent {
		s.numbers[id] = len(s.numbers) + 1
	}
	s.say("#%d %s", s.numbers[id], line)
}

// members describes the outcome of the appends and operations of a proposal.
func members(p *core.Proposal, reject error) string {
	var words []string
	for i := range p.Ops {
		words = append(words, fmt.Sprintf("%v %s", p.Ops[i].Record.Kind, named(cmp.Or(p.Ops[i].Err, reject))))
	}
	for i := range p.Appends {
		a, kind := &p.Appends[i], "append"
		if a.Audits {
			kind = "audit"
		}
		if a.Err != nil || reject != nil {
			words = append(words, kind+" "+named(cmp.Or(a.Err, reject)))
		} else {
			words = append(words, fmt.Sprintf("%s at %d", kind, a.Base))
		}
	}
	return cmp.Or(strings.Join(words, ", "), "nothing")
}

// named formats an error with the name of its sentinel, by which callers match it.
func named(err error) string {
	if err == nil {
		return "ok"
	}
	for name, sentinel := range map[string]error{
		"ErrFenced": state.ErrFenced, "ErrStoreUnavailable": state.ErrStoreUnavailable, "ErrOffsetMismatch": state.ErrOffsetMismatch,
		"ErrNotAudited": state.ErrNotAudited, "ErrAuditTopic": state.ErrAuditTopic,
		"ErrLevel": state.ErrLevel, "ErrLevelKnown": state.ErrLevelKnown, "ErrForeignBucket": core.ErrForeignBucket,
	} {
		if errors.Is(err, sentinel) {
			return name + ": " + err.Error()
		}
	}
	if chain, ok := errors.AsType[*state.ChainError](err); ok {
		return fmt.Sprintf("ChainError at %d/%d: %v", chain.Pos.Epoch, chain.Pos.Slot, err)
	}
	return err.Error()
}

// position is EPOCH/SLOT for a slot, snapshot:EPOCH/SLOT for a snapshot, and "" for any other key.
func position(key string) string {
	if epoch, _, slot, ok := state.ParseSlotKey(0, key); ok {
		return fmt.Sprintf("%d/%d", epoch, slot)
	}
	if pos, _, ok := state.ParseSnapKey(0, key); ok {
		return fmt.Sprintf("snapshot:%d/%d", pos.Epoch, pos.Slot)
	}
	return ""
}

// epoch is the number of the epoch of a folder of slots.
func epoch(folder string) string {
	number, _, _ := strings.Cut(path.Base(folder), "-")
	return strings.TrimLeft(number, "0")
}

// oldBucket returns the objects of a bucket at format level 1.
func oldBucket(t *testing.T) map[string][]byte {
	t.Helper()
	store := objstore.NewMemory()
	must.Get(forged.OldBucket(t.Context(), store))(t)
	entries, _ := must.Get2(store.List(context.Background(), objstore.ListOptions{}))(t)
	objects := map[string][]byte{}
	for _, e := range entries {
		o, err := store.Get(context.Background(), e.Key, objstore.Whole)
		must.NoError(t, err)
		if objects[e.Key], err = io.ReadAll(o.Body); err != nil {
			t.Fatal(err)
		}
	}
	return objects
}
