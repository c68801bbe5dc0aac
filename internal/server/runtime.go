package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// RuntimeFile is where a running broker says in its data folder how to reach it.
const RuntimeFile = "broker.json"

// Runtime is what RuntimeFile holds. It carries the key, so the file is readable by its owner only, and is removed when
// the broker stops; one that was killed leaves it behind.
type Runtime struct {
	Address string    `json:"address"` // URL
	APIKey  string    `json:"api_key"`
	Bucket  string    `json:"bucket"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Certificate is the file with that of Address, if it begins with https: commands of this machine trust it, whatever its name.
	Certificate string `json:"certificate,omitempty"`
}

// Discover reads what the broker of a data folder left there: how to reach it, or, if none runs, the key that it will
// have. An error is fs.ErrNotExist if there is neither.
func Discover(dataDir string) (Runtime, error) {
	var r Runtime
	b, err := os.ReadFile(filepath.Join(dataDir, RuntimeFile))
	if errors.Is(err, fs.ErrNotExist) {
		r.APIKey, err = ReadKey(filepath.Join(dataDir, KeyFile))
		return r, err
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return Runtime{}, fmt.Errorf("%s: %w", filepath.Join(dataDir, RuntimeFile), err)
	}
	return r, nil
}

func (r *Runtime) write(dataDir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dataDir, RuntimeFile), append(b, '\n'))
}
