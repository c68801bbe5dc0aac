package damage_test

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
)

// places is the number of places at which a file is cut, zeroed and flipped.
const places = 50

// removed is the damage of whole folders and epochs.
const removed = "folder removed"

// damageCase is one way to damage a bucket.
type damageCase struct {
	bucket *bucket
	damage string // such as "truncated"
	kind   string // of the file
	name   string // with the file and the place
	apply  func(*image)
}

func (c *damageCase) title() string { return c.bucket.name + ": " + c.name }

// damaged returns the damaged bucket.
func (c *damageCase) damaged() *image {
	img := c.bucket.clone()
	c.apply(img)
	return img
}

// hash orders cases by chance, in the same way in every run.
func (c *damageCase) hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.title()))
	return h.Sum64()
}

// kindOf is the kind of a file, which names the newest epoch.
func (b *bucket) kindOf(name string) string {
	if strings.HasPrefix(name, fmt.Sprintf("s0000/wal/%010d-", b.newest)) {
		return "newest " + kind(name)
	}
	return kind(name)
}

// cases returns every single damage of a bucket, without pairs.
func (b *bucket) cases() (all []*damageCase) {
	add := func(damage, kind, name string, apply func(*image)) {
		all = append(all, &damageCase{b, damage, kind, name, apply})
	}
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		c, kind, title := b.files[name], b.kindOf(name), b.title(name)
		change := func(damage, text string, to content) {
			add(damage, kind, damage+" "+title+" "+text, func(img *image) { img.files[name] = to })
		}
		add("deleted", kind, "deleted "+title, func(img *image) { delete(img.files, name) })
		borders := b.borders(name)
		for _, n := range spread(borders, c.size, places) {
			change("truncated", fmt.Sprintf("to %d", n), c.truncated(n))
		}
		for _, n := range spread(borders, int64(len(c.used)), places) {
			change("zeroed", fmt.Sprintf("from %d", n), c.zeroed(n))
		}
		for i, n := range spread(borders, c.size, places) {
			change("flipped", fmt.Sprintf("bit %d of byte %d", i%8, n), c.flipped(n, i%8))
		}
		for _, other := range slices.Sorted(maps.Keys(b.files)) {
			if other > name && b.kindOf(other) == kind {
				add("swapped", kind, "swapped "+title+" and "+b.title(other), func(img *image) {
					img.files[name], img.files[other] = img.files[other], img.files[name]
				})
			}
		}
	}
	for _, name := range b.folders {
		if name != "." {
			add(removed, "folder", "removed folder "+b.title(name), func(img *image) { img.remove(name) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if kind(name) == "claim" {
			add(removed, "epoch", "removed all of "+b.title(name), func(img *image) {
				for _, suffix := range []string{"", "+journal", "+late", "+position"} {
					img.remove(name + suffix)
				}
			})
		}
	}
	return all
}

// pairs returns n random pairs of damages of a bucket, of different files.
func (b *bucket) pairs(singles []*damageCase, n int) (all []*damageCase) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for len(all) < n {
		x, y := singles[rnd.IntN(len(singles))], singles[rnd.IntN(len(singles))]
		if x.bucket == y.bucket && x.bucket == b && x.name != y.name {
			all = append(all, &damageCase{b, "pair", "two files", x.name + ", " + y.name, func(img *image) { x.apply(img); y.apply(img) }})
		}
	}
	return all
}

// borders are the places of a file at which a part of it begins or ends.
func (b *bucket) borders(name string) (at []int64) {
	c := b.files[name]
	if kind(name) != "journal" {
		return nil
	}
	for _, p := range b.parts(name) {
		at = append(at, p.Offset, p.Offset+40, p.Offset+70, p.Offset+p.Bytes-1, p.Offset+p.Bytes)
		for _, o := range p.Objects {
			at = append(at, o.Offset, o.Offset+o.Size/2)
		}
	}
	at = append(at, int64(len(c.used))-1, int64(len(c.used)), int64(len(c.used))+1, (int64(len(c.used))+c.size)/2, c.size-journal.BlockBytes)
	return at
}

// spread returns at most n places of a file with a size: half of them borders, and both ends.
func spread(borders []int64, size int64, n int) (all []int64) {
	add := func(list []int64, n int) {
		for i := range n {
			all = append(all, list[i*len(list)/n])
		}
	}
	borders = slices.DeleteFunc(slices.Clone(borders), func(at int64) bool { return at < 0 || at >= size })
	slices.Sort(borders)
	add(borders, min(len(borders), n/2))
	even := max(0, n-2-len(all))
	for i := range even {
		all = append(all, size*int64(i)/int64(even))
	}
	if size > 0 {
		all = append(all, 0, size-1)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
