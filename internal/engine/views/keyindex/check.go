package keyindex

import (
	"context"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/record"
)

// load reads and checks the file, also what SQLite does not check, except the blocks of runs: these
// are checked whenever they are read.
func (f *file) load(ctx context.Context, cluster record.ID) error {
	for _, step := range []func(context.Context) error{
		f.loadManifest, f.loadPositions, f.loadJournal, f.loadRuns, f.findDead,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if f.man.Cluster != "" && f.man.Cluster != cluster.String() {
			return localdb.Damaged("file of cluster %s, want %s", f.man.Cluster, cluster)
		}
	}
	return nil
}

func (f *file) loadManifest(ctx context.Context) error {
	var data []byte
	var rows int
	err := f.W.Query(ctx, func(scan func(...any) error) error { return scan(&data, &rows) },
		"SELECT data, (SELECT count(*) FROM manifest) FROM manifest WHERE id = 1")
	if err != nil || rows != 1 {
		return localdb.Damaged("manifest: %d rows: %v", rows, err)
	}
	f.man, err = decodeManifest(data)
	return err
}

func (f *file) loadPositions(ctx context.Context) error {
	var sum uint64
	err := f.W.Query(ctx, func(scan func(...any) error) error {
		var topic, origin []byte
		var k partKey
		var p position
		if err := scan(&topic, &k.partition, &p.number, &p.next, &origin, &p.settled); err != nil {
			return localdb.Damaged("position: %v", err)
		}
		if copy(k.topic[:], topic) != len(topic) || copy(p.origin[:], origin) != len(origin) {
			return localdb.Damaged("position with a topic ID of %d bytes", len(topic))
		}
		f.positions[k] = p
		sum += p.sum(k)
		return nil
	}, "SELECT topic, partition, number, next, origin, settled FROM positions")
	if err != nil {
		return err
	}
	if len(f.positions) != f.man.Positions || sum != f.man.PositionsSum {
		return localdb.Damaged("positions do not match the manifest")
	}
	return nil
}

func (f *file) loadJournal(ctx context.Context) error {
	next := f.man.JournalFrom
	err := f.W.Query(ctx, func(scan func(...any) error) error {
		var sequence int64
		var data []byte
		if err := scan(&sequence, &data); err != nil {
			return localdb.Damaged("journal: %v", err)
		}
		list, err := Decode(journalID(sequence), 0, data)
		if err != nil {
			return err
		}
		if sequence != next {
			return localdb.Damaged("journal has sequence %d, want %d", sequence, next)
		}
		f.recent.add(list)
		next++
		return nil
	}, "SELECT sequence, data FROM journal ORDER BY sequence")
	if err != nil {
		return err
	}
	if next != f.man.JournalNext {
		return localdb.Damaged("journal ends at sequence %d, want %d", next, f.man.JournalNext)
	}
	return nil
}

// journalID is the block ID of a journal row; negative, so that it differs from those of runs.
func journalID(sequence int64) int64 { return -1 - sequence }

func (f *file) loadRuns(ctx context.Context) error {
	for _, info := range f.man.Runs {
		r, err := f.run(info)
		if err != nil {
			return err
		}
		f.runs = append(f.runs, r)
	}
	return ctx.Err()
}

// findDead finds blocks of runs that are not in the manifest: leftovers of interrupted merges.
func (f *file) findDead(ctx context.Context) error {
	listed := map[int64]bool{}
	for _, r := range f.man.Runs {
		listed[r.ID] = true
	}
	for from := int64(0); ; {
		var id int64
		err := f.W.Query(ctx, func(scan func(...any) error) error { return scan(&id) }, "SELECT coalesce(min(id), -1) FROM blocks WHERE id >= ?", from)
		if err != nil || id == -1 {
			return err
		}
		number := RunOf(id)
		if id < from || number >= f.man.NextRun {
			return localdb.Damaged("block %d, at or after %d, is of no run below %d", id, from, f.man.NextRun)
		}
		if !listed[number] {
			f.dead = append(f.dead, deadRun(number))
		}
		_, from = IDs(number)
	}
}
