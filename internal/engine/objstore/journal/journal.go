package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
)

// Errors of a Journal besides those of its System.
var (
	// ErrExists: the journal holds the name.
	ErrExists = errors.New("object exists")
	// ErrNotFound: the journal does not hold the name.
	ErrNotFound = errors.New("object not found")
	// ErrEnded: the journal has ended. PutLate puts names that it does not hold.
	ErrEnded = errors.New("journal has ended")
	// ErrOver: a write or a sync failed. The journal takes no more objects, and it is unknown
	// whether the last ones are stored.
	ErrOver = errors.New("journal failed")
	// ErrDamaged: a part of the journal cannot be read, and the name may be in it.
	ErrDamaged = errors.New("journal is damaged")
	// ErrNoClaim: no journal has the folder.
	ErrNoClaim = errors.New("folder is not claimed by a journal")
)

// Place is where the bytes of an object are.
type Place struct {
	Name   string // of the file, relative to the root of the bucket
	Offset int64
	Size   int64 // -1: the object is the whole file, which is in the folder Late
}

// Entry is a name in a listing.
type Entry struct {
	Key  string
	Size int64
	Late bool // the object is a file in the folder Late
}

// Journal is the journal of one claimed folder: as its owner, which appends to it, or as another
// process sees it. Safe for concurrent use.
type Journal struct {
	sys    System
	folder string
	run    Run
	opt    Options

	scanning sync.Locker // held while the journal is read or ended; taken before mu
	deleting sync.Locker // held while tombstones are written or read; taken before mu

	mu      sync.Locker // guards the fields below
	files   []*file     // with frames, ascending; of an owner also the current one
	objects index
	pos     Position // where the next batch is read or written
	end     *Position
	damage  []Damage
	looked  bool   // everything behind pos was searched once, without an end; guarded by scanning
	own     *owner // nil unless this process owns the journal and it has not ended or failed
	over    error  // ErrOver: why the journal of this process failed

	preparing *prepared // of the owner, for Close
}

// object is what the index knows of a name.
type object struct {
	file   *file
	batch  int64 // offset of its batch
	offset int64
	size   int64
	large  bool
}

// file is a journal file.
type file struct {
	number uint64
	frames int   // frames that were found in it
	live   int   // of these, frames that are not deleted
	left   bool  // nothing will be appended to it
	gone   int64 // bytes of its tombstones that were read
	// early are tombstones of frames that were not read yet
	early map[tombstone]bool
}

type tombstone struct {
	batch int64 // offset of the batch
	key   string
}

// Options are the sizes of a journal. Zero values mean the defaults that the comments name.
type Options struct {
	FirstBytes int64 // of the first journal file; 4 MiB
	FileBytes  int64 // of a later one, which is at most twice as large as the file before; 64 MiB
	GroupBytes int64 // a group of objects that share a sync is closed at this size; 2 MiB
}

func (o Options) withDefaults() Options {
	def := func(v *int64, to int64) {
		if *v <= 0 {
			*v = to
		}
	}
	def(&o.FirstBytes, 4<<20)
	def(&o.FileBytes, 64<<20)
	def(&o.GroupBytes, 2<<20)
	return o
}

// Late is the folder of the names that were put after the journal ended. Its existence is the mark
// that the journal is being ended.
func Late(folder string) string { return folder + "+late" }

// Files is the folder of the journal files of a claimed folder.
func Files(folder string) string { return folder + "+journal" }

// large is the name of the file of a large object.
func (j *Journal) large(key string) string { return Large(j.folder, key) }

// Large is the name of the file that a large object of a claimed folder lies in.
func Large(folder, key string) string { return Files(folder) + "/+large/" + key }

// EndFile is the name of the file that names the end.
func EndFile(folder string) string { return Late(folder) + "/+end" }

func (j *Journal) endName() string { return EndFile(j.folder) }

func (j *Journal) fileName(number uint64) string {
	return fmt.Sprintf("%s/%08d", Files(j.folder), number)
}

func (j *Journal) goneName(number uint64) string { return j.fileName(number) + ".gone" }

// Open returns the journal of a folder that another process, or an earlier one, has claimed. The
// error for a folder without a claim is ErrNoClaim.
//
// A damaged or missing claim is damage that loses nothing if a batch names the run.
func Open(sys System, folder string) (*Journal, error) {
	run, err := readClaim(sys, folder)
	if bad, is := errors.AsType[claimError](err); is {
		return openUnclaimed(sys, folder, bad)
	}
	if err != nil {
		return nil, err
	}
	e, err := readEvidence(sys, folder)
	if err != nil {
		return nil, err
	}
	if e.valid && e.run != run {
		return openMixed(sys, folder, run)
	}
	return newJournal(sys, folder, run), nil
}

// openMixed opens a journal whose claim and position file name different runs: one of them is that of
// another journal. The batches tell which.
func openMixed(sys System, folder string, claimed Run) (*Journal, error) {
	j, err := openUnclaimed(sys, folder, claimError("it names run "+claimed.String()))
	if err == nil && j.run == claimed {
		j.damage = nil
	}
	return j, err
}

func newJournal(sys System, folder string, run Run) *Journal {
	return &Journal{
		sys: sys, folder: folder, run: run,
		scanning: sys.NewMutex(), deleting: sys.NewMutex(), mu: sys.NewMutex(),
	}
}

func readClaim(sys System, folder string) (Run, error) {
	run, bad, err := decodeClaim(sys, folder)
	if err != nil || bad == "" {
		return run, err
	}
	// A claim is durable before the folders of its files exist. If one exists, a look at the claim
	// that comes later finds it, unless it is damaged.
	for _, name := range []string{Files(folder), PositionFile(folder), Late(folder)} {
		exists, err := sys.Exists(name)
		if err != nil {
			return Run{}, fmt.Errorf("look for %s: %w", name, err)
		}
		if !exists {
			continue
		}
		if run, bad, err = decodeClaim(sys, folder); err == nil && bad != "" {
			err = bad
		}
		return run, err
	}
	return Run{}, ErrNoClaim
}

// decodeClaim returns the run of a claim, or why there is none.
func decodeClaim(sys System, folder string) (run Run, bad claimError, err error) {
	content, err := sys.ReadFile(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return Run{}, claimMissing, nil
	}
	if err != nil {
		return Run{}, "", fmt.Errorf("read claim %s: %w", folder, err)
	}
	if run, ok := DecodeClaim(content); ok {
		return run, "", nil
	}
	return Run{}, "its content is invalid", nil
}

// find looks for an object of the journal. The owner answers from memory, after a look for the mark
// if it does not know the name. Every other process first reads what was appended, if it does not
// know the name, and what was deleted.
func (j *Journal) find(key string) (object, error) {
	j.settle(func(o *owner) bool { return o.pending[key] != nil })
	o, found := j.lookup(key)
	if !found {
		if err := j.notice(); err != nil {
			return o, err
		}
	}
	if j.foreign() {
		var err error
		if o, found, err = j.findForeign(key); err != nil {
			return o, err
		}
	}
	if !found {
		return o, j.absent()
	}
	return o, nil
}

// settle waits for the running flush if it concerns the caller. Other processes may see its objects
// already, so an answer without them could contradict theirs.
func (j *Journal) settle(concerns func(*owner) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o := j.own
	if o == nil {
		return
	}
	for flush := o.flushes; j.own == o && o.flushing && o.flushes == flush && concerns(o); {
		o.idle.Wait()
	}
}

// notice ends the own journal if another process has made the mark, because that process may have
// put names as files.
func (j *Journal) notice() error {
	if j.foreign() {
		return nil
	}
	marked, err := j.sys.Exists(Late(j.folder))
	if err != nil {
		return fmt.Errorf("look for %s: %w", Late(j.folder), err)
	}
	if !marked {
		return nil
	}
	return j.End()
}

// findForeign looks for an object that other processes may put, delete and put again.
func (j *Journal) findForeign(key string) (object, bool, error) {
	for {
		o, found := j.lookup(key)
		if !found {
			if err := j.refresh(); err != nil {
				return object{}, false, err
			}
			if o, found = j.lookup(key); !found {
				return object{}, false, nil
			}
		}
		j.deleting.Lock()
		err := j.readGone(o.file)
		j.deleting.Unlock()
		if err != nil {
			return object{}, false, err
		}
		if now, found := j.lookup(key); found {
			return now, true, nil
		}
	}
}

// absent is the error for a name that was not found.
func (j *Journal) absent() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, d := range j.damage {
		if d.Loses() {
			return lostError{d}
		}
	}
	return ErrNotFound
}

func (j *Journal) lookup(key string) (object, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	o, ok := j.objects.get(key)
	return o, ok
}

// foreign reports whether other processes may change the journal.
func (j *Journal) foreign() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.own == nil
}

// list returns the first names of the journal, at most limit, that begin with prefix and are greater
// than after, in ascending order.
func (j *Journal) list(prefix, after string, limit int) ([]Entry, error) {
	j.settle(func(*owner) bool { return true })
	if err := j.notice(); err != nil {
		return nil, err
	}
	if j.foreign() {
		if err := j.refresh(); err != nil {
			return nil, err
		}
		j.deleting.Lock()
		err := j.readAllGone()
		j.deleting.Unlock()
		if err != nil {
			return nil, err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	var entries []Entry
	j.objects.page(prefix, after, func(key string, o object) bool {
		entries = append(entries, Entry{Key: key, Size: o.size})
		return len(entries) < limit
	})
	return entries, nil
}

// Ended reports whether the journal has an end that this process knows. An owner that is ending its
// journal still answers from memory.
func (j *Journal) Ended() bool {
	_, ended := j.ending()
	return ended
}

func (j *Journal) ending() (end Position, ended bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.end == nil || j.own != nil {
		return Position{}, false
	}
	return *j.end, true
}

// mark makes the mark, durably.
func (j *Journal) mark() error {
	if err := j.sys.MakeFolder(Late(j.folder)); err != nil {
		return fmt.Errorf("mark %s: %w", Late(j.folder), err)
	}
	failpoint.Hit("journal.marked")
	return nil
}

// fileNumber parses the name of a journal file.
func fileNumber(name string) (uint64, bool) {
	n, err := strconv.ParseUint(name, 10, 64)
	return n, err == nil && fmt.Sprintf("%08d", n) == name
}

// addLocked puts the frames of a batch into the index. A name that is there already stays: an owner
// never appends a name twice, unless it was deleted.
func (j *Journal) addLocked(b *batch) {
	f := j.fileLocked(b.at.File)
	for _, r := range b.frames {
		j.dropLocked(r.key)
		j.objects.add(r.key, object{file: f, batch: b.at.Offset, offset: r.offset, size: r.size, large: r.kind == frameFile})
		f.frames++
		f.live++
		if t := (tombstone{b.at.Offset, r.key}); f.early[t] {
			delete(f.early, t)
			j.dropLocked(r.key)
		}
	}
	if b.kind == kindEndOfFile {
		f.left = true
	}
}

// fileLocked returns the file of a number, which is the last known one or a new one.
func (j *Journal) fileLocked(number uint64) *file {
	if n := len(j.files); n > 0 && j.files[n-1].number == number {
		return j.files[n-1]
	}
	f := &file{number: number}
	j.files = append(j.files, f)
	return f
}

func (j *Journal) dropLocked(key string) {
	if o, ok := j.objects.get(key); ok {
		o.file.live--
		j.objects.remove(key)
	}
}
