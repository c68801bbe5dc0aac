package store

import "github.com/sebbroker/seb/internal/trigger/rule"

// Fires are firings of all triggers behind a Seq, in its order, at most limit.
func (t *Tx) Fires(after int64, limit int) ([]Fire, error) {
	return t.fires(t.ctx, "WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
}

// FiresTo are the last firings of an entity by a trigger up to a Seq, at most limit, the newest first.
func (t *Tx) FiresTo(entity, trigger string, to int64, limit int) ([]Fire, error) {
	return t.fires(t.ctx, "WHERE entity = ? AND trig = ? AND seq <= ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, to, limit)
}

// NewestFires are the last firings of an entity by a trigger, at most limit, the newest first.
func (t *Tx) NewestFires(entity, trigger string, limit int) ([]Fire, error) {
	return t.fires(t.ctx, "WHERE entity = ? AND trig = ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, limit)
}

// LastFire is the Seq of a trigger's last firing; 0 if it has none.
func (t *Tx) LastFire(trigger string) (seq int64, err error) {
	err = t.query(t.ctx, func(scan func(...any) error) error { return scan(&seq) },
		"SELECT coalesce(max(seq), 0) FROM fire WHERE trig = ?", trigger)
	return seq, err
}

// HasOut is whether something of a firing is still to be recorded.
func (t *Tx) HasOut(id rule.ID) (yes bool, err error) {
	err = t.query(t.ctx, func(scan func(...any) error) error { return scan(&yes) }, "SELECT count(*) > 0 FROM outbox WHERE id = ?", id[:])
	return yes, err
}
