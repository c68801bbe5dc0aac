package journalsim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
)

// broker is the main task of a process: it leads, or it reads and then ends the epoch of the leader.
func (p *Process) broker() {
	for !p.dead {
		if p.rest(1+p.pick(60)) != nil {
			return
		}
		e := p.newest()
		switch {
		case p.dead:
		case e == 0: // genesis
			p.lead(1)
		case p.seal(e):
			p.lead(e + 1)
		case p.w.cfg.Rivals > 0 && p.pick(100) < p.w.cfg.Rivals: // without having won
			p.lead(e + 1)
		}
	}
}

// pick draws for the load. A killed process draws nothing, because its goroutines end in any order.
func (p *Process) pick(n int) int {
	if p.dead {
		return 0
	}
	return p.w.load.IntN(n)
}

// newest returns the highest epoch that the process sees; 0: none.
func (p *Process) newest() (highest int) {
	names, err := p.ReadFolder("log")
	if err != nil {
		return 0
	}
	for _, name := range names {
		name, _, _ = strings.Cut(name, "+")
		if e, err := strconv.Atoi(name); err == nil {
			highest = max(highest, e)
		}
	}
	return highest
}

// seal puts a SEAL at the end of an epoch, and reports whether it won.
func (p *Process) seal(e int) bool {
	names, err := p.list(epoch(e))
	if err != nil {
		return false
	}
	end := 1
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n < 1000 {
			end = max(end, n+1)
		}
	}
	for n := end; n < end+5 && !p.dead; n++ {
		if end > 1 {
			p.get(epoch(e), slot(n-1))
		}
		switch p.put(epoch(e), slot(n), "SEAL", 20) {
		case nil:
			return true
		case errExists:
		default:
			return false
		}
		if b, err := p.get(epoch(e), slot(n)); err == nil && strings.HasPrefix(string(b), "SEAL") {
			return false
		}
	}
	return false
}

// lead claims an epoch and puts its slots in order until another process has ended it.
func (p *Process) lead(e int) {
	w := p.w
	w.epochs = max(w.epochs, e)
	if p.pick(100) >= w.cfg.Plain {
		if err := p.store.claim(epoch(e)); err != nil {
			return
		}
		w.stats.Claims++
	}
	next, last := 1, 1+p.pick(2*w.cfg.Slots)
	var deposed atomic.Bool
	var running atomic.Int64
	running.Store(int64(w.cfg.InFlight))
	for range w.cfg.InFlight {
		p.task("put", func() {
			defer running.Add(-1)
			for p.step("takes a slot") == nil && !deposed.Load() && next <= last {
				n := next
				next++
				if p.put(epoch(e), slot(n), "slot", p.pick(w.cfg.BodyMax)) != nil {
					deposed.Store(true)
				}
				if n > 3 && p.pick(100) < w.cfg.Deletes {
					p.collect(epoch(e), 1+p.pick(n-3))
				}
			}
		})
	}
	for p.rest(1+p.pick(40)) == nil && running.Load() > 0 {
	}
	if !p.dead && p.pick(100) < w.cfg.Closes {
		_ = p.store.close(epoch(e))
	}
}

// collector is a task that deletes slots, also of epochs that are being written.
func (p *Process) collector() {
	w := p.w
	for p.rest(1+p.pick(40)) == nil {
		if w.epochs > 0 {
			p.collect(epoch(max(1, w.epochs-p.pick(2))), 1+p.pick(w.cfg.Slots))
		}
	}
}

// collect deletes one slot, or the slots up to it.
func (p *Process) collect(folder string, n int) {
	names := []string{slot(n)}
	for i := n - 1; i > max(0, n-8) && n%2 == 0; i-- {
		names = append(names, slot(i))
	}
	p.delete(folder, names...)
}

// reader is a task that reads, deletes, and puts names of the epoch's end and far behind it.
func (p *Process) reader() {
	w := p.w
	for p.rest(1+p.pick(80)) == nil {
		if w.epochs == 0 {
			continue
		}
		folder := epoch(max(1, w.epochs-p.pick(2)))
		n := 1 + p.pick(w.cfg.Slots*2)
		switch k := p.pick(100); {
		case k < w.cfg.Far:
			if p.pick(2) == 0 {
				n += 1000
			}
			_ = p.put(folder, slot(n), "far", p.pick(w.cfg.BodyMax))
		case k < w.cfg.Far+w.cfg.Deletes/4:
			p.delete(folder, slot(1+p.pick(3)), slot(1+p.pick(w.cfg.Slots)))
		case k < 60:
			p.get(folder, slot(n))
		default:
			_, _ = p.list(folder)
		}
	}
}

// verify reads all names of a folder, and ends its journal if end is set.
func (p *Process) verify(folder string, end bool) {
	_, _ = p.list(folder)
	if end {
		_ = p.put(folder, "999999", "SEAL", 20)
		_, _ = p.list(folder)
	}
	for _, k := range p.w.check.names(folder) {
		p.get(folder, k)
	}
}

// put puts an object and checks the answer, which is nil, errExists or another error.
func (p *Process) put(folder, name, kind string, size int) error {
	if p.step("puts %s/%s", folder, name) != nil {
		return errKilled
	}
	w := p.w
	k, v := key(folder, name), p.view(folder)
	a := w.check.begin(p, k, func(id int) string { return content(kind, k, id, size) })
	var mine *solo
	if w.solo == nil && !w.calm && w.cfg.Solo > 0 && p.pick(4) == 0 {
		w.stats.Solos++
		mine = &solo{p: p, what: a.body[:min(len(a.body), 20)], limit: p.steps + soloSteps}
		w.solo = mine
	}
	appended, err := p.store.put(folder, name, []byte(a.body))
	at := w.now
	if p.step("has an answer for %s: %v", k, err) != nil {
		return errKilled
	}
	if mine != nil && w.solo == mine {
		w.solo = nil
	}
	switch {
	case err == nil:
		w.stats.Acks++
		if appended {
			w.check.appended(p, journal.Files(folder), at)
		} else {
			w.stats.Late++
		}
		w.check.stored(k, a, v.from)
	case errors.Is(err, errExists):
		w.stats.Exists++
		w.check.exists(k, a, v)
		return errExists
	default:
		w.stats.Refused++
	}
	return err
}

// soloSteps is how many steps a Put may take while no other process does anything.
const soloSteps = 3000

// content returns a body of about size bytes that names the attempt.
func content(kind, k string, id, size int) string {
	head := fmt.Sprintf("%s %s attempt %d;", kind, k, id)
	if len(head) >= size {
		return head
	}
	return head + strings.Repeat(string(rune('a'+id%26)), size-len(head))
}

func (p *Process) view(folder string) view { return view{p.w.now, p.store.owns(folder)} }

func (p *Process) get(folder, name string) ([]byte, error) {
	if p.step("gets %s/%s", folder, name) != nil {
		return nil, errKilled
	}
	w, v := p.w, p.view(folder)
	w.stats.Gets++
	b, file, err := p.store.get(folder, name)
	if p.step("got %s/%s: %d bytes, %v", folder, name, len(b), err) != nil {
		return nil, errKilled
	}
	switch k := key(folder, name); {
	case err == nil:
		w.check.got(k, b, v, !file)
	case errors.Is(err, errMissing):
		w.check.missing(k, v, "GET")
	}
	return b, err
}

func (p *Process) list(folder string) ([]string, error) {
	if p.step("lists %s", folder) != nil {
		return nil, errKilled
	}
	w, v := p.w, p.view(folder)
	w.stats.Lists++
	names, files, err := p.store.list(folder)
	if p.step("listed %s: %v, %v", folder, names, err) != nil {
		return nil, errKilled
	}
	if err == nil {
		w.check.listed(folder, names, files, v)
		if named := p.store.named(folder); len(named) > 0 {
			w.failf("D7: damage is named in %s, but nothing is damaged: %w", folder, named[0])
		}
	}
	return names, err
}

func (p *Process) delete(folder string, names ...string) {
	if p.step("deletes %v in %s", names, folder) != nil {
		return
	}
	w, from := p.w, p.w.now
	w.stats.Deletes++
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		w.check.deleting(key(folder, name))
	}
	err := p.store.delete(folder, names...)
	killed := p.step("deleted %v in %s: %v", names, folder, err) != nil
	for _, name := range names {
		w.check.deleted(key(folder, name), err == nil && !killed, from)
	}
}
