package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/internal/fsck"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/node"
)

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
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
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
	forget := f.olderCopy && seen != nil
	if err != nil && !(forget && (errors.Is(err, fsck.ErrNothingLost) || errors.Is(err, fsck.ErrNoLog))) {
		return fmt.Errorf("%s: %w", store, err)
	}
	if forget {
		if err := node.ForgetSeen(f.dataDir, store.String()); err != nil {
			return fmt.Errorf("%s: %w", f.dataDir, err)
		}
		fmt.Fprintf(out, "%s: removed the position epoch %d slot %d\n", f.dataDir, seen.Epoch, seen.Slot)
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
