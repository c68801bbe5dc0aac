package sim

import (
	"hash/maphash"
	"strings"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// ruleState is what a run did so far, as far as rules speak of it.
type ruleState struct {
	sent     map[string]uint64 // hash of the bytes sent under each name (rule R1)
	open     int               // requests without an answer
	frozen   int               // slots sent and not committed
	listedAt tok               // when the newest answered LIST of snapshots began
	names    []string          // what it listed
	tried    map[string]bool   // snapshots read since
	chain    []epochStart      // as far as it was counted, by number
	looked   tok               // when it last looked for the slot that is lost
	empty    tok               // when it last looked for anything in the bucket
}

func newRuleState() ruleState { return ruleState{sent: map[string]uint64{}} }

// requestsMost bounds the requests a broker has open: a walk ahead, the window, a few more.
const requestsMost = 32 + 64 + 8

var hashSeed = maphash.MakeSeed()

// listed notes the answer to a LIST of snapshots.
func (s *ruleState) listed(e *core.Effect, names []string, began tok) {
	if strings.HasSuffix(e.Prefix, "/snap/") {
		s.listedAt, s.names, s.tried = began, names, map[string]bool{}
	}
}

// applied counts the chain's slots that a follower has applied. A SEAL that was put into a collected slot may have led it
// off the chain, where nothing but SEALs is: then it has what lies before that.
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

// epoch returns the epoch of the chain of that number, if the chain is that long.
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

// epochStart is an epoch of the chain with the number of slots before it.
type epochStart struct {
	number uint32
	nonce  record.ID
	before int64
}

// after returns the epoch of the chain after one.
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

// request checks a request as it is sent.
func (c *checker) request(r *run, e *core.Effect) {
	s := &r.rules
	if s.open > requestsMost {
		c.w.fail("I10: node %d has %d requests open", r.n.id, s.open)
	}
	switch e.Kind {
	case core.EffPutData, core.EffPutSnapshot, core.EffPutSeal:
		c.writes++
		sum := maphash.Bytes(hashSeed, e.Body)
		old, again := s.sent[e.Key]
		if again && old != sum {
			c.w.fail("R1: node %d sends other bytes under %s", r.n.id, e.Key)
		}
		s.sent[e.Key] = sum
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
	case core.EffGetSlot, core.EffList, core.EffPutMeta:
		c.w.loss.request(r, e)
	case core.EffGetSnapshot:
		c.requestSnapshot(r, e)
	}
}

// requestData: R2, slot s is sent only when slot s-K is committed; R5 (5), only a validated leader writes.
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

// mustBeValidated: R5 (4), a LIST of the snapshots began after the SEAL naming this epoch was durable.
func (c *checker) mustBeValidated(r *run, nonce record.ID, key string) {
	if at, ok := c.sealAt[nonce]; !ok || r.rules.listedAt < at {
		c.w.fail("R5: node %d writes %s before it listed the snapshots after its SEAL", r.n.id, key)
	}
}

// requestSeal: R5 (3), a nonce is drawn for one slot alone.
func (c *checker) requestSeal(r *run, e *core.Effect) {
	h, err := record.DecodeHead(e.Body)
	if err != nil {
		c.w.fail("R5: node %d sends a SEAL that does not decode: %v", r.n.id, err)
		return
	}
	if key, ok := c.nonces[h.NextNonce]; ok && key != e.Key {
		c.w.fail("R5: node %d names one nonce in %s and in %s", r.n.id, key, e.Key)
	}
	c.nonces[h.NextNonce] = e.Key
	if _, ok := c.looks[h.NextNonce]; !ok {
		c.looks[h.NextNonce] = r.rules.looked
	}
}

// requestSnapshot: R5 (1), the newest that was not tried comes first. Names sort newest first.
func (c *checker) requestSnapshot(r *run, e *core.Effect) {
	for _, name := range r.rules.names {
		if name < e.Key && !r.rules.tried[name] {
			c.w.fail("R5: node %d loads %s, newer is %s", r.n.id, e.Key, name)
		}
	}
	r.rules.tried[e.Key] = true
}

// leads says whether a run is the leader of the newest epoch; a deposed one may be behind and not know it.
func (c *checker) leads(r *run) bool {
	return r.core.Role() == core.RoleLeader && r.core.State().Nonce == c.fold.Nonce
}

// window: I10, no more than K slots are frozen and not committed.
func (c *checker) window(r *run) {
	if n := r.core.InFlight(); n > c.w.cfg.Window || r.rules.frozen > c.w.cfg.Window && r.core.Role() == core.RoleLeader {
		c.w.fail("I10: node %d has %d slots frozen (%d), the window is %d", r.n.id, n, r.rules.frozen, c.w.cfg.Window)
	}
}

// snapshot notes a snapshot that landed; it is compared with the chain at the end (rule R12).
func (c *checker) snapshot(key string, body []byte) {
	pos, ok := c.snapAt[key]
	if !ok {
		c.w.fail("R12: %s was put by nobody", key)
		return
	}
	c.snaps[pos] = key
	c.images[key] = body
}
