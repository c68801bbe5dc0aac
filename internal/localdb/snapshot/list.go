package snapshot

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/objstore"
)

// namesMax bounds the names of a view that are looked at: a file of 300 MB has 80.
const namesMax = 100_000

// Found is what a listing shows of a snapshot.
type Found struct {
	Name
	Keys  []string // of its objects, in their order; the manifest's is the last
	Bytes int64
	// Whole is whether there is a manifest and as many pieces as its name says.
	Whole bool
}

// Gather puts the objects of a listing together, name by name, in order.
type Gather struct {
	Shard uint32
	List  []Found // the newest first
	// Strange is told of names that are none; nil is not.
	Strange func(objstore.Entry)
}

// Add takes the next name.
func (g *Gather) Add(e objstore.Entry) {
	n, ok := ParseName(g.Shard, e.Key)
	if !ok {
		if g.Strange != nil {
			g.Strange(e)
		}
		return
	}
	last := len(g.List) - 1
	if last < 0 || g.List[last].snapshot(g.Shard) != n.snapshot(g.Shard) {
		g.List = append(g.List, Found{Name: n})
		last++
	}
	f := &g.List[last]
	pieces := len(f.Keys)
	f.Name, f.Keys, f.Bytes = n, append(f.Keys, e.Key), f.Bytes+e.Size
	f.Whole = n.Manifest && n.Piece == pieces // those in between are there: names are unique, and none is higher
	if n.Manifest && pieces > 0 {
		before, _ := ParseName(g.Shard, f.Keys[pieces-1])
		f.Whole = f.Whole && !before.Manifest && before.Piece == pieces-1
	}
}

// list finds all snapshots of the view, whole or not, the newest first.
func (s *Snapshots) list(ctx context.Context) ([]Found, error) {
	g := Gather{Shard: s.o.Shard}
	o := objstore.ListOptions{Prefix: prefix(s.o.Shard, s.o.View)}
	for names := 0; ; {
		var page []objstore.Entry
		var more bool
		err := s.patiently(ctx, func(ctx context.Context) (err error) {
			page, more, err = s.o.Store.List(ctx, o)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", o.Prefix, err)
		}
		for _, e := range page {
			g.Add(e)
			o.After = e.Key
		}
		if names += len(page); !more || len(page) == 0 {
			return g.List, nil
		}
		if names > namesMax {
			return nil, fmt.Errorf("list %s: more than %d names", o.Prefix, namesMax)
		}
	}
}
