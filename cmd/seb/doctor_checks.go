package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/fsck"
)

// severity says how bad a finding is.
type severity string

// The severities. With a checkFail a broker does not start, or may lose data.
const (
	checkOK   severity = "ok"
	checkWarn severity = "warn"
	checkFail severity = "FAIL"
)

// finding is the result of one check of seb doctor.
type finding struct {
	severity severity
	check    string // name of the check, one or two words
	text     string // result of the check
	advice   string // empty if checkOK
}

const (
	// clockSkewMax is the difference between the machine's and the store's clock above which a
	// broker does not write (rule R15).
	clockSkewMax = 60 * time.Second
	// clockSkewWarn is above the difference of synchronized clocks.
	clockSkewWarn = 2 * time.Second
	// freeWarn is the free disk space that log files and a cache fill within days.
	freeWarn = 1 << 30
	// filesWarn is a limit of open files that allows few connections.
	filesWarn = 4096
	// putWarn is a median PUT latency that delays producers noticeably.
	putWarn = time.Second
	// certificateWarn is the time before its end at which a certificate must be renewed.
	certificateWarn = 14 * 24 * time.Hour
	// probePuts is the number of PUTs for the latency.
	probePuts = 10
)

// examination is one run.
type examination struct {
	cfg      config.Config
	findings []finding
}

func (e *examination) add(level severity, check, do, format string, args ...any) {
	if level == checkOK {
		do = ""
	}
	e.findings = append(e.findings, finding{severity: level, check: check, text: fmt.Sprintf(format, args...), advice: do})
}

// examine checks the machine and the bucket for a broker with these settings, which must be valid. It
// writes some objects below probe/ in the bucket and deletes them, and a file in the data
// directory.
func examine(ctx context.Context, cfg config.Config) []finding {
	e := &examination{cfg: cfg}
	e.folders()
	e.files()
	e.memory()
	e.ports(ctx)
	e.certificate()
	e.apiKey()
	e.prices()
	e.bucket(ctx)
	return e.findings
}

// folders checks the data directory and the cache.
func (e *examination) folders() {
	last := ""
	for _, f := range []struct{ flag, dir string }{{"data-dir", e.cfg.DataDir}, {"cache-dir", e.cfg.CacheDir()}} {
		dir := existingFolder(f.dir)
		if dir == last {
			continue
		}
		last = dir
		if err := checkWritable(dir); err != nil {
			e.add(checkFail, f.flag, "allow the broker's user to write there, or set another --"+f.flag, "%s: %v", f.dir, err)
			continue
		}
		e.space(f.flag, dir)
	}
}

// space reports the free space of a folder's file system.
func (e *examination) space(check, dir string) {
	free, total, err := diskSpace(dir)
	switch {
	case err != nil:
		e.add(checkWarn, check, "check manually that the disk has free space", "%s: free space unknown: %v", dir, err)
	case free < freeWarn || free < total/20:
		e.add(checkWarn, check, "free some space, or use a larger disk; a full disk stops a broker on a folder", "%s: %s free of %s", dir, roughSize(free), roughSize(total))
	default:
		e.add(checkOK, check, "", "%s: writable, %s free", dir, roughSize(free))
	}
}

func (e *examination) files() {
	limit := openFilesMax()
	switch {
	case limit == 0:
	case limit < filesWarn:
		e.add(checkWarn, "open files", "raise the limit: ulimit -n 65536, or LimitNOFILE=65536 in the unit", "limit %d: each connection needs one", limit)
	default:
		e.add(checkOK, "open files", "", "limit %d", limit)
	}
}

func (e *examination) memory() {
	limit := int64(e.cfg.MemoryLimit)
	has := machineMemory()
	switch {
	case has == 0:
	case limit > has:
		e.add(checkFail, "memory", "lower --memory-limit to half of the memory, or use a larger machine", "--memory-limit %s, but the machine has %s", roughSize(limit), roughSize(has))
	case limit+limit/2 > has:
		e.add(checkWarn, "memory", "the program needs half as much again: lower --memory-limit, or add memory", "--memory-limit %s of %s", roughSize(limit), roughSize(has))
	default:
		e.add(checkOK, "memory", "", "--memory-limit %s of %s", roughSize(limit), roughSize(has))
	}
}

// bucket checks the store, the log, and the clock compared with both.
func (e *examination) bucket(ctx context.Context) {
	store := e.open(ctx)
	var end *state.State
	probe := e.probe
	if e.cfg.ReadOnly {
		probe = e.probeList
	}
	if store != nil && probe(ctx, store) {
		if s, ok := store.(*s3.Store); ok {
			e.policies(ctx, s)
		}
		end = e.log(ctx, store)
	}
	e.secrets(ctx, store, end)
	e.clock(end, store)
}

// open opens the store. It returns nil if there is none to check.
func (e *examination) open(ctx context.Context) objstore.Store {
	name, err := e.cfg.BucketSpec()
	var spec objstore.Spec
	if err == nil {
		spec, err = objstore.ParseSpec(name)
	}
	if err != nil {
		e.add(checkFail, "bucket", "correct --bucket", "%v", err)
		return nil
	}
	switch spec.Kind {
	case objstore.KindMemory:
		e.add(checkWarn, "bucket", "use a folder or an S3 bucket", "mem: keeps records in memory: they end with the process")
		return nil
	case objstore.KindDisk:
		if _, err := os.Stat(spec.Dir); errors.Is(err, fs.ErrNotExist) {
			if err := checkWritable(existingFolder(spec.Dir)); err != nil {
				e.add(checkFail, "bucket", "create the folder for the user that runs the broker", "%s: %v", spec.Dir, err)
				return nil
			}
			e.add(checkOK, "bucket", "", "%s does not exist yet: the first start creates it at format level %d", spec.Dir, state.LevelMax)
			return nil
		}
		e.space("bucket", spec.Dir)
	}
	store, err := anystore.OpenSpec(ctx, spec, anystore.Options{})
	if err != nil {
		e.add(checkFail, "bucket", "correct --bucket and the credentials", "%v", err)
		return nil
	}
	return store
}

// probe checks the store, with fewer requests than serve makes once, and the latency of a PUT.
func (e *examination) probe(ctx context.Context, s objstore.Store) bool {
	prefix := "probe/" + rand.Text()
	var names []string
	var took []time.Duration
	for i := range probePuts {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
		begin := time.Now()
		if err := s.Put(ctx, names[i], objstore.NewBody([]byte("seb doctor"))); err != nil {
			e.unusable(s, fmt.Errorf("PUT: %w", err))
			return false
		}
		took = append(took, time.Since(begin))
	}
	if err := s.Delete(ctx, names...); err != nil {
		e.unusable(s, fmt.Errorf("DELETE: %w", err))
		return false
	}
	if err := objstore.Check(ctx, s, objstore.CheckOptions{Racers: 2, Rounds: 1}); err != nil {
		e.unusable(s, err)
		return false
	}
	slices.Sort(took)
	median := took[probePuts/2]
	level := checkOK
	if median > putWarn {
		level = checkWarn
	}
	e.add(level, "store", "use a bucket in a region closer to this machine", "%s: all permissions; PUT median %v, slowest %v", s,
		median.Round(10*time.Microsecond), took[probePuts-1].Round(10*time.Microsecond))
	return true
}

// probeList checks the permission of a broker that writes nothing.
func (e *examination) probeList(ctx context.Context, s objstore.Store) bool {
	if _, _, err := s.List(ctx, objstore.ListOptions{Max: 1}); err != nil {
		e.unusable(s, fmt.Errorf("LIST: %w", err))
		return false
	}
	e.add(checkOK, "store", "", "%s: LIST is permitted; nothing is written with --read-only", s)
	return true
}

// unusable adds the finding that a request to the store failed.
func (e *examination) unusable(s objstore.Store, err error) {
	do := "check the name of the bucket, region and keys; grant PutObject, GetObject, DeleteObject and ListBucket on the prefix"
	if _, remote := objstore.As[*s3.Store](s); !remote {
		do = "allow the broker's user to read and write the folder, and check the disk"
	} else if errors.Is(err, objstore.ErrNoVerdict) {
		do = "check the endpoint and the network: the store did not answer"
	}
	e.add(checkFail, "store", do, "%s: %v", s, err)
}

// policies checks the bucket's lifecycle rules and versioning.
func (e *examination) policies(ctx context.Context, s *s3.Store) {
	switch warning, err := s.LifecycleWarning(ctx); {
	case err != nil:
		e.add(checkWarn, "lifecycle", "grant s3:GetLifecycleConfiguration, or check manually that no rule expires objects of the prefix", "rules unknown: %v", err)
	case warning != "":
		e.add(checkFail, "lifecycle", "remove the rule, or limit it to another prefix: objects of a log never expire", "%s", warning)
	default:
		e.add(checkOK, "lifecycle", "", "no rule expires or archives objects of the prefix")
	}
	switch on, err := s.Versioned(ctx); {
	case err != nil:
		e.add(checkWarn, "versioning", "grant s3:GetBucketVersioning, or check manually whether old versions cost money", "unknown: %v", err)
	case on:
		e.add(checkWarn, "versioning", "add a lifecycle rule that expires noncurrent versions and removes expired delete markers",
			"versioning is on: deleted objects stay and cost money")
	default:
		e.add(checkOK, "versioning", "", "off")
	}
}

// log loads the log in the bucket; nil if there is none, or it cannot be read.
func (e *examination) log(ctx context.Context, s objstore.Store) *state.State {
	st, err := fsck.End(ctx, s, 0)
	switch {
	case errors.Is(err, fsck.ErrNoLog):
		e.add(checkOK, "log", "", "none yet: the first start creates one at format level %d", state.LevelMax)
		return nil
	case errors.Is(err, state.ErrNewer):
		e.add(checkFail, "log", "install the version of Seb in the message", "%v", err)
		return nil
	case err != nil:
		e.add(checkFail, "log", "run seb fsck", "%v", err)
		return nil
	case st.Level < state.LevelMax:
		e.add(checkOK, "log", "", "epoch %d, format level %d: a broker of this version raises it to %d ten minutes after its start", st.Pos.Epoch, st.Level, state.LevelMax)
	default:
		e.add(checkOK, "log", "", "epoch %d, format level %d", st.Pos.Epoch, st.Level)
	}
	return st
}

// secrets checks the key of secrets, and compares it with the definitions in the log.
func (e *examination) secrets(ctx context.Context, s objstore.Store, st *state.State) {
	const check, file = "secrets", "start the broker with --secrets-key-file FILE; seb secrets init FILE makes one"
	keys, err := e.cfg.Secrets.Ring()
	if err != nil {
		e.add(checkFail, check, "correct the file, or get the copy of the key", "%v", err)
		return
	}
	if st == nil {
		return
	}
	all, err := fsck.Definitions(ctx, s, st)
	if err != nil {
		e.add(checkWarn, check, "run seb fsck", "triggers cannot be read: %v", err)
		return
	}
	readable, missing := 0, map[string]int{}
	for _, d := range all {
		if d.Sealed && !keys.Has(d.Key) {
			missing[d.Key.String()]++
		} else if d.Readable {
			readable++
		}
	}
	switch {
	case len(missing) > 0:
		e.add(checkWarn, check, "start the broker with --secrets-key-file and these keys", "deliveries wait for missing keys (triggers by key): %v", missing)
	case readable > 0 && keys == nil:
		e.add(checkWarn, check, file, "secrets of %d triggers are readable in the bucket", readable)
	case readable > 0:
		e.add(checkOK, check, "", "key %s; the leader encrypts the secrets of %d triggers", keys.Active(), readable)
	case keys == nil:
		e.add(checkOK, check, "", "no key; no trigger has secrets")
	default:
		e.add(checkOK, check, "", "key %s", keys.Active())
	}
}

// clock compares the machine's clock with the store's, or with the last record of the log.
func (e *examination) clock(st *state.State, s objstore.Store) {
	const do = "synchronize the clock: timedatectl set-ntp true, or install chrony"
	if c, ok := objstore.As[objstore.Clocked](s); ok {
		if skew, known := c.ClockSkew(); known {
			level := checkOK
			switch {
			case skew.Abs() > clockSkewMax:
				level = checkFail
			case skew.Abs() > clockSkewWarn:
				level = checkWarn
			}
			e.add(level, "clock", do, "%v from the store's (S3 reports whole seconds)", skew.Round(100*time.Millisecond))
			return
		}
	}
	if st != nil && st.AppendTime > 0 {
		if last := time.UnixMicro(st.AppendTime); time.Until(last) > clockSkewWarn {
			e.add(checkFail, "clock", do+"; if the log's time is wrong: seb time reset", "the last record of the log is of %s, in the future", last.UTC().Format(time.RFC3339))
			return
		}
	}
	if synchronized, known := clockSynchronized(); known && !synchronized {
		e.add(checkWarn, "clock", do, "the system reports that its clock is not synchronized")
		return
	}
	e.add(checkOK, "clock", "", "%s", time.Now().UTC().Format(time.RFC3339))
}

// existingFolder returns dir, or the nearest folder above it that exists.
func existingFolder(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func checkWritable(dir string) error {
	f, err := os.CreateTemp(dir, ".seb-doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// roughSize returns a number of bytes in MiB or GiB.
func roughSize(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}
