package rules

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/pause"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
)

// Snapshots stores copies of the file outside the machine. *snapshot.Snapshots implements it.
type Snapshots interface {
	// Newest returns the newest usable snapshot; ok is false if there is none.
	Newest(ctx context.Context) (info snapshot.Info, ok bool, err error)
	// Save stores a copy that is no longer written. It keeps at most one older copy; with only,
	// none.
	Save(ctx context.Context, path string, note snapshot.Note, only bool) (snapshot.Info, error)
	// Restore creates a file from the newest usable snapshot that is not refused; ok is false if
	// there is none. all: this broker knows the whole log. Otherwise a snapshot of an unknown part
	// of the log is snapshot.ErrAhead.
	Restore(ctx context.Context, path string, all bool, refused func(name string) bool) (info snapshot.Info, ok bool, err error)
}

// copySuffix ends the name of a copy.
const copySuffix = ".copy"

// A file larger than hourlyBytes is saved less often than each hour (Sizes.SaveEvery), but at least
// once a day, so that large files cost no more.
const (
	hourlyBytes = snapshot.PieceBytes
	dailyHours  = 24
)

// snapshotter saves copies of the file, and records the snapshots that are not usable. It belongs
// to the worker.
type snapshotter struct {
	known    bool // newest is known
	newest   snapshot.Info
	next     time.Time // the next check
	failures int

	stop   context.CancelFunc // of the running operation; nil: none
	result chan saveResult    // capacity 1

	from    string          // the snapshot of the open file, if this process restored it
	refused map[string]bool // unusable snapshots
}

// saveResult is the result of saving a copy, or of finding the newest snapshot.
type saveResult struct {
	info snapshot.Info
	err  error
	new  bool
	// below is the mark that the copy completes; 0: none
	below int64
}

// setNewest sets the newest snapshot.
func (w *worker) setNewest(info snapshot.Info) {
	w.snapshotter.newest, w.snapshotter.known = info, true
	w.savedAt.Store(info.Time)
	w.savedBytes.Store(info.Size)
}

// restore restores the file from a snapshot, if the file does not exist.
func (w *worker) restore(ctx context.Context) error {
	k := &w.snapshotter
	if w.opt.Snapshots == nil {
		return nil
	}
	_, err := os.Stat(w.opt.Path)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := store.Remove(w.opt.Path); err != nil { // the files of SQLite next to it
		return err
	}
	at := w.opt.Now()
	leads := w.opt.Log.Leads() // else Restore waits rather than use an old one
	info, ok, err := w.opt.Snapshots.Restore(ctx, w.opt.Path, leads, func(name string) bool { return k.refused[name] })
	if err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	if k.from = ""; ok {
		k.from = info.Name
		w.met.restores.Inc()
		w.opt.Logger.Info("trigger file restored from a snapshot", "snapshot", info.Name, "bytes", info.Size,
			"made", time.UnixMicro(info.Time).UTC(), "took", w.opt.Now().Sub(at))
	}
	return nil
}

// refuse excludes the snapshot of the open file from Restore, because the file is damaged.
func (k *snapshotter) refuse() {
	if k.from == "" {
		return
	}
	if k.refused == nil {
		k.refused = map[string]bool{}
	}
	k.refused[k.from] = true
	k.from, k.known = "", false
}

// maintainSnapshot saves a copy of the file when one is due, and returns the time until the next
// check.
func (w *worker) maintainSnapshot(ctx context.Context) (wait time.Duration, err error) {
	k := &w.snapshotter
	if w.opt.Snapshots == nil {
		return views.Idle, nil
	}
	if k.stop != nil {
		select {
		case r := <-k.result:
			if err := w.finishSave(r); err != nil {
				return 0, err
			}
			if err := w.mark(ctx, store.Copied, r.below); r.err == nil && err != nil {
				return 0, err
			}
		default:
			return views.Idle, nil // the operation wakes the loop at its end
		}
	}
	now := w.opt.Now()
	if d := k.next.Sub(now); d > 0 && d <= views.Idle {
		return d, nil
	}
	if !k.known {
		w.start(ctx, func(ctx context.Context) saveResult {
			info, _, err := w.opt.Snapshots.Newest(ctx)
			return saveResult{info: info, err: err}
		})
		return 0, nil
	}
	due, only, err := w.untilSave(ctx, now)
	switch {
	case err != nil:
		return 0, err
	case due == never:
		k.next = now.Add(w.pollInterval())
		return views.Idle, nil // the next turn checks again
	case due > 0:
		k.next = now.Add(min(due, w.pollInterval()))
		return min(due, views.Idle), nil
	}
	below := int64(0)
	if w.marks.copyDue(w) {
		done, err := w.f.Vacuum(ctx)
		if err != nil || !done {
			k.next = now.Add(w.pollInterval())
			return w.pollInterval(), err
		}
		below = w.marks.Replaced
	}
	w.save(ctx, only, below)
	return 0, nil
}

// pollInterval is the time between two checks.
func (w *worker) pollInterval() time.Duration { return w.opt.Sizes.SaveEvery / 720 }

// never is the time until a copy that is not due.
const never = time.Duration(1<<63 - 1)

// untilSave returns the time until a copy is due; never if too little has changed. only reports
// whether older copies contain erased entities or outdated secrets.
func (w *worker) untilSave(ctx context.Context, now time.Time) (due time.Duration, only bool, err error) {
	k := &w.snapshotter
	records := w.recordsRead()
	s := w.opt.Sizes
	if w.marks.copyDue(w) {
		return max(0, time.UnixMicro(k.newest.Time).Add(s.SaveEvery/60).Sub(now)), true, nil
	}
	if records == k.newest.Records {
		return never, false, nil
	}
	every := s.SaveEvery // grows with the size
	if info, err := os.Stat(w.opt.Path); err == nil {
		every *= time.Duration(min(max(1, info.Size()/hourlyBytes), dailyHours))
	}
	switch erased, err := w.f.LastErasure(ctx); {
	case err != nil:
		return 0, false, err
	case k.newest.Name != "" && (erased+1)*1000 > k.newest.Time:
		every, only = s.SaveEvery, true
	case max(records-k.newest.Records, k.newest.Records-records) < s.SaveRecords && !w.trimmed():
		return never, false, nil
	}
	due = max(0, time.UnixMicro(k.newest.Time).Add(every).Sub(now))
	if due > every { // newest is from a future that an operator has ended
		due = 0
	}
	return due, only, nil
}

// recordsRead returns the number of records behind the file: the main reader's offsets of all
// partitions.
func (w *worker) recordsRead() (n int64) {
	for key, c := range w.cursors {
		if key.Reader == store.Main {
			n += c.Next
		}
	}
	return n
}

// trimmed reports whether the log has lost records behind the file, so that a rebuild from the log
// may differ.
func (w *worker) trimmed() bool {
	for _, spans := range w.pos.Topics {
		for _, s := range spans {
			if s.Start > 0 {
				return true
			}
		}
	}
	return false
}

// save starts to save a copy.
func (w *worker) save(ctx context.Context, only bool, below int64) {
	f, note := w.f, snapshot.Note{Time: w.pos.Time, Records: w.recordsRead()} // or newer
	w.start(ctx, func(ctx context.Context) saveResult {
		info, err := w.saveCopy(ctx, f, note, only)
		return saveResult{info: info, err: err, new: true, below: below}
	})
}

// start runs do concurrently with the engine.
func (w *worker) start(ctx context.Context, do func(ctx context.Context) saveResult) {
	ctx, stop := context.WithCancel(ctx)
	result := make(chan saveResult, 1)
	w.snapshotter.stop, w.snapshotter.result = stop, result
	run := func() {
		result <- do(ctx)
		w.loop.Wake()
	}
	if w.inline {
		run()
		return
	}
	go run()
}

func (w *worker) saveCopy(ctx context.Context, f *store.File, note snapshot.Note, only bool) (info snapshot.Info, err error) {
	path := w.opt.Path + copySuffix
	if err := store.Remove(path); err != nil { // left by a crashed process
		return info, err
	}
	defer func() { err = errors.Join(err, store.Remove(path)) }()
	if err := f.Copy(ctx, path); err != nil {
		return info, fmt.Errorf("copy: %w", err)
	}
	return w.opt.Snapshots.Save(ctx, path, note, only)
}

// finishSave applies the result. localdb.ErrDamaged means that the file is damaged.
func (w *worker) finishSave(r saveResult) error {
	k := &w.snapshotter
	k.stop()
	k.stop = nil
	if r.err != nil {
		return w.saveFailed(r.err)
	}
	k.failures = 0
	if !r.new && k.refused[r.info.Name] {
		r.info = snapshot.Info{} // so that a new one is due soon
	}
	w.setNewest(r.info)
	if !r.new {
		return nil
	}
	w.met.saves.Inc()
	w.opt.Logger.Info("trigger file saved", "snapshot", r.info.Name, "bytes", r.info.Size, "stored", r.info.Stored)
	return nil
}

// saveFailed schedules the next attempt with exponential backoff.
func (w *worker) saveFailed(err error) error {
	w.met.saveFailures.Inc()
	w.opt.Logger.Warn("trigger file not saved", "err", err)
	k := &w.snapshotter
	k.failures++
	k.next = w.opt.Now().Add(pause.Growth{Min: w.pollInterval(), Max: w.opt.Sizes.SaveEvery}.After(k.failures))
	if errors.Is(err, localdb.ErrDamaged) {
		return err
	}
	return nil
}

// stopSave cancels the running operation, and waits for its end.
func (k *snapshotter) stopSave() {
	if k.stop == nil {
		return
	}
	k.stop()
	<-k.result
	k.stop = nil
}
