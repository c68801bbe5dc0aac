package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// both returns a store behind a proxy, and the same store directly.
func both(t *testing.T, server *testenv.S3Server) (p *Store, through, direct *s3.Store) {
	t.Helper()
	p = must.Get(NewStore(server.Endpoint, 1))(t)
	t.Cleanup(p.Close)
	open := func(endpoint string, timeout time.Duration) *s3.Store {
		o := server.Options("p")
		o.Endpoint, o.RequestTimeout = endpoint, timeout
		s := must.Get(s3.Open(t.Context(), o))(t)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	return p, open(p.server.URL, time.Second), open(server.Endpoint, time.Minute)
}

func only(k Kind) StoreConfig {
	return StoreConfig{Rates: Rates{k: 1}, StallMax: 100 * time.Millisecond, LateMax: 100 * time.Millisecond, BurstMax: 50 * time.Millisecond}
}

func read(ctx context.Context, s objstore.Store, key string) ([]byte, error) {
	o, err := s.Get(ctx, key, objstore.Whole)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(o.Body)
	return b, errors.Join(err, o.Body.Close())
}

const (
	applied    = 1
	notApplied = 2
	either     = 3
)

// TestPut checks the effect of each kind on a PUT: the verdict of the broker's client, and whether
// the store has the object.
func TestPut(t *testing.T) {
	p, through, direct := both(t, testenv.S3ForTest(t))
	for kind, want := range map[Kind]struct {
		verdict error
		effect  int
	}{
		"":          {nil, applied},
		Lost:        {objstore.ErrNoVerdict, applied},
		Reset:       {objstore.ErrNoVerdict, notApplied},
		Broken:      {objstore.ErrNoVerdict, notApplied},
		BrokenLate:  {objstore.ErrNoVerdict, applied},
		Gateway:     {objstore.ErrNoVerdict, notApplied},
		GatewayLate: {objstore.ErrNoVerdict, applied},
		Throttled:   {objstore.ErrThrottled, notApplied},
		Denied:      {objstore.ErrRefused, notApplied},
		Conflict:    {objstore.ErrNoVerdict, notApplied},
		Doubled:     {objstore.ErrExists, applied},
		Late:        {objstore.ErrNoVerdict, applied},
		Stalled:     {nil, applied},
		Hung:        {objstore.ErrNoVerdict, either},
		Cut:         {nil, applied}, // of answers with a body
	} {
		key := "put/" + strings.ReplaceAll(string(kind), " ", "-") + "x"
		p.SetConfig(only(kind))
		body := []byte("the bytes of " + key)
		check.ErrorIsf(t, through.Put(t.Context(), key, objstore.NewBody(body)), want.verdict, "%s", kind)
		p.Settle()
		p.Unblock()
		got, err := read(t.Context(), direct, key)
		switch {
		case err == nil && want.effect&applied != 0 && bytes.Equal(got, body):
		case errors.Is(err, objstore.ErrNotFound) && want.effect&notApplied != 0:
		default:
			t.Errorf("%s: the store has %q, %v", kind, got, err)
		}
		if n := p.Counts()[kind]; kind != "" && kind != Cut && n != 1 {
			t.Errorf("%s: counted %d times", kind, n)
		}
	}
}

// TestGet checks the effect of each kind on a GET: an error, or the right bytes. Only damage may
// change bytes, and only once.
func TestGet(t *testing.T) {
	p, through, direct := both(t, testenv.S3ForTest(t))
	body := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for _, c := range []struct {
		kind   Kind
		failed bool
	}{
		{Lost, true},
		{Reset, true},
		{Broken, true},
		{Gateway, true},
		{Throttled, true},
		{Denied, true},
		{Stalled, false},
		{Slow, false},
		{Cut, true},
		{Longer, true},
		{Hung, true},
		{"", false},
	} {
		key := "get/" + strings.ReplaceAll(string(c.kind), " ", "-") + "x"
		must.NoError(t, direct.Put(t.Context(), key, objstore.NewBody(body)))
		p.SetConfig(only(c.kind))
		got, err := read(t.Context(), through, key)
		p.SetConfig(StoreConfig{})
		p.Unblock()
		if c.failed != (err != nil) || err == nil && !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes, %v", c.kind, len(got), err)
		}
		if got, err := read(t.Context(), through, key); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: afterwards %d bytes, %v", c.kind, len(got), err)
		}
	}
}

// TestWrongAnswers: an answer that is too short, of another range, or has a wrong bit is detected
// by a client that knows the object's length and checksum.
func TestWrongAnswers(t *testing.T) {
	p, through, _ := both(t, testenv.S3ForTest(t))
	body := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	must.NoError(t, through.Put(t.Context(), "a/x", objstore.NewBody(body)))
	for _, kind := range []Kind{Shorter, OtherRange} {
		p.SetConfig(only(kind))
		o, err := through.Get(t.Context(), "a/x", objstore.Range{Offset: 100, Length: 5000})
		if err != nil {
			continue
		}
		got, err := io.ReadAll(o.Body)
		_ = o.Body.Close()
		check.Error(t, err, "%s: a range of %d bytes was accepted, the object has %d", kind, len(got), o.Size)
	}
	p.SetConfig(only(Damaged))
	for want := range 2 {
		got, err := read(t.Context(), through, "a/x")
		if err != nil || len(got) != len(body) || bytes.Equal(got, body) != (want == 1) {
			t.Errorf("read %d: %d bytes, equal %v, %v", want+1, len(got), bytes.Equal(got, body), err)
		}
	}
}

func TestBlock(t *testing.T) {
	p, through, _ := both(t, testenv.S3ForTest(t))
	p.Block(time.Minute)
	check.ErrorIsf(t, through.Put(t.Context(), "a/x", objstore.NewBody([]byte("x"))), objstore.ErrNoVerdict, "blocked")
	p.Unblock()
	check.NoErrorf(t, through.Put(t.Context(), "a/x", objstore.NewBody([]byte("x"))), "after Unblock")
	if n := p.Counts()[Partitioned]; n != 1 {
		t.Errorf("counted %d times", n)
	}
}
