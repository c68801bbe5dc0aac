package core

import (
	"errors"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
)

// ErrNoLog says that a read-only core found no log in the bucket.
var ErrNoLog = errors.New("the bucket holds no Seb log, and a read-only broker makes none")

// ErrForeignBucket says that a bucket holds shard objects but no meta/cluster: part of it is missing.
var ErrForeignBucket = fmt.Errorf("%s is missing while other objects of a log exist: \"seb recover\" puts it back", MetaKey)

// loading is the part of a start up to a loaded snapshot.
type loading struct {
	metaAgain bool       // meta/cluster was missing beside other objects, and is read once more
	names     []snapName // of the last LIST, newest first
	base      string     // the snapshot that was loaded, "" for genesis: S of rule R5
	newest    string     // the newest name of the LIST that base was chosen from
	listedAt  int64      // when that LIST began
	slots     int        // applied since base
	seals     int
	bytes     int64
}

func (c *Core) start() {
	c.request(Effect{Kind: EffGetMeta, Key: MetaKey}, func(ev *Event) {
		switch {
		case ev.Outcome == OutcomeOK:
			c.cluster = ev.Cluster
			c.loadNewest()
		case ev.Outcome == OutcomeCorrupt:
			c.stop(fmt.Errorf("read %s: %w. Delete it: \"seb recover\" then puts it back", MetaKey, orUnknown(ev.Err)))
		case c.load.metaAgain:
			c.stop(ErrForeignBucket)
		default:
			c.lookForObjects()
		}
	})
}

// lookForObjects makes sure that a bucket without meta/cluster is empty: only then a leader founds a cluster in it.
func (c *Core) lookForObjects() {
	c.request(Effect{Kind: EffList, Prefix: "s0", Max: 100}, func(ev *Event) {
		for _, name := range ev.Names {
			if isShardName(name) {
				c.load.metaAgain = true
				c.start()
				return
			}
		}
		if c.cfg.ReadOnly {
			c.stop(ErrNoLog)
			return
		}
		c.foundCluster()
	})
}

// foundCluster puts meta/cluster with a fresh id; racers all use what a GET returns.
func (c *Core) foundCluster() {
	c.request(Effect{Kind: EffNonce}, func(ev *Event) {
		id := ev.Nonce
		c.request(Effect{Kind: EffPutMeta, Key: MetaKey, Body: EncodeMeta(id)}, func(*Event) {
			c.load.metaAgain = true
			c.start()
		})
	})
}

// loadNewest is rule R5 (1): LIST the snapshots, load the newest. It forgets whatever this run knew of the chain.
func (c *Core) loadNewest() {
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

// snapsListed bounds a LIST of snapshots: the newest sorts first, and older ones are wanted only when it is unreadable.
const snapsListed = 16

func (c *Core) listSnaps(done func([]snapName)) {
	c.request(Effect{Kind: EffList, Prefix: SnapPrefix(c.cfg.Shard), Max: snapsListed}, func(ev *Event) {
		done(parseSnaps(c.cfg.Shard, ev.Names))
	})
}

// loadSnap loads the i-th newest snapshot: gone: LIST again; unreadable: alarm, take the next; none: genesis.
func (c *Core) loadSnap(i int) {
	if i == len(c.load.names) {
		c.setState(state.Genesis(c.cluster, c.cfg.Shard))
		c.walkOn()
		return
	}
	n := c.load.names[i]
	c.request(Effect{Kind: EffGetSnapshot, Key: n.key}, func(ev *Event) {
		switch {
		case ev.Outcome == OutcomeNotFound:
			c.loadNewest()
		case ev.Outcome == OutcomeCorrupt:
			c.alarm(fmt.Errorf("read snapshot %s: %w", n.key, orUnknown(ev.Err)))
			c.loadSnap(i + 1)
		case ev.State.Cluster != c.cluster || ev.State.Shard != c.cfg.Shard || ev.State.Pos != n.pos || ev.State.Nonce != n.nonce:
			c.alarm(fmt.Errorf("snapshot %s holds the state of another position", n.key))
			c.loadSnap(i + 1)
		default:
			c.load.base = n.key
			c.setState(ev.State)
			c.walkOn()
		}
	})
}

func (c *Core) setState(s *state.State) {
	c.committed = s
	c.emit(Effect{Kind: EffApplied})
}
