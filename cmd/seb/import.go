package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/internal/operate/v1"
)

// importFlags are the flags of `seb import`.
type importFlags struct {
	remote      remote
	from        string
	topic, as   string
	skipDamaged bool
}

func newImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import --from BUCKET --topic NAME",
		Short: "Import a topic of a version-1 bucket",
		Long: `Sends the records of a topic's .record_batch files to a broker, in order, with their offsets and with the time of their
file. The topic in the broker must be empty or missing. An interrupted import continues when it is started again: it compares
the existing records, and sends nothing twice.

Damaged and missing files are named and end the import. --skip-damaged continues after them; the following records then get
lower offsets than before.`,
		Example: "  seb import --from 's3://old-bucket?region=eu-central-1' --topic orders\n  seb import --from ./old --topic orders --as old-orders",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.remote.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.from, "from", "", "version-1 bucket: a folder or s3://name/prefix?endpoint=URL&region=R&path-style=true")
	fl.StringVar(&f.topic, "topic", "", "topic to import")
	fl.StringVar(&f.as, "as", "", "topic in the broker (default: the same name)")
	fl.BoolVar(&f.skipDamaged, "skip-damaged", false, "skip damaged and missing files; offsets are not kept")
	return cmd
}

// folderSpec accepts a folder without a leading ./.
func folderSpec(name string) string {
	if name == "" || strings.HasPrefix(name, ".") || strings.ContainsAny(name, ":") || strings.HasPrefix(name, "/") {
		return name
	}
	return "./" + name
}

func (f *importFlags) run(cmd *cobra.Command) error {
	if f.from == "" || f.topic == "" {
		return usageError{errors.New("--from and --topic are required")}
	}
	f.as = cmp.Or(f.as, f.topic)
	if err := v1.CheckTopic(f.topic); err != nil {
		return usageError{err}
	}
	store, err := openExisting(cmd, "from", folderSpec(f.from))
	if err != nil {
		return err
	}
	c, err := f.remote.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	start := time.Now()
	done, err := v1.Import(cmd.Context(), v1.ImportOptions{
		Store: store, From: f.topic, Client: c, Topic: f.as, SkipDamaged: f.skipDamaged, Reporter: reporter(cmd, "import", budget.Text),
	})
	if err != nil {
		return fmt.Errorf("after %d records stored in %s: %w", done.Records, f.as, err)
	}
	line := fmt.Sprintf("%d records stored in %s, which ends at offset %d, in %v", done.Records, f.as, done.Next, time.Since(start).Round(time.Millisecond))
	if done.Skipped > 0 {
		line += fmt.Sprintf("; %d files or gaps were skipped, so offsets are not kept", done.Skipped)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), line)
	return nil
}

// reporter prints messages on stderr, with a progress bar if that is a terminal.
func reporter(cmd *cobra.Command, what string, number func(int64) string) v1.Reporter {
	w := cmd.ErrOrStderr()
	var bar *progress.Bar
	return v1.Reporter{
		Say: func(line string) {
			bar.Clear()
			fmt.Fprintln(w, line)
		},
		Start: func(total int64) func(int64) {
			bar = progress.New(w, what, total, number)
			return bar.Add
		},
	}
}

// exportFlags are the flags of `seb export`.
type exportFlags struct {
	remote     remote
	to         string
	topic      string
	partition  int32
	fileBytes  int
	gzip       bool
	splitTimes bool
}

func newExport() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export --topic NAME --to BUCKET",
		Short: "Write a topic as version-1 files",
		Long: `Writes the values of a topic's records as .record_batch files of version 1, named by their offsets, up to the current end
of the topic. A second run continues after the existing files. These files have no keys and headers, and one time per file:
that of its first record. They cannot have gaps: of a compacted topic the command writes the records before the first removed
one, and then fails.`,
		Example: "  seb export --topic orders --to ./old\n  seb export --topic orders --to 's3://old-bucket?region=eu-central-1' --split-times",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.remote.register(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.to, "to", "", "target: a folder or s3://name/prefix?endpoint=URL&region=R&path-style=true")
	fl.StringVar(&f.topic, "topic", "", "topic to export")
	fl.Int32VarP(&f.partition, "partition", "p", -1, "partition, if the topic has several")
	atLeast(cmd, "partition", -1)
	fl.IntVar(&f.fileBytes, "file-bytes", 10<<20, "maximum bytes of a file; a larger record gets its own file")
	fl.BoolVar(&f.gzip, "gzip", true, "compress the files, as the original program does")
	fl.BoolVar(&f.splitTimes, "split-times", false, "start a new file whenever the time changes, so that every record keeps its time")
	return cmd
}

func (f *exportFlags) run(cmd *cobra.Command) error {
	if f.to == "" || f.topic == "" || f.fileBytes <= 0 {
		return usageError{errors.New("--topic and --to are required, and --file-bytes must be above 0")}
	}
	if err := v1.CheckTopic(f.topic); err != nil {
		return usageError{err}
	}
	spec, err := objstore.ParseSpec(folderSpec(f.to))
	if err == nil && spec.Kind == objstore.KindMemory {
		err = errors.New("mem: does not persist files")
	}
	if err != nil {
		return usageError{fmt.Errorf("--to: %w", err)}
	}
	c, err := f.remote.client(cmd)
	if err != nil {
		return err
	}
	defer c.Close()
	store, err := anystore.OpenSpec(cmd.Context(), spec, anystore.Options{})
	if err != nil {
		return usageError{fmt.Errorf("--to: %w", err)}
	}
	start := time.Now()
	done, err := v1.Export(cmd.Context(), v1.ExportOptions{
		Client: c, Topic: f.topic, Partition: f.partition, Store: store, FileBytes: f.fileBytes, Plain: !f.gzip,
		SplitTimes: f.splitTimes, Reporter: reporter(cmd, "export", nil),
	})
	if err != nil {
		return fmt.Errorf("after %d records in %d files: %w", done.Records, done.Files, err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%d records written to %d files of %s, which end at offset %d, in %v\n", done.Records, done.Files, store,
		done.Next, time.Since(start).Round(time.Millisecond))
	return nil
}
