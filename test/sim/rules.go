package sim

import (
	"hash/maphash"
	"path"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// ruleState is the history of a run, as far as rules need it.
type ruleState struct {
	// Hash of the bytes sent under each name (rule R1). A broker that stepped down may send a SEAL under
	// the name of a slot that it sent: the store keeps one of them, and the broker follows that.
	sent     map[sentName]uint64
	open     int             // unanswered requests
	frozen   int             // slots sent and not committed
	listedAt tok             // when the newest answered LIST of snapshots began
	names    []string        // its result
	tried    map[string]bool // snapshots read since
	chain    []epochStart    // as far as counted, by number
	looked   tok             // when it last looked for the lost slot
	compared tok             // when it last listed the slots from before the lost one on
	empty    tok             // when it last looked for any object in the bucket
	claimed  map[string]bool // folders that it asked for
	against  record.ID       // nonce of the epoch against which it stood last; zero: none
}

type sentName struct {
	key  string
	seal bool
}

func newRuleState() ruleState {
	return ruleState{sent: map[sentName]uint64{}, claimed: map[string]bool{}}
}

// requestsMost bounds a broker's open requests: read-ahead, the window, and a few more.
const requestsMost = 32 + 64 + 8

var hashSeed = maphash.MakeSeed()

// listed records the answer to a LIST of snapshots. An answer to a core that was replaced may come
// after one to its successor.
func (s *ruleState) listed(e *core.Effect, names []string, began tok) {
	if strings.HasSuffix(e.Prefix, "/snap/") && began > s.listedAt {
		s.listedAt, s.names, s.tried = began, names, map[string]bool{}
	}
}

// applied counts the chain's slots that a follower has applied. A SEAL in a collected slot may have
// led it off the chain, where only SEALs are. Then it has the slots before that.
func (s *ruleState) applied(r *run) int64 {
	st := r.core.State()
	if st == nil {
		return 0
	}
	for i := len(st.Epochs) - 1; i >= 0; i-- {
		e := st.Epochs[i]
		on, ok := s.epoch(r.n.w.check, e.Number)
		switch {
		case !ok || on.nonce != e.Nonce:
		case e.Number == st.Pos.Epoch:
			return on.before + int64(st.Pos.Slot)
		default:
			return on.before + int64(e.Seal)
		}
	}
	return 0
}

// epoch returns the epoch of the chain with that number, if it exists.
func (s *ruleState) epoch(c *checker, number uint32) (epochStart, bool) {
	if len(s.chain) == 0 {
		s.chain = []epochStart{{nonce: c.fold.Cluster}}
	}
	for uint32(len(s.chain)) <= number {
		next, ok := c.after(s.chain[len(s.chain)-1])
		if !ok {
			return epochStart{}, false
		}
		s.chain = append(s.chain, next)
	}
	return s.chain[number], true
}

// epochStart is an epoch of the chain and the number of slots before it.
type epochStart struct {
	number uint32
	nonce  record.ID
	before int64
}

// after returns the next epoch of the chain.
func (c *checker) after(e epochStart) (next epochStart, ok bool) {
	for slot := uint64(0); ; slot++ {
		body, on := c.archive[state.SlotKey(0, e.number, e.nonce, slot)]
		if !on {
			return next, false
		}
		if h, err := record.DecodeHead(body); err == nil && h.Kind == record.KindSeal {
			return epochStart{h.NextEpoch, h.NextNonce, e.before + int64(slot) + 1}, true
		}
	}
}

// request checks a request when it is sent.
func (c *checker) request(r *run, e *core.Effect) {
	s := &r.rules
	if s.open > requestsMost {
		c.w.fail("I10: node %d has %d requests open", r.n.id, s.open)
	}
	switch e.Kind {
	case core.EffPutData, core.EffPutSnapshot, core.EffPutSeal:
		c.writes++
		sum := maphash.Bytes(hashSeed, e.Body)
		name := sentName{e.Key, e.Kind == core.EffPutSeal}
		old, again := s.sent[name]
		if again && old != sum {
			c.w.fail("R1: node %d sends other bytes under %s", r.n.id, e.Key)
		}
		s.sent[name] = sum
		if e.Kind == core.EffPutData && !again {
			s.frozen++
		}
	}
	switch e.Kind {
	case core.EffPutData:
		c.requestData(r, e)
	case core.EffPutSnapshot:
		c.mustBeValidated(r, e.View.Nonce, e.Key)
	case core.EffPutSeal:
		c.requestSeal(r, e)
	case core.EffOwn:
		c.requestOwn(r, e.Key)
	case core.EffGetSlot, core.EffList, core.EffPutMeta:
		c.w.loss.request(r, e)
	case core.EffGetSnapshot:
		c.requestSnapshot(r, e)
	}
}

// requestData checks R2, slot s is sent only after slot s-K is committed, and R5 (5), only a
// validated leader writes.
func (c *checker) requestData(r *run, e *core.Effect) {
	h := &e.Frozen.Head
	if k := uint64(c.w.cfg.Window); h.Slot >= k {
		for slot := h.Slot - k; ; slot-- {
			if key := state.SlotKey(h.Shard, h.Epoch, h.Nonce, slot); !c.on[key] {
				c.w.fail("R2: node %d sends %s, slot %d is not committed", r.n.id, e.Key, slot)
			}
			if slot == 0 || slot+8 < h.Slot-k {
				break
			}
		}
	}
	c.mustBeValidated(r, h.Nonce, e.Key)
}

// mustBeValidated checks R5 (4): a LIST of the snapshots began after the SEAL of this epoch was
// durable.
func (c *checker) mustBeValidated(r *run, nonce record.ID, key string) {
	if at, ok := c.sealAt[nonce]; !ok || r.rules.listedAt < at {
		c.w.fail("R5: node %d writes %s before it listed the snapshots after its SEAL", r.n.id, key)
	}
}

// requestSeal checks R5 (3): a nonce is used for one slot only, and a follower that stands ends no
// other epoch than its own.
func (c *checker) requestSeal(r *run, e *core.Effect) {
	h, err := record.DecodeHead(e.Body)
	if err != nil {
		c.w.fail("R5: node %d sends a SEAL that cannot be decoded: %v", r.n.id, err)
		return
	}
	if key, ok := c.nonces[h.NextNonce]; ok && key != e.Key {
		c.w.fail("R5: node %d uses the same nonce in %s and in %s", r.n.id, key, e.Key)
	}
	c.nonces[h.NextNonce], c.sealers[h.NextNonce] = e.Key, r.n.identity()
	if on := r.rules.against; !on.IsZero() && h.Nonce != on {
		c.w.fail("R5: node %d stands against one epoch and ends another: %s", r.n.id, e.Key)
	}
	if _, ok := c.looked[h.NextNonce]; !ok {
		c.looked[h.NextNonce] = r.rules.looked
	}
}

// requestSnapshot checks R5 (1): the newest untried snapshot comes first. Names sort newest first.
func (c *checker) requestSnapshot(r *run, e *core.Effect) {
	for _, name := range r.rules.names {
		if name < e.Key && !r.rules.tried[name] {
			c.w.fail("R5: node %d loads %s, but %s is newer", r.n.id, e.Key, name)
		}
	}
	r.rules.tried[e.Key] = true
}

// leads reports whether a run leads the newest epoch. A deposed leader may not know that it was
// deposed.
func (c *checker) leads(r *run) bool {
	return r.core.Role() == core.RoleLeader && r.core.State().Nonce == c.fold.Nonce
}

// requestOwn checks a claim for a journal: the broker asks once, before it sends a slot of the epoch,
// and the log allows journals by a record that lies outside of them.
func (c *checker) requestOwn(r *run, folder string) {
	if r.rules.claimed[folder] {
		c.w.fail("journal: node %d claims %s twice", r.n.id, folder)
	}
	r.rules.claimed[folder] = true
	for name := range r.rules.sent {
		if strings.HasPrefix(name.key, folder+"/") {
			c.w.fail("journal: node %d claims %s after it sent a slot there", r.n.id, folder)
		}
	}
	if c.journals = c.journals || c.allowsJournals(); !c.journals {
		c.w.fail("journal: node %d claims %s, but no slot outside of journals allows it", r.n.id, folder)
	}
}

// allowsJournals reports whether a slot outside of journals raises the format level far enough.
func (c *checker) allowsJournals() bool {
	return slices.ContainsFunc(c.chain, func(s chainSlot) bool {
		o, err := record.DecodeObject(c.archive[s.key])
		if err != nil || c.w.store.owned[path.Dir(s.key)] {
			return false
		}
		recs, err := state.DecodeRecords(o.State)
		return err == nil && slices.ContainsFunc(recs, func(r state.Record) bool {
			return r.Kind == state.FormatLevel && r.Level >= state.LevelJournal
		})
	})
}

// window checks I10: at most K slots are frozen and not committed.
func (c *checker) window(r *run) {
	if n := r.core.InFlight(); n > c.w.cfg.Window || r.rules.frozen > c.w.cfg.Window && r.core.Role() == core.RoleLeader {
		c.w.fail("I10: node %d has %d slots frozen (%d), the window is %d", r.n.id, n, r.rules.frozen, c.w.cfg.Window)
	}
}

// snapshot records a stored snapshot, which is compared with the chain at the end (rule R12).
func (c *checker) snapshot(key string, body []byte) {
	pos, ok := c.snapAt[key]
	if !ok {
		c.w.fail("R12: %s was stored without a request", key)
		return
	}
	c.snaps[pos] = key
	c.images[key] = body
}
