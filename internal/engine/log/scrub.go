package log

import (
	"context"
	"path"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// scrubbedMax is how many missing names one comparison reports.
const scrubbedMax = 16

// scrub compares the names in the bucket with those that a state needs (rule R16). In a store that keeps
// several objects in a file it also looks for damaged parts of these files.
func (l *Log) scrub(ctx context.Context, e *core.Effect) *core.Event {
	l.sweeping.Lock() // both hold a set of all names in memory
	defer l.sweeping.Unlock()
	ev := &core.Event{Kind: core.EvScrubbed, Op: e.Op, Outcome: core.OutcomeOK}
	need := core.NewNeeded(e.View, e.Key)
	recovered := map[string]bool{} // folders in which a recovery has accepted a loss
	err := l.names(ctx, []string{core.SnapPrefix(e.View.Shard), core.WALPrefix(e.View.Shard), state.PackPrefix(e.View.Shard)}, func(key string) {
		need.See(key)
		if strings.HasSuffix(key, state.RecoverySuffix) {
			recovered[path.Dir(key)] = true
		}
	})
	if err == nil {
		ev.Names = need.Missing(scrubbedMax)
	}
	if finder, ok := objstore.As[objstore.DamageFinder](l.opt.Store); ok && err == nil {
		var damages []objstore.Damage
		damages, err = finder.Damage(ctx, core.WALPrefix(e.View.Shard))
		for i := range damages {
			if damages[i].Lost && !recovered[damages[i].Folder] && ev.Err == nil {
				ev.Err = damages[i].Err
			}
		}
	}
	if err != nil && ctx.Err() == nil {
		l.opt.Logger.Warn("comparison of the bucket with the log ended early", "err", err)
	}
	return ev
}

// names calls see with the names that begin with the prefixes.
func (l *Log) names(ctx context.Context, prefixes []string, see func(key string)) error {
	for _, prefix := range prefixes {
		o := objstore.ListOptions{Prefix: prefix, Max: listAtOnce}
		for more := true; more; {
			var entries []objstore.Entry
			var err error
			if entries, more, err = l.page(ctx, o); err != nil {
				return err
			}
			for i := range entries {
				see(entries[i].Key)
				o.After = entries[i].Key
			}
		}
	}
	return nil
}
