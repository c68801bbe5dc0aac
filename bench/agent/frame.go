package agent

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/load"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/bench/workload"
)

// Version is the protocol version, which must be equal on both sides.
const Version = 1

// The limits of a frame in bytes, before and after authentication.
const (
	helloMax = 4 << 10
	frameMax = 256 << 20
)

// Silence is how long a side may send nothing; beatEvery is the interval of beats.
const (
	Silence   = 10 * time.Second
	beatEvery = time.Second
)

// writeWait bounds the sending of a frame. A dead side is usually detected earlier.
const writeWait = time.Minute

// ErrFrame reports data that is not a frame of this protocol, or too large.
var ErrFrame = errors.New("not a frame of this protocol")

// kind is the kind of a frame.
type kind string

const (
	kindHello   kind = "hello"
	kindWelcome kind = "welcome"
	kindRefused kind = "refused"
	kindBeat    kind = "beat"
	kindRun     kind = "run"
	kindReady   kind = "ready"
	kindStart   kind = "start"
	kindBegan   kind = "began"
	kindTotals  kind = "totals"
	kindOver    kind = "over"
	kindSeen    kind = "seen"
	kindResult  kind = "result"
	kindFailed  kind = "failed"
	kindStop    kind = "stop"
)

// frame is one message: Kind and the fields of that kind.
type frame struct {
	Kind  kind   `json:"kind"`
	Hello *hello `json:"hello,omitempty"` // also in a welcome
	Error string `json:"error,omitempty"`
	Run   *order `json:"run,omitempty"`
	// From the arrival of a start to the first message.
	After  time.Duration   `json:"after,omitempty"`
	Totals *load.Totals    `json:"totals,omitempty"`
	Seen   []load.Receipts `json:"seen,omitempty"`
	Result *result.Run     `json:"result,omitempty"`
}

// hello opens a connection.
type hello struct {
	Version int         `json:"version"`
	Proof   []byte      `json:"proof"`
	Tool    result.Tool `json:"tool"` // in a welcome
}

// order describes a run.
type order struct {
	Run      uint64            `json:"run"`
	Part     int               `json:"part"`
	Parts    int               `json:"parts"`
	Workload workload.Workload `json:"workload"`
	Target   workload.Target   `json:"target"`
	Spin     time.Duration     `json:"spin"`
	Floor    time.Duration     `json:"floor"`
}

// wire sends and receives frames. Frames may be sent concurrently; one goroutine receives.
type wire struct {
	c     net.Conn
	limit int // of a received frame

	sending sync.Mutex // held while a frame is sent
	ending  sync.Once
	ended   chan struct{}
	beating sync.WaitGroup
}

func newWire(c net.Conn) *wire { return &wire{c: c, limit: helloMax, ended: make(chan struct{})} }

// proven raises the limit after authentication and starts the beats.
func (w *wire) proven() {
	w.limit = frameMax
	w.beating.Go(func() {
		every := time.NewTicker(beatEvery)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				if w.send(&frame{Kind: kindBeat}) != nil {
					return // the receiver reports the error
				}
			case <-w.ended:
				return
			}
		}
	})
}

// close ends the connection. It may be called again.
func (w *wire) close() {
	w.ending.Do(func() {
		close(w.ended)
		_ = w.c.Close() // no more frames are sent
	})
	w.beating.Wait()
}

func (w *wire) send(f *frame) error {
	body, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("send %s: %w", f.Kind, err)
	}
	if len(body) > frameMax {
		return fmt.Errorf("send %s: frame of %d bytes, limit %d", f.Kind, len(body), frameMax)
	}
	p := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(p, uint32(len(body)))
	p = append(p, body...)
	w.sending.Lock()
	defer w.sending.Unlock()
	if err := w.c.SetWriteDeadline(time.Now().Add(writeWait)); err != nil {
		return fmt.Errorf("send %s: %w", f.Kind, err)
	}
	if _, err := w.c.Write(p); err != nil {
		return fmt.Errorf("send %s: %w", f.Kind, err)
	}
	return nil
}

// step is how much of a frame must arrive within Silence.
const step = 64 << 10

// receive waits for the next frame that is not a beat.
func (w *wire) receive() (*frame, error) {
	for {
		f, err := w.next()
		if err != nil || f.Kind != kindBeat {
			return f, err
		}
	}
}

func (w *wire) next() (*frame, error) {
	var head [4]byte
	if err := w.c.SetReadDeadline(time.Now().Add(Silence)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(w.c, head[:]); err != nil {
		return nil, silent(err)
	}
	length := int64(binary.BigEndian.Uint32(head[:]))
	if length > int64(w.limit) {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrFrame, length, w.limit)
	}
	// The buffer grows with the received bytes, not with the announced length.
	var body bytes.Buffer
	for left := length; left > 0; {
		if err := w.c.SetReadDeadline(time.Now().Add(Silence)); err != nil {
			return nil, err
		}
		n, err := io.CopyN(&body, w.c, min(left, step))
		if left -= n; err != nil && left > 0 {
			return nil, silent(err)
		}
	}
	f := &frame{}
	if err := json.Unmarshal(body.Bytes(), f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFrame, err)
	}
	return f, nil
}

// silent describes a timeout or the end of the connection.
func silent(err error) error {
	var t net.Error
	switch {
	case errors.As(err, &t) && t.Timeout():
		return fmt.Errorf("nothing received for %v", Silence)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("connection closed by the other side")
	}
	return err
}
