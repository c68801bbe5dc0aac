package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// BucketHelp names the default bucket in the help of --bucket.
const BucketHelp = "seb-bucket, beside seb-data; DIR-bucket with --data-dir DIR"

// Register adds a flag for every setting to fs; parsing fs writes into c, and what c holds now are the defaults shown.
func Register(fs *pflag.FlagSet, c *Config) {
	fs.StringVar(&c.Bucket, "bucket", c.Bucket, "where the records are: ./folder, mem: or s3://name/prefix?endpoint=URL&region=R&path-style=true (default: "+BucketHelp+")")
	fs.StringVar(&c.S3Bucket, "s3-bucket", c.S3Bucket, "short for --bucket s3://NAME")
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "folder for what may be lost: cache, indexes, remembered store check, generated API key (clients need the new one then)")
	fs.BoolVar(&c.ReadOnly, "read-only", c.ReadOnly, "follow the log and serve reads, write nothing")
	fs.BoolVar(&c.HoldUpgrade, "hold-upgrade", c.HoldUpgrade, "leave the bucket of an older program at its format level until seb upgrade --finalize (default: the first write 10m after the start raises it)")
	fs.BoolVar(&c.AcceptClock, "accept-clock", c.AcceptClock, "believe the machine's clock although it is behind the time of the log, or more than 400 days ahead (buckets on disk)")
	fs.BoolVar(&c.AutoCreate, "auto-create-topics", c.AutoCreate, "create a topic at the first record sent to it")
	fs.IntVar(&c.DefaultPartitions, "default-partitions", c.DefaultPartitions, "partitions of a topic that its first record creates, or a Kafka client that leaves it to the broker")
	fs.StringVar(&c.EventsTopic, "events-topic", c.EventsTopic, "topic of events, of POST /event and seb event")
	fs.StringVar(&c.Advertise, "advertise", c.Advertise, "address for clients of a broker that this one takes over from (default: where it listens)")
	fs.Var(&c.MemoryLimit, "memory-limit", "ceiling of all buffers together")

	fs.StringVar(&c.HTTP.Address, "http-address", c.HTTP.Address, "address to listen on")
	fs.IntVar(&c.HTTP.Port, "http-port", c.HTTP.Port, "port to listen on, 0 for any")
	fs.Var(&c.HTTP.APIKey, "http-api-key", "API key that requests must carry; better in $SEB_API_KEY or a file (default: made at first start)")
	fs.StringVar(&c.HTTP.APIKeyFile, "http-api-key-file", c.HTTP.APIKeyFile, "file that holds the API key")
	fs.IntVar(&c.HTTP.Connections, "http-connections", c.HTTP.Connections, "most HTTP connections served at once; fewer if --memory-limit holds fewer, which the start logs")
	fs.BoolVar(&c.HTTP.OriginalClient, "original-client", c.HTTP.OriginalClient, "cut the connection of a read without an Accept header instead of answering an error, which the original's client takes for a record")

	fs.StringVar(&c.TLS.CertFile, "tls-cert", c.TLS.CertFile, "file with the certificate of the listeners, in PEM, with those between it and its authority; read again when it changes")
	fs.StringVar(&c.TLS.KeyFile, "tls-key", c.TLS.KeyFile, "file with the certificate's private key, in PEM")
	fs.StringVar(&c.TLS.Listeners, "tls-listeners", c.TLS.Listeners, "which listeners speak TLS, and nothing else, if there is a certificate: http, kafka or both")

	fs.StringVar(&c.Kafka.Listen, "kafka-listen", c.Kafka.Listen, "address to listen on for clients of Kafka, empty for none; if only the default is taken, the broker starts and tries it again every 5s")
	fs.StringVar(&c.Kafka.Advertise, "kafka-advertise", c.Kafka.Advertise, "host:port that clients of Kafka are told to connect to (default: where they have connected to)")

	fs.StringVar(&c.Webhooks.Targets, "webhook-targets", c.Webhooks.Targets, "private addresses that webhooks may go to: prefixes such as 10.0.0.0/8,127.0.0.1 or all (default none)")

	fs.BoolVar(&c.Debug.Enable, "http-debug-enable", c.Debug.Enable, "serve pprof on a loopback address of its own")
	fs.StringVar(&c.Debug.Address, "http-debug-address", c.Debug.Address, "loopback address of pprof")
	fs.IntVar(&c.Debug.Port, "http-debug-port", c.Debug.Port, "port of pprof, 0 for any")

	fs.StringVar(&c.Cache.Dir, "cache-dir", c.Cache.Dir, "folder of the disk cache of remote buckets (default <data-dir>/cache)")
	fs.Var(&c.Cache.Size, "cache-size", "most that the disk cache holds, 0 for none")

	fs.Var((*autoDuration)(&c.Batch.WaitTime), "batch-wait-time", "how long records are collected for one object; auto is 250ms on S3, at most 5ms on disk and memory")
	fs.Var(&c.Batch.BytesSoftMax, "batch-bytes-soft-max", "an object of so many bytes is sent at once")

	lifeFlags(fs, &c.Life)

	fs.Var((*level)(&c.Log.Level), "log-level", "debug, info, warn or error")
	fs.StringVar(&c.Log.Format, "log-format", c.Log.Format, "text or json")

	ignored(fs)
}

// lifeFlags are for those who have read what they do.
func lifeFlags(fs *pflag.FlagSet, l *Life) {
	fs.Var(&l.PackBytes, "pack-bytes", "commit objects are merged into packs of so many bytes")
	fs.DurationVar(&l.PackAge, "pack-age", l.PackAge, "commit objects of that age are merged however few they are")
	fs.DurationVar(&l.MergeInterval, "merge-interval", l.MergeInterval, "how often to look whether a pack is due")
	fs.IntVar(&l.SnapshotSlots, "snapshot-slots", l.SnapshotSlots, "commit objects between two snapshots on S3")
	fs.DurationVar(&l.RetentionInterval, "retention-interval", l.RetentionInterval, "how often to look what retention says is over")
	for _, name := range []string{"pack-bytes", "pack-age", "merge-interval", "snapshot-slots", "retention-interval"} {
		_ = fs.MarkHidden(name)
	}
}

// ignored registers flags of the original that have nothing left to set, so that its command lines still start.
func ignored(fs *pflag.FlagSet) {
	fs.Duration("cache-eviction-interval", 5*time.Minute, "")
	fs.Int64("batch-bytes-hard-max", 30<<20, "")
	fs.Int64("batch-records-hard-max", 32768, "")
	for name, why := range map[string]string{
		"cache-eviction-interval": "the cache never grows beyond --cache-size, so there is no interval",
		"batch-bytes-hard-max":    "the largest request follows from --memory-limit",
		"batch-records-hard-max":  "the number of records in an object has no limit of its own",
	} {
		_ = fs.MarkDeprecated(name, why)
	}
}

// EnvName is the environment variable that sets a flag: SEB_ and the flag's name; SEB_API_KEY for the API keys.
func EnvName(flag string) string {
	switch flag {
	case "http-api-key", "api-key":
		return "SEB_API_KEY"
	}
	return "SEB_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Wished settles what depends on whether a flag was given, after fs was parsed, and FromEnv.
func Wished(fs *pflag.FlagSet, c *Config) {
	c.Kafka.Offered = !fs.Changed("kafka-listen")
}

// neverEmpty are the flags that say where the records are.
var neverEmpty = map[string]bool{"bucket": true, "s3-bucket": true}

// FromEnv sets every flag of fs that the command line did not set and lookup (os.LookupEnv) knows. An empty variable
// counts as not set, except one that says where the records are: a broker on another bucket than the one that was meant is
// worse than none. Every fault is reported at once.
func FromEnv(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var faults []error
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed && f.Value.String() == "" && neverEmpty[f.Name] {
			faults = append(faults, fmt.Errorf("--%s: is empty; name one, or leave the flag out", f.Name))
		}
		if f.Changed || f.Name == "help" {
			return
		}
		v, ok := lookup(EnvName(f.Name))
		if ok && v == "" && neverEmpty[f.Name] {
			faults = append(faults, fmt.Errorf("$%s: is empty; name one (--%s), or unset the variable", EnvName(f.Name), f.Name))
		}
		if !ok || v == "" {
			return
		}
		if err := fs.Set(f.Name, v); err != nil {
			faults = append(faults, fmt.Errorf("$%s: %w", EnvName(f.Name), errors.Unwrap(err)))
		}
	})
	return join(faults)
}
