package framed

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// send writes an answer in pieces, each with a deadline, so that a client that does not read is
// noticed soon.
func (l *link) send(a *Answer) error {
	if l.tls != nil {
		return l.sendSecure(a)
	}
	var gathered net.Buffers
	size := 0
	flush := func() error {
		if size == 0 {
			return nil
		}
		n := int64(size)
		l.pace()
		out := gathered
		_, err := out.WriteTo(l.c)
		gathered, size = gathered[:0], 0
		l.s.met.out.AddInt64(n)
		return err
	}
	add := func(b []byte) error {
		for len(b) > 0 {
			n := min(len(b), pieceBytes-size)
			gathered, size = append(gathered, b[:n]), size+n
			b = b[n:]
			if size == pieceBytes {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if len(a.Parts) == 0 && len(a.Head) <= pieceBytes {
		l.pace()
		l.s.met.out.Add(len(a.Head))
		_, err := l.c.Write(a.Head)
		return err
	}
	if err := add(a.Head); err != nil {
		return err
	}
	for i := range a.Parts {
		if s := a.Parts[i].Section; s != nil {
			if err := errors.Join(flush(), l.sendFile(&a.Parts[i])); err != nil {
				return err
			}
		} else if err := add(a.Parts[i].Bytes); err != nil {
			return err
		}
	}
	return flush()
}

// sendFile lets the kernel copy a section of a file to the socket.
func (l *link) sendFile(p *Part) error {
	s := p.Section
	for at := int64(0); at < s.Len; at += pieceBytes {
		piece := *s
		piece.Off, piece.Len = s.Off+at, min(pieceBytes, s.Len-at)
		l.pace()
		if _, err := piece.WriteTo(l.c); err != nil {
			return err
		}
		l.s.met.out.AddInt64(piece.Len)
	}
	return nil
}

// pace sets the write deadline of the next piece.
func (l *link) pace() { _ = l.c.SetWriteDeadline(time.Now().Add(2 * l.s.o.Step)) }

// writers are buffers that combine small writes into TLS records.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, recordBytes) }}

// recordBytes is the largest TLS record.
const recordBytes = 16 << 10

// sendSecure is send over TLS. Sections of files are copied through memory.
func (l *link) sendSecure(a *Answer) error {
	w := writers.Get().(*bufio.Writer)
	w.Reset(l.c)
	defer func() {
		w.Reset(nil) // drops unwritten data and the connection
		writers.Put(w)
	}()
	if err := l.writeSecure(w, a.Head); err != nil {
		return err
	}
	for i := range a.Parts {
		p := &a.Parts[i]
		if p.Section == nil {
			if err := l.writeSecure(w, p.Bytes); err != nil {
				return err
			}
			continue
		}
		for at := int64(0); at < p.Section.Len; at += pieceBytes {
			piece := *p.Section
			piece.Off, piece.Len = p.Section.Off+at, min(pieceBytes, p.Section.Len-at)
			l.pace()
			if _, err := piece.WriteTo(w); err != nil {
				return err
			}
			l.s.met.out.AddInt64(piece.Len)
		}
	}
	l.pace()
	return w.Flush()
}

func (l *link) writeSecure(w *bufio.Writer, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), pieceBytes)
		l.pace()
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		l.s.met.out.Add(n)
		b = b[n:]
	}
	return nil
}
