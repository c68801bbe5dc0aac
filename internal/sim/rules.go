package sim

import (
	"hash/maphash"
	"strings"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/state"
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
}

func newRuleState() ruleState { return ruleState{sent: map[string]uint64{}} }

// requestsMost bounds the requests a broker has open: a walk ahead, the window, a few more.
const requestsMost = 32 + 64 + 8

var hashSeed = maphash.MakeSeed()

// listed notes the answer to a LIST of snapshots.
func (s *ruleState) listed(e *logcore.Effect, names []string, began tok) {
	if strings.HasSuffix(e.Prefix, "/snap/") {
		s.listedAt, s.names, s.tried = began, names, map[string]bool{}
	}
}

// applied counts the chain's slots that a follower has applied; -1 if its position is not on the chain.
func (s *ruleState) applied(r *run) int64 {
	st := r.core.State()
	if st == nil {
		return 0
	}
	c := r.n.w.check
	if len(s.chain) == 0 {
		s.chain = []epochStart{{nonce: c.fold.Cluster}}
	}
	for last := s.chain[len(s.chain)-1]; last.number < st.Pos.Epoch; last = s.chain[len(s.chain)-1] {
		next, ok := c.after(last)
		if !ok {
			return -1
		}
		s.chain = append(s.chain, next)
	}
	if e := s.chain[st.Pos.Epoch]; e.nonce == st.Nonce {
		return e.before + int64(st.Pos.Slot)
	}
	return -1
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
func (c *checker) request(r *run, e *logcore.Effect) {
	s := &r.rules
	if s.open > requestsMost {
		c.w.fail("I10: node %d has %d requests open", r.n.id, s.open)
	}
	switch e.Kind {
	case logcore.EffPutData, logcore.EffPutSnapshot, logcore.EffPutSeal:
		c.writes++
		sum := maphash.Bytes(hashSeed, e.Body)
		old, again := s.sent[e.Key]
		if again && old != sum {
			c.w.fail("R1: node %d sends other bytes under %s", r.n.id, e.Key)
		}
		s.sent[e.Key] = sum
		if e.Kind == logcore.EffPutData && !again {
			s.frozen++
		}
	}
	switch e.Kind {
	case logcore.EffPutData:
		c.requestData(r, e)
	case logcore.EffPutSnapshot:
		c.mustBeValidated(r, e.View.Nonce, e.Key)
	case logcore.EffPutSeal:
		c.requestSeal(r, e)
	case logcore.EffGetSnapshot:
		c.requestSnapshot(r, e)
	}
}

// requestData: R2, slot s is sent only when slot s-K is committed; R5 (5), only a validated leader writes.
func (c *checker) requestData(r *run, e *logcore.Effect) {
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
func (c *checker) requestSeal(r *run, e *logcore.Effect) {
	h, err := record.DecodeHead(e.Body)
	if err != nil {
		c.w.fail("R5: node %d sends a SEAL that does not decode: %v", r.n.id, err)
		return
	}
	if key, ok := c.nonces[h.NextNonce]; ok && key != e.Key {
		c.w.fail("R5: node %d names one nonce in %s and in %s", r.n.id, key, e.Key)
	}
	c.nonces[h.NextNonce] = e.Key
}

// requestSnapshot: R5 (1), the newest that was not tried comes first. Names sort newest first.
func (c *checker) requestSnapshot(r *run, e *logcore.Effect) {
	for _, name := range r.rules.names {
		if name < e.Key && !r.rules.tried[name] {
			c.w.fail("R5: node %d loads %s, newer is %s", r.n.id, e.Key, name)
		}
	}
	r.rules.tried[e.Key] = true
}

// leads says whether a run is the leader of the newest epoch; a deposed one may be behind and not know it.
func (c *checker) leads(r *run) bool {
	return r.core.Role() == logcore.RoleLeader && r.core.State().Nonce == c.fold.Nonce
}

// window: I10, no more than K slots are frozen and not committed.
func (c *checker) window(r *run) {
	if n := r.core.InFlight(); n > c.w.cfg.Window || r.rules.frozen > c.w.cfg.Window && r.core.Role() == logcore.RoleLeader {
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

// atEnd checks what the calm phase must have brought: I13, and that every snapshot is the fold of the chain (rule R12).
func (c *checker) atEnd() {
	w := c.w
	for _, p := range w.clients {
		if p.under > 0 {
			w.fail("I13: producer %d still waits for %d answers", p.id, p.under)
		}
	}
	leads := 0
	for _, n := range w.nodes {
		r := n.run
		if r == nil {
			continue
		}
		if c.leads(r) {
			leads++
		}
		if n.readOnly && (r.core.State() == nil || r.core.State().Pos != c.fold.Pos) {
			w.fail("I13: follower %d is not at the end of the log", n.id)
		}
		if len(r.out) > 0 && r.core.Role() == logcore.RoleLeader {
			w.fail("I13: node %d still holds %d ops", n.id, len(r.out))
		}
		if len(r.bodies) > 0 && r.core.Role() == logcore.RoleLeader {
			w.fail("I10: node %d still holds %d bodies", n.id, len(r.bodies))
		}
	}
	if leads != 1 {
		w.fail("I13: %d leaders of the newest epoch at the end", leads)
	}
	if calm := int64(1e9) + int64(w.cfg.Chaos); c.lastAck < calm {
		w.fail("I13: nothing was acknowledged in the calm")
	}
	c.nothingLeft()
	c.refold()
}

// refold folds the chain anew and compares the state with every third snapshot.
func (c *checker) refold() {
	s := state.Genesis(c.fold.Cluster, 0)
	left := len(c.snaps)
	for {
		if key, ok := c.snaps[s.Pos]; ok {
			left--
			if left%3 == 0 && string(state.EncodeMessage(s)) != string(c.images[key]) {
				c.w.fail("R12: %s is not the fold of the chain", key)
			}
		}
		body, ok := c.archive[s.Key(s.Pos.Epoch, s.Pos.Slot)]
		if !ok {
			break
		}
		slot, err := decodeSlot(body)
		if err != nil {
			c.w.fail("I4: refold: %v", err)
			return
		}
		if err := s.Apply(&slot.Head, slot.Records, slot.Index); err != nil {
			c.w.fail("I4: refold: %v", err)
			return
		}
	}
	if left != 0 {
		c.w.fail("R5: %d snapshots lie off the chain", left)
	}
}
