package core

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/engine/log/state"
)

// ErrNoLog: a read-only core found no log in the bucket.
var ErrNoLog = errors.New("no Seb log in the bucket, and a read-only broker does not create one")

// ErrForeignBucket: a bucket holds shard objects but no meta/cluster, so part of it is missing.
var ErrForeignBucket = fmt.Errorf("%s is missing although other objects of a log exist; to restore it: \"seb recover\"", MetaKey)

// loading is the state of a start until a snapshot is loaded and the log is replayed.
type loading struct {
	metaRetried bool       // meta/cluster was missing and is read a second time
	names       []snapName // of the last LIST, newest first
	base        string     // the loaded snapshot, "" for genesis: S of rule R5
	newest      string     // newest name in the LIST from which base was chosen
	listedAt    int64      // when that LIST began
	slots       int        // applied since base
	seals       int
	bytes       int64
	stretches   []stretch // replayed and not compared with the bucket yet (rule R16)
}

func (c *Core) start() {
	c.request(Effect{Kind: EffGetMeta, Key: MetaKey}, func(ev *Event) {
		switch {
		case ev.Outcome == OutcomeOK:
			c.cluster = ev.Cluster
			if c.attempt.once {
				c.standAtGenesis()
				return
			}
			c.role = RoleStarting // if it waited for the log
			c.loadNewest()
		case ev.Outcome == OutcomeCorrupt:
			c.stop(fmt.Errorf("read %s: %w; delete it, then restore it: \"seb recover\"", MetaKey, orUnknown(ev.Err)))
		case c.role == RoleFollower:
			c.awaitLog()
		case c.load.metaRetried:
			c.stop(ErrForeignBucket)
		default:
			c.requireEmptyBucket()
		}
	})
}

// requireEmptyBucket makes sure that a bucket without meta/cluster holds no shard objects: only
// then does a leader create a cluster in it. If there are some, meta/cluster is read once more,
// because another broker may have created the log after the first read.
func (c *Core) requireEmptyBucket() {
	c.request(Effect{Kind: EffList, Prefix: "s0", Max: 100}, func(ev *Event) {
		for _, name := range ev.Names {
			if isShardName(name) {
				c.load.metaRetried = true
				c.start()
				return
			}
		}
		switch {
		case c.cfg.ReadOnly:
			c.stop(ErrNoLog)
		case c.follows():
			c.awaitLog()
		default:
			c.createCluster()
		}
	})
}

// createCluster puts meta/cluster with a fresh ID and reads it back, so that racing brokers all use
// the ID that was stored.
func (c *Core) createCluster() {
	c.request(Effect{Kind: EffNonce}, func(ev *Event) {
		id := ev.Nonce
		c.request(Effect{Kind: EffPutMeta, Key: MetaKey, Body: EncodeMeta(id)}, func(*Event) {
			c.load.metaRetried = true
			c.start()
		})
	})
}

// loadNewest is rule R5 (1): LIST the snapshots and load the newest. It discards all that this run
// knew of the chain.
func (c *Core) loadNewest() {
	if c.attempt.once {
		c.overtaken(true)
		return
	}
	clear(c.ops)
	c.walk = nil
	c.take = takeover{lost: c.take.lost, short: c.take.short, older: c.take.older}
	c.load = loading{listedAt: c.now}
	c.listSnaps(func(names []snapName) {
		c.load.names = names
		if len(names) > 0 {
			c.load.newest = names[0].key
		}
		c.loadSnap(0)
	})
}

// snapsListed bounds a LIST of snapshots: the newest sorts first, and older ones are needed only if
// it is unreadable.
const snapsListed = 16

func (c *Core) listSnaps(done func([]snapName)) {
	c.request(Effect{Kind: EffList, Prefix: SnapPrefix(c.cfg.Shard), Max: snapsListed}, func(ev *Event) {
		done(parseSnaps(c.cfg.Shard, ev.Names))
	})
}

// loadSnap loads the i-th newest snapshot.
//
//	not found  -> LIST again
//	unreadable -> alarm, load the next
//	none left  -> genesis
func (c *Core) loadSnap(i int) {
	if i == len(c.load.names) {
		c.setState(state.Genesis(c.cluster, c.cfg.Shard))
		c.catchUp()
		return
	}
	n := c.load.names[i]
	c.request(Effect{Kind: EffGetSnapshot, Key: n.key}, func(ev *Event) {
		switch {
		case ev.Outcome == OutcomeNotFound:
			c.loadNewest()
		case ev.Outcome == OutcomeCorrupt:
			c.alarm("snapshot is damaged", fmt.Errorf("read snapshot %s: %w", n.key, orUnknown(ev.Err)))
			c.loadSnap(i + 1)
		case ev.State.Cluster != c.cluster || ev.State.Shard != c.cfg.Shard || ev.State.Pos != n.pos || ev.State.Nonce != n.nonce:
			c.alarm("snapshot is damaged", fmt.Errorf("snapshot %s: content belongs to another position", n.key))
			c.loadSnap(i + 1)
		default:
			c.load.base = n.key
			c.setState(ev.State)
			c.catchUp()
		}
	})
}

func (c *Core) setState(s *state.State) {
	c.committed, c.follow.reloading = s, false
	c.life, c.hint, c.fed = c.now, "", false
	c.attempt.outdated = false
	c.emit(Effect{Kind: EffApplied})
}
