package broker

import (
	"fmt"

	"github.com/sebbroker/seb/record"
)

// Cut returns batches from parts, which begin at base and hold whole batches each. It starts with
// the batch that holds offset and stops before max bytes are exceeded, but returns at least one
// batch. It reads only headers, because the parts are the bytes that were sent to the store.
func Cut(parts [][]byte, base, offset, max int64) (out Chunk, err error) {
	out.Verified = true
	next := base
	for _, p := range parts {
		from := 0 // where the part's wanted batches begin
		for at := 0; at < len(p); {
			batch, _, err := record.Split(p[at:])
			if err != nil {
				return out, err
			}
			if batch.BaseOffset() != next || batch.Span() <= 0 {
				return out, fmt.Errorf("batch at offset %d of %d offsets, want offset %d", batch.BaseOffset(), batch.Span(), next)
			}
			if out.Size > 0 && out.Size+int64(batch.Len()) > max {
				out.add(p[from:at])
				return out, nil
			}
			next += batch.Span()
			at += batch.Len()
			if next <= offset {
				from = at
				continue
			}
			if out.Size == 0 {
				out.Base = batch.BaseOffset()
			}
			out.Size += int64(batch.Len())
			out.End = next
		}
		out.add(p[from:])
	}
	return out, nil
}

func (c *Chunk) add(p []byte) {
	if len(p) > 0 {
		c.Parts = append(c.Parts, p)
	}
}
