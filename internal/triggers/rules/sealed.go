package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sebbroker/seb/internal/engine/audit"
	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
)

// ErrLocked: the bucket has encrypted secrets, and this broker has no key to encrypt another.
var ErrLocked = errors.New("this bucket encrypts the secrets of webhooks, and this broker has no key: start it with --secrets-key-file")

// Secrets counts triggers by the state of their secrets.
type Secrets struct {
	Readable, Sealed int
	Locked           int             // encrypted with a key that this broker does not have
	Keys             map[string]int  // encrypted triggers, by the ID of the key
	Missing          []secrets.KeyID // keys of the locked triggers
	Names            []string        // the first locked triggers
}

// lockedNames bounds Secrets.Names.
const lockedNames = 10

func countSecrets(list []*live, keys *secrets.Ring) (n Secrets) {
	for _, l := range list {
		s := l.Secrets
		switch {
		case s.Sealed:
			n.Sealed++
			if n.Keys == nil {
				n.Keys = map[string]int{}
			}
			n.Keys[s.Key.String()]++
		case s.Readable:
			n.Readable++
		}
		if !s.Sealed || keys.Has(s.Key) {
			continue
		}
		if n.Locked++; n.Locked <= lockedNames {
			n.Names = append(n.Names, l.ID)
		}
		if !slices.Contains(n.Missing, s.Key) {
			n.Missing = append(n.Missing, s.Key)
		}
	}
	return n
}

// logSecrets logs that deliveries are held, or that secrets are readable, when that changes.
func (w *worker) logSecrets(was, now *Secrets) {
	if now.Locked > was.Locked {
		w.opt.Logger.Error("deliveries held: their secrets are encrypted with a key that this broker does not have",
			"triggers", now.Names, "count", now.Locked, "keys", fmt.Sprint(now.Missing), "hint", "start with --secrets-key-file")
	}
	if was.Readable == 0 && now.Readable > 0 && w.opt.Keys == nil {
		w.opt.Logger.Info("webhook secrets are readable in the bucket; seb secrets init makes a key to encrypt them", "triggers", now.Readable)
	}
}

// SecretsState counts the triggers by the state of their secrets. Errors: ErrUnavailable, ErrClosed.
func (e *Engine) SecretsState() (Secrets, error) {
	p, _, err := e.follower.Peek()
	return p.Secrets, err
}

// Keys are the keys of secrets; nil: none.
func (e *Engine) Keys() *secrets.Ring { return e.opt.Keys }

func (e *Engine) place(id string) secrets.Place {
	return secrets.Place{Cluster: e.opt.Log.Cluster().String(), Trigger: id}
}

// Opened returns a definition's deliver section with readable secrets. Errors: those of
// secrets.Ring.Open.
func (e *Engine) Opened(d *rule.Definition) ([]byte, error) {
	return e.opt.Keys.Open(e.place(d.ID), d.Deliver)
}

// sealable returns an error if the bucket's format level does not allow encrypted secrets.
func (e *Engine) sealable() error {
	if e.opt.Sealable == nil {
		return nil
	}
	return e.opt.Sealable()
}

// seal encrypts the secrets of a definition that a client gives. readable: there is no key for them.
func (e *Engine) seal(d *rule.Definition) (readable bool, err error) {
	s := secrets.Inspect(d.Deliver)
	others, err := e.SecretsState()
	switch {
	case err != nil:
		return false, err
	case s.Sealed:
		return false, fmt.Errorf("%w: deliver: it is in the encrypted form of the bucket: want the values themselves", ErrInvalid)
	case !s.Readable:
		return false, nil
	case e.opt.Keys == nil && others.Sealed > 0:
		return false, fmt.Errorf("%w: deliver: %w", ErrInvalid, ErrLocked)
	case e.opt.Keys == nil:
		return true, nil
	}
	if err := e.sealable(); err != nil {
		return false, err
	}
	if d.Deliver, err = e.opt.Keys.Seal(e.place(d.ID), d.Deliver); err != nil {
		return false, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return false, d.Validate()
}

// Definitions that the leader rewrites at a time, and its pause between them.
const (
	rewriteMax   = 64
	rewriteBytes = 512 << 10
	rewritePause = 100 * time.Millisecond
	rewriteRetry = 10 * time.Second
)

// rewrite changes the deliver sections of the first triggers whose secrets have a state, at most
// limit, without another effect: version and status stay. It logs the triggers that alter cannot
// change. It returns the number of changed triggers, the offset of the first, and once the engine
// has read them.
func (e *Engine) rewrite(ctx context.Context, limit int, is func(s secrets.Status) bool, change audit.Change, alter func(d *rule.Definition) error) (n int, base int64, err error) {
	e.change.Lock()
	defer e.change.Unlock()
	if err := e.caughtUp(ctx); err != nil {
		return 0, 0, err
	}
	list, err := e.Triggers()
	var recs []record.Record
	bytes := 0
	for i := 0; i < len(list) && len(recs) < limit && bytes < rewriteBytes && err == nil; i++ {
		if !is(list[i].Secrets) {
			continue
		}
		var t *Trigger
		if t, err = e.Trigger(ctx, list[i].ID); err != nil {
			break
		}
		value, bad := altered(&t.Definition, alter)
		if bad != nil {
			e.opt.Logger.Error("secrets of a trigger not rewritten", "trigger", t.ID, "err", bad)
			continue
		}
		recs = append(recs, record.Record{Key: []byte(t.ID), Value: value, Timestamp: e.opt.Now().UnixMilli()})
		bytes += len(value)
	}
	topic, ok := e.opt.Log.Topic(e.opt.Triggers)
	if len(recs) == 0 || !ok || err != nil {
		return 0, 0, err
	}
	change.Resource, change.Details = audit.Resource{Type: "cluster"}, map[string]string{"triggers": strconv.Itoa(len(recs))}
	if base, err = e.opt.Log.Append(audit.WithChange(ctx, &change), topic.ID, 0, recs); err != nil {
		return 0, 0, err
	}
	e.follower.loop.Wake()
	return len(recs), base, e.follower.Wait(ctx, func(p *Progress) bool { return p.Defined >= base+int64(len(recs)) })
}

// altered returns the record of a definition after a change.
func altered(d *rule.Definition, alter func(d *rule.Definition) error) ([]byte, error) {
	if err := errors.Join(alter(d), d.Validate()); err != nil {
		return nil, err
	}
	return d.Encode()
}

// Rewrap encrypts the data keys of some triggers that have another key of this broker with the
// active one, and returns their number. Errors: ErrNotLeader, ErrInvalid without a key, those of an
// append.
func (e *Engine) Rewrap(ctx context.Context) (done int, err error) {
	keys := e.opt.Keys
	switch {
	case keys == nil:
		return 0, fmt.Errorf("%w: this broker has no secrets key (--secrets-key-file)", ErrInvalid)
	case !e.opt.Log.Leads():
		return 0, ErrNotLeader
	}
	old := func(s secrets.Status) bool { return s.Sealed && s.Key != keys.Active() && keys.Has(s.Key) }
	done, _, err = e.rewrite(ctx, rewriteMax, old, audit.Change{Action: "secrets.rewrap"}, func(d *rule.Definition) (err error) {
		d.Deliver, err = keys.Rewrap(e.place(d.ID), d.Deliver)
		return err
	})
	return done, err
}

// encryptAll encrypts readable secrets, whenever there are any, until ctx ends: first those of one
// trigger, which it reads back from the log and decrypts, and then the others.
func (e *Engine) encryptAll(ctx context.Context) {
	verified, waits := false, false
	for {
		p, newer, _ := e.follower.Peek()
		if p.Secrets.Readable == 0 || !e.ready(&p) {
			select {
			case <-newer:
			case <-ctx.Done():
				return
			}
			continue
		}
		wait := rewriteRetry
		if err := e.sealable(); err != nil {
			if !waits {
				e.opt.Logger.Warn("webhook secrets stay readable in the bucket until its format level is raised", "triggers", p.Secrets.Readable, "err", err)
			}
			waits = true
		} else {
			n, err := e.encryptSome(ctx, &verified)
			switch {
			case errors.Is(err, errReadBack):
				e.opt.Logger.Error("encryption of webhook secrets stopped", "err", err)
				return
			case err != nil && ctx.Err() == nil:
				e.opt.Logger.Warn("webhook secrets not encrypted", "err", err)
			case n > 0:
				e.opt.Logger.Info("webhook secrets encrypted", "triggers", n, "key", e.opt.Keys.Active())
				wait = rewritePause
			}
		}
		if pause.Wait(ctx, wait) != nil {
			return
		}
	}
}

// errReadBack: an encrypted definition cannot be decrypted after it was stored.
var errReadBack = errors.New("an encrypted definition differs from the original after it was read back, which was stored again")

// encryptSome encrypts the secrets of some triggers; before verified is set, of one.
func (e *Engine) encryptSome(ctx context.Context, verified *bool) (n int, err error) {
	limit := 1
	if *verified {
		limit = rewriteMax
	}
	readable := func(s secrets.Status) bool { return s.Readable && !s.Sealed }
	var original *rule.Definition
	n, base, err := e.rewrite(ctx, limit, readable, audit.Change{Action: "secrets.encrypt"}, func(d *rule.Definition) (err error) {
		was := *d
		original = &was
		d.Deliver, err = e.opt.Keys.Seal(e.place(d.ID), d.Deliver)
		return err
	})
	if err != nil || n == 0 || *verified {
		return n, err
	}
	stored, err := e.definitionAt(ctx, base)
	if err != nil {
		return n, err
	}
	if deliver, err := e.Opened(&stored); err != nil || stored.ID != original.ID || !secrets.Same(deliver, original.Deliver) {
		_, restored := e.define(ctx, "secrets.restore", original.ID, original)
		return n, errors.Join(errReadBack, err, restored)
	}
	*verified = true
	return n, nil
}

// definitionAt reads a definition from the log.
func (e *Engine) definitionAt(ctx context.Context, offset int64) (d rule.Definition, err error) {
	topic, ok := e.opt.Log.Topic(e.opt.Triggers)
	if !ok {
		return d, ErrUnavailable
	}
	found := false
	err = e.recordAt(ctx, topic.ID, 0, offset, func(r *record.Record) (err error) {
		found = true
		d, err = rule.ParseDefinition(r.Key, r.Value)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("offset %d of topic %s is missing", offset, e.opt.Triggers)
	}
	return d, err
}

// Marks are offsets of the topic of definitions. Below Replaced are records with secrets that are
// readable, or encrypted with a replaced key. No copy of the file has those below Copied, and no
// object of the log those below Purged.
//
//	readable secrets are replaced -> Replaced
//	the file is vacuumed, a copy is saved, older copies are deleted -> Copied
//	the topic is compacted, packs with its dead records are merged  -> Purged
type Marks struct{ Replaced, Copied, Purged int64 }

// copyDue reports whether a copy must replace the older ones. Secrets that are still readable come
// first, and so do rows of removed triggers.
func (m *Marks) copyDue(w *worker) bool {
	return m.Replaced > m.Copied && len(w.gone) == 0 && countSecrets(w.live, w.opt.Keys).Readable == 0
}

func (w *worker) loadMarks(ctx context.Context) error {
	var errs [3]error
	w.marks.Replaced, errs[0] = w.f.Mark(ctx, store.Replaced)
	w.marks.Copied, errs[1] = w.f.Mark(ctx, store.Copied)
	w.marks.Purged, errs[2] = w.f.Mark(ctx, store.Purged)
	return errors.Join(errs[:]...)
}

// mark stores a mark that is ahead of the current one.
func (w *worker) mark(ctx context.Context, m store.Mark, offset int64) error {
	at := map[store.Mark]*int64{store.Replaced: &w.marks.Replaced, store.Copied: &w.marks.Copied, store.Purged: &w.marks.Purged}[m]
	if offset <= *at {
		return nil
	}
	err := w.f.Update(ctx, func(tx *store.Tx) error { return tx.PutMark(m, offset) })
	if err == nil {
		*at = offset
	}
	return err
}

// outdated marks the record of a definition that replaces secrets which are readable, or encrypted
// with a key that is not active.
func (w *worker) outdated(tx *store.Tx, was, now secrets.Status, offset int64) error {
	old := was.Readable || was.Sealed && was.Key != w.opt.Keys.Active()
	if w.opt.Keys == nil || !old || was == now || now.Readable {
		return nil
	}
	w.marks.Replaced = offset + 1 // read again if the transaction fails
	return tx.PutMark(store.Replaced, offset+1)
}

// keepMarks stores the marks of a leader. With the first key, all records may be readable.
func (w *worker) keepMarks(ctx context.Context, leads bool) error {
	if w.opt.Keys == nil || !leads {
		return nil
	}
	if next := w.cursors[store.CursorKey{Topic: w.topics[0]}].Next; w.marks.Replaced == 0 {
		if err := w.mark(ctx, store.Replaced, next); err != nil {
			return err
		}
	}
	return w.mark(ctx, store.Purged, w.purged.Load())
}

// Unpurged returns the topic of definitions, and the offset below which objects of the log may have
// outdated secrets; 0: none.
func (e *Engine) Unpurged() (topic record.ID, below int64) {
	p, _, err := e.follower.Peek()
	t, ok := e.opt.Log.Topic(e.opt.Triggers)
	if e.opt.Keys == nil || err != nil || !ok || !e.opt.Log.Leads() || p.Secrets.Readable > 0 || p.Marks.Purged >= p.Marks.Replaced {
		return topic, 0
	}
	return t.ID, p.Marks.Replaced
}

// Purged notes that no object of the log has outdated secrets below an offset.
func (e *Engine) Purged(below int64) {
	e.follower.purged.Store(below)
	e.follower.loop.Wake()
}
