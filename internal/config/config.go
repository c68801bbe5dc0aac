package config

import (
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Config is everything that can be set of a broker. Start from Default: the zero Config is not valid.
type Config struct {
	// Bucket is where all records are: a folder, "mem:" or "s3://name/prefix?endpoint=...&region=...&path-style=true".
	// "" means DefaultBucket of DataDir.
	Bucket string
	// S3Bucket is the original's way to name a bucket: NAME is s3://NAME.
	S3Bucket string
	// DataDir is the folder for what can be lost: disk cache, generated API key, remembered store check.
	DataDir  string
	ReadOnly bool // follow the log, write nothing
	// HoldUpgrade leaves the bucket of an older program at its format level until `seb upgrade --finalize`.
	HoldUpgrade bool
	// AcceptClock: the machine's clock is right at the start, however far it is from the log's last time.
	AcceptClock bool
	// AutoCreate creates a topic at the first record sent to it.
	AutoCreate bool
	// DefaultPartitions is how many partitions a topic has that records create, or a Kafka client that leaves it to the broker.
	DefaultPartitions int
	// EventsTopic is where events go whose sender names no topic.
	EventsTopic string
	// Advertise is the address that the broker which fences this one's predecessor passes on as a hint; "" means the URL
	// it listens on.
	Advertise   string
	MemoryLimit Bytes // ceiling of all buffers together

	HTTP     HTTP
	TLS      TLS
	Kafka    Kafka
	Webhooks Webhooks
	Debug    Debug
	Cache    Cache
	Batch    Batch
	Life     Life
	Log      Log
}

// HTTP is the public listener.
type HTTP struct {
	Address     string
	Port        int // 0: any free port
	APIKey      Secret
	APIKeyFile  string // holds the key; white space around it is ignored
	Connections int    // served at once, if the memory limit allows
	// OriginalClient: reads without an Accept header come from the original's client, which takes errors for records.
	OriginalClient bool
}

// TLS is what secures the listeners.
type TLS struct {
	// CertFile has the certificate and those between it and its authority, KeyFile its private key, in PEM. "" for both: no TLS.
	CertFile, KeyFile string
	// Listeners are those that have TLS, of ListenerHTTP and ListenerKafka, with a comma between them.
	Listeners string
}

// The listeners that can have TLS.
const (
	ListenerHTTP  = "http"
	ListenerKafka = "kafka"
)

// On says whether a listener has TLS.
func (t *TLS) On(listener string) bool {
	return t.CertFile != "" && slices.Contains(t.list(), listener)
}

func (t *TLS) list() []string {
	var names []string
	for name := range strings.SplitSeq(t.Listeners, ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// Kafka is the listener for clients of Kafka.
type Kafka struct {
	Listen string // host:port; port 0: any free port; "": none
	// Advertise is the host:port that clients are told to connect to; "": where each of them has connected to.
	Advertise string
	// Offered says that Listen is nobody's wish: if it is taken the broker starts without, and tries it again.
	Offered bool
}

// KafkaListen is where the broker listens for clients of Kafka unless it is told otherwise.
const KafkaListen = "127.0.0.1:9092"

// Webhooks are what triggers send.
type Webhooks struct {
	// Targets are prefixes and addresses that webhooks may go to beyond the public Internet, with commas between them, or "all".
	Targets string
}

// Debug is the pprof listener: no key, so loopback only.
type Debug struct {
	Enable  bool
	Address string
	Port    int
}

// Cache is the disk cache of remote buckets.
type Cache struct {
	Dir  string // "" means the folder "cache" in DataDir
	Size Bytes  // most that it ever holds; 0 turns it off
}

// Batch says how records are collected into one object.
type Batch struct {
	// WaitTime is how long the first record of an object waits for others; negative means the store's default (250 ms on
	// S3, 5 ms on disk and memory), 0 collects nothing.
	WaitTime     time.Duration
	BytesSoftMax Bytes // an object that has so many bytes is sent at once
}

// Life is the rhythm in which a log is kept short. The defaults are right for nearly everybody, so its flags are not
// shown by --help: smaller numbers cost more requests, larger ones a longer start and more memory.
type Life struct {
	PackBytes         Bytes         // commit objects are merged into packs of so many bytes
	PackAge           time.Duration // commit objects of that age are merged however few they are
	MergeInterval     time.Duration // how often to look whether a pack is due
	SnapshotSlots     int           // commit objects between two snapshots on remote stores
	RetentionInterval time.Duration // how often to look whether records are over their topic's retention
}

// Log says what is logged and how.
type Log struct {
	Level  slog.Level
	Format string // "text" or "json"
}

// AutoWait is the Batch.WaitTime that leaves the choice to the store.
const AutoWait time.Duration = -1

// Default returns the settings of a broker that is given none.
func Default() Config {
	return Config{
		DataDir:    "seb-data",
		AutoCreate: true,

		DefaultPartitions: 1,

		EventsTopic: "events",
		MemoryLimit: 256 << 20,
		HTTP:        HTTP{Address: "127.0.0.1", Port: 51313, Connections: 100_000},
		Kafka:       Kafka{Listen: KafkaListen, Offered: true},
		TLS:         TLS{Listeners: ListenerHTTP + "," + ListenerKafka},
		Debug:       Debug{Address: "127.0.0.1", Port: 5000},
		Cache:       Cache{Size: 1 << 30},
		Batch:       Batch{WaitTime: AutoWait, BytesSoftMax: 10 << 20},
		Life: Life{
			PackBytes: 64 << 20, PackAge: 10 * time.Minute, MergeInterval: time.Minute, SnapshotSlots: 1000,
			RetentionInterval: time.Minute,
		},
		Log: Log{Level: slog.LevelInfo, Format: "text"},
	}
}

// WebhookTargets are the entries of Webhooks.Targets; their meaning is not checked here.
func (c *Config) WebhookTargets() []string {
	if strings.TrimSpace(c.Webhooks.Targets) == "" {
		return nil
	}
	return strings.Split(c.Webhooks.Targets, ",")
}

// CacheDir is the folder of the disk cache.
func (c *Config) CacheDir() string {
	if c.Cache.Dir != "" {
		return c.Cache.Dir
	}
	return filepath.Join(c.DataDir, "cache")
}

// LogValue lists every setting by its flag's name; secrets are masked.
func (c Config) LogValue() slog.Value {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	Register(fs, &c)
	var attrs []slog.Attr
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Deprecated == "" && f.Value.String() != "" {
			attrs = append(attrs, slog.String(f.Name, f.Value.String()))
		}
	})
	return slog.GroupValue(attrs...)
}
