package httpapi

import (
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// cut removes from a fetch's chunks the batches that end below the wanted offset, and those after
// the wanted number of records or bytes is reached. It keeps whole batches, at least one.
func (g *Reading) cut(chunks []broker.Chunk) ([]broker.Chunk, error) {
	var list []broker.Chunk
	all := int64(0)
	for i := range chunks {
		all += chunks[i].Records
	}
	for i := range chunks {
		c := &chunks[i]
		if c.End <= g.Offset {
			continue
		}
		// Otherwise only the heads tell how many records are wanted.
		exact := c.Records == c.End-c.Base || all <= g.MaxRecords
		bounded := g.MaxRecords < c.Records+g.Count || g.MaxBytes > 0 && g.Bytes+c.Size > g.MaxBytes
		if c.Base >= g.Offset && exact && !bounded {
			g.Count += c.Records
			g.Bytes += c.Size
			list = append(list, *c)
			continue
		}
		part, err := g.cutChunk(c)
		if err != nil && len(list) == 0 {
			return nil, err
		}
		if part.Size > 0 {
			list = append(list, part)
		}
		if err != nil || part.End < c.End {
			break
		}
	}
	return list, nil
}

// cutChunk finds the wanted batches of one chunk by their heads. Batches that compaction has
// emptied count nothing.
func (g *Reading) cutChunk(c *broker.Chunk) (broker.Chunk, error) {
	out := *c
	from, to := int64(0), int64(0)
	first := true
	err := heads(c, func(pos int64, b record.Batch, size int64) bool {
		if b.BaseOffset()+b.Span() <= g.Offset {
			from, to = pos+size, pos+size
			return true
		}
		if g.Count > 0 && (g.Count >= g.MaxRecords || g.MaxBytes > 0 && g.Bytes+size > g.MaxBytes) {
			// Even if no batch was taken, the batches that follow belong to the next answer.
			out.End = b.BaseOffset()
			return false
		}
		if first {
			out.Base, first = b.BaseOffset(), false
		}
		out.End = b.BaseOffset() + b.Span()
		g.Count += min(int64(b.Count()), out.End-max(b.BaseOffset(), g.Offset))
		g.Bytes += size
		to = pos + size
		return true
	})
	out.Size = to - from
	if c.Section != nil {
		out.Section = &objstore.Section{File: c.Section.File, Off: c.Section.Off + from, Len: out.Size}
	} else {
		out.Parts = slice(c.Parts, from, to)
	}
	return out, err
}

// slice returns bytes [from, to) of consecutive parts.
func slice(parts [][]byte, from, to int64) [][]byte {
	var out [][]byte
	for _, p := range parts {
		n := int64(len(p))
		if low, high := min(max(from, 0), n), min(max(to, 0), n); low < high {
			out = append(out, p[low:high])
		}
		from, to = from-n, to-n
	}
	return out
}

// heads calls each with the head and the length of every batch of c, until it returns false.
func heads(c *broker.Chunk, each func(pos int64, head record.Batch, size int64) bool) error {
	var head [record.BatchHeadSize]byte
	o := orderOf(c)
	for pos := int64(0); pos < c.Size; {
		if err := readAt(c, head[:], pos); err != nil {
			return err
		}
		b := record.Batch(head[:])
		size := batchLen(b)
		if size < record.BatchHeadSize || size > c.Size-pos {
			return &record.CorruptError{What: "batch length", Pos: pos, Want: c.Size - pos, Got: size}
		}
		if err := o.check(b); err != nil {
			return err
		}
		if !each(pos, b, size) {
			return nil
		}
		pos += size
	}
	return nil
}

func readAt(c *broker.Chunk, dst []byte, pos int64) error {
	if c.Section != nil {
		if _, err := c.Section.File.ReadAt(dst, c.Section.Off+pos); err != nil {
			return brokenSection(err)
		}
		return nil
	}
	n := 0
	for _, p := range slice(c.Parts, pos, pos+int64(len(dst))) {
		n += copy(dst[n:], p)
	}
	if n < len(dst) {
		return &record.CorruptError{What: "batch head", Pos: pos, Want: int64(len(dst)), Got: int64(n)}
	}
	return nil
}
