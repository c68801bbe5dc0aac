package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/record"
)

// backupFlags are the flags of `seb backup`, `seb restore` and `seb copy`.
type backupFlags struct {
	fsckFlags
	from, to string
	at       string
	keep     int
	list     bool
	verify   bool
	yes      bool
}

const storeHelp = "./folder or s3://name/prefix?endpoint=URL&region=R&path-style=true"

func newBackup() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "backup --to PLACE",
		Short: "Copy a bucket to a backup",
		Long: `Adds a restore point to a backup: everything that was acknowledged when the command started. Brokers may write meanwhile.
Objects that the backup already has are not transferred again. Each object is verified before it is stored. An interrupted
backup keeps its earlier restore points; run the command again.

The newest --keep restore points stay. Objects that only older ones need are deleted from the backup.`,
		Example: "  seb backup --to 's3://backups/seb?region=eu-central-1'\n  seb backup --bucket 's3://events/prod?region=eu-central-1' --to /mnt/backup\n  seb backup --to /mnt/backup --list",
		Args:    cobra.NoArgs,
		RunE:    f.bounded(f.backup),
	}
	fl := cmd.Flags()
	f.bucketFlags(fl)
	fl.StringVar(&f.to, "to", "", "backup: "+storeHelp)
	fl.IntVar(&f.keep, "keep", 7, "restore points to keep (0: all)")
	fl.BoolVar(&f.list, "list", false, "print the restore points and do nothing else")
	fl.BoolVar(&f.verify, "verify", false, "read the whole backup and verify it")
	excludes(cmd, []string{"bucket", "keep", "verify"}, "list")
	return cmd
}

func newRestore() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "restore --from BACKUP --bucket BUCKET",
		Short: "Restore a bucket from a backup",
		Long: `Copies a restore point of a backup into an empty bucket and verifies each object. It then records in the log that everything
after the restore point is lost. The log continues above every epoch and offset that clients can have seen: consumers see a gap,
and no offset twice. Consumer groups continue at the offsets in the backup.

No broker may write to the old bucket from now on, because the new one does not get its records.`,
		Example: "  seb restore --from /mnt/backup --bucket 's3://events/new?region=eu-central-1'\n  seb restore --from /mnt/backup --at 12:345 --bucket ./seb-bucket",
		Args:    cobra.NoArgs,
		RunE:    f.bounded(f.restore),
	}
	fl := cmd.Flags()
	f.bucketFlags(fl)
	fl.StringVar(&f.from, "from", "", "backup: "+storeHelp)
	fl.StringVar(&f.at, "at", "", "EPOCH:SLOT of the restore point (default: the newest)")
	return cmd
}

func newCopy() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "copy --from BUCKET --to BUCKET",
		Short: "Move a log to another bucket, such as from a folder to S3",
		Long: `Copies a log into an empty bucket. Most of it is copied while a broker may run. The command then takes over the old bucket,
like a second broker: a broker that runs there exits with code 3, and has acknowledged only records that are copied. The command
copies the rest, and the log continues in the new bucket without a gap. The old bucket does not change. Start brokers only on the
new one. Stop brokers that have standbys first: the command refuses a bucket in which one is registered.`,
		Example: "  seb copy --from ./seb-bucket --to 's3://events/prod?region=eu-central-1'",
		Args:    cobra.NoArgs,
		RunE:    f.bounded(f.copy),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "", "bucket with the log: "+storeHelp)
	fl.StringVar(&f.to, "to", "", "empty bucket: "+storeHelp)
	fl.BoolVar(&f.yes, "yes", false, "do not ask")
	f.memoryFlag(fl)
	return cmd
}

func (f *backupFlags) backup(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	if f.keep < 0 {
		return usageError{fmt.Errorf("--keep: %d: want 0 or more", f.keep)}
	}
	if f.list {
		return f.points(cmd)
	}
	from, err := f.open(cmd)
	if err != nil {
		return err
	}
	to, err := openTarget(cmd, "to", f.to)
	if err != nil {
		return err
	}
	begin := time.Now()
	o := fsck.CopyOptions{From: from, To: to, MemoryBytes: f.objectBytes(), Keep: f.keep}
	r, err := withProgress(cmd, &o, func() (*fsck.CopyReport, error) { return fsck.Backup(cmd.Context(), o) })
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	fmt.Fprintf(out, "%s: restore point %s, %s: %s, %s of them new, in %v; %s\n", to, position(r.At), atTime(r.Time), objects(r.Whole),
		objects(r.Copied), time.Since(begin).Round(time.Millisecond), counted(int64(r.Points), "restore point"))
	if r.Deleted.Objects > 0 {
		fmt.Fprintf(out, "%s: deleted %s of restore points beyond --keep %d\n", to, objects(r.Deleted), f.keep)
	}
	if !f.verify {
		return nil
	}
	o = fsck.CopyOptions{From: to, MemoryBytes: f.objectBytes(), At: &r.At}
	if r, err = withProgress(cmd, &o, func() (*fsck.CopyReport, error) { return fsck.Verify(cmd.Context(), o) }); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	fmt.Fprintf(out, "%s: verified %s\n", to, objects(r.Whole))
	return nil
}

func (f *backupFlags) points(cmd *cobra.Command) error {
	to, err := openExisting(cmd, "to", f.to)
	if err != nil {
		return err
	}
	points, err := fsck.RestorePoints(cmd.Context(), to, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	for _, p := range points {
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %s  %s, %s\n", position(p.Position), atTime(p.Time), counted(int64(p.Topics), "topic"), counted(p.Records, "record"))
	}
	return nil
}

func (f *backupFlags) restore(cmd *cobra.Command) error {
	at, err := parsePosition(f.at)
	if err != nil {
		return usageError{fmt.Errorf("--at: %w", err)}
	}
	if f.bucket == "" {
		return usageError{errors.New("--bucket: required: the empty bucket to restore to")}
	}
	from, err := openExisting(cmd, "from", f.from)
	if err != nil {
		return err
	}
	to, err := openTarget(cmd, "bucket", f.bucket)
	if err != nil {
		return err
	}
	var decision *fsck.Recovery
	o := fsck.CopyOptions{From: from, To: to, MemoryBytes: f.objectBytes(), At: at}
	r, err := withProgress(cmd, &o, func() (r *fsck.CopyReport, err error) {
		r, decision, err = fsck.Restore(cmd.Context(), o)
		return r, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if err := f.restored(to.String(), decision.Epoch, r.Cluster); err != nil {
		return fmt.Errorf("%s: %w", f.dataDir, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: restored %s, %s: %s; the log continues in epoch %d\n", to, position(r.At), atTime(r.Time), objects(r.Whole), decision.Epoch)
	for _, l := range decision.Lost {
		fmt.Fprintf(cmd.OutOrStdout(), "%s/%d: offsets %d to %d have no records; consumers continue at %d\n", l.Topic, l.Partition, l.From, l.To-1, l.To)
	}
	return nil
}

// restored removes what the data directory knows of the previous log of a bucket, and the positions of
// earlier restored copies of this log, which the bucket does not contain.
func (f *backupFlags) restored(store string, epoch uint32, cluster record.ID) error {
	earlier := func(s *core.Seen) bool { return s.Cluster == cluster && s.Epoch >= epoch }
	seen, err := node.ReadSeen(f.dataDir, store)
	if err != nil || !slices.ContainsFunc(seen, func(s core.Seen) bool { return s.Here || earlier(&s) }) {
		return err
	}
	return node.ForgetSeen(f.dataDir, store, earlier)
}

func (f *backupFlags) copy(cmd *cobra.Command) error {
	from, err := openExisting(cmd, "from", f.from)
	if err != nil {
		return err
	}
	to, err := openTarget(cmd, "to", f.to)
	if err != nil {
		return err
	}
	if err := noStandbys(cmd.Context(), from); err != nil {
		return err
	}
	if err := confirm(cmd, f.yes, true, fmt.Sprintf("would take over %s: a broker that runs there stops", from)); err != nil {
		return err
	}
	o := fsck.CopyOptions{From: from, To: to, MemoryBytes: f.objectBytes(), Fence: func(ctx context.Context) error { return takeOver(ctx, from, f.budget()) }}
	r, err := withProgress(cmd, &o, func() (*fsck.CopyReport, error) { return fsck.Copy(cmd.Context(), o) })
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: copied %s up to %s; start brokers here, and none on %s\n", to, objects(r.Whole), position(r.At), from)
	return nil
}

// noStandbys refuses a bucket whose brokers would take over again, and acknowledge records that are not
// copied.
func noStandbys(ctx context.Context, s objstore.Store) error {
	listing, err := link.List(ctx, s, record.ID{})
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	for i := range listing.Found {
		if r := &listing.Found[i]; r.Stands() {
			return fmt.Errorf("%s: broker %q (run %s) is registered and would take over again: stop all its brokers first. "+
				"Remove the registration of a broker that was killed with seb cluster forget, or by a start and a stop of it", s, r.Name, r.Run.ID)
		}
	}
	return nil
}

// takeOver leads the log of a bucket for a moment, so that its previous leader acknowledges nothing
// more.
func takeOver(ctx context.Context, s objstore.Store, memory *budget.Budget) error {
	b, err := broker.Open(ctx, broker.Options{Options: log.Options{Store: s, Budget: memory, Logger: slog.New(slog.DiscardHandler)}})
	if err != nil {
		return err
	}
	return b.Close(ctx)
}

// openTarget opens a store for writing. It creates a missing folder.
func openTarget(cmd *cobra.Command, flag, name string) (objstore.Store, error) {
	if name == "" {
		return nil, usageError{fmt.Errorf("--%s: want %s", flag, storeHelp)}
	}
	spec, err := objstore.ParseSpec(name)
	if err == nil && spec.Kind == objstore.KindMemory {
		err = errors.New("mem: ends with this command")
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	store, err := anystore.OpenSpec(cmd.Context(), spec, anystore.Options{})
	if err != nil {
		return nil, usageError{fmt.Errorf("--%s: %w", flag, err)}
	}
	return store, nil
}

// withProgress runs a copy with a progress bar on a terminal.
func withProgress(cmd *cobra.Command, o *fsck.CopyOptions, f func() (*fsck.CopyReport, error)) (*fsck.CopyReport, error) {
	var bar *progress.Bar
	total := int64(-1)
	o.Progress = func(done, all fsck.Count) {
		if all.Bytes != total { // a pass starts
			total = all.Bytes
			bar.Clear()
			bar = progress.New(cmd.ErrOrStderr(), "copied", total, budget.Text)
		}
		bar.Set(done.Bytes)
	}
	r, err := f()
	bar.Clear()
	return r, err
}

func position(p state.Position) string { return fmt.Sprintf("%d:%d", p.Epoch, p.Slot) }

func atTime(t time.Time) string {
	if t.IsZero() {
		return "no records"
	}
	return t.Format(time.RFC3339)
}

func objects(c fsck.Count) string {
	return fmt.Sprintf("%s, %.1f MiB", counted(c.Objects, "object"), float64(c.Bytes)/(1<<20))
}
