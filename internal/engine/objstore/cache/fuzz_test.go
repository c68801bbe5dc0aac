package cache

import (
	"bytes"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// fuzzCache is a cache that can write and verify files.
func fuzzCache(cluster string, block int64) *Cache {
	return &Cache{block: block, o: Options{Cluster: cluster}}
}

// judge verifies a file with these bytes.
func judge(c *Cache, file []byte, key string, n name) (t trailerFields, err error) {
	last := file[max(0, len(file)-trailerMax):]
	if t, err = c.parseTrailer(last, int64(len(file)), key, n); err != nil {
		return t, err
	}
	if crc32.Checksum(file[:t.length], castagnoli) != t.sum {
		return t, errDamaged
	}
	return t, nil
}

// FuzzTrailer checks that an accepted trailer is true: writing the file again gives the same bytes.
func FuzzTrailer(f *testing.F) {
	c := fuzzCache("c", 1000)
	x := content{key: "k", name: name{c.object("k"), 0}, size: 3, parts: [][]byte{[]byte("abc")}}
	good := append([]byte("abc"), c.trailerOf(x)...)
	f.Add(good)
	f.Add(good[3:])
	f.Add(make([]byte, fixedBytes))
	f.Fuzz(func(t *testing.T, file []byte) {
		var got trailerFields
		var err error
		sebtest.Allocates(t, 512, file, func() { got, err = judge(c, file, "k", x.name) })
		if err != nil {
			if !errors.Is(err, errDamaged) {
				t.Fatal(err)
			}
			return
		}
		y := content{key: "k", name: x.name, size: got.size, parts: [][]byte{file[:got.length]}}
		if again := c.trailerOf(y); !bytes.Equal(again, file[got.length:]) {
			t.Fatalf("trailer %x is accepted as %x", file[got.length:], again)
		}
	})
}

// FuzzFile checks that a written file is valid. With a flipped bit, truncated, extended, under
// another name, in another cluster or with another block size it is invalid.
func FuzzFile(f *testing.F) {
	f.Add("s0000/wal/1-a/7", "cluster", []byte("the block"), uint16(3), uint32(77))
	f.Add("k", "c", []byte{}, uint16(0), uint32(0))
	f.Add("k", "c", bytes.Repeat([]byte{7}, 1000), uint16(1500), uint32(1<<31))
	f.Fuzz(func(t *testing.T, key, cluster string, data []byte, more uint16, bit uint32) {
		if len(key) == 0 || len(key) > keyMax || len(cluster) == 0 || len(cluster) > clusterMax || len(data) > 1000 || len(data) == 0 {
			return
		}
		c := fuzzCache(cluster, 1000)
		size, number := int64(len(data)), uint32(0)
		if len(data) == 1000 { // other blocks before and perhaps behind it
			number = uint32(more % 7)
			size = int64(number+1)*1000 + int64(more)
		}
		n := name{c.object(key), number}
		if back, ok := parseName(n.file()); !ok || back != n {
			t.Fatalf("%s is read as %+v", n.file(), back)
		}
		cut := int(more) % (len(data) + 1)
		file := append(bytes.Clone(data), c.trailerOf(content{key: key, name: n, size: size, parts: [][]byte{data[:cut], data[cut:]}})...)
		if got, err := judge(c, file, key, n); err != nil || got.size != size || got.length != len(data) {
			t.Fatalf("%+v, %v", got, err)
		}
		refused := func(what string, c *Cache, file []byte, key string, n name) {
			must.ErrorIsf(t, check.Err(judge(c, file, key, n)), errDamaged, "%s", what)
		}
		at := int(bit/8) % len(file)
		file[at] ^= 1 << (bit % 8)
		refused("a flipped bit", c, file, key, n)
		file[at] ^= 1 << (bit % 8)
		refused("cut", c, file[:at], key, n)
		refused("cut at the front", c, file[at+1:], key, n)
		refused("longer", c, append(bytes.Clone(file), byte(bit)), key, n)
		refused("another key", c, file, key+"x", n)
		refused("another block", c, file, key, name{n.object, number + 1})
		refused("another cluster", fuzzCache(cluster+"x", 1000), file, key, n)
		refused("another block size", fuzzCache(cluster, 999), file, key, n)
	})
}

// FuzzParseName checks that a name parses only if it is the name of a block's file.
func FuzzParseName(f *testing.F) {
	f.Add(name{object{1, 2, 3}, 77}.file())
	f.Add("lock")
	f.Add("tmp-1")
	f.Add("0102030000000000000000000000000-+000004d")
	f.Fuzz(func(t *testing.T, file string) {
		if n, ok := parseName(file); ok && n.file() != file {
			t.Fatalf("%q is read as %q", file, n.file())
		}
	})
}
