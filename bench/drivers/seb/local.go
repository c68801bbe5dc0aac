package seb

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
)

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
