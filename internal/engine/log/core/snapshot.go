package core

import "github.com/sebbroker/seb/record"

// snapshots decides when a snapshot is due. Only a leader by rule R5 (5) writes snapshots, at
// committed positions.
type snapshots struct {
	running bool
	slots   int   // committed since the last snapshot
	bytes   int64 // to replay since the last snapshot
	last    int64 // size of the last snapshot

	// The two newest durable snapshots of this leader, for rule R7.
	older, newer *ownSnapshot
	collecting   bool
}

// snapshotAfterReplay writes a snapshot after a start that had to read much, so that the next start
// reads less.
func (c *Core) snapshotAfterReplay() {
	c.snap.slots, c.snap.bytes = c.load.slots, c.load.bytes
	if c.load.seals >= c.cfg.SnapshotSeals || c.snapshotDue() {
		c.takeSnapshot()
	}
}

func (c *Core) snapshotAfterCommit(h *record.Head) {
	c.snap.slots++
	c.snap.bytes += c.replayCost(h, c.lead.journaled)
	if c.snapshotDue() {
		c.takeSnapshot()
	}
	c.reclaim()
	c.scrub()
}

// remoteShare is how many times the bytes of the newest snapshot a start may read on a remote store,
// where each byte that is written costs more time than one that is read.
const remoteShare = 8

func (c *Core) snapshotDue() bool {
	if c.cfg.Local {
		return c.snap.bytes >= max(c.cfg.SnapshotBytes, c.snap.last)
	}
	return c.snap.slots >= c.cfg.SnapshotSlots || c.snap.bytes >= max(c.cfg.SnapshotBytes, remoteShare*c.snap.last)
}

func (c *Core) takeSnapshot() {
	if c.snap.running {
		return
	}
	c.snap.running = true
	slots, bytes := c.snap.slots, c.snap.bytes
	taken := &ownSnapshot{view: c.committed.View(), freed: c.reclaimed.freed, early: !c.cfg.Local && slots < c.cfg.SnapshotSlots}
	key := snapKey(c.cfg.Shard, taken.view.Pos, taken.view.Nonce)
	c.request(Effect{Kind: EffPutSnapshot, Key: key, View: taken.view}, func(ev *Event) {
		// OutcomeExists is an earlier attempt of ours, because the name holds our epoch's nonce.
		c.snap.running = false
		c.snap.slots -= slots
		c.snap.bytes -= bytes
		c.snap.last = ev.Size
		c.snapshotStored(taken)
	})
}
