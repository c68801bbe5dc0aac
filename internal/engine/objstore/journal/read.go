package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
)

// searchBytes is how much is read at once in search of a batch behind a damaged one.
const searchBytes = 1 << 20

// refresh reads what was appended since the last look, as a process that does not own the journal.
//
// What it shows is durable and stays: the file is synced first, and only then comes the look for the
// mark. Without a mark, every process that makes one later reads the same batches, so they are
// before the end that it names. With a mark, only the end decides.
func (j *Journal) refresh() error {
	j.scanning.Lock()
	defer j.scanning.Unlock()
	if j.Ended() {
		return nil
	}
	marked, err := j.sys.Exists(Late(j.folder))
	if err != nil {
		return fmt.Errorf("look for %s: %w", Late(j.folder), err)
	}
	if marked {
		return j.endScanning()
	}
	r := j.reader()
	defer r.close()
	// Damage is older than this process, because both read what the owner writes through one page
	// cache. So the first look finds it.
	if j.looked {
		err = r.tail()
	} else {
		err = r.all()
	}
	if err != nil {
		return err
	}
	if len(r.found) == 0 && len(r.damage) == 0 {
		j.looked = true
		return nil
	}
	if marked, err = j.sys.Exists(Late(j.folder)); err != nil {
		return fmt.Errorf("look for %s: %w", Late(j.folder), err)
	}
	if marked {
		return j.endScanning()
	}
	return j.take(r)
}

// take puts what a reader found into the index, without the large objects whose files are gone: a
// power failure can keep the removal of a file and lose the tombstone.
func (j *Journal) take(r *reader) error {
	var gone []string
	for _, b := range r.found {
		for _, f := range b.frames {
			if f.kind != frameFile {
				continue
			}
			exists, err := j.sys.Exists(j.large(f.key))
			if err != nil {
				return fmt.Errorf("look for %s: %w", j.large(f.key), err)
			}
			if !exists {
				gone = append(gone, f.key)
			}
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, b := range r.found {
		j.addLocked(b)
	}
	for _, key := range gone {
		if o, _ := j.objects.get(key); o.large {
			j.dropLocked(key)
		}
	}
	j.pos = r.pos
	j.damage = append(j.damage, r.damage...)
	j.looked = true
	r.found, r.damage = nil, nil
	return nil
}

// reader reads batches from where the index ends. One reader exists at a time, under
// Journal.scanning.
type reader struct {
	j      *Journal
	pos    Position
	found  []*batch
	damage []Damage
	ended  bool // the end had a name, so the last file may be cut off or removed

	file    File // of pos.File; nil if it is not open
	size    int64
	numbers []uint64 // of the files, ascending
	buffer  []byte
}

func (j *Journal) reader() *reader {
	j.mu.Lock()
	defer j.mu.Unlock()
	return &reader{j: j, pos: j.pos}
}

// restart forgets what was read.
func (r *reader) restart() {
	r.close()
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	r.pos, r.found, r.damage = r.j.pos, nil, nil
}

func (r *reader) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
}

// open opens the file of pos, or the first one after it if all before that were deleted. ok is
// false if there is none.
func (r *reader) open() (ok bool, err error) {
	var behind uint64 // a file that existed before the listing began
	for r.file == nil {
		if err := r.list(); err != nil {
			return false, err
		}
		i, exact := slices.BinarySearch(r.numbers, r.pos.File)
		if i == len(r.numbers) {
			return false, nil
		}
		// A listing can show a file that was created meanwhile without one that was created before it.
		// So only a listing that began when the later file existed proves that the earlier one is gone.
		if !exact && r.numbers[i] > 1 && r.numbers[i] != behind {
			behind = r.numbers[i]
			continue
		}
		if !exact {
			r.pos = Position{File: r.numbers[i]}
		}
		f, err := r.j.sys.Open(r.j.fileName(r.pos.File), false)
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted meanwhile
		}
		if err == nil {
			r.file = f
			r.size, err = f.Size()
		}
		if err != nil {
			return false, fmt.Errorf("read %s: %w", r.j.fileName(r.pos.File), err)
		}
	}
	return true, nil
}

func (r *reader) list() error {
	names, err := r.j.sys.ReadFolder(Files(r.j.folder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read %s: %w", Files(r.j.folder), err)
	}
	r.numbers = r.numbers[:0]
	for _, name := range names {
		if n, ok := fileNumber(name); ok {
			r.numbers = append(r.numbers, n)
		}
	}
	slices.Sort(r.numbers)
	return nil
}

// leave goes to the start of the next file.
func (r *reader) leave() {
	r.close()
	r.pos = Position{File: r.pos.File + 1}
}

// step reads the batch at pos and goes behind it. nil without an error: there is no valid batch.
func (r *reader) step() (*batch, error) {
	if ok, err := r.open(); !ok || err != nil {
		return nil, err
	}
	b, err := r.head(r.pos.Offset)
	if err != nil || b == nil {
		return nil, err
	}
	if b.kind == kindEndOfFile {
		r.leave()
	} else {
		r.pos.Offset = b.next()
	}
	return b, nil
}

// head decodes the batch at an offset of the open file; nil if there is no valid one.
func (r *reader) head(offset int64) (*batch, error) {
	at := Position{r.pos.File, offset}
	h, err := r.read(offset, BlockBytes)
	if err != nil {
		return nil, err
	}
	n, err := headLength(h, r.j.run, at)
	if err != nil {
		return nil, nil
	}
	if n > int64(len(h)) {
		if h, err = r.read(offset, n); err != nil {
			return nil, err
		}
	}
	if n > int64(len(h)) {
		return nil, nil
	}
	b, err := decodeHead(h[:n], at)
	if err != nil || offset+b.length > r.size {
		return nil, nil
	}
	return b, nil
}

// read returns up to n bytes from an offset; fewer at the end of the file. They are valid until the
// next read.
func (r *reader) read(offset, n int64) ([]byte, error) {
	if int64(cap(r.buffer)) < n {
		r.buffer = make([]byte, n)
	}
	got, err := r.file.ReadAt(r.buffer[:n], offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", r.j.fileName(r.pos.File), err)
	}
	return r.buffer[:got], nil
}

// all reads a journal without an end to its last batch, and finds all damage.
func (r *reader) all() error {
	e, err := readEvidence(r.j.sys, r.j.folder)
	if err != nil {
		return err
	}
	if err := r.tail(); err != nil {
		return err
	}
	if err := r.resync(); err != nil {
		return err
	}
	return r.judge(e)
}

// tail reads to the last complete batch and makes it durable. Only the last batch can be
// incomplete, because the owner syncs each batch before it writes the next one.
func (r *reader) tail() error {
	for {
		b, err := r.step()
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		r.found = append(r.found, b)
	}
	if len(r.found) == 0 {
		return nil
	}
	last := r.found[len(r.found)-1]
	durable, err := r.confirm(last)
	if err == nil && !durable {
		r.close() // the reader may have left the file of an end mark
		r.found, r.pos = r.found[:len(r.found)-1], last.at
	}
	return err
}

// confirm syncs the file of the last batch and reports whether the disk has the whole batch. It
// reads past the page cache, because after a failed sync of the owner the cache has bytes that the
// disk lacks, and a later sync reports success.
func (r *reader) confirm(b *batch) (bool, error) {
	name := r.j.fileName(b.at.File)
	f, err := r.j.sys.Open(name, false)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // its objects were deleted
	}
	if err != nil {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	defer f.Close()
	// The sync must follow the whole batch, which the owner may still write.
	bytes := aligned(padded(b.length))
	if _, err := f.ReadAt(bytes, b.at.Offset); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	if !r.whole(bytes, b) {
		return false, nil
	}
	if err := f.Sync(); err != nil {
		return false, fmt.Errorf("sync %s: %w", name, err)
	}
	ok, err := f.ReadMedium(bytes, b.at.Offset)
	if err == nil && !ok {
		_, err = f.ReadAt(bytes, b.at.Offset)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	return r.whole(bytes, b), nil
}

// whole reports whether bytes are the whole batch b.
func (r *reader) whole(bytes []byte, b *batch) bool {
	n, err := headLength(bytes, r.j.run, b.at)
	if err != nil || n > int64(len(bytes)) {
		return false
	}
	if again, err := decodeHead(bytes[:n], b.at); err != nil || again.length != b.length {
		return false
	}
	for _, f := range b.frames {
		from := f.offset - b.at.Offset
		if f.kind == frameInline && crc32.Checksum(bytes[from:from+f.size], castagnoli) != f.crc {
			return false
		}
	}
	return true
}

// until reads to a known end. Every place before it that holds no valid batch is damaged.
func (r *reader) until(end Position) error {
	for r.pos.Before(end) {
		b, err := r.step()
		if err != nil {
			return err
		}
		if b != nil {
			r.found = append(r.found, b)
			continue
		}
		at := r.pos
		if r.file == nil || !r.pos.Before(end) {
			break // the files up to the end were deleted
		}
		found, err := r.search(&end)
		if err != nil {
			return err
		}
		if !found {
			r.damaged(at, end)
			break
		}
		r.damaged(at, r.pos)
	}
	r.close()
	r.pos = end
	return nil
}

// search moves pos to the next valid batch behind it, before the end if that is given.
func (r *reader) search(end *Position) (found bool, err error) {
	from := r.pos.Offset + BlockBytes
	for {
		ok, err := r.open()
		if !ok || err != nil {
			return false, err
		}
		for at := from; at < r.size; at += searchBytes {
			b, err := r.searchIn(at)
			if err != nil {
				return false, err
			}
			if b != nil {
				if end != nil && !b.at.Before(*end) {
					return false, nil
				}
				r.pos = b.at
				return true, nil
			}
		}
		r.leave()
		from = 0
	}
}

// searchIn looks at the blocks of the next searchBytes.
func (r *reader) searchIn(at int64) (*batch, error) {
	bytes, err := r.read(at, searchBytes)
	if err != nil {
		return nil, err
	}
	var candidates []int64
	for i := 0; i+headBytes <= len(bytes); i += BlockBytes {
		if _, err := headLength(bytes[i:], r.j.run, Position{r.pos.File, at + int64(i)}); err == nil {
			candidates = append(candidates, at+int64(i))
		}
	}
	for _, offset := range candidates {
		if b, err := r.head(offset); b != nil || err != nil {
			return b, err
		}
	}
	return nil, nil
}
