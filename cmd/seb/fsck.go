package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/record"
)

// fsckFlags are the flags of `seb fsck`.
type fsckFlags struct {
	bucket      string
	dataDir     string
	memoryLimit config.Bytes
	repair      bool
	secrets     bool
	quiet       time.Duration
	json        bool
	all         bool
}

func newFsck() *cobra.Command {
	var f fsckFlags
	cmd := &cobra.Command{
		Use:   "fsck",
		Short: "Verify a whole bucket, without a broker",
		Long: `Reads every object of the log in a bucket and verifies every checksum. It replays the log from its beginning or its oldest
snapshot to its end, and compares snapshots, offsets and objects with the result. It writes nothing, and a broker may run at the
same time. For damage it names the records that cannot be read.

Orphans are objects that nothing refers to: leftovers of killed brokers and of store checks. They are harmless. --repair removes
orphans that are permanently garbage. It refuses if a broker writes, or if there is any damage. It cannot see an idle broker,
which sends no requests; it removes nothing that this or any other broker could still use.

--secrets also names the objects that hold readable secrets of webhooks, including objects that a broker will collect. Exit code
1: there are some.`,
		Example: "  seb fsck\n  seb fsck --bucket 's3://events/prod?region=eu-central-1'\n  seb fsck --bucket ./copy --json",
		Args:    cobra.NoArgs,
		RunE:    f.bounded(f.run),
	}
	fl := cmd.Flags()
	f.bucketFlags(fl)
	fl.BoolVar(&f.repair, "repair", false, "remove orphans that are permanently garbage")
	fl.BoolVar(&f.secrets, "secrets", false, "name the objects with readable secrets of webhooks")
	fl.DurationVar(&f.quiet, "quiet-time", 10*time.Second, "repair: required time without a write")
	needs(cmd, []string{"quiet-time"}, "repair")
	fl.BoolVar(&f.json, "json", false, "print each finding, and then the summary, as a line of JSON")
	fl.BoolVarP(&f.all, "all", "a", false, "print every orphan, not only the first ones of each kind")
	return cmd
}

// bucketFlags adds the flags that name a bucket without a broker.
func (f *fsckFlags) bucketFlags(fl *pflag.FlagSet) {
	fl.StringVar(&f.bucket, "bucket", "", "bucket: ./folder or s3://name/prefix?... (default: "+config.BucketHelp+")")
	fl.StringVar(&f.dataDir, "data-dir", config.Default().DataDir, "data folder of the local broker, for the default bucket")
	f.memoryFlag(fl)
}

func (f *fsckFlags) memoryFlag(fl *pflag.FlagSet) {
	f.memoryLimit = 64 << 20
	fl.Var(&f.memoryLimit, "memory-limit", "bound on the memory of this command")
}

// bounded returns a function that runs a command within --memory-limit.
func (f *fsckFlags) bounded(run func(*cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if err := config.FromEnv(cmd.Flags(), os.LookupEnv); err != nil {
			return usageError{err}
		}
		if f.memoryLimit < config.MemoryLimitMin {
			return usageError{fmt.Errorf("--memory-limit: %v is below the minimum, %v", f.memoryLimit, config.MemoryLimitMin)}
		}
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(f.budget().GoLimit()))
		return run(cmd)
	}
}

func (f *fsckFlags) budget() *budget.Budget { return budget.New(int64(f.memoryLimit)) }

// objectBytes are the bytes of objects that a command holds.
func (f *fsckFlags) objectBytes() int64 { return int64(f.memoryLimit) / 8 }

func (f *fsckFlags) run(cmd *cobra.Command) error {
	store, err := f.open(cmd)
	if err != nil {
		return err
	}
	bar := progress.New(cmd.ErrOrStderr(), "objects", -1, nil)
	p := &fsck.Printer{W: cmd.OutOrStdout(), JSON: f.json, All: f.all}
	start := time.Now()
	o := fsck.Options{
		Store: store, MemoryBytes: f.objectBytes(), Repair: f.repair, Quiet: f.quiet, Progress: func(int64) { bar.Add(1) },
		Found: func(found fsck.Finding) {
			bar.Clear()
			p.Found(found)
		},
	}
	r, err := fsck.Run(cmd.Context(), o)
	exposed := 0
	if f.secrets && err == nil {
		exposed, err = fsck.FindSecrets(cmd.Context(), o)
	}
	bar.Clear()
	if r.Cluster != "" && !errors.Is(err, state.ErrNewer) {
		p.Summary(store.String(), r, time.Since(start))
	}
	switch {
	case r.Damages > 0 && (err == nil || errors.Is(err, fsck.ErrDamaged)):
		if err == nil {
			err = errors.New("canceled: nothing was changed")
		}
		return fmt.Errorf("%s: %d damages: %w: %w", store, r.Damages, record.ErrCorrupt, err)
	case err != nil:
		return fmt.Errorf("%s: %w", store, err)
	case exposed > 0:
		return fmt.Errorf("%s: %s with readable secrets", store, counted(int64(exposed), "object"))
	}
	return nil
}

// open opens the bucket, which must exist.
func (f *fsckFlags) open(cmd *cobra.Command) (objstore.Store, error) {
	if f.bucket == "" {
		var err error
		if f.bucket, err = config.DefaultBucket(f.dataDir); err != nil {
			return nil, err
		}
	}
	return openExisting(cmd, "bucket", f.bucket)
}

// openExisting opens the store of a flag. It does not create a folder.
func openExisting(cmd *cobra.Command, flag, name string) (objstore.Store, error) {
	spec, err := objstore.ParseSpec(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	switch spec.Kind {
	case objstore.KindMemory:
		return nil, usageError{fmt.Errorf("--%s: mem: is empty outside a broker", flag)}
	case objstore.KindDisk:
		if info, err := os.Stat(spec.Dir); err != nil || !info.IsDir() {
			return nil, usageError{fmt.Errorf("--%s: folder %s does not exist", flag, spec.Dir)}
		}
	}
	store, err := anystore.OpenSpec(cmd.Context(), spec, readOnlyOptions)
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return store, nil
}

// recoverFlags are the flags of `seb recover`.
type recoverFlags struct {
	fsckFlags
	loss      string
	olderCopy bool
	discard   bool
	yes       bool
}

func newRecover() *cobra.Command {
	var f recoverFlags
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Continue a log after the loss of a part",
		Long: `A broker refuses to lead a log with a missing part. seb fsck shows the loss. First try to restore the missing objects from a
backup or from older object versions: then no recovery is needed.

--accept-loss EPOCH:SLOT cuts the log at that slot, which the broker's error names. Objects after it, the lost branch, are no
longer served, and stay in the bucket until --discard. The log records the decision. It continues at offsets above every offset
in the bucket or the data folder, so consumers see a gap, and no offset twice.

If a program without this check has continued the log without the lost part, seb fsck reports a lost branch and its position.
--accept-loss with that position keeps the served log, and continues it above the offsets of both branches.

Without a flag the command restores a missing meta/cluster, and prints what can be accepted.

--accept-older-copy does the same if the data folder knows a later part of the log than the bucket has.

Stop the brokers first. A broker that still writes to the lost branch is fenced and stops. A bucket at format level 1 is raised
to level 2: programs that know only level 1 can no longer open it.`,
		Example: "  seb recover --accept-loss 12:345\n  seb recover --accept-older-copy --bucket 's3://events/prod?region=eu-central-1'\n  seb recover --discard",
		Args:    cobra.NoArgs,
		RunE:    f.bounded(f.run),
	}
	fl := cmd.Flags()
	f.bucketFlags(fl)
	fl.StringVar(&f.loss, "accept-loss", "", "EPOCH:SLOT of the first lost slot")
	fl.BoolVar(&f.olderCopy, "accept-older-copy", false, "accept a bucket with an earlier end than the data folder knows")
	fl.BoolVar(&f.yes, "yes", false, "do not ask")
	fl.BoolVar(&f.discard, "discard", false, "delete the objects of accepted lost branches")
	return cmd
}

func (f *recoverFlags) run(cmd *cobra.Command) error {
	at, err := parsePosition(f.loss)
	if err != nil {
		return usageError{fmt.Errorf("--accept-loss: %w", err)}
	}
	if f.discard && (at != nil || f.olderCopy) {
		return usageError{errors.New("--discard: cannot be combined with other flags; accept the loss first")}
	}
	store, err := f.open(cmd)
	if err != nil {
		return err
	}
	if at != nil || f.olderCopy || f.discard {
		what := "would continue the log without the lost part"
		if f.discard {
			what = "would permanently delete the objects of lost branches"
		}
		if err := confirm(cmd, f.yes, true, fmt.Sprintf("%s: %s", store, what)); err != nil {
			return err
		}
	}
	out := cmd.OutOrStdout()
	if f.discard {
		r, err := fsck.Run(cmd.Context(), fsck.Options{Store: store, Discard: true})
		if err != nil {
			return fmt.Errorf("%s: %w", store, err)
		}
		fmt.Fprintf(out, "%s: deleted %d objects of lost branches, %d bytes\n", store, r.Deleted.Objects, r.Deleted.Bytes)
		return nil
	}
	seen, err := node.ReadSeen(f.dataDir, store.String())
	if err != nil {
		return err
	}
	o := fsck.RecoverOptions{Store: store, Accept: at, Seen: seen, OlderCopy: f.olderCopy}
	r, err := fsck.Recover(cmd.Context(), o)
	here := slices.IndexFunc(seen, func(s core.Seen) bool { return s.Here })
	forget := f.olderCopy && here >= 0
	if err != nil && !(forget && (errors.Is(err, fsck.ErrNothingLost) || errors.Is(err, fsck.ErrNoLog))) {
		return fmt.Errorf("%s: %w", store, err)
	}
	if forget {
		if err := node.ForgetSeen(f.dataDir, store.String(), nil); err != nil {
			return fmt.Errorf("%s: %w", f.dataDir, err)
		}
		fmt.Fprintf(out, "%s: removed the position epoch %d slot %d\n", f.dataDir, seen[here].Epoch, seen[here].Slot)
	}
	if r != nil {
		printRecovery(cmd, store.String(), r)
	}
	return nil
}

func printRecovery(cmd *cobra.Command, store string, r *fsck.Recovery) {
	out := cmd.OutOrStdout()
	if r.Meta {
		fmt.Fprintf(out, "%s: meta/cluster was missing and is restored\n", store)
	}
	if r.Epoch == 0 {
		return
	}
	where := "is cut at"
	if r.Branch != nil {
		fmt.Fprintf(out, "%s: the abandoned branch from epoch %d slot %d on is accepted as lost\n", store, r.Branch.Epoch, r.Branch.Slot)
		where = "ends at"
	}
	fmt.Fprintf(out, "%s: the log %s epoch %d slot %d and continues in epoch %d, at format level %d\n", store, where, r.At.Epoch, r.At.Slot, r.Epoch, r.Level)
	fmt.Fprintf(out, "lost branch: %d objects, kept until seb recover --discard; %d topics were created on it\n", r.Slots, r.Topics)
	for _, l := range r.Lost {
		fmt.Fprintf(out, "%s/%d: offsets %d to %d have no records; consumers continue at %d\n", l.Topic, l.Partition, l.From, l.To-1, l.To)
	}
	for _, name := range r.Fenced {
		fmt.Fprintf(out, "fenced: %s\n", name)
	}
}

// parsePosition parses EPOCH:SLOT; nil if s is empty.
func parsePosition(s string) (*state.Position, error) {
	if s == "" {
		return nil, nil
	}
	epoch, slot, ok := strings.Cut(s, ":")
	e, err1 := strconv.ParseUint(epoch, 10, 32)
	n, err2 := strconv.ParseUint(slot, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return nil, fmt.Errorf("%q: want EPOCH:SLOT, such as 12:345", s)
	}
	return &state.Position{Epoch: uint32(e), Slot: n}, nil
}
