package damage_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
)

// verdict is the outcome of a role on a damaged bucket.
type verdict struct {
	outcome string // a row of the table
	wrong   string // the class of a failure; "": none
	detail  string
}

func fault(class, format string, args ...any) verdict {
	return verdict{"failure", class, fmt.Sprintf(format, args...)}
}

// The outcomes without a failure.
const (
	whole     = "whole"
	named     = "named"
	refused   = "refused"
	lastEnd   = "exception: the last slots of the log, one or several"
	exchanged = "exception: two objects of the same layout that are exchanged"
)

// exceptions are the outcomes that docs/reference/protocol.md lists under "Seb does not survive", each
// with its sentence there.
var exceptions = map[string]string{
	lastEnd:   "the last slots of the log, one or several",
	exchanged: "Two objects of the same layout that are exchanged",
}

// judge compares what a role does with the log.
func (c *damageCase) judge(img *image, as role, r result) verdict {
	switch {
	case errors.Is(r.err, errStuck):
		return fault("damage is taken for a store that does not answer", "%v", r.err)
	case r.err != nil && !isCorrupt(r.err) && !strings.Contains(r.err.Error(), "seb recover"):
		return fault("a refusal without the name of the damage", "%v", r.err)
	case r.err != nil:
		return verdict{outcome: refused}
	}
	for _, err := range r.errs {
		if !errors.Is(err, state.ErrUnknownTopic) { // the slot that created it is lost
			return fault("a leader refuses records", "%v", err)
		}
	}
	l := &c.bucket.truth
	for at, got := range r.seen.values {
		switch want, ok := l.values[at]; {
		case ok && got == want:
		case strings.Contains(c.name, "swapped pack"):
			return verdict{outcome: exchanged}
		default:
			return fault("wrong records", "%s", at)
		}
	}
	for at, err := range r.seen.errs {
		if !errors.Is(err, state.ErrCorrupt) {
			return fault("a failed read without the name of the damage", "%s: %v", at, err)
		}
	}
	missing := slices.DeleteFunc(slices.Sorted(maps.Keys(l.values)), func(at string) bool { return r.seen.has(at) })
	if len(missing) == 0 && maps.Equal(r.seen.next, l.next) && (len(r.at) == 0 || maps.Equal(r.at, l.next)) {
		if len(r.seen.errs) > 0 {
			return verdict{outcome: named}
		}
		return verdict{outcome: whole}
	}
	return c.judgeEnd(img, as, r, missing)
}

func isCorrupt(err error) bool {
	return errors.Is(err, record.ErrCorrupt) || errors.Is(err, state.ErrCorrupt)
}

// has reports whether a record is served, or its read names the damage.
func (r *reading) has(at string) bool {
	_, served := r.values[at]
	return served || r.errs[at] != nil
}

// judgeEnd judges a role that serves less than the log, without an error.
func (c *damageCase) judgeEnd(img *image, as role, r result, missing []string) verdict {
	l := &c.bucket.truth
	var end state.Position // behind the last record that is served
	for at := range r.seen.values {
		if end.Less(l.behind[at]) {
			end = l.behind[at]
		}
	}
	end = img.chainFrom(end)
	what := fmt.Sprintf("%d of %d records are missing, the log ends at %d:%d of %d:%d", len(missing), len(l.values), end.Epoch, end.Slot, l.seen.Epoch, l.seen.Slot)
	if len(r.at) > 0 {
		what += fmt.Sprintf(", and the next records get the offsets %v of %v", r.at, l.next)
	}
	for _, at := range missing {
		if !end.Less(l.behind[at]) {
			return fault("records are missing without an error", "%s: %s", at, what)
		}
	}
	switch why := c.bucket.evidence(img, end); {
	case len(missing) == 0:
		return fault("the state differs", "next %v, want %v, records at %v", r.seen.next, l.next, r.at)
	case as.seen:
		return fault("the end is lost, and a data directory has seen it", "%s", what)
	case why != "":
		return fault("the end is lost, and "+why+" shows it", "%s", what)
	}
	return verdict{outcome: lastEnd}
}

var accepted = regexp.MustCompile(`--accept-loss (\d+):(\d+)`)

// recovered runs the commands that refusals name, until a leader starts.
func (c *damageCase) recovered(t testing.TB, dir string, img *image, as role, refusal error) verdict {
	l := &c.bucket.truth
	var kept *state.Position // the least accepted position
	for range 4 {
		o := fsck.RecoverOptions{}
		if as.seen {
			o.Seen, o.OlderCopy = []core.Seen{l.seen}, true
		}
		if m := accepted.FindStringSubmatch(refusal.Error()); m != nil {
			o.Accept = &state.Position{}
			_, _ = fmt.Sscan(m[1]+" "+m[2], &o.Accept.Epoch, &o.Accept.Slot)
			if kept == nil || o.Accept.Less(*kept) {
				kept = o.Accept
			}
		} else if !strings.Contains(refusal.Error(), "seb recover") && !strings.Contains(refusal.Error(), "delete it") {
			return fault("a refusal without a command", "%v", refusal)
		}
		if err := c.recover(t, dir, o, refusal); err != nil {
			if errors.Is(err, fsck.ErrNothingLost) || accepted.FindString(err.Error()) == accepted.FindString(refusal.Error()) {
				return fault("the command of a refusal fails", "%v: %v", refusal, err)
			}
			refusal = err
			continue
		}
		r := l.start(t, dir, leader)
		if r.err != nil {
			refusal = r.err
			continue
		}
		return c.judgeRecovered(img, as, r, kept)
	}
	return fault("the commands of refusals do not help", "%v", refusal)
}

func (c *damageCase) recover(t testing.TB, dir string, o fsck.RecoverOptions, refusal error) error {
	disk, err := objstore.OpenDisk(dir, objstore.DiskOptions{NoSync: true})
	if err != nil {
		return err
	}
	defer disk.Close()
	if strings.Contains(refusal.Error(), "delete it") {
		if err := disk.Delete(t.Context(), core.MetaKey); err != nil {
			return err
		}
	}
	o.Store = disk
	_, err = fsck.Recover(t.Context(), o)
	return err
}

// judgeRecovered: a leader serves every record before the accepted position, or names its damage, and
// gives no offset twice, as far as the bucket shows that it was given.
func (c *damageCase) judgeRecovered(img *image, as role, r result, kept *state.Position) verdict {
	l, v := &c.bucket.truth, verdict{outcome: refused}
	for at, got := range r.seen.values {
		switch want, ok := l.values[at]; {
		case ok && got == want:
		case strings.Contains(c.name, "swapped pack"):
			return verdict{outcome: exchanged}
		default:
			return fault("wrong records after a recovery", "%s", at)
		}
	}
	for name, next := range l.next {
		got, ok := r.at[name]
		if !ok || got >= next {
			continue
		}
		at := l.behind[fmt.Sprintf("%s@%d", name, got)]
		at.Slot--
		if !as.seen && c.bucket.evidence(img, at) == "" {
			v.outcome = lastEnd
			continue
		}
		return fault("an offset is given twice after a recovery", "%s: %d, and %d was the next", name, got, next)
	}
	for _, err := range r.errs {
		if !errors.Is(err, state.ErrUnknownTopic) { // the slot that created it is lost
			return fault("a leader refuses records after a recovery", "%v", err)
		}
	}
	for at, behind := range l.behind {
		if kept != nil && !kept.Less(behind) && !r.seen.has(at) {
			return fault("a recovery loses more than it says", "%s is behind %d:%d, accepted %d:%d", at, behind.Epoch, behind.Slot, kept.Epoch, kept.Slot)
		}
	}
	return v
}
