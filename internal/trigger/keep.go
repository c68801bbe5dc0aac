package trigger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/internal/localdb/snapshot"
	"github.com/sebbroker/seb/internal/trigger/store"
)

// Snapshots keep copies of the file where it survives the machine. *snapshot.Snapshots does.
type Snapshots interface {
	// Newest is the newest snapshot that can be used; ok is false if there is none.
	Newest(ctx context.Context) (info snapshot.Info, ok bool, err error)
	// Save stores a copy, to which nobody writes any more. Of older ones it leaves one at most; with only, none.
	Save(ctx context.Context, path string, note snapshot.Note, only bool) (snapshot.Info, error)
	// Restore makes a file of the newest snapshot that can be used and is not refused; ok is false if there is none. all is
	// whether this broker knows all of the log; else snapshot.ErrAhead says that there is one of what it does not know.
	Restore(ctx context.Context, path string, all bool, refused func(name string) bool) (info snapshot.Info, ok bool, err error)
}

// copySuffix is what the name of a copy ends with.
const copySuffix = ".copy"

// A snapshot of a file that is larger than hourlyBytes is made not every hour (Sizes.SaveEvery) but less often, so that it costs
// no more, until that is once a day.
const (
	hourlyBytes = snapshot.PieceBytes
	dailyHours  = 24
)

// keeper has copies of the file saved, and knows which of them not to take. It belongs to the worker.
type keeper struct {
	known    bool // newest is what there is
	newest   snapshot.Info
	next     time.Time // nothing is due before
	failures int

	stop   context.CancelFunc // of what is being done beside; nil if nothing is
	result chan saved         // capacity 1

	from    string          // the snapshot that the open file was made of, by this process
	refused map[string]bool // snapshots that were found to be of no use
}

// saved is how saving a copy has ended, or looking for the newest.
type saved struct {
	info snapshot.Info
	err  error
	new  bool
}

// newest takes note of what the newest snapshot is.
func (w *worker) newest(info snapshot.Info) {
	w.keeper.newest, w.keeper.known = info, true
	w.savedAt.Store(info.Time)
	w.savedBytes.Store(info.Size)
}

// restore makes the file of a snapshot, if there is no file and there is one.
func (w *worker) restore(ctx context.Context) error {
	k := &w.keeper
	if w.opt.Snapshots == nil {
		return nil
	}
	_, err := os.Stat(w.opt.Path)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := store.Remove(w.opt.Path); err != nil { // what SQLite has left beside it
		return err
	}
	at := w.opt.Now()
	leads := w.opt.Log.Leads() // one who is behind waits: made from less than what there was, the file would be another
	info, ok, err := w.opt.Snapshots.Restore(ctx, w.opt.Path, leads, func(name string) bool { return k.refused[name] })
	if err != nil {
		return fmt.Errorf("snapshots: %w", err)
	}
	if k.from = ""; ok {
		k.from = info.Name
		w.met.restores.Inc()
		w.opt.Logger.Info("the file of triggers is from a snapshot", "snapshot", info.Name, "bytes", info.Size,
			"made", time.UnixMicro(info.Time).UTC(), "took", w.opt.Now().Sub(at))
	}
	return nil
}

// refuse has the snapshot that the file was made of not be taken again: there is something wrong with the file.
func (k *keeper) refuse() {
	if k.from == "" {
		return
	}
	if k.refused == nil {
		k.refused = map[string]bool{}
	}
	k.refused[k.from] = true
	k.from, k.known = "", false
}

// keep has a copy of the file saved when one is due, and returns how long none is.
func (w *worker) keep(ctx context.Context) (wait time.Duration, err error) {
	k := &w.keeper
	if w.opt.Snapshots == nil {
		return follow.Idle, nil
	}
	if k.stop != nil {
		select {
		case r := <-k.result:
			if err := w.kept(r); err != nil {
				return 0, err
			}
		default:
			return follow.Idle, nil // it says when it is done
		}
	}
	now := w.opt.Now()
	if d := k.next.Sub(now); d > 0 && d <= follow.Idle {
		return d, nil
	}
	if !k.known {
		w.begin(ctx, func(ctx context.Context) saved {
			info, _, err := w.opt.Snapshots.Newest(ctx)
			return saved{info: info, err: err}
		})
		return 0, nil
	}
	due, only, err := w.untilSave(ctx, now)
	switch {
	case err != nil:
		return 0, err
	case due == never:
		k.next = now.Add(w.look())
		return follow.Idle, nil // it is looked at when something has changed
	case due > 0:
		k.next = now.Add(min(due, w.look()))
		return min(due, follow.Idle), nil
	}
	w.save(ctx, only)
	return 0, nil
}

// look is how long it is until it is looked at again what is due.
func (w *worker) look() time.Duration { return w.opt.Sizes.SaveEvery / 720 }

// never is a time until something that is not to be.
const never = time.Duration(1<<63 - 1)

// untilSave is how long it is until a copy is due; never if nothing has changed that is worth one. only is whether older ones
// hold what was to be forgotten.
func (w *worker) untilSave(ctx context.Context, now time.Time) (due time.Duration, only bool, err error) {
	k := &w.keeper
	records := w.recordsRead()
	if records == k.newest.Records {
		return never, false, nil
	}
	s := w.opt.Sizes
	every := s.SaveEvery // by what it costs
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
	if due > every { // it was saved in a false future
		due = 0
	}
	return due, only, nil
}

// recordsRead is how many records the file was made from: where it has come, in all partitions.
func (w *worker) recordsRead() (n int64) {
	for key, c := range w.cursors {
		if key.Reader == store.Main {
			n += c.Next
		}
	}
	return n
}

// trimmed is whether the log has lost something that the file was made from, so that it can not be made anew as it is.
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

// save begins to save a copy.
func (w *worker) save(ctx context.Context, only bool) {
	f, note := w.f, snapshot.Note{Time: w.pos.Time, Records: w.recordsRead()} // what is copied is that, or newer
	w.begin(ctx, func(ctx context.Context) saved {
		info, err := w.saveCopy(ctx, f, note, only)
		return saved{info: info, err: err, new: true}
	})
}

// begin has something done while the engine goes on.
func (w *worker) begin(ctx context.Context, do func(ctx context.Context) saved) {
	ctx, stop := context.WithCancel(ctx)
	result := make(chan saved, 1)
	w.keeper.stop, w.keeper.result = stop, result
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
	if err := store.Remove(path); err != nil { // of a process that has died
		return info, err
	}
	defer func() { err = errors.Join(err, store.Remove(path)) }()
	if err := f.Copy(ctx, path); err != nil {
		return info, fmt.Errorf("copy: %w", err)
	}
	return w.opt.Snapshots.Save(ctx, path, note, only)
}

// kept takes note of how that has ended. localdb.ErrDamaged is the file's.
func (w *worker) kept(r saved) error {
	k := &w.keeper
	k.stop()
	k.stop = nil
	if r.err != nil {
		return w.unsaved(r.err)
	}
	k.failures = 0
	if !r.new && k.refused[r.info.Name] {
		r.info = snapshot.Info{} // so that there is soon another one
	}
	w.newest(r.info)
	if !r.new {
		return nil
	}
	w.met.saves.Inc()
	w.opt.Logger.Info("the file of triggers was saved", "snapshot", r.info.Name, "bytes", r.info.Size, "stored", r.info.Stored)
	return nil
}

// unsaved has it tried again later, and later each time.
func (w *worker) unsaved(err error) error {
	w.met.saveFailures.Inc()
	w.opt.Logger.Warn("the file of triggers can not be saved", "err", err)
	k := &w.keeper
	k.next = w.opt.Now().Add(min(w.look()<<min(k.failures, 10), w.opt.Sizes.SaveEvery))
	k.failures++
	if errors.Is(err, localdb.ErrDamaged) {
		return err
	}
	return nil
}

// leave ends what is being done beside, and waits for that.
func (k *keeper) leave() {
	if k.stop == nil {
		return
	}
	k.stop()
	<-k.result
	k.stop = nil
}
