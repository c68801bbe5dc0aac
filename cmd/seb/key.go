package main

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
)

func newKey() *cobra.Command {
	var r remote
	cmd := r.parent(&cobra.Command{
		Use:     "key",
		Aliases: []string{"keys"},
		Short:   "Read the newest value of a key, list keys, show a key's history",
		Long: `Reads topics by the keys of their records. The topic needs a key index: compacted topics have one, others get it with
` + "`seb topic update TOPIC -s key-index=true`" + `. The index follows the log with a short delay; to read your own write, set
--min-offset to its offset.`,
	}, newKeyGet(&r), newKeyList(&r), newKeyHistory(&r))
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && slices.Contains([]string{"create", "show", "rotate", "revoke"}, args[0]) {
			return fmt.Errorf("seb key reads the keys of records: did you mean \"seb token %s\"?", args[0])
		}
		return cobra.NoArgs(cmd, args)
	}
	return cmd
}

// keyFlags are the flags that all key commands share.
type keyFlags struct {
	partition int32
	minOffset int64
	wait      time.Duration
	base64    bool
	asJSON    bool
}

func (k *keyFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Int32VarP(&k.partition, "partition", "p", -1, "only records of this partition (default all)")
	f.Int64Var(&k.minOffset, "min-offset", -1, "wait until the index has the record at this offset")
	f.DurationVar(&k.wait, "wait", 10*time.Second, "time to wait for --min-offset")
	f.BoolVar(&k.base64, "base64", false, "keys on the command line are base64")
	f.BoolVar(&k.asJSON, "json", false, "print JSON, one object per line")
	atLeast(cmd, "partition", -1)
	atLeast(cmd, "min-offset", -1)
	needs(cmd, []string{"wait"}, "min-offset")
}

// where returns the partition and the freshness of the flags.
func (k *keyFlags) where() (partition *int32, fresh client.Freshness) {
	if k.partition >= 0 {
		partition = &k.partition
	}
	fresh.Wait = k.wait
	if k.minOffset >= 0 {
		fresh.MinOffset = &k.minOffset
	}
	return partition, fresh
}

// key decodes a key of the command line.
func (k *keyFlags) key(name, text string) ([]byte, error) {
	if !k.base64 {
		return []byte(text), nil
	}
	key, err := base64.StdEncoding.AppendDecode([]byte{}, []byte(text))
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %q, want base64: %w", name, text, err)}
	}
	return key, nil
}

func newKeyGet(r *remote) *cobra.Command {
	var k keyFlags
	cmd := &cobra.Command{
		Use:               "get TOPIC KEY",
		Short:             "Print the newest value of a key",
		Long:              "Prints the newest value of KEY and a newline. A key without a value, or with a tombstone as the newest record, is an error.",
		Example:           "  seb key get users u1\n  seb key get users u1 --json",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: r.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := k.key("KEY", args[1])
			if err != nil {
				return err
			}
			return r.with(cmd, func(c *client.Client) error {
				var o client.KeyOptions
				o.Partition, o.Freshness = k.where()
				rec, err := c.Key(cmd.Context(), args[0], key, o)
				if err != nil {
					return err
				}
				format := "value"
				if k.asJSON {
					format = "json"
				}
				w := bufio.NewWriter(cmd.OutOrStdout())
				return errors.Join(recordFormats[format](w, rec.Partition, &rec.Record), w.Flush())
			})
		},
	}
	k.register(cmd)
	return cmd
}

func newKeyList(r *remote) *cobra.Command {
	var k keyFlags
	var prefix, after string
	var limit int
	cmd := &cobra.Command{
		Use:               "list TOPIC",
		Aliases:           []string{"ls"},
		Short:             "List the keys that have a value, in byte order",
		Example:           "  seb key list users --prefix eu/\n  seb key list users --limit 0 --json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := client.KeysOptions{PageSize: pageOf(limit)}
			o.Partition, o.Freshness = k.where()
			var err error
			if o.Prefix, err = k.key("--prefix", prefix); err != nil {
				return err
			}
			if cmd.Flags().Changed("after") {
				if o.After, err = k.key("--after", after); err != nil {
					return err
				}
			}
			return r.with(cmd, func(c *client.Client) error {
				return k.listing(c.Keys(cmd.Context(), args[0], o), limit).print(cmd)
			})
		},
	}
	k.register(cmd)
	f := cmd.Flags()
	f.Lookup("partition").Usage = "partition of --min-offset"
	needs(cmd, []string{"partition"}, "min-offset")
	f.StringVar(&prefix, "prefix", "", "only keys with this prefix")
	f.StringVar(&after, "after", "", "only keys after this one")
	f.IntVarP(&limit, "limit", "n", limitDefault, "stop after N keys (0: no limit)")
	return cmd
}

// listing returns the listing of keys.
func (k *keyFlags) listing(keys iter.Seq2[client.KeyEntry, error], limit int) *listing[client.KeyEntry] {
	return &listing[client.KeyEntry]{
		all: keys, limit: limit, json: k.asJSON, head: "KEY\tPARTITION\tOFFSET\tTIME",
		row: func(e *client.KeyEntry) []any {
			return []any{cell(e.Key), e.Partition, e.Offset, stamp(e.Timestamp)}
		},
		object: func(w *bufio.Writer, e *client.KeyEntry) error {
			out := api.KeyEntry{Partition: e.Partition, Offset: e.Offset, Timestamp: e.Timestamp}
			out.Key, out.KeyBase64 = api.TextOrBase64(e.Key)
			return writeLine(w, &out)
		},
		more: func(last *client.KeyEntry) string {
			if k.base64 || !utf8.Valid(last.Key) {
				return "continue with --base64 --after " + base64.StdEncoding.EncodeToString(last.Key)
			}
			return "continue with --after " + strconv.Quote(string(last.Key))
		},
	}
}

func newKeyHistory(r *remote) *cobra.Command {
	var k keyFlags
	var order string
	var limit int
	cmd := &cobra.Command{
		Use:               "history TOPIC KEY",
		Short:             "Show the records of a key, tombstones included",
		Example:           "  seb key history users u1\n  seb key history users u1 --order oldest --limit 0 --json",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: r.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := k.key("KEY", args[1])
			if err != nil {
				return err
			}
			if order != "newest" && order != "oldest" {
				return usageError{fmt.Errorf("--order: %q, want newest or oldest", order)}
			}
			o := client.KeyHistoryOptions{OldestFirst: order == "oldest", PageSize: pageOf(limit)}
			o.Partition, o.Freshness = k.where()
			return r.with(cmd, func(c *client.Client) error {
				return k.history(c.KeyHistory(cmd.Context(), args[0], key, o), limit).print(cmd)
			})
		},
	}
	k.register(cmd)
	cmd.Flags().StringVar(&order, "order", "newest", "order of the records: newest or oldest first")
	cmd.Flags().IntVarP(&limit, "limit", "n", limitDefault, "stop after N records (0: no limit)")
	return cmd
}

// history returns the listing of a key's records.
func (k *keyFlags) history(records iter.Seq2[client.KeyRecord, error], limit int) *listing[client.KeyRecord] {
	return &listing[client.KeyRecord]{
		all: records, limit: limit, json: k.asJSON, head: "TIME\tPARTITION\tOFFSET\tVALUE",
		row: func(r *client.KeyRecord) []any {
			value := "(deleted)"
			if r.Value != nil {
				value = cell(r.Value)
			}
			return []any{stamp(r.Timestamp), r.Partition, r.Offset, value}
		},
		object: func(w *bufio.Writer, r *client.KeyRecord) error { return writeJSONRecord(w, r.Partition, &r.Record) },
		more:   func(*client.KeyRecord) string { return "raise --limit" },
	}
}
