package broker

import (
	"fmt"

	"github.com/sebbroker/seb/record"
)

// batches is a run of whole batches in memory.
type batches struct {
	base, end int64
	size      int64
	parts     [][]byte
}

// cutBatches takes from parts, which begin at base and hold whole batches each, those from the one that holds offset on,
// until max bytes are reached; at least one. It looks at headers only.
func cutBatches(parts [][]byte, base, offset, max int64) (out batches, err error) {
	next := base
	for _, p := range parts {
		from := 0 // where the part's wanted batches begin
		for at := 0; at < len(p); {
			batch, _, err := record.Split(p[at:])
			if err != nil {
				return out, err
			}
			if batch.BaseOffset() != next {
				return out, fmt.Errorf("batch at offset %d where %d should be", batch.BaseOffset(), next)
			}
			if out.size > 0 && out.size+int64(batch.Len()) > max {
				return out.add(p[from:at]), nil
			}
			next += batch.Span()
			at += batch.Len()
			if next <= offset {
				from = at
				continue
			}
			if out.size == 0 {
				out.base = batch.BaseOffset()
			}
			out.size += int64(batch.Len())
			out.end = next
		}
		out = out.add(p[from:])
	}
	return out, nil
}

func (b batches) add(p []byte) batches {
	if len(p) > 0 {
		b.parts = append(b.parts, p)
	}
	return b
}
