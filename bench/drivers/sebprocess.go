package drivers

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/bench/sut"
)

// durabilityOf returns the durability of messages in a bucket.
func durabilityOf(bucket string) sut.Durability {
	switch {
	case strings.HasPrefix(bucket, "mem:"):
		return sut.Memory
	case strings.HasPrefix(bucket, "s3:"):
		return sut.ObjectStore
	case strings.Contains(bucket, "fsync=false"):
		return sut.PageCache
	}
	return sut.Fsync
}

var errBucketUnknown = errors.New(`unknown bucket, so the durability of messages is unknown: set option "bucket" to that of the broker`)

// versionOf returns the versionOf of a process's program: that of its module, and its commit.
func versionOf(pid int) string {
	info, err := buildinfo.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	if err != nil {
		return ""
	}
	parts := []string{info.Main.Version}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
			parts = append(parts, s.Key+"="+s.Value)
		}
	}
	return strings.Join(append(parts, info.GoVersion), " ")
}

// flagsOf returns the flagsOf of the broker's process from Linux, without keys.
func flagsOf(pid int) (map[string]string, error) {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return nil, fmt.Errorf("flags of the broker: %w", err)
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	list := map[string]string{}
	for i := 1; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i], "--")
		if !ok {
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			i++
			value = args[i]
		}
		if name != "http-api-key" {
			list[name] = value
		}
	}
	return list, nil
}

// bucketOf returns the bucket of the broker: as given, or from its process.
func bucketOf(told string, pid int, settings map[string]string) (string, error) {
	if pid == 0 {
		if told == "" {
			return "", errBucketUnknown
		}
		return told, nil
	}
	list, err := flagsOf(pid)
	if err != nil {
		if told != "" {
			return told, nil
		}
		return "", err
	}
	for name, value := range list {
		settings["broker "+name] = value
	}
	if settings["broker batch-wait-time"] == "" {
		settings["broker batch-wait-time"] = "auto: by --put-budget on S3, at most 5ms elsewhere"
	}
	switch {
	case told != "":
		return told, nil
	case list["bucket"] != "":
		return list["bucket"], nil
	case list["s3-bucket"] != "":
		return "s3://" + list["s3-bucket"], nil
	}
	dir := list["data-dir"]
	if dir == "" {
		dir = dataDirDefault
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join("/proc", strconv.Itoa(pid), "cwd", dir)
	}
	if a, ok := announcedIn(dir); ok && a.PID == pid {
		return a.Bucket, nil
	}
	return "", errBucketUnknown
}

// announced is the content of broker.json in the data directory of a running broker.
type announced struct {
	Address string `json:"address"`
	Key     string `json:"api_key"`
	Bucket  string `json:"bucket"`
	PID     int    `json:"pid"`
}

// dataDirDefault is Seb's default.
const dataDirDefault = "seb-data"

// announcedIn reads the file of a data directory; ok is false if no broker is running.
func announcedIn(dir string) (a announced, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, "broker.json"))
	if err != nil || json.Unmarshal(b, &a) != nil {
		return announced{}, false
	}
	_, err = os.Stat(filepath.Join("/proc", strconv.Itoa(a.PID)))
	return a, err == nil
}

// useLocal fills in missing options from the local broker, if it is the addressed one.
func (s *sebHTTP) useLocal(dir string) {
	a, ok := announcedIn(dir)
	if !ok || s.c.Address != "" && s.c.Address != a.Address {
		return
	}
	s.c.Address = a.Address
	if s.key == "" {
		s.key = a.Key
	}
	if s.bucket == "" && s.c.PID == 0 {
		s.bucket = a.Bucket
	}
}
