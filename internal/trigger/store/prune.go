package store

import "github.com/sebbroker/seb/internal/trigger/rule"

// Firings returns the firings of all triggers after a Seq, in order, at most limit.
func (t *Tx) Firings(after int64, limit int) ([]Firing, error) {
	return t.queryFirings(t.ctx, "WHERE seq > ? ORDER BY seq LIMIT ?", after, limit)
}

// FiringsUpTo returns the last firings of an entity by a trigger up to a Seq, at most limit, newest
// first.
func (t *Tx) FiringsUpTo(entity, trigger string, to int64, limit int) ([]Firing, error) {
	return t.queryFirings(t.ctx, "WHERE entity = ? AND trig = ? AND seq <= ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, to, limit)
}

// NewestFirings returns the last firings of an entity by a trigger, at most limit, newest first.
func (t *Tx) NewestFirings(entity, trigger string, limit int) ([]Firing, error) {
	return t.queryFirings(t.ctx, "WHERE entity = ? AND trig = ? ORDER BY seq DESC LIMIT ?", []byte(entity), trigger, limit)
}

// LastFiring is the Seq of a trigger's last firing; 0 if there is none.
func (t *Tx) LastFiring(trigger string) (seq int64, err error) {
	err = t.Query(t.ctx, func(scan func(...any) error) error { return scan(&seq) },
		"SELECT coalesce(max(seq), 0) FROM fire WHERE trig = ?", trigger)
	return seq, err
}

// InOutbox reports whether a firing has outbox entries.
func (t *Tx) InOutbox(id rule.ID) (yes bool, err error) {
	err = t.Query(t.ctx, func(scan func(...any) error) error { return scan(&yes) }, "SELECT count(*) > 0 FROM outbox WHERE id = ?", id[:])
	return yes, err
}
