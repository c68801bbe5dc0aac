package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/migration"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/spf13/cobra"
)

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
	fl.IntVar(&f.fileBytes, "file-bytes", 10<<20, "maximum bytes of a file; a larger record gets its own file")
	fl.BoolVar(&f.gzip, "gzip", true, "compress the files, as the original program does")
	fl.BoolVar(&f.splitTimes, "split-times", false, "start a new file whenever the time changes, so that every record keeps its time")
	return cmd
}

func (f *exportFlags) run(cmd *cobra.Command) error {
	if f.to == "" || f.topic == "" || f.fileBytes <= 0 {
		return usageError{errors.New("--topic and --to are required, and --file-bytes must be above 0")}
	}
	if err := migration.CheckTopic(f.topic); err != nil {
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
	store, err := spec.Open(cmd.Context(), s3Keys())
	if err != nil {
		return usageError{fmt.Errorf("--to: %w", err)}
	}
	start := time.Now()
	done, err := migration.Export(cmd.Context(), migration.ExportOptions{
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
