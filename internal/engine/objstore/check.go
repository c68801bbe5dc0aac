package objstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// The checks of Check, as named in a CheckError.
const (
	CheckPutIfAbsent     = "put-if-absent"
	CheckRacers          = "concurrent puts of one name"
	CheckReadAfterWrite  = "read-after-write by GET"
	CheckListAfterWrite  = "read-after-write by LIST"
	CheckListAfterDelete = "LIST after DELETE"
	CheckRanges          = "range reads"
	CheckMissing         = "GET of a missing name"
)

// CheckOptions set the size of the check. Zero means the value of rule R10.
type CheckOptions struct {
	Racers int // concurrent puts of one name; default 16
	Rounds int // number of races and of write-read pairs; default 20
}

// CheckError names the check that a store failed. If it wraps ErrNoVerdict or ErrRefused, a request
// of the check failed even when repeated: the store is unreachable or cannot perform the request.
type CheckError struct {
	Check string // one of the Check constants
	Err   error
}

// Error implements error.
func (e *CheckError) Error() string { return "store check: " + e.Check + ": " + e.Err.Error() }

// Unwrap gives Err.
func (e *CheckError) Unwrap() error { return e.Err }

// Check checks the properties that Seb relies on (rule R10). It works under probe/<random> and
// removes its objects. It makes some 550 requests, up to about 100 at a time, because a broker that
// starts on an empty disk waits for it. It returns one of the failed checks as a *CheckError.
func Check(ctx context.Context, s Store, o CheckOptions) error {
	if o.Racers <= 0 {
		o.Racers = 16
	}
	if o.Rounds <= 0 {
		o.Rounds = 20
	}
	p := &prober{store: s, options: o, prefix: "probe/" + rand.Text() + "/", pause: 50 * time.Millisecond}
	defer p.cleanUp(ctx)
	checks := []struct {
		name string
		run  func(context.Context) error
	}{
		{CheckPutIfAbsent, p.putIfAbsent},
		{CheckMissing, p.missing},
		{CheckReadAfterWrite, p.readAfterWrite},
		{CheckListAfterWrite, p.listAfterWrite},
		{CheckListAfterDelete, p.listAfterDelete},
		{CheckRanges, p.ranges},
		{CheckRacers, p.racers},
	}
	return worst(atOnce(len(checks), func(i int) error {
		if err := checks[i].run(ctx); err != nil {
			return &CheckError{Check: checks[i].name, Err: err}
		}
		return nil
	}))
}

// worst returns the first error that proves a fault of the store, else the first error of a request
// without response, or nil.
func worst(faults []error) (unanswered error) {
	for _, err := range faults {
		if err != nil && !errors.Is(err, ErrNoVerdict) {
			return err
		}
		if unanswered == nil {
			unanswered = err
		}
	}
	return unanswered
}

// atOnce calls f(0) to f(n-1) concurrently and returns their errors.
func atOnce(n int, f func(i int) error) []error {
	faults := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { faults[i] = f(i) })
	}
	wg.Wait()
	return faults
}

// prober runs the checks. It obeys rule R1: a name is put with one content by one writer, and never
// after its DELETE.
type prober struct {
	store   Store
	options CheckOptions
	prefix  string
	pause   time.Duration

	mu   sync.Mutex // guards used
	used []string
}

// key returns a new name.
func (p *prober) key(part string, n int) string {
	key := fmt.Sprintf("%s%s/%04d", p.prefix, part, n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = append(p.used, key)
	return key
}

// retry repeats a request without verdict a few times; doubt says that at least one attempt had
// none.
func (p *prober) retry(ctx context.Context, request func() error) (doubt bool, err error) {
	tries := 0
	err = Retry(ctx, p.pause, func() error {
		tries++
		return request()
	})
	return tries > 1 || errors.Is(err, ErrNoVerdict), err
}

// put reports whether the store accepted our value for a name. After an attempt without verdict
// "exists" may be our own object.
func (p *prober) put(ctx context.Context, key, value string) (won, doubt bool, err error) {
	doubt, err = p.retry(ctx, func() error { return p.store.Put(ctx, key, NewBody([]byte(value))) })
	if errors.Is(err, ErrExists) {
		return false, doubt, nil
	}
	return err == nil, doubt, err
}

// putNew stores a value under a name that no other call uses.
func (p *prober) putNew(ctx context.Context, key, value string) error {
	won, doubt, err := p.put(ctx, key, value)
	if err == nil && !won && !doubt {
		return fmt.Errorf("new name %s: store reports that it exists", key)
	}
	return err
}

func (p *prober) get(ctx context.Context, key string, r Range) (value string, err error) {
	_, err = p.retry(ctx, func() error {
		object, err := p.store.Get(ctx, key, r)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(object.Body)
		value = string(data)
		return errors.Join(err, object.Body.Close())
	})
	return value, err
}

// want reads a value and compares it.
func (p *prober) want(ctx context.Context, key, value string) error {
	got, err := p.get(ctx, key, Whole)
	if err != nil {
		return err
	}
	if got != value {
		return fmt.Errorf("%s: content differs from the put", key)
	}
	return nil
}

func (p *prober) list(ctx context.Context, prefix string) (map[string]int64, error) {
	names := map[string]int64{}
	o := ListOptions{Prefix: prefix}
	for {
		var page []Entry
		var more bool
		_, err := p.retry(ctx, func() (err error) {
			page, more, err = p.store.List(ctx, o)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			names[e.Key] = e.Size
		}
		if !more || len(page) == 0 {
			return names, nil
		}
		o.After = page[len(page)-1].Key
	}
}

func (p *prober) putIfAbsent(ctx context.Context) error {
	key := p.key("twice", 0)
	if err := p.putNew(ctx, key, "first"); err != nil {
		return err
	}
	// a store may compare the bytes and accept equal ones
	for _, second := range []string{"second", "first"} {
		won, _, err := p.put(ctx, key, second)
		if err != nil {
			return fmt.Errorf("second put: %w", err)
		}
		if won {
			return errors.New("second put of a name succeeded")
		}
		if err := p.want(ctx, key, "first"); err != nil {
			return err
		}
	}
	return nil
}

// rounds runs the rounds in n parallel workers; each worker runs its rounds in sequence.
func (p *prober) rounds(n int, round func(worker, round int) error) error {
	return worst(atOnce(n, func(worker int) error {
		for r := worker; r < p.options.Rounds; r += n {
			if err := round(worker, r); err != nil {
				return fmt.Errorf("round %d: %w", r, err)
			}
		}
		return nil
	}))
}

func (p *prober) racers(ctx context.Context) error {
	return p.rounds(4, func(_, round int) error { return p.race(ctx, p.key("race", round)) })
}

func (p *prober) race(ctx context.Context, key string) error {
	type outcome struct {
		won, doubt bool
		err        error
	}
	outcomes := make([]outcome, p.options.Racers)
	value := func(racer int) string { return fmt.Sprintf("%s racer %d", key, racer) }
	atOnce(len(outcomes), func(i int) error {
		o := &outcomes[i]
		o.won, o.doubt, o.err = p.put(ctx, key, value(i))
		return nil
	})
	stored, err := p.get(ctx, key, Whole)
	faults := []error{err}
	for _, o := range outcomes {
		if faults = append(faults, o.err); errors.Is(o.err, ErrNoVerdict) {
			faults[0] = nil // possibly nothing was stored
		}
	}
	if err := worst(faults); err != nil {
		return err
	}
	winners := 0
	for i, o := range outcomes {
		switch {
		case o.won && stored != value(i):
			return errors.New("a put succeeded, but the object has the bytes of another")
		case o.won || o.doubt && stored == value(i):
			winners++
		}
	}
	if winners != 1 {
		return fmt.Errorf("%d of %d concurrent puts succeeded, want 1", winners, len(outcomes))
	}
	return nil
}

func (p *prober) readAfterWrite(ctx context.Context) error {
	return p.rounds(5, func(_, round int) error {
		key := p.key("read", round)
		if err := p.putNew(ctx, key, key); err != nil {
			return err
		}
		return p.want(ctx, key, key)
	})
}

// listAfterWrite lists a prefix repeatedly: a result that is a moment old is wrong.
func (p *prober) listAfterWrite(ctx context.Context) error {
	const workers = 5
	return p.rounds(workers, func(worker, round int) error {
		part := fmt.Sprintf("list-%d", worker)
		key := p.key(part, round)
		if err := p.putNew(ctx, key, key); err != nil {
			return err
		}
		names, err := p.list(ctx, p.prefix+part+"/")
		if err != nil {
			return err
		}
		before := round / workers
		if size, shown := names[key]; !shown || size != int64(len(key)) || len(names) != before+1 {
			return fmt.Errorf("%d names after %d puts; newest name listed: %v, with %d of %d bytes", len(names), before+1, shown, size, len(key))
		}
		return nil
	})
}

func (p *prober) listAfterDelete(ctx context.Context) error {
	return p.rounds(10, func(worker, round int) error {
		part := fmt.Sprintf("delete-%d", worker)
		keys := []string{p.key(part, 3*round), p.key(part, 3*round+1), p.key(part, 3*round+2)}
		err := errors.Join(atOnce(len(keys), func(i int) error { return p.putNew(ctx, keys[i], keys[i]) })...)
		if err != nil {
			return err
		}
		if _, err := p.retry(ctx, func() error { return p.store.Delete(ctx, keys[0]) }); err != nil {
			return err
		}
		if _, err := p.retry(ctx, func() error { return p.store.Delete(ctx, keys[1:]...) }); err != nil {
			return err
		}
		names, err := p.list(ctx, p.prefix+part+"/")
		if err != nil {
			return err
		}
		if len(names) != 0 {
			return fmt.Errorf("%d deleted names are listed", len(names))
		}
		return nil
	})
}

func (p *prober) ranges(ctx context.Context) error {
	key := p.key("range", 0)
	whole := string(bytes.Repeat([]byte("0123456789abcdef~"), 1000))
	if err := p.putNew(ctx, key, whole); err != nil {
		return err
	}
	for _, r := range []Range{Whole, {Offset: 0, Length: 1}, {Offset: 5000, Length: 333}, {Offset: 16_999, Length: 1}, {Offset: 16_000, Length: 5000}, {Offset: 9000, Length: -1}} {
		got, err := p.get(ctx, key, r)
		if err != nil {
			return fmt.Errorf("%d bytes from %d: %w", r.Length, r.Offset, err)
		}
		want := whole[r.Offset:]
		if r.Length > 0 {
			want = want[:min(r.Length, int64(len(want)))]
		}
		if got != want {
			return fmt.Errorf("%d bytes from %d: got %d bytes with other content", r.Length, r.Offset, len(got))
		}
	}
	if _, err := p.get(ctx, key, Range{Offset: int64(len(whole)), Length: 1}); !errors.Is(err, ErrRefused) {
		return fmt.Errorf("range beyond the end: %w, want a refusal", orNothing(err))
	}
	return nil
}

func (p *prober) missing(ctx context.Context) error {
	if _, err := p.get(ctx, p.key("missing", 0), Whole); !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("got %w", orNothing(err))
	}
	return nil
}

var errNothing = errors.New("no error")

func orNothing(err error) error {
	if err == nil {
		return errNothing
	}
	return err
}

// cleanUp removes all names, also after ctx has ended. Names that cannot be removed stay under
// probe/, which nothing reads.
func (p *prober) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, _ = p.retry(ctx, func() error { return p.store.Delete(ctx, p.used...) })
}
