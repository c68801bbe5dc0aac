package seb

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
)

// announced is what a running broker says of itself in its data folder, in broker.json.
type announced struct {
	Address string `json:"address"`
	Key     string `json:"api_key"`
	Bucket  string `json:"bucket"`
	PID     int    `json:"pid"`
}

// dataDirDefault is Seb's.
const dataDirDefault = "seb-data"

// announcedIn reads what the broker of a data folder has announced; false if there is none that runs.
func announcedIn(dir string) (a announced, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, "broker.json"))
	if err != nil || json.Unmarshal(b, &a) != nil {
		return announced{}, false
	}
	_, err = os.Stat(filepath.Join("/proc", strconv.Itoa(a.PID)))
	return a, err == nil
}

// useLocal completes what was not given with what the local broker has announced, if that is the broker that is meant.
func (s *httpSystem) useLocal(dir string) {
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
